# SPDX-License-Identifier: Apache-2.0
"""Distribution 3 keeps what arrived of an upload whose client died; the next push sends only the rest."""

from __future__ import annotations

import hashlib
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import ocibridge
from ocibridge.settings import MiB, cache_dir

from .. import registry

pytestmark = pytest.mark.interop

SIZE = 256 * MiB
PUSH = """
import sys
import ocibridge
from ocibridge.transfer import cache
cache.SETTLED = -10**12  # the files of a test are young
ocibridge.push(sys.argv[1], sys.argv[2], ocibridge.PushOptions(layers=sys.argv[3]))
"""


@pytest.fixture
def distribution3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[registry.RegistryServer]:
    program = shutil.which("registry3")
    if not program:
        pytest.fail("registry3 is not on PATH; run 'make interop' where Go is installed")
    folder = tmp_path / "registry"
    folder.mkdir()
    monkeypatch.setattr(registry, "registry_kind", lambda: "process")
    monkeypatch.setattr(registry, "_binary", lambda: program)
    with registry.registry_server(folder, access_log=True) as server:
        yield server


@pytest.mark.parametrize("layers", ["tar", "raw"])
def test_a_killed_upload_goes_on(distribution3: registry.RegistryServer, tmp_path: Path, layers: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.pt").write_bytes(hashlib.shake_128(b"weight").digest(SIZE))
    target = f"{distribution3.host}/killed:v1"
    child = subprocess.Popen([sys.executable, "-c", PUSH, str(folder), target, layers])

    def kept() -> int:
        return sum(path.stat().st_size for path in tmp_path.glob("registry/storage/**/_uploads/*/data"))

    deadline = time.monotonic() + 60
    while kept() < SIZE // 4 and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    notes = cache_dir()
    assert notes
    assert len(list((notes / "uploads").iterdir())) == 1
    expected = ocibridge.push(folder, f"oci:{tmp_path}/layout:v1", ocibridge.PushOptions(layers=layers, cache=False))
    assert ocibridge.push(folder, target, ocibridge.PushOptions(layers=layers)).digest == expected.digest
    assert ocibridge.verify(target).proven
    assert list((notes / "uploads").iterdir()) == []
    sessions = re.findall(r'"GET /v2/killed/blobs/uploads/([^?]+)\S* HTTP/1.1" 204', distribution3.log())
    assert len(sessions) == 1
    assert re.search(rf'"PUT /v2/killed/blobs/uploads/{sessions[0]}\?\S*digest=\S* HTTP/1.1" 201', distribution3.log())
