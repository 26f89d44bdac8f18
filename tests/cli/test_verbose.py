# SPDX-License-Identifier: Apache-2.0
"""`--verbose` and `--debug`: a line for each request, and no secret in any."""

from __future__ import annotations

import hashlib
import io
import json
import logging
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from rich.console import Console

from ocibridge.cli.bars import Bars
from ocibridge.cli.notes import noting, shown_by
from ocibridge.transfer import Task

from ..registry import PASSWORD, USER, RegistryServer
from .conftest import Run

LINE = re.compile(
    r"(?:[0-9T:-]+Z )?ocibridge: (GET|HEAD|POST|PUT|PATCH) https?://\S+ (\d{3}|failed \(\w+\)).*, \d+\.\d\d s"
)


def requests(err: str) -> list[str]:
    return [line for line in err.splitlines() if LINE.fullmatch(line)]


def test_each_request_is_a_line(run: Run, registry: RegistryServer, repository: str, carton: Path) -> None:
    target = f"{registry.host}/{repository}:v1"
    quiet = run("push", carton, target)
    assert requests(quiet.err) == []
    loud = run("push", carton, f"{target}-2", "-v", "--no-cache")
    assert (loud.status, loud.out) == (0, quiet.out)
    lines = requests(loud.err)
    assert any(f"ocibridge: PUT http://{registry.host}/v2/{repository}/manifests/v1-2 201" in line for line in lines)
    assert logging.getLogger("ocibridge").level == logging.NOTSET


@pytest.mark.parametrize("flag", ["-v", "--debug"])
def test_a_login_shows_no_password(
    run: Run, auth_registry: RegistryServer, flag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(PASSWORD.encode())))
    outcome = run("login", auth_registry.host, "-u", USER, "--password-stdin", flag)
    assert outcome.status == 0
    assert [LINE.fullmatch(line)[2] for line in requests(outcome.err)] == ["401", "200"]  # type: ignore[index]
    assert PASSWORD not in outcome.err + outcome.out
    assert "Basic" not in outcome.err


class _Registry(BaseHTTPRequestHandler):
    """A registry with a token server, whose blobs are elsewhere, under signed addresses."""

    config = b"{}"
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": {
                "mediaType": "application/vnd.oci.empty.v1+json",
                "digest": "sha256:" + hashlib.sha256(config).hexdigest(),
                "size": len(config),
            },
            "layers": [],
        }
    ).encode()

    def do_GET(self) -> None:
        host = self.headers["Host"]
        if self.path.startswith("/token"):
            self._send(200, json.dumps({"token": "SECRET-TOKEN"}).encode())
        elif "X-Amz-Signature" in self.path:
            self._send(200, self.config)
        elif self.headers.get("Authorization") != "Bearer SECRET-TOKEN":
            challenge = f'Bearer realm="http://{host}/token?key=SECRET-KEY",service="registry"'
            self._send(401, b"", ("WWW-Authenticate", challenge))
        elif "/manifests/" in self.path:
            self._send(200, self.manifest, ("Content-Type", "application/vnd.oci.image.manifest.v1+json"))
        elif "/blobs/" in self.path:
            self._send(
                307, b"", ("Location", f"http://{host}/storage?X-Amz-Signature=SECRET-SIGNATURE&digest=sha256:1")
            )
        else:
            self._send(404, b"")

    def _send(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (*headers, ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def signing() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Registry) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_tokens_and_signed_addresses_are_not_shown(run: Run, signing: str, tmp_path: Path) -> None:
    outcome = run("copy", f"{signing}/a/b:v1", f"oci:{tmp_path}/layout", "--debug")
    assert outcome.status == 0, outcome.err
    lines = "\n".join(requests(outcome.err))
    assert f"GET http://{signing}/token?key=…&service=registry&scope=repository:a/b:pull 200" in lines
    assert f"GET http://{signing}/storage?X-Amz-Signature=…&digest=sha256:1 200, received 2 B" in lines
    assert "SECRET" not in outcome.err + outcome.out


@pytest.mark.parametrize("how", ["--debug", "OCIBRIDGE_DEBUG"])
def test_debug_adds_the_traceback(run: Run, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    if how != "--debug":
        monkeypatch.setenv(how, "1")
    outcome = run("inspect", "127.0.0.1:1/a:v1", *([how] if how == "--debug" else []))
    assert outcome.status == 1
    assert "Traceback" in outcome.err
    assert "failed (ConnectError)" in outcome.err
    assert "Traceback" not in run("inspect", "127.0.0.1:1/a:v1", "-v").err or how != "--debug"


def test_lines_and_bars_do_not_garble_each_other() -> None:
    screen = io.StringIO()
    bars = Bars(Console(file=screen, force_terminal=True, width=60, height=20, _environ={}))
    log, line = logging.getLogger("ocibridge.http"), "GET https://registry.example/" + "x" * 100
    with noting(logging.DEBUG), shown_by(bars.note):
        bars.plan("uploading", 1, 100)
        bars.start(Task("uploading", "model.safetensors", 100))
        log.debug("%s", line)
        bars.close()
    assert (
        f"ocibridge: {line}\r\n" in screen.getvalue().replace("\n", "\r\n")
        or f"ocibridge: {line}\n" in screen.getvalue()
    )


def test_with_json_progress_each_line_is_an_event(
    run: Run, registry: RegistryServer, repository: str, carton: Path
) -> None:
    outcome = run("push", carton, f"{registry.host}/{repository}:v1", "-v", "--progress", "json", "--json")
    events = [json.loads(line) for line in outcome.err.splitlines()]
    assert any(each["event"] == "note" and each["text"].startswith("PUT http://") for each in events)
