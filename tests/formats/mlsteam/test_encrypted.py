# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ocibridge
from ocibridge.errors import FormatError, IntegrityError, OcibridgeError
from ocibridge.formats.mlsteam.encrypted import is_encrypted
from ocibridge.io.content import BytesContent
from ocibridge.model import ModelFile, Role

from ..build import contents, fill
from .archives import FIXTURES, FORMAT, archive, back, cell, read, sink

PACKAGE = FIXTURES / "digits-encrypted.mlarchive"
KEY = FIXTURES / "digits-encrypted.enckey"

_opened: list[str] | None = None


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _opened is not None:
        _opened.append(str(arguments[0]))


@pytest.fixture
def opened() -> Iterator[list[str]]:
    """Every path that this process opens meanwhile."""
    global _opened
    if not hasattr(sys, "_watched_by_test_encrypted"):
        sys.addaudithook(_watch)
        sys._watched_by_test_encrypted = True  # type: ignore[attr-defined]
    _opened = []
    yield _opened
    _opened = None


def test_the_fixture_is_one_opaque_file() -> None:
    model = read(PACKAGE)
    (file,) = model.files
    assert (file.path, file.role) == (PACKAGE.name, Role.WEIGHT)
    assert file.origin == model.origin == {"mlarchive.encrypted": "true"}
    assert model.identity == f"mlarchive:{file.sha256}"
    assert contents(model)[file.path] == PACKAGE.read_bytes()


def test_its_name_gets_the_suffix(tmp_path: Path) -> None:
    shutil.copy(PACKAGE, tmp_path / "model.enc")
    assert FORMAT.matches(tmp_path / "model.enc")
    assert read(tmp_path / "model.enc").files[0].path == "model.enc.mlarchive"


def test_a_key_is_never_opened(tmp_path: Path, opened: list[str]) -> None:
    shutil.copy(PACKAGE, tmp_path)
    key = tmp_path / "digits-encrypted.enckey"
    key.touch()
    opened.clear()
    assert FORMAT.matches(key)
    with pytest.raises(
        FormatError, match="is the key of an encrypted MLSteam package; keys are never read or uploaded"
    ):
        read(key)
    model = read(tmp_path / PACKAGE.name)
    back(model, tmp_path / "back.mlarchive")
    assert opened, "the audit hook does not work"
    assert [path for path in opened if "enckey" in path] == []


def test_a_genuine_key_is_refused_whatever_its_case(tmp_path: Path) -> None:
    shutil.copy(KEY, tmp_path / "K.EncKey")
    for path in (KEY, tmp_path / "K.EncKey"):
        with pytest.raises(FormatError, match="keys are never read"):
            read(path)
    with pytest.raises(FormatError, match="is a key file, which must never be uploaded"):
        read(archive(tmp_path / "x.mlarchive", {"models/k.EncKey": KEY.read_bytes()}))
    with pytest.raises(OcibridgeError):
        ocibridge.push(KEY, f"oci:{tmp_path / 'layout'}:v1")


@pytest.mark.parametrize(
    "data",
    [
        cell(b"x"),
        cell(b"x" * 100) + cell(b"y"),
        cell(b"x", algorithm=b"\x00\x01\x01\x41", extra=22),
    ],
    ids=["key", "two cells", "passphrase"],
)
def test_what_an_encrypted_package_is(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(data)
    assert is_encrypted(path)
    assert contents(read(path)) == {"x.mlarchive": data}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        cell(b"x")[:23],
        cell(b"x", extra=1),
        cell(b"x", algorithm=b"\x00\x01\x01\x41"),
        cell(b"x", algorithm=b"\x00\x01\x01\x42"),
        bytes(100),
    ],
)
def test_what_none_is(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.mlarchive"
    path.write_bytes(data)
    assert not is_encrypted(path)
    with pytest.raises(FormatError, match="no complete zip"):
        read(path)


@pytest.mark.parametrize("data", [cell(b"xx")[:-1], cell(b"x") + b"y", cell(b"x") + cell(b"y")[:30]])
def test_a_damaged_package_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.mlarchive"
    path.write_bytes(data)
    with pytest.raises(FormatError, match="damaged encrypted MLSteam package: at byte"):
        read(path)


def test_restoring(tmp_path: Path) -> None:
    model = read(PACKAGE)
    assert back(model, tmp_path / "back.mlarchive") == "exact"
    assert (tmp_path / "back.mlarchive").read_bytes() == PACKAGE.read_bytes()
    assert back(model, tmp_path / "folder") is None
    assert (tmp_path / "folder" / PACKAGE.name).read_bytes() == PACKAGE.read_bytes()


def test_another_package_is_refused(tmp_path: Path) -> None:
    model = read(PACKAGE)
    (file,) = model.files
    other = file._replace(content=BytesContent(b"other"), sha256=None)
    for files in ((other,), (file, other._replace(path="b.mlarchive")), ()):
        for name in ("back.mlarchive", "folder"):
            changed: tuple[ModelFile, ...] = files
            with pytest.raises(OcibridgeError):
                fill(sink(tmp_path / name, model), replace(model, files=changed))
    assert list(tmp_path.iterdir()) == []


def test_verify(tmp_path: Path) -> None:
    model = read(PACKAGE)
    from ..build import stored_of

    assert fill(FORMAT.checker(stored_of(model)), model) == model.identity
    with pytest.raises(IntegrityError):
        fill(FORMAT.checker(replace(stored_of(model), identity="mlarchive:" + "0" * 64)), model)
