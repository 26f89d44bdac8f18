# SPDX-License-Identifier: Apache-2.0
"""Imports point downwards only (docs/architecture.md), and two rules for every file."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "ocibridge"
MAX_LINES = 500

GROUND = {"about", "errors", "options", "settings"}
FLOOR = GROUND | {"io", "model", "oci", "paths", "report"}
STORES = FLOOR | {"layers"}
TRANSFER = STORES | {"stores"}
OPERATIONS = TRANSFER | {"transfer", "formats", "dialects", "plugins"}
TOP = OPERATIONS | {"operations"}

# What each package may import, beside itself. A name with a dot allows that one module of a package.
ALLOWED = {
    "about": set[str](),
    "errors": set[str](),
    "options": {"errors"},
    "settings": set[str](),
    "paths": GROUND,
    "report": {"about"},
    "oci": GROUND | {"paths"},
    "io": GROUND | {"oci", "paths"},
    "model": GROUND | {"io"},
    "layers": FLOOR,
    "stores": STORES,
    "transfer": TRANSFER | {"formats.base"},
    "plugins": GROUND,
    "formats": FLOOR | {"layers", "plugins"},
    "dialects": FLOOR | {"layers", "plugins"},
    "operations": OPERATIONS,
    "airgap": TOP,
    "mirror": TOP | {"volume"},
    "volume": TOP,
    "trust": TOP,
    "schemas": TOP | {"airgap", "mirror", "volume", "trust"},
    "__main__": {"cli"},
    "cli": TOP | {"airgap", "mirror", "volume", "trust", "schemas", ""},
    "": TOP | {"airgap", "mirror", "volume", "trust"},
}


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def module_of(path: Path, package: Path = PACKAGE) -> str:
    """Dotted name below the package; empty for the package itself."""
    return ".".join(path.relative_to(package).with_suffix("").parts).removesuffix("__init__").removesuffix(".")


def imports(text: str, module: str, is_package: bool) -> Iterator[str]:
    """Modules of the package that a module imports, wherever in the file; dotted names below the package."""
    here = ["ocibridge", *module.split(".")] if module else ["ocibridge"]
    folder = here if is_package else here[:-1]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = folder[: len(folder) - node.level + 1] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            # "from . import x" may name a module or something in it; the longer name says more.
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            if name == "ocibridge" or name.startswith("ocibridge."):
                yield name[len("ocibridge.") :]


def violations(text: str, module: str, is_package: bool) -> list[str]:
    package = module.partition(".")[0]
    found = []
    for name in imports(text, module, is_package):
        target, _, rest = name.partition(".")
        if not target or not ((PACKAGE / target).is_dir() or (PACKAGE / f"{target}.py").is_file()):
            target = ""  # a name of ocibridge/__init__.py
        if target == package or target in ALLOWED[package] or f"{target}.{rest.partition('.')[0]}" in ALLOWED[package]:
            continue
        found.append(f"{module or 'ocibridge'} imports {name or 'ocibridge'}")
    return found


def test_there_is_something_to_check() -> None:
    assert len(sources()) > 20


@pytest.mark.parametrize("path", sources(), ids=module_of)
def test_imports_point_downwards(path: Path) -> None:
    module = module_of(path)
    assert module.partition(".")[0] in ALLOWED, "a new package needs its place in ALLOWED and in docs/architecture.md"
    assert violations(path.read_text(encoding="utf-8"), module, path.name == "__init__.py") == []


@pytest.mark.parametrize(
    ("text", "module"),
    [
        ("from ..stores.base import Store", "formats.folder"),
        ("from ...transfer import copy", "formats.carton.reader"),
        ("import ocibridge.dialects.cnai", "stores.layout"),
        ("from ..formats.carton import Carton", "transfer.restore"),
        ("from ..formats import carton", "transfer.restore"),
        ("from ..formats.base import Sink", "dialects.cnai"),
        ("from ocibridge.dialects import cnai", "formats.folder"),
        ("from .. import formats", "stores.layout"),
        ("from .. import push", "stores.layout"),
        ("from ..model import Model", "oci.digest"),
        ("from ..stores import base", "io.content"),
        ("if TYPE_CHECKING:\n    from ..stores.base import Store", "formats.folder"),
        ("def f():\n    from ..stores.base import Store", "layers.tar"),
        ("from ..mirror import plan", "trust.sign"),
        ("from ..cli import main", "operations.push"),
    ],
)
def test_violations_are_seen(text: str, module: str) -> None:
    assert len(violations(text, module, False)) == 1


@pytest.mark.parametrize(
    ("text", "module"),
    [
        ("from ..formats.base import Sink, StoredModel", "transfer.restore"),
        ("from ..layers.tar import read_tar", "stores.archive"),
        ("from .base import Store", "stores.layout"),
        ("import json\nfrom pathlib import Path", "errors"),
        ("from .. import __version__", "cli.main"),
        ("from ..mirror import plan", "cli.main"),
    ],
)
def test_what_is_allowed_passes(text: str, module: str) -> None:
    assert violations(text, module, False) == []


def arrows() -> dict[str, set[str]]:
    """The modules that each module imports."""
    modules = {module_of(path): path for path in sources()}
    found: dict[str, set[str]] = {}
    for module, path in modules.items():
        found[module] = set()
        for name in imports(path.read_text(encoding="utf-8"), module, path.name == "__init__.py"):
            while name and name not in modules:
                name = name.rpartition(".")[0]
            if name and name != module:
                found[module].add(name)
    return found


def circles(arrows: dict[str, set[str]]) -> list[set[str]]:
    """Modules that import each other, at whatever distance."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            new = arrows[waiting.pop()] - seen
            seen |= new
            waiting += new
        return seen

    behind = {module: reached(module) for module in arrows}
    found: list[set[str]] = []
    for module in sorted(arrows):
        if module in behind[module] and not any(module in each for each in found):
            found.append({other for other in behind[module] if module in behind[other]})
    return found


def test_no_modules_import_each_other() -> None:
    assert circles(arrows()) == []


def test_circles_are_seen() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set(), "e": {"a"}}) == [{"a", "b", "c"}]


def exporting() -> list[Path]:
    return [path for path in sources() if path.name == "__init__.py" and "__all__" in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", exporting(), ids=module_of)
def test_a_package_exports_what_it_imports_for_others(path: Path) -> None:
    module = import_module(f"ocibridge.{module_of(path)}".removesuffix("."))
    names = module.__all__
    assert [name for name in names if getattr(module, name, None) is None] == []
    assert len(set(names)) == len(names)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    blocks = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.If))]
    imported = {
        alias.asname or alias.name
        for node in itertools.chain(*blocks)
        if isinstance(node, ast.ImportFrom) and node.level == 1
        for alias in node.names
    }
    made = {node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert {name for name in (imported - used) | made if not name.startswith("_")} - set(names) == set()
    assert set(names) - imported - made - {"__version__"} == set()


def python_files() -> list[Path]:
    folders = ("ocibridge", "tests", "benchmarks", "examples", "docs", ".ci")
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def test_every_file_names_its_licence() -> None:
    def has_line(path: Path) -> bool:
        return "# SPDX-License-Identifier: Apache-2.0" in path.read_text(encoding="utf-8").splitlines()[:3]

    assert [str(path.relative_to(ROOT)) for path in python_files() if not has_line(path)] == []


def test_no_file_is_too_long() -> None:
    lengths = {module_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in sources()}
    assert {name: length for name, length in lengths.items() if length > MAX_LINES} == {}
