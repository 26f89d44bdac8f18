# SPDX-License-Identifier: Apache-2.0
"""Two processes at once: one is refused, or both are right."""

from __future__ import annotations

from pathlib import Path

import pytest

import ocibridge
from ocibridge.settings import MiB

from ..kill.commands import run, start
from ..kill.counting import Line
from ..registry import RegistryServer
from .conftest import Commands


@pytest.mark.parametrize("name", ["back", "back.carton", "ollama:digits"])
def test_pulls_to_one_target(
    line: Line,
    registry: RegistryServer,
    command: Commands,
    tmp_path: Path,
    repository: str,
    gguf: Path,
    carton: Path,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "models"))
    source, ollama = f"{line.host}/{repository}:v1", name.startswith("ollama")
    dest = name if ollama else tmp_path / name
    model = gguf if ollama else carton
    assert command("push", "-q", model, source).status == 0
    line.hold(4 * MiB)
    with start("pull", source, dest, "--json") as first:
        assert line.reached.wait(60)
        second = command("pull", "-q", f"{registry.host}/{repository}:v1", dest, "--force")
        line.go.set()
        _out, err = first.communicate(timeout=60)
    assert "another ocibridge is writing it; wait until it is done" in second.sentence
    assert first.returncode == 0, err
    assert command("verify", "-q", dest).status == 0
    assert command("pull", "-q", source, dest, "--force").status == 0
    assert not list(tmp_path.glob(".*.ocibridge"))


def test_pushes_to_one_repository(line: Line, registry: RegistryServer, carton: Path, repository: str) -> None:
    line.hold(MiB, up=True)
    with start("push", carton, f"{line.host}/{repository}:v1", "--json") as first:
        assert line.reached.wait(60)
        second = run("push", carton, f"{registry.host}/{repository}:v1", "--json")
        line.go.set()
        out, err = first.communicate(timeout=60)
    assert first.returncode == 0, err
    assert second.report["digest"] in out
    assert ocibridge.verify(f"{registry.host}/{repository}:v1").identity == ocibridge.inspect(carton).identity


def test_pushes_to_one_layout(tmp_path: Path, carton: Path) -> None:
    layout = f"oci:{tmp_path}/layout"
    with start("push", "-q", carton, f"{layout}:v1") as first, start("push", "-q", carton, f"{layout}:v2") as second:
        results = [(each.communicate(timeout=60), each.returncode) for each in (first, second)]
    assert [status for _, status in results] == [0, 0], results
    for tag in ("v1", "v2"):
        assert ocibridge.verify(f"{layout}:{tag}").identity == ocibridge.inspect(carton).identity
    assert not list((tmp_path / "layout").glob(".*"))
