# SPDX-License-Identifier: Apache-2.0
"""The mirror benchmark counts requests right, its registries are as far away as it says, and its bars are the bars."""

from __future__ import annotations

import hashlib
import http.server
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.floors import Floor
from benchmarks.measure import Row, Run
from benchmarks.mirror_bars import load, mirror_bars
from benchmarks.mirror_cluster import far_away
from benchmarks.mirror_inputs import (
    artifact,
    heads,
    largest_blob,
    make_artifacts,
    pinned_job,
    regsync_job,
    tags_of,
    whole_job,
)
from benchmarks.mirror_page import mirror_page
from benchmarks.mirror_requests import AccessLog, Traffic, traffic
from benchmarks.mirror_results import CURL, OURS, PINNED, REGSYNC, SKOPEO, Amount, Measured, Mirrored, Names
from benchmarks.server import Server
from ocibridge.mirror.jobs.job import Job

from .registry import RegistryServer

MiB = 1024 * 1024
RUN = Run(wall=1.0, user=0.5, system=0.25, server=0.25, rss=50 * MiB, disk=0, read=7 * MiB)
AMOUNT = Amount(10, 3, 2048 * MiB, 2, 12, 4, 2)
NAMES = Names(AMOUNT)
QUIET, BUSY = Traffic(11, 10, 0), Traffic(40, 40, 20)
DIGEST = "sha256:" + 64 * "a"


def measured(measure: str, tool: str, wall: float, tags: int = 1, traffic: Traffic = QUIET) -> Measured:
    return Measured(
        Row(measure, tool, replace(RUN, wall=wall), wall, wall), tags, traffic, Traffic(10, 10, traffic.moved), 0.0
    )


def found() -> Mirrored:
    rows = [
        measured(NAMES.cold, SKOPEO, 2.0, 10, BUSY),
        measured(NAMES.cold, REGSYNC, 1.2, 10, BUSY),
        measured(NAMES.cold, OURS, 1.0, 10, BUSY),
        measured(NAMES.again, SKOPEO, 2.0, 10),
        measured(NAMES.again, REGSYNC, 0.5, 10),
        measured(NAMES.again, OURS, 1.0, 10),
        replace(measured(NAMES.again, PINNED, 1.0, 10), source=Traffic(0, 0, 0)),
        measured(NAMES.one, OURS, 0.5),
        measured(NAMES.large, CURL, 1.0),
        measured(NAMES.large, OURS, 1.1),
        measured(NAMES.same, OURS, 1.0),
        measured(NAMES.far, NAMES.workers(1), 3.0, 12),
        measured(NAMES.far, NAMES.workers(4), 1.0, 12),
    ]
    return Mirrored(AMOUNT, rows, 0.5, 0.25, Floor(0.5, 0.25, 0.125))


def changed(measure: str, tool: str, change: Callable[[Measured], Measured]) -> Mirrored:
    """The same with another row."""
    rows = [change(each) if (each.row.measure, each.row.tool) == (measure, tool) else each for each in found().rows]
    return replace(found(), rows=rows)


def run_of(each: Measured, **figures: Any) -> Measured:
    return replace(each, row=replace(each.row, run=replace(each.row.run, **figures)))


def held(results: Mirrored) -> dict[tuple[str, str], bool | None]:
    return {(bar.measure, bar.limit): bar.holds for bar in mirror_bars(results, 2)}


def missed_by(results: Mirrored) -> list[str]:
    """The measures of bars that do not hold, or were not measured."""
    return [measure for (measure, _), holds in held(results).items() if not holds]


@pytest.mark.parametrize(
    ("measure", "tool", "change", "missed"),
    [
        (NAMES.cold, SKOPEO, {"wall": 1.99}, NAMES.cold),
        (NAMES.cold, REGSYNC, {"wall": 1.19}, NAMES.cold),
        (NAMES.again, OURS, {"wall": 1.01}, NAMES.again),
        (NAMES.large, OURS, {"wall": 1.11}, f"{NAMES.large}, wall"),
        (NAMES.large, OURS, {"rss": 101 * MiB}, f"{NAMES.large}, peak RSS"),
        (NAMES.large, OURS, {"disk": 2 << 20}, f"{NAMES.large}, peak disk"),
        (NAMES.far, "4 workers", {"wall": 1.01}, "Dask, 4 workers against 1, 20 ms away"),
    ],
)
def test_a_bar_fails_just_beyond_its_limit(measure: str, tool: str, change: dict[str, float], missed: str) -> None:
    assert set(held(found()).values()) == {True}
    assert missed_by(changed(measure, tool, lambda each: run_of(each, **change))) == [missed]


@pytest.mark.parametrize(
    ("measure", "tool", "asked", "missed"),
    [
        (NAMES.again, PINNED, Traffic(1, 1, 0), f"{NAMES.again}, digests pinned, requests"),
        (NAMES.again, OURS, Traffic(12, 11, 0), f"{NAMES.again}, requests at source and target"),
        (NAMES.same, OURS, Traffic(5, 5, 1), NAMES.same),
    ],
)
def test_one_request_too_many_is_a_miss(measure: str, tool: str, asked: Traffic, missed: str) -> None:
    assert missed_by(changed(measure, tool, lambda each: replace(each, source=asked))) == [missed]


def test_cold_is_compared_with_each_of_the_others() -> None:
    slow = held(changed(NAMES.cold, OURS, lambda each: run_of(each, wall=1.01)))
    assert [bar for bar, holds in slow.items() if not holds] == [
        (NAMES.cold, "≥ 1.2 × regsync's rate"),
        (NAMES.cold, "≥ 2 × skopeo sync's rate"),
    ]


def test_without_a_tool_its_bars_are_not_measured() -> None:
    for tool, measures in (
        (SKOPEO, [NAMES.cold]),
        (REGSYNC, [NAMES.cold, NAMES.again]),
        (CURL, [f"{NAMES.large}, wall"]),
    ):
        rest = replace(found(), rows=[each for each in found().rows if each.row.tool != tool])
        assert missed_by(rest) == measures
        assert set(held(rest).values()) == {True, None}


def test_the_page_has_every_row_and_what_stands_behind_a_miss() -> None:
    slow = changed(NAMES.again, OURS, lambda each: run_of(each, wall=1.01))
    text = mirror_page(slow, {"memory": "1 GiB"}, 2, "Once.", ["skopeo"])
    for each in slow.rows:
        assert f"| {each.row.measure} | {each.row.tool} |" in text
    assert "Not installed, and left out: skopeo." in text
    assert "2.02 × (1.01 s to 0.50 s) | **does not hold**" in text
    assert "takes 0.50 s. Processor time within the 1.01 s: client 0.75 s, registries 0.25 s" in text
    assert "All bars that were measured hold." in mirror_page(found(), {}, 2, "Once.", [])


def test_the_load_follows_from_the_figures() -> None:
    each = replace(measured(NAMES.far, "4 workers", 1.0), others=0.5)
    assert "75% of the 2 processors; without a single wait it would take 0.75 s, above the bar of 0.70 s" in load(
        each, 0.7, 2
    )
    assert "cluster and proxy 0.50 s" in load(each, 0.7, 2)
    assert "below the bar of 0.80 s" in load(each, 0.8, 2)


def line(method: str, path: str, status: int) -> str:
    return f'127.0.0.1 - - [22/Nov/2026:00:45:03 +0000] "{method} {path} HTTP/1.1" {status} 2 "" "agent/1"\n'


@pytest.mark.parametrize(
    ("method", "path", "status", "content", "moved"),
    [
        ("GET", "/v2/", 200, 0, 0),
        ("GET", "/v2/a/b/tags/list?n=100", 200, 0, 0),
        ("HEAD", "/v2/a/b/manifests/v1", 200, 1, 0),
        ("PUT", "/v2/a/b/manifests/v1", 201, 1, 0),
        ("HEAD", f"/v2/a/b/blobs/{DIGEST}", 404, 1, 0),
        ("GET", f"/v2/a/b/blobs/{DIGEST}", 404, 1, 0),
        ("GET", f"/v2/a/b/blobs/{DIGEST}", 206, 1, 1),
        ("GET", "/v2/a/b/blobs/uploads/1", 204, 1, 0),
        ("POST", "/v2/a/b/blobs/uploads/", 202, 1, 0),
        ("POST", f"/v2/a/b/blobs/uploads/?from=c&mount={DIGEST}", 201, 1, 0),
        ("POST", f"/v2/a/b/blobs/uploads/?digest={DIGEST}", 201, 1, 1),
        ("PATCH", "/v2/a/b/blobs/uploads/1?_state=x", 202, 1, 1),
        ("PUT", f"/v2/a/b/blobs/uploads/1?digest={DIGEST}", 201, 1, 1),
    ],
)
def test_a_request_is_counted_as_what_it_is(method: str, path: str, status: int, content: int, moved: int) -> None:
    noise = 'time="2026-11-22" level=error msg="unknown" http.request.method=GET http.request.uri=/v2/a/b/manifests/x\n'
    assert traffic(noise + line(method, path, status)) == Traffic(1, content, moved)


def test_a_log_is_read_on_from_where_it_was_read(tmp_path: Path) -> None:
    log = tmp_path / "registry.log"

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            with log.open("a") as file:
                file.write(line(self.command, self.path, 200))

    log.write_text(line("GET", "/v2/", 200))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            reader = AccessLog(Server(f"127.0.0.1:{server.server_port}", tmp_path, None))
            assert traffic(reader.read()).requests == 0
            for _ in range(2):
                with log.open("a") as file:
                    file.write(2 * line("HEAD", "/v2/a/manifests/v1", 200))
                assert traffic(reader.read()) == Traffic(2, 2, 0)
        finally:
            server.shutdown()
            thread.join()


def test_artifacts_share_no_blob_and_are_what_their_manifests_say(registry: RegistryServer) -> None:
    made = make_artifacts(registry.host, "bench/small", 5)
    assert len(made) == 5
    assert tags_of(registry.host, "bench/small") == set(made)
    heads(registry.host, "bench/small", made)
    digests = set()
    for number in range(5):
        blobs, manifest = artifact(number)
        said = json.loads(manifest)
        names = [each["digest"] for each in (said["config"], *said["layers"])]
        assert names == ["sha256:" + hashlib.sha256(blob).hexdigest() for blob in blobs]
        assert made[f"v{number}"] == "sha256:" + hashlib.sha256(manifest).hexdigest()
        digests |= set(names)
    assert len(digests) == 25
    assert largest_blob(registry.host, "bench/small", "v3") in {
        each["digest"] for each in json.loads(artifact(3)[1])["layers"]
    }


def test_the_jobs_ask_for_no_more_than_skopeo_copies(tmp_path: Path) -> None:
    source, target = "127.0.0.1:5000/bench/small", "127.0.0.1:5001/bench/small"
    (whole,) = Job.load(whole_job(tmp_path / "whole.yaml", source, target)).entries
    pinned = Job.load(pinned_job(tmp_path / "pinned.yaml", source, target, {"v1": DIGEST, "v2": DIGEST})).entries
    for entry in (whole, *pinned):
        assert (entry.sync.referrers, entry.sync.digest_tags, entry.sync.fast_check) == (False, False, True)
    assert whole.sync.type == "repository"
    assert [str(entry.source) for entry in pinned] == [f"{source}:{tag}@{DIGEST}" for tag in ("v1", "v2")]
    assert [str(entry.target) for entry in pinned] == [f"{target}:{tag}" for tag in ("v1", "v2")]


def test_regsync_is_told_the_same_as_our_job(tmp_path: Path) -> None:
    source, target = "127.0.0.1:5000/bench/small", "127.0.0.1:5001/bench/small"
    ours = json.loads(whole_job(tmp_path / "whole.yaml", source, target).read_bytes())
    theirs = json.loads(regsync_job(tmp_path / "regsync.yaml", source, target).read_bytes())
    assert theirs.pop("creds") == [{"registry": f"127.0.0.1:{port}", "tls": "disabled"} for port in (5000, 5001)]
    assert theirs["defaults"].pop("parallel") == 16
    assert theirs == ours


@contextmanager
def echo() -> Iterator[str]:
    """A server that sends one connection's bytes back, and ends when they end."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def work() -> None:
            connection, _ = server.accept()
            with connection:
                while data := connection.recv(65536):
                    connection.sendall(data)

        thread = threading.Thread(target=work)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join(60)


def connected(host: str) -> closing[socket.socket]:
    name, _, port = host.rpartition(":")
    return closing(socket.create_connection((name, int(port)), timeout=60))


def test_a_server_far_away_answers_a_round_trip_later() -> None:
    with echo() as host, far_away([host], 200) as proxy, connected(proxy.where[0]) as there:
        for _ in range(2):
            started = time.monotonic()
            there.sendall(b"ping")
            assert there.recv(10) == b"ping"
            assert time.monotonic() - started >= 0.2
        there.shutdown(socket.SHUT_WR)
        assert there.recv(10) == b""


def test_what_is_far_away_is_not_slow_for_that() -> None:
    """In pieces one after the other, each waited for, this would take minutes."""
    data = hashlib.shake_256(b"weight").digest(16 * MiB)
    with echo() as host, far_away([host], 1000) as proxy, connected(proxy.where[0]) as there:

        def send() -> None:
            there.sendall(data)
            there.shutdown(socket.SHUT_WR)

        sender = threading.Thread(target=send)
        started = time.monotonic()
        sender.start()
        got = bytearray()
        while piece := there.recv(MiB):
            got += piece
        sender.join()
        assert got == data
        assert time.monotonic() - started < 30


def test_a_server_that_is_not_there_ends_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        host = f"127.0.0.1:{gone.getsockname()[1]}"
    with far_away([host], 20) as proxy, connected(proxy.where[0]) as there:
        assert there.recv(10) == b""
