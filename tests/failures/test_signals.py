# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C and SIGTERM, in the middle of a transfer and before a server that has stopped to answer."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import ocibridge
from ocibridge.settings import MiB

from ..kill.commands import Ended, run, start
from ..kill.counting import Line

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the signals of POSIX")
LOCK_TIMEOUT = 5.0
"""Seconds that a slow machine may take for what has to be done within one."""
SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]


def interrupt(process: subprocess.Popen[str], number: signal.Signals) -> Ended:
    began = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    return Ended(process.returncode, out, err, time.monotonic() - began)


def check(ended: Ended, status: int, advice: str) -> None:
    assert (ended.status, ended.out) == (status, "")
    assert ended.err.startswith("ocibridge: error: interrupted; run the same command again")
    assert advice in ended.err
    assert ended.err.count("\n") == 1
    assert ended.seconds < LOCK_TIMEOUT


@pytest.mark.parametrize(("number", "status"), SIGNALS)
@pytest.mark.parametrize("name", ["back", "back.carton"])
def test_pull(
    line: Line, tmp_path: Path, pushed: str, carton: Path, name: str, number: signal.Signals, status: int
) -> None:
    (tmp_path / "out").mkdir()
    dest = tmp_path / "out" / name
    line.hold(8 * MiB)
    with start("pull", "-q", f"{line.host}/{pushed}", dest) as process:
        assert line.reached.wait(60)
        wait_for(tmp_path / "out", 5 * MiB)
        ended = interrupt(process, number)
    check(ended, status, "run the same command again to resume")
    assert [path.name for path in dest.parent.iterdir()] == [f".{name}.ocibridge"]
    line.go.set()
    done = run("pull", f"{line.host}/{pushed}", dest, "--json")
    assert done.report["kept"] > 4 * MiB
    assert done.report["identity"] == ocibridge.verify(dest).identity == ocibridge.inspect(carton).identity
    assert list(dest.parent.iterdir()) == [dest]


def wait_for(folder: Path, size: int) -> None:
    """Until so many bytes have been written: the server gives no more, so the client waits for it then."""
    end = time.monotonic() + 30
    while sum(path.stat().st_blocks * 512 for path in folder.rglob("*")) < size and time.monotonic() < end:
        time.sleep(0.01)


@pytest.mark.parametrize(("number", "status"), SIGNALS)
@pytest.mark.parametrize("up", [0, MiB], ids=["no-answer", "half-a-blob"])
def test_push(line: Line, carton: Path, repository: str, up: int, number: signal.Signals, status: int) -> None:
    target = f"{line.host}/{repository}:v1"
    line.hold(up, up=True)
    with start("push", "-q", carton, target) as process:
        assert line.reached.wait(60)
        ended = interrupt(process, number)
    check(ended, status, "layers that arrived whole are not sent again")
    line.go.set()
    with pytest.raises(ocibridge.NotFound):
        ocibridge.inspect(target)
    assert run("push", carton, target, "--json").report["identity"] == ocibridge.verify(target).identity


def test_who_ignores_the_signal_goes_on_doing_so() -> None:
    program = (
        "import signal; from ocibridge.cli.main import main\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); main(['version'])\n"
        "assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN\n"
        "signal.signal(signal.SIGTERM, signal.SIG_DFL); main(['version'])\n"
        "assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=60)
