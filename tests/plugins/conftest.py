# SPDX-License-Identifier: Apache-2.0
"""Plugins that are installed for a test: packages of their own, from whose pyproject.toml the entry points come."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ocibridge import plugins

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
Install = Callable[[Path], None]


def install(project: Path, site: Path) -> None:
    """Put a project into `site` as pip would: its packages, and its metadata."""
    about = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for package in project.iterdir():
        if (package / "__init__.py").is_file():
            shutil.copytree(package, site / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    metadata = site / f"{about['name'].replace('-', '_')}-{about['version']}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {about['name']}\nVersion: {about['version']}\n")
    groups = (
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
        for group, entries in about["entry-points"].items()
    )
    (metadata / "entry_points.txt").write_text("\n".join(groups))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for installed packages; what is imported from it is forgotten at the end."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=":")
    before = set(sys.modules)
    plugins.plugins.cache_clear()
    yield folder
    plugins.plugins.cache_clear()
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(folder)):
            del sys.modules[name]


@pytest.fixture
def installed(site: Path) -> Path:
    """Both plugins of this folder."""
    install(HERE / "torchserve", site)
    install(HERE / "toy", site)
    return site
