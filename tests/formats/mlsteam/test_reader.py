# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from ocibridge.errors import FormatError, IntegrityError, LimitError, OcibridgeError, SourceError
from ocibridge.formats.base import ReadOptions
from ocibridge.formats.mlsteam.skeleton import ORIGINAL, SKELETON, parse_skeleton
from ocibridge.model import Role
from ocibridge.settings import Limits

from ..build import Raw, contents, raw_zip
from .archives import FIXTURES, FORMAT, GENUINE, MANIFEST, PLAIN, V2024, archive, read, with_manifest, zipped

ENTRIES: dict[str, Any] = {
    entry["file"]: entry["identity"] for entry in json.loads((FIXTURES / "fixtures.json").read_bytes())["fixtures"]
}


@pytest.mark.parametrize("name", PLAIN)
def test_the_fixtures_have_the_members_that_they_should(name: str) -> None:
    model = read(FIXTURES / name)
    members = ENTRIES[name]["members"]
    found = contents(model)
    skeleton = parse_skeleton(found.pop(SKELETON), name, 1 << 20)
    assert {path: hashlib.sha256(data).hexdigest() for path, data in found.items()} == members
    assert skeleton.sha256 == ENTRIES[name]["archive_sha256"]
    assert {member.level for member in skeleton.members if member.method} == {6}
    assert model.format == "mlarchive"
    assert model.warnings == ()


def test_the_identity_covers_hash_and_order_of_every_member(tmp_path: Path) -> None:
    def identity(*members: tuple[str, bytes]) -> str | None:
        raw = [Raw(b"manifest.json", MANIFEST), *(Raw(name.encode(), data) for name, data in members)]
        return read(archive(tmp_path / "x.mlarchive", raw)).identity

    first = identity(("models/a", b"1"), ("models/b", b"2"))
    lines = [("manifest.json", MANIFEST), ("models/a", b"1"), ("models/b", b"2")]
    listing = "".join(f"{name}={hashlib.sha256(data).hexdigest()}\n" for name, data in lines)
    assert first == "mlarchive:" + hashlib.sha256(listing.encode()).hexdigest()
    others = {
        identity(("models/b", b"2"), ("models/a", b"1")),
        identity(("models/a", b"1"), ("models/b", b"3")),
        identity(("models/a", b"1"), ("models/c", b"2")),
        identity(("models/a", b"1"), ("models/b", b"2"), ("models/d/", b"")),
    }
    assert len(others | {first}) == 5


def test_the_identity_does_not_depend_on_the_compression(tmp_path: Path) -> None:
    files = {"models/a": b"abc" * 1000}
    paths = [
        zipped(tmp_path / "1.mlarchive", files),
        zipped(tmp_path / "2.mlarchive", files, level=9),
        zipped(tmp_path / "3.mlarchive", files, method=0),
    ]
    assert len({read(path).identity for path in paths}) == 1


def test_roles(tmp_path: Path) -> None:
    roles = {
        "models/state.pt": Role.WEIGHT,
        "models/noname": Role.WEIGHT,
        "models/sub/labels.txt": Role.WEIGHT_CONFIG,
        "models/config.json": Role.WEIGHT_CONFIG,
        "models/vocab.bpe": Role.WEIGHT_CONFIG,
        "models/tokenizer.model": Role.WEIGHT_CONFIG,
        "models/big.json": Role.WEIGHT,
        "models/README.md": Role.DOC,
        "hooks/load.py": Role.CODE,
        "hooks/notes.md": Role.CODE,
        "src/net/__init__.py": Role.CODE,
        "README": Role.DOC,
        "LICENSE.txt": Role.DOC,
        "docs/a.md": Role.DOC,
        "other.bin": Role.WEIGHT_CONFIG,
    }
    files = {name: bytes(8 << 20) if "big" in name else b"" for name in roles}
    model = read(archive(tmp_path / "x.mlarchive", files))
    assert {file.path: file.role for file in model.files if file.path in roles} == roles
    assert {file.path for file in model.files if file.guessed} == {"other.bin"}
    assert [file.path for file in model.files] == [SKELETON, "manifest.json", *roles]
    assert model.files[0].role is model.files[1].role is Role.WEIGHT_CONFIG


def test_the_archive_travels_along_if_asked(tmp_path: Path) -> None:
    path = FIXTURES / PLAIN[0]
    model = read(path, keep=True)
    assert [file.path for file in model.files][:2] == [SKELETON, ORIGINAL]
    assert contents(model)[ORIGINAL] == path.read_bytes()
    assert model.identity == read(path).identity


def test_a_new_schema_is_read_with_a_warning(tmp_path: Path) -> None:
    model = read(with_manifest(tmp_path / "x.mlarchive", {**V2024, "schema": "v2031.4"}))
    assert "newer" in model.warnings[0]
    assert model.origin["mlarchive.schema"] == "v2031.4"


def test_another_compressor_is_a_warning(tmp_path: Path) -> None:
    # One stored block: right, but what no level of zlib makes of it.
    data = b"abcd" * 100
    packed = b"\x01" + len(data).to_bytes(2, "little") + (0xFFFF ^ len(data)).to_bytes(2, "little") + data
    raw = [Raw(b"manifest.json", MANIFEST), Raw(b"models/a", data, method=8, packed=packed + b"junk")]
    path = archive(tmp_path / "x.mlarchive", raw)
    assert "not the same archive bytes (--keep-archive" in read(path).warnings[0]
    assert read(path, keep=True).warnings == ()


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (Raw(b"../up", b""), "leaves the folder"),
        (Raw(b"/abs", b""), "is absolute"),
        (Raw(b"models\\a", b""), "backslash"),
        (Raw(b"c:a", b""), "drive letter"),
        (Raw(b"models/a\nb", b""), "control character"),
        (Raw(b"manifest.json", MANIFEST), "appears twice"),
        (Raw(b"Manifest.json", b""), "collides"),
        (Raw(b"models/a/b", b""), "both a file and a folder"),
        (Raw(b"models/l", b"a", attr=(stat.S_IFLNK | 0o777) << 16), "neither a file nor a folder"),
        (Raw(b"models/l", b"a", attr=(stat.S_IFLNK | 0o777) << 16, system=0), "neither a file nor a folder"),
        (Raw(b"models/l", b"", attr=(stat.S_IFCHR | 0o666) << 16), "neither a file nor a folder"),
        (Raw(b"models/l", b"", attr=(stat.S_IFIFO | 0o666) << 16), "neither a file nor a folder"),
        (Raw(b"models/e", b"", flags=1), "encrypted"),
        (Raw(b"models/z", b"1", method=12, packed=b"x"), r"method 12 \(bzip2\)"),
        (Raw(b"models/z", b"1", method=14, packed=b"x"), r"method 14 \(lzma\)"),
        (Raw(b"models/z", b"1", method=93), "method 93, which the MLSteam SDK cannot read"),
        (Raw(b"models/z", b"1", local_method=8), "disagree"),
        (Raw(b"models/z", b"1", local_name=b"models/y"), "disagree|no member"),
        (Raw(b"models/z", b"1", offset=0), "overlaps|disagree"),
        (Raw(b"models/my.enckey", b"1"), "is a key file"),
        (Raw(b".mlarchive/index.json", b"1"), "which ocibridge needs itself"),
        (Raw(b".MLARCHIVE/x", b"1"), "which ocibridge needs itself"),
    ],
    ids=str,
)
def test_hazards_are_refused(tmp_path: Path, raw: Raw, message: str) -> None:
    path = archive(tmp_path / "x.mlarchive", [Raw(b"manifest.json", MANIFEST), Raw(b"models/a", b"1"), raw])
    with pytest.raises(FormatError, match=message):
        read(path)


def test_prepended_data_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "x.mlarchive", {"models/a": b"1"})
    path.write_bytes(b"#!/bin/sh\n" + path.read_bytes())
    with pytest.raises(FormatError, match="data before the zip archive"):
        read(path)


def test_a_bomb_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    path = zipped(tmp_path / "x.mlarchive", {"models/a": bytes(64 << 20)}, level=9)
    with pytest.raises(LimitError, match=r"'models/a' expands 10\d\d times"):
        read(path)
    assert FORMAT.read(path, ReadOptions(limits=Limits(ratio=2000))).files[-1].size == 64 << 20


def test_limits(tmp_path: Path) -> None:
    path = zipped(tmp_path / "x.mlarchive", {f"models/{number}": b"" for number in range(50)})
    for limits in (
        Limits(entries=50),
        Limits(metadata=10),
        Limits(metadata=2000),
        Limits(metadata=8000),
        Limits(directory=1000),
    ):
        with pytest.raises(LimitError):
            FORMAT.read(path, ReadOptions(limits=limits))


def test_damaged_data_is_noticed_while_reading(tmp_path: Path) -> None:
    good = [Raw(b"manifest.json", MANIFEST), Raw(b"models/a", b"12345", crc=1)]
    with pytest.raises(IntegrityError, match="wrong CRC-32"):
        read(archive(tmp_path / "x.mlarchive", good))
    good[1] = Raw(b"models/a", b"12345", method=8, size=4)
    with pytest.raises(IntegrityError, match="expands past"):
        read(archive(tmp_path / "x.mlarchive", good))


@pytest.mark.parametrize("name", GENUINE)
def test_every_truncation_is_noticed(tmp_path: Path, name: str) -> None:
    data = (FIXTURES / name).read_bytes()
    path = tmp_path / "x.mlarchive"
    for length in {*range(0, len(data), 1499), *range(len(data) - 30, len(data))}:
        path.write_bytes(data[:length])
        with pytest.raises(OcibridgeError):
            read(path)


def test_no_manifest(tmp_path: Path) -> None:
    path = tmp_path / "x.mlarchive"
    path.write_bytes(raw_zip([Raw(b"models/a", b"1")]))
    with pytest.raises(FormatError, match=r"has no manifest\.json"):
        read(path)


def test_matches(tmp_path: Path) -> None:
    for name in GENUINE:
        other = tmp_path / name.replace(".mlarchive", ".zip")
        other.write_bytes((FIXTURES / name).read_bytes())
        assert FORMAT.matches(FIXTURES / name)
        assert FORMAT.matches(other)
        assert contents(read(other))
    for name in ("digits.carton", "ollama-store.tar", "fixtures.json"):
        assert not FORMAT.matches(FIXTURES / name)
    assert not FORMAT.matches(tmp_path)
    assert not FORMAT.matches(tmp_path / "missing")
    with pytest.raises(SourceError):
        read(tmp_path / "missing.mlarchive")
