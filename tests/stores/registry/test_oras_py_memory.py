# SPDX-License-Identifier: Apache-2.0
"""A large blob goes both ways through the entry points of oras-py, in little memory, and verified."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import httpx
import pytest

from ocibridge.errors import IntegrityError
from ocibridge.settings import MiB
from ocibridge.stores.registry import RegistryClient, RegistryOptions

from ...registry import RegistryServer, registry_server

SIZE = 2048 * MiB
CHUNKED = 512 * MiB
MOST = 100 * MiB
ROOM = 3 * SIZE + CHUNKED
MARK = 16
"""Bytes at the start of each MiB that are not zero, so that no two are alike; the rest takes no place on the disk."""

MOVE = """
import json, sys
from ocibridge.stores.registry import RegistryClient

host, method, blob, copy, layer = sys.argv[1:4] + [sys.argv[4], json.loads(sys.argv[5])]
client = RegistryClient(hostname=host, insecure=True)
container = client.get_container(f"{host}/large/{method}".replace("_", "-"))
assert not client.blob_exists(layer, container)
assert getattr(client, method)(blob, container, layer).status_code == 201
assert client.blob_exists(layer, container)
assert client.download_blob(container, layer["digest"], copy) == copy
print(*(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """In memory, where there is enough of it."""
    shared = Path("/dev/shm")
    if not (shared.is_dir() and shutil.disk_usage(shared).free > 2 * ROOM and _available() > 2 * ROOM):
        yield tmp_path_factory.mktemp("large")
        return
    with tempfile.TemporaryDirectory(dir=shared) as name:
        yield Path(name)


def _available() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))


@pytest.fixture
def server(folder: Path) -> Iterator[RegistryServer]:
    with tempfile.TemporaryDirectory(dir=folder) as name, registry_server(Path(name)) as running:
        yield running


def mark(number: int) -> bytes:
    return hashlib.sha256(b"%d" % number).digest()[:MARK]


@contextmanager
def blob(folder: Path, size: int) -> Iterator[tuple[Path, dict[str, object]]]:
    """A file, and the layer that describes it."""
    path, digest, rest = folder / "blob", hashlib.sha256(), bytes(MiB - MARK)
    with open(path, "wb") as file:
        for number in range(size // MiB):
            file.seek(number * MiB)
            file.write(mark(number))
            digest.update(mark(number) + rest)
        file.truncate(size)
    try:
        yield path, {"mediaType": "application/octet-stream", "size": size, "digest": f"sha256:{digest.hexdigest()}"}
    finally:
        path.unlink()


@pytest.mark.parametrize(("method", "size"), [("upload_blob", SIZE), ("chunked_upload", CHUNKED)])
def test_large_blobs_take_little_memory(folder: Path, server: RegistryServer, method: str, size: int) -> None:
    copy = folder / "copy" / "blob"
    with blob(folder, size) as (path, layer):
        command = [sys.executable, "-c", MOVE, server.host, method, str(path), str(copy), json.dumps(layer)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) * 1024 < MOST
    # The client has compared the digest of what it wrote; here is whether it did write it.
    assert copy.stat().st_size == size
    with open(copy, "rb") as file:
        for number in range(size // MiB):
            file.seek(number * MiB)
            assert file.read(MARK) == mark(number)
    assert list(copy.parent.iterdir()) == [copy]
    copy.unlink()


class _Altered(httpx.BaseTransport):
    """Changes one byte of a blob on its way."""

    def __init__(self, digest: str, place: int) -> None:
        self._inner = httpx.HTTPTransport()
        self._digest = digest
        self._place = place

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = self._inner.handle_request(request)
        if request.method == "GET" and request.url.path.endswith(self._digest):
            first = request.headers.get("range", "bytes=0-").removeprefix("bytes=").partition("-")[0]
            response.stream = _AlteredBody(response.stream, self._place - int(first))
        return response

    def close(self) -> None:
        self._inner.close()


class _AlteredBody(httpx.SyncByteStream):
    def __init__(self, inner: object, place: int) -> None:
        assert isinstance(inner, httpx.SyncByteStream)
        self._inner = inner
        self._place = place

    def __iter__(self) -> Iterator[bytes]:
        position = 0
        for piece in self._inner:
            at = self._place - position
            position += len(piece)
            yield piece[:at] + bytes([piece[at] ^ 1]) + piece[at + 1 :] if 0 <= at < len(piece) else piece

    def close(self) -> None:
        self._inner.close()


@pytest.mark.parametrize("place", [0, 32 * MiB - 1, 64 * MiB - 1])
def test_one_wrong_bit_is_refused_and_leaves_no_file(folder: Path, registry: RegistryServer, place: int) -> None:
    size, copy = 64 * MiB, folder / f"refused-{place}" / "blob"
    with ExitStack() as stack:
        path, layer = stack.enter_context(blob(folder, size))
        options = RegistryOptions(plain_http=True, transport=_Altered(str(layer["digest"]), place))
        client = stack.enter_context(closing(RegistryClient(registry.host, options=options)))
        assert client.upload_blob(str(path), "large/refused", layer).ok
        with pytest.raises(IntegrityError):
            client.download_blob("large/refused", str(layer["digest"]), str(copy))
        assert list(copy.parent.iterdir()) == []
        response = client.get_blob("large/refused", str(layer["digest"]), stream=True)
        with response, pytest.raises(IntegrityError):
            for _ in response.iter_content(MiB):
                pass


def test_a_file_that_is_not_what_its_layer_says_is_not_taken(
    folder: Path, registry: RegistryServer, repository: str
) -> None:
    size = 64 * MiB
    with blob(folder, size) as (path, layer), closing(RegistryClient(registry.host, insecure=True)) as client:
        with open(path, "r+b") as file:
            file.seek(size - 1)
            file.write(b"x")
        for method in ("upload_blob", "put_upload", "chunked_upload"):
            with pytest.raises(IntegrityError):
                getattr(client, method)(str(path), repository, layer)
        assert not client.blob_exists(layer, repository)
