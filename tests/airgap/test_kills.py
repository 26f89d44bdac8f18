# SPDX-License-Identifier: Apache-2.0
"""SIGKILL on either side of the air gap, and the same command again."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from ocibridge.airgap.options import PackOptions
from ocibridge.airgap.pack import pack
from ocibridge.airgap.unpack import unpack
from ocibridge.settings import MiB

from ..kill.commands import run, start
from ..kill.counting import Line
from ..mirror.artifacts import put, requests, tags, whole
from ..registry import RegistryServer
from ..stores.samples import files

_LONGEST = 120.0
LAYERS = [random.Random(number).randbytes(4 * MiB) for number in range(6)]


@pytest.fixture(scope="module")
def repositories(source: RegistryServer) -> list[str]:
    """Six models of two layers each; each shares one with its neighbours."""
    found = [f"airgap-kill/{number}" for number in range(6)]
    for number, repository in enumerate(found):
        put(source.host, repository, "v1", [LAYERS[number], LAYERS[number - 1]])
    return found


@pytest.fixture
def line(source: RegistryServer) -> Iterator[Line]:
    with Line(source.host) as found:
        yield found


@pytest.mark.parametrize("split", [False, True])
def test_a_killed_pack_goes_on(line: Line, repositories: list[str], tmp_path: Path, split: bool) -> None:
    """There is no archive before it is whole, and what has arrived is not fetched again."""
    command = ["copy", *(f"{line.host}/{each}:v1" for each in repositories), "--to", f"oci-archive:{tmp_path}/x.tar"]
    command += ["--inventory", f"{tmp_path}/inventory.json", "--json", *(["--volume-size", "3MiB"] if split else [])]
    kills = 4
    for _ in range(kills):
        line.hold(5 * MiB)
        with start(*command) as process:
            assert line.reached.wait(_LONGEST)
            process.kill()
        line.go.set()
        left = files(tmp_path)
        assert left
        assert all(name.startswith(".x.tar") and name.endswith(".part") for name in left)
    kept = sum(map(len, left.values()))
    ended = run(*command)
    # Less is only what was in a buffer when it was cut off, or of a header that was not whole.
    assert kept - 4096 <= ended.report["kept"] <= kept
    total = len(LAYERS) * 4 * MiB
    assert kept > total / 4
    # At a kill, a line and two pieces are under way.
    assert line.received < total + kills * 4 * MiB
    made = files(tmp_path)
    numbers = [f"x.tar.{number:03}" for number in range(1, 10)] if split else ["x.tar"]
    assert list(made) == ["inventory.json", *numbers, *(["x.tar.sha256"] if split else [])]
    (tmp_path / "again").mkdir()
    references = [f"{line.host}/{each}:v1" for each in repositories]
    again = tmp_path / "again" / "x.tar"
    report = pack(
        references,
        again,
        PackOptions(volume_size=3 * MiB if split else None, inventory=again.with_name("inventory.json")),
    )
    assert report.kept == 0
    assert files(tmp_path / "again") == made


def test_a_killed_restore_goes_on(
    source: RegistryServer, target: RegistryServer, repositories: list[str], tmp_path: Path
) -> None:
    """What the target has got is not sent again, and tags lead to whole models only, at any moment."""
    archive = tmp_path / "x.tar"
    pack([f"{source.host}/{each}:v1" for each in repositories], archive)
    prefix = f"restored-{os.getpid()}"
    since = len(requests(target.log()))
    with Line(target.host) as line:
        command = ["copy", "--from", f"oci-archive:{archive}", "--to", f"{line.host}/{prefix}", "-q"]
        for _ in range(4):
            line.hold(5 * MiB, up=True)
            with start(*command, "--concurrency", "2") as process:
                assert line.reached.wait(_LONGEST)
                process.kill()
            line.go.set()
            for repository in repositories:
                for tag in tags(target.host, f"{prefix}/{repository}"):
                    assert whole(target.host, f"{prefix}/{repository}", tag) == whole(source.host, repository, "v1")
        assert run(*command).status == 0
    for repository in repositories:
        assert tags(target.host, f"{prefix}/{repository}").keys() == {"v1"}
        assert whole(target.host, f"{prefix}/{repository}", "v1") == whole(source.host, repository, "v1")
    stored = [path for method, path, status in requests(target.log())[since:] if method == "PUT" and status == 201]
    blobs = [path.rpartition("digest=")[2] for path in stored if "digest=" in path]
    # Where two repositories share a blob, the registry has it once, and each of them gets it at most once.
    assert len(blobs) <= 3 * len(repositories)
    assert unpack(archive, f"{target.host}/{prefix}").totals.copied == 0
