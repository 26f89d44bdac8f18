# SPDX-License-Identifier: Apache-2.0
"""Pushing to the real registry once more: what is not read again, and what is not sent again."""

from __future__ import annotations

import hashlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ocibridge
from ocibridge.cli.main import main
from ocibridge.formats.zip.content import MemberContent
from ocibridge.io.content import FileContent
from ocibridge.io.readers import Reader
from ocibridge.settings import MiB, cache_dir
from ocibridge.transfer import cache as module

from ..registry import RegistryServer, registry_server
from .conftest import IDENTITY

PUSH = """
import sys
import ocibridge
from ocibridge.transfer import cache
cache.SETTLED = -10**12  # the files of a test are young
options = {"layers": sys.argv[3], "concurrency": int(sys.argv[4]), "compress": sys.argv[5]}
print(ocibridge.push(sys.argv[1], sys.argv[2], ocibridge.PushOptions(**options)).digest)
# What getrusage says is no less than what the parent had when it started this process.
print(*(line for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.fixture
def logged(tmp_path: Path) -> Iterator[RegistryServer]:
    """A registry of its own that logs every request."""
    folder = tmp_path / "registry"
    folder.mkdir()
    with registry_server(folder, access_log=True) as server:
        yield server


def requests(server: RegistryServer, method: str, what: str = "blobs") -> list[str]:
    """Paths asked for so far, without upload sessions' own names."""
    return re.findall(rf'"{method} (/v2/\S*/{what}/\S*) HTTP', server.log())


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Weights that were opened, by the name of the file or the member; and files of tests are not young."""
    found: list[str] = []

    def watch(kind: type, name: Callable[[object], str]) -> None:
        original = kind.open  # type: ignore[attr-defined]

        def watched(self: object, offset: int = 0) -> Reader:
            if "model.pt" in name(self):
                found.append(name(self))
            result: Reader = original(self, offset)
            return result

        monkeypatch.setattr(kind, "open", watched)

    watch(MemberContent, lambda content: content.member.name)  # type: ignore[attr-defined]
    watch(FileContent, lambda content: str(content.path))  # type: ignore[attr-defined]
    monkeypatch.setattr(module, "SETTLED", -(10**12))
    return found


def weights(folder: Path, count: int, size: int) -> Path:
    folder.mkdir()
    for number in range(count):
        (folder / f"model-{number}.pt").write_bytes(hashlib.shake_128(b"%d" % number).digest(size))
    return folder


def test_an_unchanged_carton_is_not_read_again(
    carton: Callable[[str], Path], registry: RegistryServer, repository: str, opened: list[str]
) -> None:
    target = f"{registry.host}/{repository}"
    first = ocibridge.push(carton("digits-stored.carton"), f"{target}:v1")
    assert opened
    opened.clear()
    assert ocibridge.push(carton("digits-stored.carton"), f"{target}:v2").digest == first.digest
    # By what the manifest under the tag says, since MANIFEST promises the hashes of the files.
    assert (
        ocibridge.push(carton("digits-stored.carton"), f"{target}:v1", ocibridge.PushOptions(cache=False)).digest
        == first.digest
    )
    assert opened == []
    assert (
        ocibridge.push(carton("digits-stored.carton"), f"{target}:v3", ocibridge.PushOptions(cache=False)).digest
        == first.digest
    )
    assert opened


@pytest.mark.parametrize("command", ["push", "convert"])
def test_no_cache_keeps_nothing(carton: Callable[[str], Path], tmp_path: Path, opened: list[str], command: str) -> None:
    arguments = [command, str(carton("digits.carton")), f"oci:{tmp_path}/x:v1"]
    folder = cache_dir()
    assert folder
    assert main([*arguments, "--no-cache"]) == 0
    assert not folder.exists()
    assert main(arguments) == 0
    assert {path.name for path in folder.iterdir()} <= {module.FILE, f"{module.FILE}-journal"}


def test_a_cache_of_another_user_is_done_without(
    carton: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert ocibridge.push(carton("digits.carton"), f"oci:{tmp_path}/x:v1").identity == IDENTITY


def test_the_tag_may_be_something_else_now(
    carton: Callable[[str], Path], registry: RegistryServer, repository: str, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "model.pt").write_bytes(b"something else")
    target = f"{registry.host}/{repository}:v1"
    ocibridge.push(tmp_path / "folder", target)
    ocibridge.push(carton("digits-stored.carton"), target, ocibridge.PushOptions(cache=False))
    assert ocibridge.verify(target).proven


@pytest.mark.parametrize("compress", ["none", "zstd"])
def test_a_new_repository_gets_a_stream(logged: RegistryServer, tmp_path: Path, compress: str) -> None:
    folder = weights(tmp_path / "model", 1, 9 * MiB)
    expected = ocibridge.push(folder, f"oci-archive:{tmp_path}/x.tar:v1", ocibridge.PushOptions(compress=compress))
    pushed = ocibridge.push(folder, f"{logged.host}/new:v1", ocibridge.PushOptions(compress=compress))
    assert pushed.digest == expected.digest
    patches = len(requests(logged, "PATCH"))
    assert patches == 1 if compress == "none" else patches > 1
    ocibridge.pull(f"{logged.host}/new:v1", tmp_path / "back")
    assert (tmp_path / "back" / "model-0.pt").read_bytes() == (folder / "model-0.pt").read_bytes()
    # Not so where the blob may be there already.
    ocibridge.push(folder, f"{logged.host}/new:v2", ocibridge.PushOptions(cache=False, compress=compress))
    assert len(requests(logged, "PATCH")) == patches


@pytest.mark.parametrize("layers", ["tar", "raw"])
def test_a_killed_push_sends_no_finished_blob_again(logged: RegistryServer, tmp_path: Path, layers: str) -> None:
    folder = weights(tmp_path / "model", 6, 9 * MiB)
    command = [sys.executable, "-c", PUSH, str(folder), f"{logged.host}/killed:v1", layers, "1", "none"]

    def closed() -> int:
        return len([path for path in requests(logged, "PUT") if "digest=" in path])

    child = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 60
        while closed() < 2 and child.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
    finally:
        child.send_signal(signal.SIGKILL)
        child.communicate()
    before = closed()
    assert before >= 2
    expected = ocibridge.push(folder, f"oci:{tmp_path}/layout:v1", ocibridge.PushOptions(layers=layers, cache=False))
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == expected.digest
    # At most one blob was under way when the first process ended.
    assert closed() <= 6 + 1 + 1
    assert ocibridge.verify(f"{logged.host}/killed:v1").proven


@pytest.mark.parametrize(("layers", "compress"), [("tar", "none"), ("raw", "none"), ("tar", "zstd")])
def test_memory_does_not_grow_with_the_model(
    registry: RegistryServer, repository: str, tmp_path: Path, layers: str, compress: str
) -> None:
    folder = weights(tmp_path / "model", 4, 40 * MiB)
    command = [sys.executable, "-c", PUSH, str(folder), f"{registry.host}/{repository}:v1", layers, "4", compress]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout.split()[2]) < 100 * 1024
