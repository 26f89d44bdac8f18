# SPDX-License-Identifier: Apache-2.0
"""A process whose memory is limited ends with one sentence, and leaves nothing that looks finished."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import ocibridge

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are those of Linux")

LIMITED = """
import resource
import sys
import ocibridge.operations.inspect, ocibridge.operations.pull, ocibridge.operations.verify
from ocibridge.cli.main import main
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + (int(sys.argv[1]) << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
sys.exit(main(sys.argv[2:]))
"""
SENTENCE = "ocibridge: error: there is not enough memory; try {}a higher limit of memory (of the container or job, or"


@pytest.mark.parametrize("command", ["inspect", "verify", "pull"])
def test_a_limit_of_memory_is_one_sentence(command: str, tmp_path: Path) -> None:
    """Whether a buffer finds no room (inspect) or the stack of a second thread does not."""
    folder, done = tmp_path / "folder", tmp_path / "pulled"
    folder.mkdir()
    for number in range(20):
        (folder / f"{number}.txt").write_text(str(number))
    stored = f"oci:{tmp_path}/stored:v1"
    ocibridge.push(folder, stored)
    arguments = {"inspect": [stored], "verify": [str(folder)], "pull": [stored, str(done)]}[command]

    def limited(spare: int) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-c", LIMITED, str(spare), command, *arguments]
        return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)

    found = limited(12)
    assert found.returncode == 1
    said = SENTENCE.format("" if command == "inspect" else "--concurrency 1, or ")
    assert found.stderr.splitlines()[-1].startswith(said)
    assert "Traceback" not in found.stderr
    assert not done.exists()
    assert limited(2000).returncode == (3 if command == "verify" else 0)  # 3: nothing to compare with
