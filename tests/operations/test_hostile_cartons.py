# SPDX-License-Identifier: Apache-2.0
"""Every refusal of a carton, as a user meets it: one sentence, exit status 1, no tag, no file, no traceback."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from ocibridge.cli.main import main
from ocibridge.errors import NotFound
from ocibridge.oci import RegistryReference
from ocibridge.settings import MiB
from ocibridge.stores.registry import RegistryOptions, RegistryStore

from ..formats.build import REGULAR, SYMLINK, Raw, carton, manifest_of, raw_zip, whole
from ..registry import RegistryServer

WEIGHT = b"weight" * 500
FILES = {"model/model.pt": WEIGHT}
LINKED = b'version = 1\n[urls]\n%s = ["https://models.example.com/model.pt"]\n'


def with_links(path: Path) -> Path:
    import hashlib

    links = LINKED % hashlib.sha256(WEIGHT).hexdigest().encode()
    return carton(path, FILES, without=["model/model.pt"], extra=[Raw(b"LINKS", links)])


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def spoiled(path: Path, spoil: Callable[[bytes], bytes]) -> Path:
    return written(path, spoil(carton(path, FILES).read_bytes()))


def extra(*members: Raw) -> Callable[[Path], Path]:
    return lambda path: carton(path, FILES, extra=members)


def symlink(target: bytes) -> Callable[[Path], Path]:
    return extra(Raw(b"model/link", target, attr=SYMLINK))


CASES: dict[str, tuple[Callable[[Path], Path], str]] = {
    "traversal": (extra(Raw(b"../evil", b"1")), "leaves the folder"),
    "absolute": (extra(Raw(b"/etc/evil", b"1")), "absolute"),
    "backslash": (extra(Raw(b"model\\evil", b"1")), "backslash"),
    "NUL": (extra(Raw(b"model/a\0b", b"1")), "NUL"),
    "duplicate": (extra(Raw(b"model/x"), Raw(b"model/x")), "twice"),
    "case-fold": (extra(Raw(b"model/MODEL.PT")), "collides"),
    "file and folder": (extra(Raw(b"model/model.pt/x")), "both a file and a folder"),
    "encrypted": (extra(Raw(b"model/x", b"1", flags=1)), "encrypted"),
    "bad CRC": (extra(Raw(b"model/x", b"1234", crc=1)), "CRC"),
    "wrong hash": (
        lambda path: carton(path, FILES, manifest=manifest_of(whole({"model/model.pt": b"other"}))),
        "its format promises",
    ),
    "row without file": (
        lambda path: carton(path, FILES, without=["model/model.pt"]),
        "neither such a file nor a link",
    ),
    "only linked": (with_links, "--fetch-links"),
    "malformed MANIFEST": (lambda path: carton(path, FILES, manifest=b"no row\n"), "line 1"),
    "escaping symlink": (symlink(b"../../etc/passwd"), "leads out"),
    "absolute symlink": (symlink(b"/etc/passwd"), "absolute"),
    "looping symlink": (symlink(b"link"), "circle"),
    "prefix": (lambda path: spoiled(path, lambda data: b"#!/bin/sh\n" + data), "data before"),
    "truncated": (lambda path: spoiled(path, lambda data: data[: len(data) // 2]), "cut short"),
    "expands past its size": (
        extra(Raw(b"model/x", bytes(1000), 8, size=10, crc=zlib.crc32(bytes(10)))),
        "declared size",
    ),
    "zstd past its size": (
        extra(Raw(b"model/x", bytes(1000), 93, size=10, crc=zlib.crc32(bytes(10)))),
        "declared size",
    ),
    "bzip2": (extra(Raw(b"model/x", b"1", method=12)), "bzip2"),
    "lzma": (extra(Raw(b"model/x", b"1", method=14)), "lzma|LZMA"),
    "over-sized MANIFEST": (
        lambda path: carton(path, FILES, manifest=b"#" * (16 * MiB + 1)),
        "more than the 16777216",
    ),
    "over-sized carton.toml": (lambda path: carton(path, {**FILES, "carton.toml": b"#" * (16 * MiB + 1)}), "more than"),
    "no MANIFEST": (lambda path: written(path, raw_zip([Raw(b"x", b"", attr=REGULAR)])), "no MANIFEST"),
    "empty file": (lambda path: written(path, b""), "zip"),
}


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(list(argv)) == 1
    out, err = capsys.readouterr()
    errors = [line for line in err.splitlines() if not line.startswith("ocibridge: warning: ")]
    assert out == ""
    assert len(errors) == 1
    assert errors[0].startswith("ocibridge: error: ")
    return errors[0]


@pytest.mark.parametrize("layers", ["tar", "raw-files"])
@pytest.mark.parametrize("case", CASES)
def test_refused(
    case: str,
    layers: str,
    tmp_path: Path,
    registry: RegistryServer,
    repository: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import re

    make, word = CASES[case]
    source = make(tmp_path / "bad.carton")
    # As a raw layer under its promised digest, a file of another hash is found by the registry, not read twice here.
    if case == "wrong hash" and layers == "raw-files":
        word = "does not have the bytes that were announced"
    reference = f"{registry.host}/{repository}:v1"
    assert re.search(word, refused(capsys, "push", str(source), reference, "--layers", layers))
    with RegistryStore(RegistryReference(registry.host, repository), RegistryOptions()) as store:
        try:
            assert store.tags() == []
        except NotFound:
            pass
    for target in (f"oci:{tmp_path / 'layout'}:v1", f"oci-archive:{tmp_path / 'layout.tar'}:v1"):
        refused(capsys, "push", str(source), target, "--layers", layers)
    refused(capsys, "pull", f"oci:{tmp_path / 'layout'}:v1", str(tmp_path / "back.carton"))
    if case != "only linked":  # which verify counts, and does not need
        refused(capsys, "verify", str(source))
    assert not (tmp_path / "layout.tar").exists()
    left = {path.name for path in tmp_path.iterdir()} - {"bad.carton", "layout"}
    assert {name for name in left if not name.endswith(".lock")} == set()
    index = tmp_path / "layout" / "index.json"
    assert not index.exists() or b"ref.name" not in index.read_bytes()
