# SPDX-License-Identifier: Apache-2.0
"""Nothing is imported or declared for what a command does not need."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ocibridge
from ocibridge.cli.main import COMMANDS, build_parser

FIXTURES = Path(__file__).parents[1] / "fixtures"
HEAVY = {"pydantic", "httpx", "rich", "oras", "requests", "typer", "zstandard", "asyncio", "sqlite3"}
NETWORK = {"oras", "requests", "rich", "httpx", "asyncio"}
MOVING = {
    f"ocibridge.{name}" for name in ("transfer", "stores.layout", "stores.registry.client", "layers", "dialects.base")
}
CARTON, MLSTEAM, FOLDER = (f"ocibridge.formats.{name}" for name in ("carton.toml", "mlsteam.manifest", "folder.reader"))


def imported(*argv: object, path: Path | None = None) -> set[str]:
    """Every module that a command imports; `path` is a folder with more packages."""
    program = (
        "import sys; from ocibridge.cli.main import main\n"
        f"status = main({[str(each) for each in argv]!r})\n"
        "sys.stderr.write(' '.join(sys.modules)); sys.exit(status)"
    )
    env = {key: value for key, value in os.environ.items() if key != "PYDANTIC_DISABLE_PLUGINS"}
    if path:
        env["PYTHONPATH"] = str(path)
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=env)
    return set(done.stderr.split())


@pytest.mark.parametrize("argv", [["--help"], ["--version"], ["push", "--help"]], ids=" ".join)
def test_light_commands(argv: list[str]) -> None:
    modules = imported(*argv)
    assert modules & HEAVY == set()
    assert modules & (MOVING | {CARTON, MLSTEAM, FOLDER, "ocibridge.model", "ocibridge.oci"}) == set()


@pytest.mark.parametrize(
    ("name", "reader"), [("digits.carton", CARTON), ("digits.mlarchive", MLSTEAM), (".", FOLDER)], ids=lambda each: each
)
def test_inspecting_a_path_imports_what_reads_it(name: str, reader: str) -> None:
    modules = imported("inspect", FIXTURES / name)
    assert reader in modules
    assert modules & {MLSTEAM, FOLDER} <= {reader}
    assert modules & (NETWORK | MOVING | {"sqlite3", "concurrent"}) == set()


def test_a_layout_needs_neither_a_registry_nor_bars(carton: Path, tmp_path: Path) -> None:
    layout = f"oci:{tmp_path}/layout:v1"
    pushed = imported("push", carton, layout, "--quiet")
    pulled = imported("pull", layout, tmp_path / "pulled.carton", "--quiet")
    for modules in (pushed, pulled):
        assert CARTON in modules
        assert modules & (NETWORK | {MLSTEAM, FOLDER, "oras", "ocibridge.stores.registry.client"}) == set()


def test_a_folder_needs_no_other_format_and_no_report_of_another_verb(tmp_path: Path) -> None:
    source, layout = tmp_path / "model", f"oci:{tmp_path}/layout:v1"
    source.mkdir()
    (source / "config.json").write_text("{}")
    pushed = imported("push", source, layout, "--quiet")
    pulled = imported("pull", layout, tmp_path / "pulled", "--quiet")
    needless = {
        "ocibridge.formats.folder.settings_file",
        "tomllib",
        CARTON,
        MLSTEAM,
    }
    for modules in (pushed, pulled):
        assert modules & (NETWORK | needless | {CARTON, MLSTEAM}) == set()
        assert not any(each.startswith("ocibridge.formats.zip") for each in modules)


def test_what_is_left_at_the_end_is_not_looked_through() -> None:
    program = (
        "import atexit, gc; from ocibridge.cli.main import main\n"
        "atexit.register(lambda: print(gc.get_freeze_count()))\n"
        "main(['--version'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert int(done.stdout.split()[-1]) > 0


def test_no_plugin_of_pydantic_is_looked_for(carton: Path, tmp_path: Path) -> None:
    entry = tmp_path / "curious-1.dist-info"
    entry.mkdir()
    (entry / "METADATA").write_text("Metadata-Version: 2.1\nName: curious\nVersion: 1\n")
    (entry / "entry_points.txt").write_text("[pydantic]\ncurious = curious:plugin\n")
    (tmp_path / "curious.py").write_text("plugin = None\n")
    assert "curious" not in imported("inspect", carton, path=tmp_path)


@pytest.mark.parametrize(
    ("word", "declared"),
    [("inspect", {"inspect"}), ("logout", {"login", "logout"}), ("", None), ("--help", None)],
)
def test_only_the_command_that_is_called_is_declared(word: str, declared: set[str] | None) -> None:
    def commands(parser: argparse.ArgumentParser) -> set[str]:
        return set(next(each for each in parser._actions if isinstance(each, argparse._SubParsersAction)).choices)

    everything = commands(build_parser())
    assert everything == {*COMMANDS, "logout"}
    assert commands(build_parser(word)) == (declared or everything)


def test_no_module_puts_anything_into_the_table_of_modules() -> None:
    """A stand-in for a module of a library breaks every command with the library's next release."""
    package = Path(ocibridge.__file__).parent
    found = [
        path
        for path in package.rglob("*.py")
        if re.search(r"\bsys\.modules|import.*\bmodules\b", path.read_text("utf-8"))
    ]
    assert found == []


def test_a_job_without_companions_or_dialects_imports_nothing_that_makes_them(tmp_path: Path) -> None:
    source, layout = tmp_path / "model", f"oci:{tmp_path}/layout:v1"
    source.mkdir()
    (source / "config.json").write_text("{}")
    imported("push", source, layout, "--quiet")
    job = tmp_path / "job.yaml"
    job.write_text(f"version: 1\nsync: [{{source: '{layout}', target: 'oci:{tmp_path}/other:v1', type: image}}]\n")
    modules = imported("mirror", "run", job, "--quiet", "--no-journal")
    assert "ocibridge.mirror.companions" in modules
    assert not {"ocibridge.operations.convert", "ocibridge.operations.original", "ocibridge.volume.prepare"} & modules
