# SPDX-License-Identifier: Apache-2.0
"""What an Ollama model cannot say of a model that was none, told before anything is written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from ocibridge.formats.ollama.local import read_local
from ocibridge.formats.ollama.options import OllamaReadOptions
from ocibridge.model import Model
from ocibridge.settings import MiB

from ..build import fill
from .samples import GGUF, MODELS, entry, foreign, sink

IDENTITY = "the identity of the source (folder:1) is not kept: the Ollama model has its own"


def losses(root: Path, source: Model, **changes: Any) -> tuple[str, ...]:
    """What a sink says before the first file."""
    with sink("m", source, root, **changes) as out:
        return out.losses


def model(paths: Iterable[str], **info: Any) -> Model:
    """A model with weights and some more files, all of them text."""
    return replace(foreign({"m.gguf": GGUF, **dict.fromkeys(paths, b"x")}, **info), identity=None)


def test_nothing_is_lost(tmp_path: Path) -> None:
    paths = ("mmproj.gguf", "LICENSE", "docs/COPYING.txt", "template", "system", "params", "ollama/messages.json")
    source = model(paths, name="M", family="llama", format="gguf", param_size="1.5M", quantization="Q8_0")
    assert losses(tmp_path, source) == ()


def test_files_without_a_layer(tmp_path: Path) -> None:
    assert losses(tmp_path, model(["README.md"])) == (
        "an Ollama model has no layer for 1 file of the model, left out: 'README.md'",
    )
    paths = ["README.md", "config.json", "tokenizer.json", "run.py", "template.txt", "ollama/config.json"]
    assert losses(tmp_path, model(paths)) == (
        "an Ollama model has no layer for 6 files of the model, left out: "
        "'README.md', 'config.json', 'tokenizer.json', 'run.py', 'template.txt', ...",
    )


def test_the_sentence_agrees_with_the_manifest(tmp_path: Path) -> None:
    files = {"m.gguf": GGUF, "LICENSE": b"MIT", "NOTICE": b"n", "template": b"t", "system": b"s" * (MiB + 1)}
    source = foreign(files)
    out = sink("m", source, tmp_path)
    assert out.losses == (
        "an Ollama model has no layer for 2 files of the model, left out: 'NOTICE', 'system'",
        IDENTITY,
    )
    fill(out, source)
    assert [file.path for file in read_local("m", OllamaReadOptions(), tmp_path).files[2:]] == [
        *("model.gguf", "ollama/template", "LICENSE"),
    ]


def test_facts_without_a_word(tmp_path: Path) -> None:
    created = datetime(2024, 1, 2, tzinfo=timezone.utc)
    source = model([], title="T", version="1", authors=("A", "B"), format="safetensors", created_at=created)
    assert losses(tmp_path, source) == (
        "an Ollama model has no word for these facts, only what the GGUF header says of them is kept: title 'T', "
        "version '1', authors 'A, B', created at '2024-01-02 00:00:00+00:00', format 'safetensors'",
    )


def test_files_that_are_not_all_known(tmp_path: Path) -> None:
    source = foreign({"m.gguf": GGUF})
    found = losses(tmp_path, source, complete=False, files=(entry("a.txt"), entry("LICENSE")))
    assert found == ("an Ollama model has no layer for 1 file of the model, left out: 'a.txt'", IDENTITY)


@pytest.mark.parametrize("name", MODELS)
def test_a_restored_model_loses_nothing(tmp_path: Path, store: Path, name: str) -> None:
    source = read_local(name, OllamaReadOptions(), store)
    assert losses(tmp_path, source) == ()
    assert losses(tmp_path, source, format=None) == ()
    assert losses(tmp_path, source, files=(entry("README.md"),), complete=False) == ()
