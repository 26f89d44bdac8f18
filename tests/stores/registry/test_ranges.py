# SPDX-License-Identifier: Apache-2.0
"""Large blobs over several connections, and over one."""

from __future__ import annotations

import hashlib
import threading
import time

import pytest

from ocibridge.errors import IntegrityError, NetworkError
from ocibridge.io.readers import chunks
from ocibridge.oci import Descriptor
from ocibridge.settings import MiB
from ocibridge.stores.registry import RegistryStore, download
from ocibridge.stores.registry.host import READ_AHEAD

from .fault_server import FaultServer, Reply, Seen

DATA = hashlib.shake_128(b"large").digest(MiB) * 5 + b"the end"
BLOB = Descriptor.of(DATA, "application/octet-stream")
PATH = f"/v2/r/blobs/{BLOB.digest}"


def span(seen: Seen) -> tuple[int, int]:
    """First byte asked for, and the one after the last."""
    first, _, last = seen.headers.get("range", "bytes=0-").removeprefix("bytes=").partition("-")
    return int(first), int(last) + 1 if last else len(DATA)


def serve(seen: Seen) -> Reply:
    start, end = span(seen)
    if "range" not in seen.headers:
        return Reply(200, DATA)
    return Reply(206, DATA[start:end], {"Content-Range": f"bytes {start}-{end - 1}/{len(DATA)}"})


@pytest.fixture
def far(store: RegistryStore, monkeypatch: pytest.MonkeyPatch) -> RegistryStore:
    """A store on a far host, whose ranges are small."""
    monkeypatch.setattr(download, "RANGE", MiB // 2)
    monkeypatch.setattr(download, "_LEAST", MiB)
    monkeypatch.setattr(download, "_HEAD", 1000)
    monkeypatch.setattr(download, "FAR", 0.0)
    return store


def permits_are_free(store: RegistryStore) -> bool:
    taken = [store.host.read_ahead.acquire(blocking=False) for _ in range(READ_AHEAD)]
    for one in taken:
        if one:
            store.host.read_ahead.release()
    return all(taken)


def read(store: RegistryStore, offset: int = 0) -> bytes:
    with store.resume_blob(BLOB, offset) as reader:
        return b"".join(bytes(chunk) for chunk in chunks(reader, 100_000))


def test_ranges_come_at_the_same_time_and_in_their_order(server: FaultServer, far: RegistryStore) -> None:
    together = threading.Barrier(READ_AHEAD)

    def wait_for_others(seen: Seen) -> Reply:
        start, _ = span(seen)
        # Those after the first have to be asked for before one of them is answered.
        if 0 < start <= READ_AHEAD * download.RANGE:
            together.wait(timeout=20)
        return serve(seen)

    server.on("GET", PATH, wait_for_others)
    assert read(far) == DATA
    assert sorted(span(seen) for seen in server.requests("GET")) == [
        (start, min(len(DATA), start + MiB // 2)) for start in range(0, len(DATA), MiB // 2)
    ]
    assert permits_are_free(far)


def test_from_an_offset_and_verified(server: FaultServer, far: RegistryStore) -> None:
    server.on("GET", PATH, serve)
    assert read(far, 700_000) == DATA[700_000:]
    assert far.read_blob(BLOB, len(DATA)) == DATA


def test_a_host_without_ranges_is_read_as_one_stream(server: FaultServer, far: RegistryStore) -> None:
    server.on("GET", PATH, Reply(200, DATA))
    assert read(far) == DATA
    assert len(server.requests("GET")) == 1


def test_when_all_permits_are_taken_it_goes_on_alone(server: FaultServer, far: RegistryStore) -> None:
    server.on("GET", PATH, serve)
    for _ in range(READ_AHEAD):
        far.host.read_ahead.acquire()
    assert read(far) == DATA
    assert len(server.requests("GET")) == len(DATA) // (MiB // 2) + 1


def test_broken_ranges_are_taken_up(server: FaultServer, far: RegistryStore) -> None:
    broken: set[int] = set()

    def cut_once(seen: Seen) -> Reply:
        reply = serve(seen)
        start, _ = span(seen)
        if start in broken or start % download.RANGE:
            return reply
        broken.add(start)
        return Reply(reply.status, reply.body, reply.headers, cut=50_000)

    server.on("GET", PATH, cut_once)
    assert read(far) == DATA
    assert len(broken) == 11


def test_a_failure_ends_everything(server: FaultServer, far: RegistryStore) -> None:
    def other_range(seen: Seen) -> Reply:
        return Reply(206, DATA[:10], {"Content-Range": "bytes 0-9/10"}) if span(seen)[0] > MiB else serve(seen)

    server.on("GET", PATH, other_range)
    with pytest.raises(IntegrityError, match="another range"):
        read(far)
    assert permits_are_free(far)
    assert not [each for each in threading.enumerate() if each.name.startswith("ocibridge-range")]


def test_closing_early_wakes_those_who_wait(server: FaultServer, far: RegistryStore) -> None:
    go_on = threading.Event()

    def stall(seen: Seen) -> Reply:
        if span(seen)[0]:
            go_on.wait(timeout=60)
        return serve(seen)

    server.on("GET", PATH, stall)
    try:
        with far.resume_blob(BLOB, 0) as reader:
            assert reader.read(2000) == DATA[:2000]
            closed = threading.Thread(target=reader.close)
            closed.start()
            closed.join(timeout=20)
            assert not closed.is_alive()
    finally:
        go_on.set()
    assert permits_are_free(far)


def test_whoever_looks_at_the_head_reads_nothing_ahead(server: FaultServer, far: RegistryStore) -> None:
    server.on("GET", PATH, serve)
    with far.resume_blob(BLOB, 0) as reader:
        assert reader.read(500) == DATA[:500]
    assert len(server.requests("GET")) == 1


def test_near_hosts_are_read_over_one_connection(server: FaultServer, store: RegistryStore) -> None:
    server.on("GET", PATH, serve)
    assert read(store) == DATA
    assert [seen.headers.get("range") for seen in server.requests("GET")] == [None]


@pytest.mark.parametrize("cut", [10, 3 * MiB, len(DATA) - 1])
def test_one_connection_breaks_too(server: FaultServer, store: RegistryStore, cut: int) -> None:
    server.on("GET", PATH, Reply(200, DATA, cut=cut), serve)
    assert read(store) == DATA
    assert len(server.requests("GET")) == 2


def test_interrupt_wakes_a_reader(server: FaultServer, store: RegistryStore) -> None:
    go_on = threading.Event()
    failed: list[BaseException] = []

    def wait_for_more() -> None:
        try:
            read(store)
        except NetworkError as exc:
            failed.append(exc)

    def stall(seen: Seen) -> Reply:
        go_on.wait(timeout=60)
        return serve(seen)

    server.on("GET", PATH, stall)
    reader = threading.Thread(target=wait_for_more)
    reader.start()
    try:
        while not server.requests("GET"):
            time.sleep(0.01)
        store.interrupt()
        reader.join(timeout=20)
        assert not reader.is_alive()
        assert failed
    finally:
        go_on.set()
        reader.join()
