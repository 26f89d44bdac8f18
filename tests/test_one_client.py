# SPDX-License-Identifier: Apache-2.0
"""Every request to a registry is sent by an `oras.provider.Registry`, through an `httpx.Client`.

What the registries have logged is compared with what was seen to be sent: a request that went another way is in the log
alone.
"""

from __future__ import annotations

import hashlib
import http.client
import io
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
import oras.provider
import pytest
import requests as their_requests

import ocibridge
from ocibridge.cli.main import main
from ocibridge.io.content import FileContent
from ocibridge.io.readers import Reader
from ocibridge.oci import Descriptor, sha256_digest
from ocibridge.settings import MiB
from ocibridge.stores.registry import RegistryClient, RegistryOptions, distribution
from ocibridge.transfer import Progress, Task

from .mirror.artifacts import job, put, requests
from .registry import PASSWORD, USER, RegistryServer, registry_server
from .stores.registry.fault_server import FaultServer, Reply

CARTON = Path(__file__).parent / "fixtures" / "digits.carton"
_LONGEST = 20.0
_QUIET = 0.2
"""Seconds without a new entry, after which a log counts as whole: it is written after a response is sent."""

Request = tuple[str, str, str]
"""Host, method, and path with its query."""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    with registry_server(tmp_path_factory.mktemp("source"), access_log=True) as server:
        yield server


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    with registry_server(tmp_path_factory.mktemp("target"), auth=True, access_log=True) as server:
        yield server


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch, isolated: Path, target: RegistryServer) -> None:
    """The target wants some."""
    ocibridge.login(target.host, USER, PASSWORD)


def senders(frame: FrameType | None) -> Iterator[type]:
    """The classes of all `self` in the stack."""
    while frame is not None:
        if "self" in frame.f_locals:
            yield type(frame.f_locals["self"])
        frame = frame.f_back


class Recorder:
    """What is sent from now on, until the block ends.

    Attributes:
        sent: Every request that went through an `httpx.Client`.
        strangers: Those of them that no `oras.provider.Registry` has sent.
    """

    def __init__(self, *servers: RegistryServer) -> None:
        self.sent: list[Request] = []
        self.strangers: list[Request] = []
        self._servers = servers
        self._lock = threading.Lock()
        self._before = self._logged()

    def record(self, request: httpx.Request, frame: FrameType) -> None:
        entry = (request.url.netloc.decode(), request.method, request.url.raw_path.decode())
        stock = oras.provider.Registry
        ours = any(issubclass(each, stock) and each is not stock for each in senders(frame))
        with self._lock:
            self.sent.append(entry)
            if not ours:
                self.strangers.append(entry)

    def seen(self, method: str, *parts: str) -> list[Request]:
        return [each for each in self.sent if each[1] == method and all(part in each[2] for part in parts)]

    def bypassed(self) -> Counter[Request]:
        """What the registries were asked, and nobody has seen being sent."""
        logged = self._logged()
        end = time.monotonic() + _LONGEST
        while Counter(self.sent) - (logged - self._before) and time.monotonic() < end:
            logged = self._logged()
        asked = logged - self._before
        assert Counter(self.sent) - asked == Counter()
        return asked - Counter(self.sent)

    def _logged(self) -> Counter[Request]:
        found = self._read()
        since = time.monotonic()
        while time.monotonic() < since + _QUIET:
            time.sleep(0.02)
            if (now := self._read()) != found:
                found, since = now, time.monotonic()
        return found

    def _read(self) -> Counter[Request]:
        return Counter(
            (server.host, method, path) for server in self._servers for method, path, _ in requests(server.log())
        )


@contextmanager
def recording(*servers: RegistryServer) -> Iterator[Recorder]:
    recorder = Recorder(*servers)
    with pytest.MonkeyPatch.context() as patch:
        send = httpx.Client.send

        def recorded(self: httpx.Client, request: httpx.Request, **options: Any) -> httpx.Response:
            recorder.record(request, sys._getframe(1))
            return send(self, request, **options)

        docker = their_requests.Session.send

        def refused(self: Any, request: Any, **options: Any) -> Any:
            if request.url.startswith("http+docker:"):  # how the tests start a container
                return docker(self, request, **options)
            raise AssertionError("requests sends nothing")

        patch.setattr(httpx.Client, "send", recorded)
        patch.setattr(their_requests.Session, "send", refused)
        yield recorder


@contextmanager
def nothing_passes_by(*servers: RegistryServer) -> Iterator[Recorder]:
    """Something is sent in the block, and all of it in the one way that there is."""
    with recording(*servers) as recorder:
        yield recorder
        assert recorder.sent
        assert recorder.strangers == []
        assert recorder.bypassed() == Counter()


def run(*argv: object) -> None:
    assert main([str(each) for each in argv]) == 0


@pytest.fixture
def folder(tmp_path: Path, repository: str) -> Path:
    made = tmp_path / "model"
    made.mkdir()
    for number in range(3):
        (made / f"model-{number}.pt").write_bytes(hashlib.shake_128(f"{repository}{number}".encode()).digest(MiB))
    return made


@pytest.mark.parametrize(
    "options", [("--layers", "tar"), ("--layers", "raw-files"), ("--compress", "zstd"), ("--exact",)]
)
def test_push_and_whatever_reads(
    target: RegistryServer, repository: str, folder: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    source = CARTON if "--exact" in options else folder
    name = f"{target.host}/{repository}:v1"
    with nothing_passes_by(target) as pushed:
        run("push", source, name, *options)
    assert pushed.seen("PUT", "/manifests/v1")
    with nothing_passes_by(target) as again:
        run("push", source, name, "--no-cache", *options)
    assert not again.seen("PATCH")
    back = tmp_path / ("back.carton" if source == CARTON else "back")
    for command in (("pull", name, back), ("verify", name), ("inspect", name)):
        with nothing_passes_by(target) as read:
            run(*command)
        assert read.seen("GET", "/manifests/v1")
        assert not {method for _, method, _ in read.sent} - {"GET", "HEAD"}


def large(folder: Path, repository: str) -> Path:
    """The model with a file that is worth more than one request."""
    (folder / "large.pt").write_bytes(hashlib.shake_128(repository.encode()).digest(16 * MiB))
    return folder


def test_a_streamed_push(target: RegistryServer, repository: str, folder: Path) -> None:
    with nothing_passes_by(target) as sent:
        run("push", large(folder, repository), f"{target.host}/{repository}:v1")
    # The digest is not known before all of it is sent.
    assert sent.seen("PATCH", "/blobs/uploads/")


class _Stops(Progress):
    """Ends a push in the middle of a layer."""

    def __init__(self, after: int) -> None:
        self.left = after

    def advance(self, task: Task, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise KeyboardInterrupt


def test_a_push_that_was_stopped(
    target: RegistryServer, repository: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distribution, "LEAST", MiB)
    name = f"{target.host}/{repository}:v1"
    large(folder, repository)
    with nothing_passes_by(target), pytest.raises(KeyboardInterrupt):
        ocibridge.push(folder, name, ocibridge.PushOptions(layers="raw-files"), progress=_Stops(12 * MiB))
    with nothing_passes_by(target) as again:
        ocibridge.push(folder, name, ocibridge.PushOptions(layers="raw-files"))
    assert again.seen("GET", "/blobs/uploads/")


class _Stopped(BaseException):
    """What a process that is killed looks like from inside: nothing is cleaned up."""


class _Stopping(FileContent):
    """Ends the process before the fourth chunk."""

    def open(self, offset: int = 0) -> Reader:
        if offset >= 3 * MiB:
            raise _Stopped
        return super().open(offset)


def test_a_resumed_upload(
    target: RegistryServer, repository: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distribution, "LEAST", MiB)
    path = large(folder, repository) / "large.pt"
    blob = Descriptor.of(path.read_bytes(), "application/octet-stream")
    with nothing_passes_by(target) as stopped, closing(RegistryClient(target.host)) as client:
        place = client.container(target.host, repository)
        with pytest.raises(_Stopped):
            client.push_blob(place, blob, _Stopping(path), chunk=MiB, notes=tmp_path)
    assert stopped.seen("POST", "/blobs/uploads/")
    with nothing_passes_by(target) as resumed, closing(RegistryClient(target.host)) as client:
        client.push_blob(place, blob, FileContent(path), chunk=MiB, notes=tmp_path)
        assert client.has_blob(place, blob)
    assert resumed.seen("GET", "/blobs/uploads/")
    assert len(resumed.seen("PATCH", "/blobs/uploads/")) == 13
    assert not resumed.seen("POST")


def test_copy_and_volumes(source: RegistryServer, target: RegistryServer, repository: str, folder: Path) -> None:
    there, here = f"{source.host}/{repository}:v1", f"{target.host}/{repository}:v1"
    ocibridge.push(folder, there, ocibridge.PushOptions(layers="raw-files"))
    with nothing_passes_by(source, target) as copied:
        run("copy", there, here)
    assert {host for host, _, _ in copied.sent} == {source.host, target.host}
    with nothing_passes_by(target) as mounted:
        run("copy", here, f"{target.host}/{repository}-2:v1")
    assert mounted.seen("POST", "mount=sha256")
    with nothing_passes_by(target) as prepared:
        run("volume", "prepare", here)
    assert prepared.seen("PUT", "/manifests/v1-image")
    with nothing_passes_by(target):
        run("volume", "check", f"{here}-image")


def test_a_mirror_that_prunes(source: RegistryServer, target: RegistryServer, repository: str, tmp_path: Path) -> None:
    for number in range(10):
        put(source.host, repository, f"v{number}", [f"{number} of {repository}".encode()])
    path = job(
        tmp_path / "job.yaml",
        f"""
        version: 1
        sync:
          - source: {source.host}/{repository}
            target: {target.host}/{repository}
            type: repository
            prune: {{enabled: true, dryRun: false}}
        """,
    )
    with nothing_passes_by(source, target) as planned:
        run("mirror", "plan", path)
    assert planned.seen("GET", "/tags/list")
    with nothing_passes_by(source, target) as first:
        run("mirror", "run", path)
    assert {(target.host, "PUT", f"/v2/{repository}/manifests/v{number}") for number in range(10)} <= set(first.sent)
    put(target.host, repository, "gone", [f"only in {repository}".encode()])
    with nothing_passes_by(source, target) as pruned:
        run("mirror", "run", path)
    assert pruned.seen("DELETE", "/manifests/")
    with nothing_passes_by(source, target) as checked:
        run("mirror", "check", path)
    assert checked.seen("HEAD", "/blobs/")


@pytest.mark.parametrize("password", [PASSWORD, "wrong"])
def test_login(target: RegistryServer, monkeypatch: pytest.MonkeyPatch, password: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(password.encode())))
    with nothing_passes_by(target) as sent:
        status = main(["login", target.host, "-u", USER, "--password-stdin"])
    assert (status == 0) is (password == PASSWORD)
    assert set(sent.sent) == {(target.host, "GET", "/v2/")}


def test_token_servers_and_storage_hosts_are_asked_in_the_same_way() -> None:
    data = b"some bytes of a blob"
    digest = sha256_digest(data)
    with FaultServer() as server, FaultServer("localhost") as other, recording() as recorder:
        challenge = {"WWW-Authenticate": f'Bearer realm="{other.url}/token",service="s"'}
        server.on(
            "GET",
            f"/v2/r/blobs/{digest}",
            Reply(401, headers=challenge),
            Reply(307, headers={"Location": f"{other.url}/x?y=1"}),
        )
        server.on("HEAD", f"/v2/r/blobs/{digest}", Reply(200, data))
        other.on("GET", "/token", Reply(200, b'{"token":"t-1"}'))
        other.on("GET", "/x", Reply(200, data))
        client = RegistryClient(server.host, options=RegistryOptions(plain_http=True))
        assert client.get_blob("r", digest).content == data
        client.close()
        asked = [(each.host, seen.method, seen.path) for each in (server, other) for seen in each.seen]
    assert len(asked) == 5
    assert Counter(recorder.sent) == Counter(asked)
    assert recorder.strangers == []


# What would go wrong is seen.


def test_a_request_that_goes_another_way_is_seen(source: RegistryServer, repository: str) -> None:
    path = f"/v2/{repository}/tags/list"
    with recording(source) as recorder:
        with httpx.Client() as client:
            client.get(f"http://{source.host}/v2/")
        connection = http.client.HTTPConnection(source.host)
        connection.request("GET", path)
        connection.getresponse().read()
        connection.close()
    assert recorder.bypassed() == Counter({(source.host, "GET", path): 1})
    assert recorder.strangers == [(source.host, "GET", "/v2/")]


def test_the_session_of_the_stock_client_sends_nothing(source: RegistryServer) -> None:
    with recording(source), pytest.raises(AssertionError, match="requests sends nothing"):
        oras.provider.Registry().session.get(f"http://{source.host}/v2/")


# Sockets.


@contextmanager
def connecting() -> Iterator[set[str]]:
    """The modules that connect sockets in the block, other than `socket` itself."""
    found: set[str] = set()
    connect = socket.socket.connect

    def connected(self: socket.socket, address: Any) -> None:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_globals["__name__"] == "socket":
            frame = frame.f_back
        assert frame is not None
        found.add(frame.f_globals["__name__"])
        connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", connected)
        yield found


def test_sockets_are_connected_by_the_backend_of_httpcore(
    target: RegistryServer, repository: str, folder: Path, tmp_path: Path
) -> None:
    name = f"{target.host}/{repository}:v1"
    with connecting() as found:
        run("push", folder, name)
        run("pull", name, tmp_path / "back")
    assert found == {"httpcore._backends.sync"}


def test_other_sockets_are_seen(source: RegistryServer) -> None:
    with connecting() as found:
        connection = http.client.HTTPConnection(source.host)
        connection.connect()
        connection.close()
        with socket.socket() as made:
            host, _, port = source.host.partition(":")
            made.connect((host, int(port)))
    assert found == {"http.client", __name__}
