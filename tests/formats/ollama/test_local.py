# SPDX-License-Identifier: Apache-2.0
"""The models folder: where it is, and what is found in it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ocibridge.errors import IntegrityError, LimitError, SourceError
from ocibridge.formats.ollama import local
from ocibridge.formats.ollama.local import LocalOllama, models_dir, read_local
from ocibridge.formats.ollama.names import OllamaName, parse_ollama_name
from ocibridge.formats.ollama.options import OllamaReadOptions
from ocibridge.oci import Descriptor
from ocibridge.settings import Limits

from .samples import MODELS

OPTIONS = OllamaReadOptions()
BLOB = "sha256:5e22d74c95d881f3c6920537511ddf65838199a541aceaf8e4149f675f1a4ff1"


@pytest.fixture
def mine(store: Path, tmp_path: Path) -> Path:
    """A copy of the fixtures' folder that a test may change."""
    shutil.copytree(store, tmp_path / "models")
    return tmp_path / "models"


def test_where_the_folder_is(isolated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_SERVICE", tmp_path / "service")
    own = isolated / ".ollama" / "models"
    assert models_dir() == own
    (tmp_path / "service").mkdir()
    assert models_dir() == tmp_path / "service"
    own.mkdir(parents=True)
    assert models_dir() == own
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "other"))
    assert models_dir() == tmp_path / "other"


def test_a_model_by_its_name_alone(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_MODELS", str(store))
    digest = MODELS["tinyllama-test:latest"]["manifest_digest"]
    assert read_local("TinyLlama-Test", OPTIONS).identity == digest.replace("sha256:", "ollama:")


def test_names_in_another_case(mine: Path) -> None:
    store = LocalOllama(mine)
    assert store.resolve(parse_ollama_name("MyLab/TINYLLAMA-test:Q8")) == parse_ollama_name("mylab/tinyllama-test:q8")
    assert store.resolve(parse_ollama_name("MyLab/Other:Q8")) == parse_ollama_name("mylab/Other:Q8")
    path = store.manifest_path(OllamaName("tinyllama-test"))
    (path.parent / "LATEST").write_bytes(b"{}")
    assert store.resolve(OllamaName("tinyllama-test")).tag == "latest"
    assert store.resolve(OllamaName("tinyllama-test", "Latest")).tag == "LATEST"


def test_all_names(mine: Path) -> None:
    (mine / "manifests" / "registry.ollama.ai" / "library" / "tinyllama-test" / ".hidden").touch()
    (mine / "manifests" / "stray").touch()
    assert sorted(name.short for name in LocalOllama(mine).names()) == sorted(MODELS)
    assert list(LocalOllama(mine / "nowhere").names()) == []


def test_models_that_are_not_there(mine: Path) -> None:
    with pytest.raises(
        SourceError, match=r"no Ollama model tinyllama-test:q9 .*there is tinyllama-test:latest, mylab/tiny"
    ):
        read_local("tinyllama-test:q9", OPTIONS, mine)
    with pytest.raises(SourceError, match="OLLAMA_MODELS"):
        read_local("x", OPTIONS, mine / "nowhere")
    with pytest.raises(LimitError):
        read_local("tinyllama-test", OllamaReadOptions(limits=Limits(manifest=50)), mine)


def test_blobs(mine: Path) -> None:
    store = LocalOllama(mine)
    path = store.blob_path(BLOB)
    assert path
    size = path.stat().st_size
    blob = Descriptor(media_type="", digest=BLOB, size=size)
    assert store.verified(blob)
    path = path.rename(path.with_name(BLOB))
    assert store.blob(blob).size == size
    assert store.verified(blob)
    path.write_bytes(b"x" * size)
    assert not store.verified(blob)
    path.write_bytes(b"x")
    assert not store.verified(blob)
    with pytest.raises(IntegrityError, match="1 bytes"):
        read_local("tinyllama-test", OPTIONS, mine)
    path.unlink()
    assert not store.verified(blob)
    with pytest.raises(SourceError, match=f"{BLOB} is missing.*ollama pull"):
        read_local("tinyllama-test", OPTIONS, mine)
