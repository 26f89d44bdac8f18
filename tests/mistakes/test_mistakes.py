# SPDX-License-Identifier: Apache-2.0
"""Mistakes that people make: each gets one sentence, changes nothing, and the next step that is named helps."""

from __future__ import annotations

import io
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ocibridge.cli.main import main

from ..registry import TLS, RegistryServer
from .table import MISTAKES, Mistake
from .world import fill, no_registries, snapshot


@pytest.fixture(scope="module")
def world(
    registry: RegistryServer,
    auth_registry: RegistryServer,
    tls_registry: RegistryServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Path, dict[str, str]]]:
    """A folder with one of everything, to be copied, and the hosts."""
    folder = tmp_path_factory.mktemp("world")
    places = fill(folder, registry) | {"auth": auth_registry.host, "tls": tls_registry.host}
    with no_registries() as others:
        yield folder, places | others | {"keys": str(TLS)}


def _run(command: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Run `ARGUMENTS…` or `ARGUMENTS… < FILE`; status, standard output, standard error."""
    line, _, given = command.partition(" < ")
    data = Path(given).read_bytes() if given else b""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    capfd.readouterr()
    status = main(shlex.split(line))
    return status, *capfd.readouterr()


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.command)
def test_a_mistake_gets_a_sentence_that_helps(
    mistake: Mistake,
    world: tuple[Path, dict[str, str]],
    repository: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    origin, hosts = world
    folder = tmp_path / "here"
    shutil.copytree(origin, folder, symlinks=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("OLLAMA_MODELS", str(folder / "ollama"))
    places = hosts | {"new": f"{hosts['open']}/{repository}", "here": str(folder)}

    before = snapshot(folder)
    status, out, err = _run(mistake.command.format(**places), monkeypatch, capfd)
    assert (status, out) == (mistake.status, "")
    sentence = mistake.sentence.format(**places)
    assert re.fullmatch(re.escape(f"ocibridge: error: {sentence}\n").replace("…", ".+"), err), err
    assert snapshot(folder) == before

    for step in mistake.then:
        status, _, err = _run(step.format(**places), monkeypatch, capfd)
        assert status == 0, (step, err)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.command)
def test_what_a_sentence_names_is_tried(mistake: Mistake) -> None:
    """Every flag and every command that stands in the next step is in a command that the other test runs."""
    _, _, advice = mistake.sentence.rpartition("; ")
    tried = " ".join(mistake.then)
    for flag in re.findall(r"--[a-z-]+", advice):
        assert flag in tried or flag in mistake.dropped.split(), flag
    for command in re.findall(r"'ocibridge ([^']+)'", advice):
        words = re.split(r" ?\b[A-Z]{4,}\b", command)[0]  # what stands before the first placeholder
        assert any(step.startswith(words) for step in mistake.then), command


def test_there_are_a_hundred_different_ones() -> None:
    assert len({mistake.command for mistake in MISTAKES}) == len(MISTAKES) >= 100
