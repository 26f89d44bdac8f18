# SPDX-License-Identifier: Apache-2.0
"""Ollama models for tests of the operations: what a local store holds, and a registry that speaks Ollama's dialect."""

from __future__ import annotations

import hashlib
import http.server
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from ocibridge.formats.ollama.local import LocalOllama
from ocibridge.formats.ollama.names import parse_ollama_name

from ..quiet import QuietServer

SMALL = "tinyllama-test"


def switch(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """Make another folder the local store."""
    monkeypatch.setenv("OLLAMA_MODELS", str(folder))
    return folder


def manifest_of(store: Path, name: str) -> bytes:
    return LocalOllama(store).manifest_path(parse_ollama_name(name)).read_bytes()


def digest_of(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


class OllamaRegistry:
    """No ping, no manifest by digest, no HEAD, manifests as text, blobs elsewhere; remembers every request."""

    def __init__(self, store: Path, stack: ExitStack) -> None:
        self.requests: list[tuple[str, str, str]] = []
        self.spoil: set[str] = set()
        self.challenge = False
        self.secrets: list[str] = []
        self._store = LocalOllama(store)
        self.storage = stack.enter_context(_serving(self._storage))
        self.host = stack.enter_context(_serving(self._front))

    def fetches(self) -> Counter[str]:
        """How often each blob was asked for."""
        return Counter(path for _, path, _ in self.requests if "/blobs/" in path)

    def _note(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        self.requests.append((handler.command, handler.path, handler.headers.get("Accept", "")))

    def _front(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        self._note(handler)
        given = handler.headers.get("Authorization")
        self.secrets += [given] if given else []
        if self.challenge and not given:
            _answer(handler, 401, b"", {"WWW-Authenticate": 'Basic realm="fake"'})
            return
        _, version, namespace, model, kind, name = (*handler.path.split("/"), "", "", "")[:6]
        if handler.command == "GET" and kind == "manifests" and not name.startswith("sha256:"):
            path = self._store.manifest_path(parse_ollama_name(f"{namespace}/{model}:{name}"))
            if path.is_file():
                _answer(handler, 200, path.read_bytes(), {"Content-Type": "text/plain; charset=utf-8"})
                return
        if handler.command == "GET" and kind == "blobs":
            _answer(handler, 307, b"", {"Location": f"http://{self.storage}/{name}?signature=secret"})
            return
        assert version == "v2"
        _answer(handler, 404, b"")

    def _storage(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        self._note(handler)
        assert "Authorization" not in handler.headers
        digest = handler.path.partition("?")[0].strip("/")
        path = self._store.blob_path(digest)
        assert path
        data = path.read_bytes()
        if digest in self.spoil:
            data = data[:-1] + bytes([data[-1] ^ 1])
        start = int(re.sub(r"\D", "", handler.headers.get("Range", "0")))
        extra = {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"} if start else {}
        _answer(handler, 206 if start else 200, data[start:], extra)


def _answer(
    handler: http.server.BaseHTTPRequestHandler, status: int, body: bytes, headers: dict[str, str] | None = None
) -> None:
    handler.send_response(status)
    for key, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
        handler.send_header(key, value)
    handler.end_headers()
    try:
        handler.wfile.write(body)
    except OSError:
        handler.close_connection = True


@contextmanager
def _serving(answer: object) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answer(self)  # type: ignore[operator]

        do_HEAD = do_POST = do_PUT = do_GET

        def log_message(self, *args: object) -> None:
            pass

    with QuietServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
