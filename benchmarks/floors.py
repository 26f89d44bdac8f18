# SPDX-License-Identifier: Apache-2.0
"""What single steps of a transfer cost when nothing else is done: in this process, on the bytes of the model."""

from __future__ import annotations

import hashlib
import http.client
import os
import socket
import ssl
import statistics
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from ocibridge.settings import KiB, MiB

from .inputs import Blob
from .place import Place, note
from .server import Server
from .tools import AUTHORITIES

READ, HASH, CRC, SEND = "read the source from the page cache", "sha256", "CRC-32", "send to a process that discards"
PUT, COMMIT = "PUT to the registry: until it has taken the body", "PUT to the registry: from there to its answer"
GET, WRITE, SYNC = "receive from the registry", "write to the page cache", "fsync of what was written"
PLAIN_PUT = "the registry's PUT over a plain socket"
GET_TLS = "receive from the registry over TLS, by http.client"
READ_FILES, CREATE_FILES = "open, read and close each small file", "create, write and close each small file"

SEND_SIZE = 256 * KiB
_DISCARD = """
import socket
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    connection, _ = server.accept()
buffer = bytearray(1 << 20)
while connection.recv_into(buffer):
    pass
connection.sendall(b"x")
"""


@dataclass(frozen=True)
class Floor:
    """Medians of one step.

    Attributes:
        wall: Seconds.
        cpu: Processor seconds of this process.
        server: Processor seconds of the registry.
    """

    wall: float
    cpu: float
    server: float

    def times(self, factor: float) -> Floor:
        """The same step on `factor` times the bytes."""
        return Floor(self.wall * factor, self.cpu * factor, self.server * factor)


class Stopwatch:
    """Collects the runs of the steps.

    Args:
        size: Bytes that each step handles.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._runs: dict[str, list[Floor]] = {}

    @contextmanager
    def step(self, name: str, server: Server | None = None) -> Iterator[None]:
        """Time the block as one run of a step."""
        used = server.cpu() if server else 0.0
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        self._runs.setdefault(name, []).append(Floor(wall, cpu, server.cpu() - used if server else 0.0))
        note(f"{name}: {wall:.2f} s")

    def per_gib(self) -> dict[str, Floor]:
        """Medians, in seconds per GiB."""
        return {name: median(runs).times(1024 * MiB / self._size) for name, runs in self._runs.items()}

    def whole(self) -> dict[str, Floor]:
        """Medians, in seconds for all of it."""
        return {name: median(runs) for name, runs in self._runs.items()}


def median(runs: list[Floor]) -> Floor:
    """The medians of each figure."""
    columns = zip(*((each.wall, each.cpu, each.server) for each in runs), strict=True)
    return Floor(*(statistics.median(column) for column in columns))


def weight_floors(place: Place, blob: Blob, repository: str, rounds: int) -> dict[str, Floor]:
    """The steps of moving one weight, in seconds per GiB.

    Args:
        place: Where the benchmark works.
        blob: The weight.
        repository: Repository of `place.pulls` that has it.
        rounds: Runs of each step.
    """
    size = blob.path.stat().st_size
    watch = Stopwatch(size)
    url = f"/v2/{repository}/blobs/{blob.digest}"
    for _ in range(rounds):
        place.clear()
        _in_memory(watch, blob.path, size)
        _send(watch, size)
        _put(watch, place.pushes, blob, size)
        place.clear()
        with watch.step(GET, place.pulls):
            _get(place.pulls.host, url, size)
        _write(watch, place.out / "written", size)
    place.clear()
    return watch.per_gib()


def tls_floors(place: Place, blob: Blob, repository: str, rounds: int) -> dict[str, Floor]:
    """The steps of pulling one weight over TLS, in seconds per GiB; see `weight_floors` for the arguments."""
    size = blob.path.stat().st_size
    watch = Stopwatch(size)
    for _ in range(rounds):
        place.clear()
        with watch.step(GET_TLS, place.pulls):
            _get(place.pulls.host, f"/v2/{repository}/blobs/{blob.digest}", size, place.trust)
        _hash(watch, size)
        _write(watch, place.out / "written", size)
    place.clear()
    return watch.per_gib()


def file_floors(place: Place, source: Path, rounds: int) -> dict[str, Floor]:
    """The steps of moving small files, in seconds for all of them.

    Args:
        place: Where the benchmark works.
        source: Folder with files in folders.
        rounds: Runs of each step.
    """
    paths = sorted(source.glob("*/*"))
    size = paths[0].stat().st_size
    watch = Stopwatch(size * len(paths))
    for _ in range(rounds):
        place.clear()
        with watch.step(READ_FILES):
            for path in paths:
                path.read_bytes()
        data = bytes(size)
        for folder in source.iterdir():
            (place.out / folder.name).mkdir()
        with watch.step(CREATE_FILES):
            for path in paths:
                (place.out / path.parent.name / path.name).write_bytes(data)
    place.clear()
    return watch.whole()


def _in_memory(watch: Stopwatch, path: Path, size: int) -> None:
    buffer = memoryview(bytearray(MiB))
    with watch.step(READ), path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    _hash(watch, size)
    with watch.step(CRC):
        _repeat(size, buffer, zlib.crc32)


def _hash(watch: Stopwatch, size: int) -> None:
    digest = hashlib.sha256()
    with watch.step(HASH):
        _repeat(size, memoryview(bytearray(MiB)), digest.update)


def _repeat(size: int, buffer: memoryview, work: Callable[[memoryview], object]) -> None:
    """Give `size` bytes to `work`, a buffer at a time."""
    while size:
        piece = buffer[: min(size, len(buffer))]
        work(piece)
        size -= len(piece)


def _send(watch: Stopwatch, size: int) -> None:
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", _DISCARD], stdout=subprocess.PIPE, text=True) as receiver:
        assert receiver.stdout is not None
        address = ("127.0.0.1", int(receiver.stdout.readline()))
        with socket.create_connection(address) as connection, watch.step(SEND):
            _repeat(size, memoryview(bytearray(SEND_SIZE)), connection.sendall)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1)


def _put(watch: Stopwatch, server: Server, blob: Blob, size: int) -> None:
    connection = http.client.HTTPConnection(server.host)
    connection.request("POST", "/v2/bench/floor/blobs/uploads/")
    with connection.getresponse() as response:
        location = urlsplit(response.headers["Location"])
    buffer = memoryview(bytearray(SEND_SIZE))
    with blob.path.open("rb", buffering=0) as file:
        with watch.step(PUT, server):
            connection.putrequest("PUT", f"{location.path}?{location.query}&digest={blob.digest}")
            connection.putheader("Content-Type", "application/octet-stream")
            connection.putheader("Content-Length", str(size))
            connection.endheaders()
            while count := file.readinto(buffer):
                connection.send(buffer[:count])
        with watch.step(COMMIT, server), connection.getresponse() as response:
            assert response.status == 201, response.status
    connection.close()


def _get(host: str, url: str, size: int, trust: Path | None = None) -> None:
    buffer = memoryview(bytearray(MiB))
    connection = _connection(host, trust)
    connection.request("GET", url)
    with connection.getresponse() as response:
        total = 0
        while count := response.readinto(buffer):
            total += count
    connection.close()
    assert total == size, total


def _connection(host: str, trust: Path | None) -> http.client.HTTPConnection:
    if trust is None:
        return http.client.HTTPConnection(host)
    return http.client.HTTPSConnection(host, context=ssl.create_default_context(cafile=trust / AUTHORITIES))


def _write(watch: Stopwatch, path: Path, size: int) -> None:
    buffer = memoryview(bytearray(MiB))
    with path.open("wb", buffering=0) as file:
        with watch.step(WRITE):
            _repeat(size, buffer, file.write)
        with watch.step(SYNC):
            os.fsync(file.fileno())
