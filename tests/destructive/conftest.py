# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from .scene import Scene, make_layout, make_scene


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A layout, and a folder that was pulled from it."""
    folder = tmp_path_factory.mktemp("template")
    make_layout(folder)
    return folder


@pytest.fixture
def scene(tmp_path: Path, template: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A place with everything that somebody could lose; its home is the home, its work the working folder."""
    found = make_scene(tmp_path / "s", template)
    monkeypatch.setenv("HOME", str(found.home))
    monkeypatch.setenv("OLLAMA_MODELS", str(found.root / "ollama"))
    monkeypatch.chdir(found.work)
    return found
