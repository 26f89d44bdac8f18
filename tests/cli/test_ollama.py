# SPDX-License-Identifier: Apache-2.0
"""The commands on Ollama models, from the words to what is printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ..formats.ollama.samples import MODELS, unpack_store
from ..registry import RegistryServer
from .conftest import Run

NAME = "tinyllama-test"
IDENTITY = MODELS[f"{NAME}:latest"]["manifest_digest"].replace("sha256:", "ollama:")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = unpack_store(tmp_path / "models")
    monkeypatch.setenv("OLLAMA_MODELS", str(folder))
    return folder


def test_there_and_back(run: Run, store: Path, registry: RegistryServer, repository: str) -> None:
    target = f"{registry.host}/{repository}"
    pushed = run("push", f"ollama:{NAME}", f"{target}:v1", "--also", "ollama")
    assert pushed.status == 0
    assert pushed.err.startswith(f"ocibridge: pushed {IDENTITY} as {target}:v1: 7 layers uploaded (")
    assert ", also v1-ollama, in " in pushed.err
    (artifact, reference), (ollama, companion) = (line.split() for line in pushed.out.splitlines())
    assert (artifact, ollama) == ("artifact", "ollama")
    assert companion.startswith(f"{target}@sha256:")

    pulled = run("pull", reference, "ollama:copy:v2")
    assert (pulled.status, pulled.out) == (0, f"{reference}\n")
    assert f"pulled {IDENTITY} to ollama:copy:v2 (ollama): 7 files" in pulled.err
    assert run("pull", reference, "ollama:copy:v2").status == 0, "the same model is no conflict"
    refused = run("pull", reference, "ollama:mylab/tinyllama-test:q8")
    assert (refused.status, refused.err.count("\n")) == (1, 1)
    assert "--overwrite" in refused.err
    assert run("pull", reference, "ollama:mylab/tinyllama-test:q8", "--overwrite", "-q").err == ""

    for subject in ("ollama:copy:v2", f"ollama://{target}:v1-ollama", reference):
        shown = run("inspect", subject)
        assert (shown.status, shown.err) == (0, "")
        assert any(line.split() == ["identity", IDENTITY] for line in shown.out.splitlines())
        proven = run("verify", subject)
        assert proven.out.splitlines()[0].startswith(subject.replace(":v1-ollama", "").partition("@")[0])
        assert IDENTITY in proven.out
        assert proven.out.endswith("\nverified\n")


def test_mounts_are_reported(run: Run, store: Path, registry: RegistryServer, repository: str) -> None:
    origin = f"{registry.host}/{repository}"
    report = json.loads(run("push", f"ollama:{NAME}", f"{origin}:v1", "--also", "ollama", "--json").out)
    (also,) = report["also"]
    assert (also["kind"], also["tag"], also["tags"]) == ("ollama", "v1-ollama", ["v1-ollama"])
    assert also["reference"] == f"{origin}@{also['digest']}"
    for number, source in enumerate((f"ollama:{NAME}", f"ollama://{origin}:v1-ollama")):
        argv = ["push", source, f"{origin}-{number}:v1", "--mount-from", repository, "--json"]
        mounted = json.loads(run(*argv).out)
        assert {layer["action"] for layer in mounted["layers"]} == {"mounted"}
        assert mounted["also"] == []


@pytest.mark.parametrize(
    ("argv", "status", "word"),
    [
        (["push", "ollama:nothing", "oci:layout"], 1, "there is tinyllama-test:latest"),
        (["push", "ollama:a/b/c/d", "oci:layout"], 2, "more than three parts"),
        (["push", "ollama://x", "oci:layout"], 2, "ollama://HOST/NAMESPACE/MODEL"),
        (["push", f"ollama:{NAME}", "oci:layout", "--also", "docker"], 2, "ollama"),
        (["push", f"ollama:{NAME}", "oci:layout", "--also", "ollama", "--layers", "tar"], 2, "raw-files"),
        (["push", f"ollama:{NAME}", "oci:layout", "--mount-from", "a/b"], 2, "--mount-from"),
        (["push", ".", "oci:layout", "--strip-from"], 2, "--strip-from"),
        (["push", f"ollama:{NAME}", f"ollama:{NAME}"], 2, "names no registry host"),
        (["pull", "oci:layout", "ollama://h.example/a/b"], 1, "layout"),
        (["inspect", "ollama:"], 2, "not valid"),
        (["verify", "ollama:../x"], 2, "not valid"),
    ],
)
def test_likely_mistakes(
    run: Run, argv: list[str], status: int, word: str, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = run(*argv)
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (status, "", 1)
    assert word in outcome.err
    assert not (tmp_path / "layout").exists()
