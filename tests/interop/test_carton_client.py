# SPDX-License-Identifier: Apache-2.0
"""The real carton client (PyPI `cartonml-nightly`, a test dependency where it has wheels) reads what we write."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sys
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from ocibridge.formats.carton import CartonFormat
from ocibridge.formats.carton.options import CartonReadOptions, CartonWriteOptions
from ocibridge.formats.zip import ZipWriter, read_directory
from ocibridge.io.content import BytesContent
from ocibridge.model import Model, ModelFile, ModelInfo, Role

from ..formats.build import contents, fill, stored_of
from ..formats.linkserver import Answer, link_server
from . import carton_client

FIXTURES = Path(__file__).parents[1] / "fixtures"
FORMAT = CartonFormat()

# Not an import check: where the client has a wheel, its absence is a failure.
pytestmark = pytest.mark.skipif(
    not (sys.platform == "linux" and platform.machine() == "x86_64" and (3, 11) <= sys.version_info < (3, 14)),
    reason="cartonml-nightly has wheels for Linux x86_64 and Python 3.11 to 3.13 only",
)


def read(path: Path, *, fetch: bool = False) -> Model:
    return FORMAT.read(path, CartonReadOptions(fetch_links=fetch, links_hosts=("127.0.0.1",) if fetch else ()))


@pytest.fixture(scope="module")
def original() -> object:
    found = carton_client.info(FIXTURES / "digits.carton")
    assert found["model_name"] == "digits"
    assert found["self_tests"][0]["inputs"]["image"][:2] == ["float32", [3, 8, 8]]
    return found


@pytest.mark.parametrize("source", ["digits.carton", "digits-stored.carton"])
@pytest.mark.parametrize("method", ["stored", "deflate", "zstd", "folder"])
def test_it_reads_what_we_write(tmp_path: Path, original: object, source: str, method: str) -> None:
    model = read(FIXTURES / source)
    packed = method != "folder"
    dest = tmp_path / ("out.carton" if packed else "out")
    fill(FORMAT.sink(dest, stored_of(model), CartonWriteOptions(zip_method=method if packed else "stored")), model)
    assert carton_client.info(dest) == original


@pytest.mark.parametrize("name", ["new.carton", "new"])
def test_it_loads_a_carton_made_of_a_plain_model(tmp_path: Path, name: str) -> None:
    info = ModelInfo(
        name='di"gits',
        description='Says \\n "7"\n\tfor a 7 \x00\x7f\u2028 é',
        licenses=("MIT",),
        source_url="https://example.com/code",
        doc_url="https://example.com",
    )
    files = (
        ModelFile("model.pt", Role.WEIGHT, BytesContent(b"weights")),
        ModelFile("sub/latest.pt", Role.WEIGHT, BytesContent(b"weights"), symlink="../model.pt"),
    )
    model = Model("hf", files, info=info)
    options = CartonWriteOptions(runner_name="torchscript", framework_version="=1.12.1", runner_compat_version=2)
    fill(FORMAT.sink(tmp_path / name, stored_of(model), options), model)
    found = carton_client.info(tmp_path / name)
    assert found["model_name"] == info.name
    assert found["model_description"] == info.description
    assert (found["license"], found["repository"], found["homepage"]) == ("MIT", info.source_url, info.doc_url)
    assert found["runner"]["runner_name"] == options.runner_name
    assert found["runner"]["required_framework_version"] == options.framework_version
    assert found["runner"]["runner_compat_version"] == options.runner_compat_version
    assert not found["self_tests"]


@pytest.mark.parametrize("method", ["stored", "zstd"])
def test_it_shrinks_what_we_write_and_we_read_that(tmp_path: Path, original: object, method: str) -> None:
    model = read(FIXTURES / "digits.carton")
    weights = contents(model)["model/model.pt"]
    digest = hashlib.sha256(weights).hexdigest()
    dest = tmp_path / "out.carton"
    fill(FORMAT.sink(dest, stored_of(model), CartonWriteOptions(zip_method=method)), model)
    with link_server() as server:
        server.answers[f"/{digest}"] = Answer(weights)
        thin = tmp_path / "thin.carton"
        shutil.move(carton_client.shrink(dest, digest, server.url(f"/{digest}")), thin)
        assert "model/model.pt" not in [member.name for member in read_directory(thin)]
        again = read(thin, fetch=True)
    assert again.identity == model.identity
    assert contents(again) == contents(model)
    back = tmp_path / "back.carton"
    assert fill(FORMAT.sink(back, stored_of(again), CartonWriteOptions()), again) == model.identity
    assert carton_client.info(back) == original


def test_the_shrunken_fixture_comes_back_whole(tmp_path: Path, original: object) -> None:
    model = read(FIXTURES / "digits.carton")
    thin = tmp_path / "thin.carton"
    data = (FIXTURES / "digits-links.carton").read_bytes()
    with link_server() as server:
        weights = contents(model)["model/model.pt"]
        path = f"/{hashlib.sha256(weights).hexdigest()}"
        server.answers[path] = Answer(weights)
        thin.write_bytes(_with_port(data, server.port))
        again = read(thin, fetch=True)
    assert again.identity == model.identity
    assert not any(file.symlink for file in again.files)
    dest = tmp_path / "out.carton"
    fill(FORMAT.sink(dest, stored_of(again), CartonWriteOptions(zip_method="zstd")), again)
    assert carton_client.info(dest) == original


def _with_port(data: bytes, port: int) -> bytes:
    """The fixture with another port in its stored LINKS member, whose CRC-32 is then repaired."""
    start = data.index(b"version = 1")
    old = data[start : data.index(b"PK\x01\x02", start)]
    new = old.replace(b":18999/", f":{port:05}/".encode())
    before, after = (zlib.crc32(text).to_bytes(4, "little") for text in (old, new))
    assert data.count(before) == 2
    return data.replace(old, new).replace(before, after)


@pytest.mark.skipif(not hasattr(os, "SEEK_DATA"), reason="needs sparse files")
def test_it_finds_a_member_behind_four_gigabytes(tmp_path: Path, original: object) -> None:
    """Offsets past 4 GiB: the layout of a carton with a hole where the weights would be."""
    model = read(FIXTURES / "digits.carton")
    data = contents(model)
    dest = tmp_path / "out.carton"
    with ZipWriter(dest) as archive:
        hole = archive.place("big", (1 << 32) + 5)
        archive._write(hole.header_offset, hole.local())
        hole.done = True
        for path in sorted(data):
            archive.append(path, len(data[path]), [data[path]])
        archive.finish()
    assert carton_client.info(dest) == original
    assert contents(read_without_hole(dest)) == data


def read_without_hole(path: Path) -> Model:
    model = read(path)
    assert "'big' is not in MANIFEST" in " ".join(model.warnings)
    return replace(model, files=tuple(file for file in model.files if file.path != "big"))
