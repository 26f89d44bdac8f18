# SPDX-License-Identifier: Apache-2.0
"""Arbitrary files and names: carton → artifact → carton, nothing lost."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

import ocibridge
from ocibridge.errors import FormatError
from ocibridge.formats.carton import CartonFormat
from ocibridge.formats.carton.options import CartonReadOptions
from ocibridge.paths import check_collisions, check_path

from ..formats.build import carton, contents, manifest_of, whole


def _legal(files: dict[str, bytes]) -> bool:
    try:
        for path in files:
            check_path(path, "it")
        check_collisions(whole(files) | {"MANIFEST": b"", "LINKS": b""}, "it")
    except FormatError:
        return False
    return not any(part.startswith(".wh.") for path in files for part in path.split("/"))


parts = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/\\"), min_size=1, max_size=30)
paths = st.lists(parts, min_size=1, max_size=3).map("/".join) | parts.map("model/{}".format)
filesets = st.dictionaries(paths, st.binary(max_size=3000), max_size=6).filter(_legal)


@settings(max_examples=60, deadline=None)
@given(
    filesets,
    st.sampled_from([("tar", "none"), ("tar", "gzip"), ("raw", "zstd"), ("raw-files", "none")]),
    st.sampled_from(["stored", "deflate", "zstd"]),
    st.booleans(),
)
@example({"model/" + "ä" * 100 + "/x": b"1", "model/=": b"", "model/a=b": b"2"}, ("tar", "none"), "stored", True)
def test_round_trip(files: dict[str, bytes], how: tuple[str, str], method: str, folder: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        source = carton(root / "in.carton", files)
        before = CartonFormat().read(source, CartonReadOptions())
        pushed = ocibridge.push(source, f"oci:{root}/layout:v1", ocibridge.PushOptions(layers=how[0], compress=how[1]))
        back = root / ("out" if folder else "out.carton")
        writing = {} if folder else {"zip_method": method}
        pulled = ocibridge.pull(pushed.reference, back, ocibridge.PullOptions(writing=writing))
        identity = "carton:" + hashlib.sha256(manifest_of(whole(files))).hexdigest()
        assert (pushed.identity, pulled.identity) == (identity, identity)
        after = CartonFormat().read(back, CartonReadOptions())
        assert contents(after) == contents(before)
        assert (
            ocibridge.push(back, f"oci:{root}/layout:v2", ocibridge.PushOptions(layers=how[0], compress=how[1])).digest
            == pushed.digest
        )
