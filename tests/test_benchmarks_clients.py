# SPDX-License-Identifier: Apache-2.0
"""Each HTTP client sends as many requests as it is said to, over one connection, and its row says what it used."""

from __future__ import annotations

import hashlib
import http.server
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.clients import CLIENTS, HTTP_CLIENT, HTTPX, MANIFEST, OURS, URLLIB3, costs
from benchmarks.clients_page import Amount, Cost, clients_page, cost_of, measure
from benchmarks.mirror_inputs import artifact
from benchmarks.place import Place
from benchmarks.server import Server

from .registry import RegistryServer


@contextmanager
def counting(answers: Iterator[bytes] | None = None) -> Iterator[tuple[str, Counter[int]]]:
    """A server with one manifest, and how many GETs of it came over each connection, which is told by its port."""
    seen: Counter[int] = Counter()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            data = next(answers) if answers else artifact(0)[1]
            seen[self.client_address[1]] += 1
            self.send_response(200)
            self.send_header("Content-Type", MANIFEST)
            self.send_header("Docker-Content-Digest", "sha256:" + hashlib.sha256(data).hexdigest())
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}", seen
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_sends_one_request_at_a_time_over_one_connection(name: str) -> None:
    with counting() as (host, seen), CLIENTS[name](host, "bench/request", "v0") as fetch:
        assert {fetch() for _ in range(10)} == {artifact(0)[1]}
    assert list(seen.values()) == [10]


def test_clients_that_get_different_answers_are_not_compared() -> None:
    with (
        counting(iter([b"{}", b"{ }", b"{  }", artifact(0)[1]])) as (host, _),
        pytest.raises(SystemExit, match="different answers"),
    ):
        costs(host, "bench/request", "v0", 1, 1)


def test_every_client_is_measured_against_the_real_registry(registry: RegistryServer, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    server = Server(registry.host, tmp_path, None)
    found = measure(Place(tmp_path / "work", server, server, fsync_all=False), Amount(200, 2))
    assert list(found) == [HTTP_CLIENT, URLLIB3, HTTPX, OURS]
    for cost in found.values():
        assert 0 < cost.cpu <= 10 * cost.wall


def test_a_row_has_medians() -> None:
    rounds = [{"user": user, "system": 1.0, "wall": 5.0} for user in (3.0, 1.0, 2.0)]
    assert cost_of(rounds) == Cost(2.0, 1.0, 5.0)
    assert cost_of(rounds).cpu == 3.0


def test_the_page_says_how_many_requests_a_processor_can_send() -> None:
    found = {HTTP_CLIENT: Cost(0.1, 0.1, 1.0), URLLIB3: Cost(0.2, 0.1, 1.1), HTTPX: Cost(0.3, 0.1, 1.2)}
    text = clients_page({**found, OURS: Cost(0.4, 0.1, 1.3)}, {"memory": "1 GiB"}, "Once.")
    assert "| memory | 1 GiB |" in text
    assert f"| {OURS} | 0.500 | 0.400 | 0.100 | 2.50 | 1.300 |" in text
    assert "more than 2000 of them a second" in text
    assert "with httpx alone it would be 2500, with http.client 5000" in text
    assert "0.50 s of processor time, 0.10 s more than with httpx alone" in text
