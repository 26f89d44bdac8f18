# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ocibridge.errors import OcibridgeError
from ocibridge.formats.mlsteam.manifest import parse_manifest
from ocibridge.formats.mlsteam.skeleton import SKELETON, parse_skeleton

from ..build import contents
from .archives import FIXTURES, MANIFEST, PLAIN, back, read

DIGITS = (FIXTURES / PLAIN[0]).read_bytes()
PARTS = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="/\\:"), min_size=1, max_size=8)
NAMES = st.lists(PARTS, min_size=1, max_size=3).map("/".join)
MEMBERS = st.dictionaries(
    st.tuples(st.sampled_from(["models", "hooks", "src", "x"]), NAMES).map("/".join),
    st.tuples(st.binary(max_size=200), st.sampled_from([0, 8]), st.integers(0, 9), st.integers(0, 40)),
    max_size=6,
)


def attempt(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.mlarchive")
        path.write_bytes(data)
        try:
            model = read(path)
            contents(model)
        except OcibridgeError:
            return
        assert back(model, Path(folder, "back.mlarchive")) in ("exact", "equivalent")
        assert read(Path(folder, "back.mlarchive")).identity == model.identity


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
@example(b"")
def test_any_bytes(data: bytes) -> None:
    attempt(data)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, len(DIGITS) - 1), st.integers(1, 255), st.booleans())
def test_a_changed_byte(position: int, change: int, near_the_end: bool) -> None:
    if near_the_end:
        position = len(DIGITS) - 1 - position % 500
    data = bytearray(DIGITS)
    data[position] ^= change
    attempt(bytes(data))


@settings(max_examples=100, deadline=None)
@given(MEMBERS)
def test_any_members(members: dict[str, tuple[bytes, int, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, dest = Path(folder, "x.mlarchive"), Path(folder, "back.mlarchive")
        with zipfile.ZipFile(path, "w") as target:
            for name, (data, method, level, year) in members.items():
                info = zipfile.ZipInfo(name, (1980 + year, 1, 1, 0, 0, 0))
                target.writestr(info, data, method, level)
            target.writestr("manifest.json", MANIFEST)
        try:
            model = read(path)
        except OcibridgeError:
            return
        found = contents(model)
        assert {name: found[name] for name in members} == {name: data for name, (data, *_) in members.items()}
        assert back(model, dest) == "exact"
        assert dest.read_bytes() == path.read_bytes()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["schema", "models", "name", "version", "enc_model_cleanup_files", "loader", "services"]),
            inner,
        )
    ),
    max_leaves=10,
)


@settings(max_examples=200, deadline=None)
@given(JSON)
def test_any_manifest(document: object) -> None:
    import json

    for data in (json.dumps(document).encode(), str(document).encode("utf-8", "replace")):
        try:
            manifest = parse_manifest(data, "x", 1 << 20)
            manifest.info()
            manifest.origin()
        except OcibridgeError:
            pass


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_skeleton(data: st.DataObject) -> None:
    import json

    document = json.loads(contents(read(FIXTURES / PLAIN[0]))[SKELETON])
    part = data.draw(st.sampled_from([document, *document["members"]]))
    part[data.draw(st.sampled_from(sorted(part)))] = data.draw(JSON)
    try:
        parse_skeleton(json.dumps(document).encode(), "x", 1 << 20)
    except OcibridgeError:
        pass
