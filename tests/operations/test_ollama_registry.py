# SPDX-License-Identifier: Apache-2.0
"""Models from a registry that speaks Ollama's dialect, as registry.ollama.ai does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

import ocibridge
from ocibridge.stores.registry import Retry

from ..formats.ollama.samples import DOCKER, MODELS
from ..registry import PASSWORD, USER, RegistryServer
from .ollama import SMALL, OllamaRegistry, manifest_of, switch


@pytest.fixture
def ollama(store: Path) -> Iterator[OllamaRegistry]:
    with ExitStack() as stack:
        yield OllamaRegistry(store, stack)


FULL = {name: name if "/" in name else f"library/{name}" for name in MODELS}


@pytest.mark.parametrize("name", MODELS)
def test_every_model_from_a_registry_of_ollamas_dialect(
    name: str,
    store: Path,
    ollama: OllamaRegistry,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    registry: RegistryServer,
    repository: str,
) -> None:
    source = f"ollama://{ollama.host}/{FULL[name]}"
    identity = MODELS[name]["manifest_digest"].replace("sha256:", "ollama:")
    assert ocibridge.inspect(source).identity == identity
    ollama.requests.clear()
    pushed = ocibridge.push(source, f"{registry.host}/{repository}:v1")
    assert pushed.identity == identity
    manifests = [each for each in ollama.requests if "/manifests/" in each[1]]
    assert [(method, accept) for method, _, accept in manifests] == [("GET", DOCKER)]
    assert {method for method, _, _ in ollama.requests} == {"GET"}
    assert not [path for _, path, _ in ollama.requests if path.rstrip("/") == "/v2"], "no ping"
    new = switch(monkeypatch, tmp_path / "new")
    ocibridge.pull(pushed.reference, f"ollama:{name}")
    assert manifest_of(new, name) == manifest_of(store, name)
    local = ocibridge.push(f"ollama:{name}", f"oci:{tmp_path / 'layout'}:v1")
    assert [layer.digest for layer in local.layers] == [layer.digest for layer in pushed.layers]


def test_blobs_are_not_fetched_for_nothing(
    store: Path, ollama: OllamaRegistry, registry: RegistryServer, repository: str
) -> None:
    """A tensor is fetched once for its header, which is kept, and once to be sent, if it has to be."""
    source = f"ollama://{ollama.host}/x/safetensors-test"
    pushed = ocibridge.push(source, f"{registry.host}/{repository}:v1")
    assert max(ollama.fetches().values()) <= 2
    ollama.requests.clear()
    again = ocibridge.push(source, f"{registry.host}/{repository}:v2")
    assert again.digest == pushed.digest
    assert {layer.action for layer in again.layers} == {"skipped"}
    assert max(ollama.fetches().values()) == 1


@pytest.mark.parametrize("layers", ["raw-files", "tar"])
def test_a_registry_that_lies(layers: str, store: Path, ollama: OllamaRegistry, tmp_path: Path) -> None:
    source = f"ollama://{ollama.host}/library/{SMALL}"
    for number, row in enumerate(ocibridge.inspect(source).files[1:]):
        ollama.spoil = {f"sha256:{row.sha256}"}
        with pytest.raises(ocibridge.IntegrityError):
            ocibridge.verify(source)
        target = f"oci:{tmp_path / f'layout{number}'}:v1"
        with pytest.raises(ocibridge.IntegrityError):
            ocibridge.push(source, target, ocibridge.PushOptions(layers=layers))
        with pytest.raises(ocibridge.NotFound):
            ocibridge.inspect(target)
        ollama.spoil = set()


def test_a_model_that_is_not_there(ollama: OllamaRegistry, store: Path) -> None:
    with pytest.raises(ocibridge.NotFound, match="v9"):
        ocibridge.inspect(f"ollama://{ollama.host}/library/{SMALL}:v9")
    with pytest.raises(ocibridge.SourceError, match="no Ollama model"):
        ocibridge.inspect("ollama:nothing")
    with pytest.raises(ocibridge.InvalidReference, match="ollama://HOST"):
        ocibridge.inspect(f"ollama://{SMALL}")


def test_what_is_meant_for_the_target_does_not_reach_the_source(
    ollama: OllamaRegistry, auth_registry: RegistryServer, repository: str, tmp_path: Path
) -> None:
    options = ocibridge.RegistryOptions(username=USER, password=PASSWORD, retries=Retry(attempts=1))
    source, target = f"ollama://{ollama.host}/library/{SMALL}", f"{auth_registry.host}/{repository}:v1"
    pushed = ocibridge.push(source, target, registry=options)
    assert ocibridge.verify(pushed.reference, registry=options).identity == pushed.identity
    ollama.challenge = True
    with pytest.raises(ocibridge.AuthenticationError):
        ocibridge.push(source, target, registry=options)
    assert ollama.secrets == []
    # Where the target is no registry, they can only be meant for the source.
    ocibridge.push(source, f"oci:{tmp_path / 'layout'}:v1", registry=options)
    assert set(ollama.secrets) == {httpx.BasicAuth(USER, PASSWORD)._auth_header}
