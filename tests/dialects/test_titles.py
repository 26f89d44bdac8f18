# SPDX-License-Identifier: Apache-2.0
"""Titles of layers say what a blob is, since generic clients write it to disk under that name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ocibridge
from ocibridge.dialects.base import FinishedLayer
from ocibridge.dialects.titles import titles
from ocibridge.layers import Encoding
from ocibridge.model import FileEntry, Role
from ocibridge.oci import sha256_digest
from ocibridge.oci.manifest import ANNOTATION_TITLE

from ..translating import translate

FIXTURES = Path(__file__).parents[1] / "fixtures"
OLD = FIXTURES / "published" / "digits-tar-0.1.json"
"""Manifest of `digits.carton` in tar layers, as it was published when titles named the file in the tar."""


def layer(
    *paths: str, encoding: Encoding = Encoding.TAR, role: Role = Role.WEIGHT, title: str | None = None
) -> FinishedLayer:
    files = tuple(FileEntry(path, role) for path in paths)
    kept = {} if title is None else {ANNOTATION_TITLE: title}
    return FinishedLayer(role, encoding, "sha256:" + "0" * 64, 1, "", files, kept=kept)


@pytest.mark.parametrize(
    ("encoding", "title"),
    [
        (Encoding.RAW, "a/model.pt"),
        (Encoding.TAR, "a/model.pt.tar"),
        (Encoding.TAR_GZIP, "a/model.pt.tar.gz"),
        (Encoding.TAR_ZSTD, "a/model.pt.tar.zst"),
    ],
)
def test_one_file(encoding: Encoding, title: str) -> None:
    assert titles([layer("a/model.pt", encoding=encoding)]) == [title]


def test_several_files_are_named_by_their_role() -> None:
    found = titles([layer("a", "b", role=Role.WEIGHT_CONFIG), layer("c", "d"), layer("e", "f"), layer(role=Role.DOC)])
    assert found == ["weight.config.tar", "weight.tar", "weight-2.tar", "doc.tar"]


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ([layer("x"), layer("x.tar", encoding=Encoding.RAW)], ["x-2.tar", "x.tar"]),
        ([layer("x"), layer("X.TAR", encoding=Encoding.RAW)], ["x-2.tar", "X.TAR"]),
        ([layer("x"), layer("x.tar/y", encoding=Encoding.RAW)], ["x-2.tar", "x.tar/y"]),
        ([layer("x"), layer("x.tar/y")], ["x-2.tar", "x.tar/y.tar"]),
        ([layer("code"), layer("a", "b", role=Role.CODE)], ["code.tar", "code-2.tar"]),
        ([layer("a"), layer("b", title="a.tar")], ["a-2.tar", "a.tar"]),
    ],
)
def test_no_two_are_in_each_others_way(layers: list[FinishedLayer], expected: list[str]) -> None:
    assert titles(layers) == expected


def _with_old_manifest(place: Path) -> str:
    """A layout where the old manifest leads to the layers of today, which are the same."""
    ocibridge.push(FIXTURES / "digits.carton", f"oci:{place}:new")
    data = OLD.read_bytes()
    digest = sha256_digest(data)
    (place / "blobs" / "sha256" / digest.removeprefix("sha256:")).write_bytes(data)
    index = json.loads((place / "index.json").read_bytes())
    index["manifests"].append({**index["manifests"][0], "digest": digest, "size": len(data)})
    index["manifests"][-1]["annotations"] = {"org.opencontainers.image.ref.name": "old"}
    (place / "index.json").write_text(json.dumps(index))
    return f"oci:{place}:old"


def test_what_was_published_before_is_read_as_ever(tmp_path: Path) -> None:
    old = _with_old_manifest(tmp_path / "layout")
    new = old.replace(":old", ":new")
    assert ocibridge.verify(old).identity == ocibridge.verify(new).identity
    assert ocibridge.inspect(old).files == ocibridge.inspect(new).files
    pulled = ocibridge.pull(old, tmp_path / "back.carton")
    assert pulled.identity == ocibridge.inspect(FIXTURES / "digits.carton").identity


def test_a_translation_makes_old_titles_true(tmp_path: Path) -> None:
    old = _with_old_manifest(tmp_path / "layout")
    options = ocibridge.ConvertOptions(dialect="modelpack")
    found = translate(old, old.replace(":old", ":a"), options)
    direct = ocibridge.push(
        FIXTURES / "digits.carton", old.replace(":old", ":b"), ocibridge.PushOptions(dialect="modelpack")
    )
    assert found.digest == direct.digest
