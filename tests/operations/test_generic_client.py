# SPDX-License-Identifier: Apache-2.0
"""The stock ORAS package, as published, handles what we push."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import oras.client

import ocibridge

from ..registry import RegistryServer


def test_the_stock_client_pulls_every_file(
    carton: Callable[[str], Path], tmp_path: Path, registry: RegistryServer, repository: str
) -> None:
    target = f"{registry.host}/{repository}:v1"
    pushed = ocibridge.push(carton("digits.carton"), target, ocibridge.PushOptions(layers="raw-files"))
    client = oras.client.OrasClient(insecure=True)
    manifest = client.get_manifest(target)
    assert manifest["artifactType"] == "application/vnd.cnai.model.manifest.v1+json"
    assert [layer["digest"] for layer in manifest["layers"]] == [layer.digest for layer in pushed.layers]
    client.pull(target=target, outdir=str(tmp_path / "out"))
    for file in ocibridge.inspect(target).files:
        assert hashlib.sha256((tmp_path / "out" / file.path).read_bytes()).hexdigest() == file.sha256
    assert ocibridge.verify(tmp_path / "out").identity == pushed.identity
