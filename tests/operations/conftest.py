# SPDX-License-Identifier: Apache-2.0
"""Cartons made by the genuine client with the link server that one of them needs, and a store of Ollama models."""

from __future__ import annotations

import http.server
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from ..formats.ollama.samples import unpack_store
from ..quiet import QuietServer

FIXTURES = Path(__file__).parent.parent / "fixtures"
IDENTITY = "carton:09b744842c693b5c529bece22e17ec602403a2ed8dc786b4fa7e57e038062471"
MODEL_PT = "3761c452b7ae24ada1b917a335b18c4ab1c9097f49d67b0cab3cef7fd4ab1ba2"
CARTONS = ("digits.carton", "digits-stored.carton", "digits-links.carton", "digits-unpacked")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The models folder of the fixtures, which is the local store."""
    folder = unpack_store(tmp_path / "models")
    monkeypatch.setenv("OLLAMA_MODELS", str(folder))
    return folder


@pytest.fixture
def carton(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Path of one of the fixtures, by name; what digits-links.carton links to is served while it is in use."""
    with ExitStack() as stack:
        serving = False

        def find(name: str) -> Path:
            nonlocal serving
            if name == "digits-links.carton" and not serving:
                stack.enter_context(_link_server())
                serving = True
            if name != "digits-unpacked":
                return FIXTURES / name
            folder = tmp_path / name
            if not folder.exists():
                with tarfile.open(FIXTURES / "digits-unpacked.tar") as archive:
                    archive.extractall(folder, filter="data")
            return folder

        yield find


@contextmanager
def _link_server() -> Iterator[None]:
    """Serves the one file that digits-links.carton only links to, at the address written in it."""
    with zipfile.ZipFile(FIXTURES / "digits-stored.carton") as archive:
        data = archive.read("model/model.pt")

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path == f"/{MODEL_PT}"
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(data) if found else 0))
            self.end_headers()
            if found:
                self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            pass

    with _bind(Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


def _bind(handler: type[http.server.BaseHTTPRequestHandler]) -> QuietServer:
    """The address is fixed, so tests that run at the same time take turns."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return QuietServer(("127.0.0.1", 18999), handler)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
