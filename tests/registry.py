# SPDX-License-Identifier: Apache-2.0
"""Starts the real registry for tests: a container where there is an engine and the image, else the same program.

`OCIBRIDGE_TEST_REGISTRY=container|process` forces one of the two; `OCIBRIDGE_REGISTRY_BINARY` names the program.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

IMAGE = "registry:2"
USER = "tester"
PASSWORD = "hunter2-secret"
# bcrypt, cost 5, of PASSWORD
_HTPASSWD = f"{USER}:$2b$05$abcdefghijklmnopqrstuuco6HW5qgMYWmvqwt2HG533btIvodevS\n"
TLS = Path(__file__).parent / "stores" / "registry" / "tls"
_START_TIMEOUT = 30.0


@dataclass(frozen=True)
class RegistryServer:
    """A running registry.

    Attributes:
        host: `127.0.0.1:PORT`.
        kind: `container` or `process`.
        log: Gives what the registry has logged so far.
    """

    host: str
    kind: str
    log: Callable[[], str]


@contextmanager
def registry_server(
    folder: Path, *, auth: bool = False, tls: bool = False, access_log: bool = False
) -> Iterator[RegistryServer]:
    """A registry with its storage in `folder`, or in the container.

    Args:
        folder: An empty folder.
        auth: Whether it asks for `USER` and `PASSWORD`.
        tls: Whether it speaks HTTPS, with a certificate that `TLS / "ca.pem"` signed, for 127.0.0.1,
            localhost and registry.test.
        access_log: Whether it logs every request, in Apache's combined format.
    """
    run = _container if registry_kind() == "container" else _process
    with run(folder, auth, tls, access_log) as server:
        yield server


@functools.lru_cache(maxsize=1)
def registry_kind() -> str:
    """`container` or `process`."""
    forced = os.environ.get("OCIBRIDGE_TEST_REGISTRY")
    if forced:
        if forced not in ("container", "process"):
            raise RuntimeError("OCIBRIDGE_TEST_REGISTRY has to be 'container' or 'process'")
        return forced
    return "container" if _image_is_there() else "process"


def registry_description() -> str:
    """One line for the head of a test report."""
    kind = registry_kind()
    return f"registry: {IMAGE} (container)" if kind == "container" else f"registry: {_binary()} (process)"


def _image_is_there() -> bool:
    engine = shutil.which("docker")
    if not engine:
        return False
    try:
        if subprocess.run([engine, "version"], capture_output=True, timeout=10).returncode:
            return False
        if not subprocess.run([engine, "image", "inspect", IMAGE], capture_output=True, timeout=10).returncode:
            return True
        return not subprocess.run([engine, "pull", "--quiet", IMAGE], capture_output=True, timeout=120).returncode
    except (OSError, subprocess.TimeoutExpired):
        return False


@functools.lru_cache(maxsize=1)
def _binary() -> str:
    cached = Path(__file__).parents[1] / ".cache/registry/usr/bin/docker-registry"
    forced = os.environ.get("OCIBRIDGE_REGISTRY_BINARY")
    if forced:
        return forced
    for name in (str(cached), "docker-registry", "registry"):
        found = shutil.which(name)
        # Other programs are called "registry" too.
        if found and b"distribution" in subprocess.run([found, "--version"], capture_output=True, timeout=10).stdout:
            return found
    raise RuntimeError("no registry to test with: run 'make setup', or set OCIBRIDGE_REGISTRY_BINARY")


def _write_config(
    folder: Path, address: str, storage: str, seen_as: str, auth: bool, tls: bool, access_log: bool
) -> Path:
    config: dict[str, Any] = {
        "version": "0.1",
        "log": {"level": "warn", "accesslog": {"disabled": not access_log}},
        "storage": {"filesystem": {"rootdirectory": storage}, "delete": {"enabled": True}},
        "http": {"addr": address},
    }
    if auth:
        (folder / "htpasswd").write_text(_HTPASSWD)
        config["auth"] = {"htpasswd": {"realm": "ocibridge tests", "path": f"{seen_as}/htpasswd"}}
    if tls:
        for name in ("server.pem", "server.key"):
            shutil.copyfile(TLS / name, folder / name)
        config["http"]["tls"] = {"certificate": f"{seen_as}/server.pem", "key": f"{seen_as}/server.key"}
    path = folder / "config.yml"
    path.write_text(json.dumps(config))  # JSON is YAML
    return path


@contextmanager
def _process(folder: Path, auth: bool, tls: bool, access_log: bool) -> Iterator[RegistryServer]:
    for last in (False, False, True):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        storage = folder / "storage"
        config = _write_config(folder, f"127.0.0.1:{port}", str(storage), str(folder), auth, tls, access_log)
        with open(folder / "registry.log", "wb") as log:
            process = subprocess.Popen(
                [_binary(), "serve", str(config)], stdout=log, stderr=log, env={"OTEL_TRACES_EXPORTER": "none"}
            )
        try:
            # Another program may take the port between the probe and the start.
            if not _wait(port, tls, process) and not last:
                continue
            if process.poll() is not None:
                raise RuntimeError(f"the registry did not start: {(folder / 'registry.log').read_text()[-2000:]}")
            yield RegistryServer(f"127.0.0.1:{port}", "process", (folder / "registry.log").read_text)
            return
        finally:
            process.terminate()
            process.wait(10)


@contextmanager
def _container(folder: Path, auth: bool, tls: bool, access_log: bool) -> Iterator[RegistryServer]:
    # Ryuk is a second image that would have to be fetched; the context manager removes the container itself.
    os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")
    from testcontainers.core.container import DockerContainer

    shared = folder / "etc"
    shared.mkdir()
    _write_config(shared, ":5000", "/var/lib/registry", "/etc/docker/registry", auth, tls, access_log)
    shared.chmod(0o755)
    container = DockerContainer(IMAGE).with_exposed_ports(5000)
    container = container.with_volume_mapping(str(shared), "/etc/docker/registry", "ro")
    with container:
        port = int(container.get_exposed_port(5000))
        if not _wait(port, tls, None):
            raise RuntimeError(f"the registry container did not start: {container.get_logs()}")
        yield RegistryServer(
            f"127.0.0.1:{port}", "container", lambda: b"".join(container.get_logs()).decode(errors="replace")
        )


def _wait(port: int, tls: bool, process: subprocess.Popen[bytes] | None) -> bool:
    context = ssl.create_default_context(cafile=TLS / "ca.pem") if tls else None
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if context:
        handlers.append(urllib.request.HTTPSHandler(context=context))
    opener = urllib.request.build_opener(*handlers)
    url = f"{'https' if tls else 'http'}://127.0.0.1:{port}/v2/"
    end = time.monotonic() + _START_TIMEOUT
    while time.monotonic() < end and (process is None or process.poll() is None):
        try:
            opener.open(url, timeout=2).close()
            return True
        except urllib.error.HTTPError as exc:
            exc.close()
            return exc.code == 401
        except OSError:
            time.sleep(0.05)
    return False
