# SPDX-License-Identifier: Apache-2.0
"""Operations on stores that are open already, by `StoreReference`."""

from __future__ import annotations

from pathlib import Path

import pytest

import ocibridge
from ocibridge import MemoryStore, StoreReference
from ocibridge.oci import LayoutReference, Reference, RegistryReference, parse_reference

from ..trees import paths_in


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "weights.bin").write_bytes(bytes(range(256)) * 300)
    (folder / "README.md").write_text("# A model")
    return folder


def test_a_model_goes_through_memory(model: Path, tmp_path: Path) -> None:
    one, two = MemoryStore(), MemoryStore()
    pushed = ocibridge.push(model, StoreReference(one, "v1"))
    assert pushed.reference == f"{one.name}@{pushed.digest}"
    copied = ocibridge.copy(StoreReference(one, "v1"), StoreReference(two))
    assert (copied.digest, two.tags()) == (pushed.digest, ["v1"])
    assert (
        ocibridge.copy(StoreReference(two, digest=pushed.digest), f"oci:{tmp_path / 'layout'}:v2").digest
        == copied.digest
    )
    assert ocibridge.inspect(StoreReference(two, "v1")).digest == pushed.digest
    assert ocibridge.verify(StoreReference(two, "v1")).digest == pushed.digest
    ocibridge.pull(StoreReference(two, "v1"), tmp_path / "back")
    assert {path.name: path.read_bytes() for path in paths_in(tmp_path / "back")} == {
        path.name: path.read_bytes() for path in model.iterdir()
    }


@pytest.mark.parametrize(
    "reference",
    [
        RegistryReference("localhost:5000", "a/b"),
        LayoutReference(Path("x")),
        parse_reference("oci-archive:x.tar:v0"),
        StoreReference(MemoryStore("memory")),
    ],
)
def test_what_references_have_in_common(reference: Reference) -> None:
    digest = "sha256:" + "0" * 64
    assert str(reference.at()) == reference.name
    assert str(reference.at("v1")) == f"{reference.name}:v1"
    assert str(reference.at("v1", digest)) == f"{reference.name}:v1@{digest}"
    assert reference.pinned(digest) == reference.at(digest=digest)
    assert [each.version for each in (reference.at(), reference.at("v1"), reference.at("v1", digest))] == [
        "latest",
        "v1",
        digest,
    ]
    assert isinstance(reference, Reference)
