# SPDX-License-Identifier: Apache-2.0
"""What stands around a mirror job on several machines, as processes of this one: registries far away, and workers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from .server import cpu_of

_PATIENCE = 120.0
"""Seconds until a cluster that does not start is given up."""
_READY = """
import sys
from distributed import Client
def load():
    import ocibridge.mirror.jobs.job, ocibridge.mirror.remote, ocibridge.mirror.work, ocibridge.stores.registry
with Client(scheduler_file=sys.argv[1], timeout=60) as client:
    client.wait_for_workers(int(sys.argv[2]), timeout=60)
    client.run(load)
    client.run_on_scheduler(load)
"""


@dataclass(frozen=True)
class Processes:
    """Some processes.

    Attributes:
        pids: Their ids.
        where: Addresses at which they can be reached.
    """

    pids: tuple[int, ...]
    where: tuple[str, ...]

    def cpu(self) -> float:
        """Processor seconds that they have used so far."""
        return sum(map(cpu_of, self.pids))


@contextmanager
def far_away(hosts: Sequence[str], milliseconds: float) -> Iterator[Processes]:
    """Other addresses of servers, from which a round trip takes so much longer; see `benchmarks.mirror_latency`."""
    command = [sys.executable, "-m", "benchmarks.mirror_latency", str(milliseconds), *hosts]
    with ExitStack() as stack:
        proxy = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        stack.callback(_end, proxy)
        assert proxy.stdout is not None
        ports = proxy.stdout.readline().split()
        yield Processes((proxy.pid,), tuple(f"127.0.0.1:{port}" for port in ports))


@contextmanager
def dask(workers: int, folder: Path, env: Mapping[str, str]) -> Iterator[Processes]:
    """A Dask scheduler, at the only address, and workers of one thread each; all have imported what they need.

    Args:
        workers: How many.
        folder: An empty folder, for what they write.
        env: Their environment.
    """
    at = folder / "scheduler.json"
    # Its profiler looks every 10 ms at what each worker does, which takes a tenth of a processor for each.
    quiet = {**env, "PYTHONWARNINGS": "ignore", "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False"}
    with ExitStack() as stack:
        log = stack.enter_context((folder / "log").open("wb"))

        def start(name: str, *options: str) -> int:
            code = f"from distributed.cli.dask_{name} import main; main()"
            command = [sys.executable, "-c", code, "--scheduler-file", str(at), "--no-dashboard", *options]
            process = stack.enter_context(subprocess.Popen(command, stdout=log, stderr=log, env=quiet))
            stack.callback(_end, process)
            return process.pid

        pids = [start("scheduler", "--host", "127.0.0.1", "--port", "0")]
        # They wait for the file in which the scheduler says where it is.
        pids += [
            start("worker", "--no-nanny", "--nthreads", "1", "--local-directory", str(folder)) for _ in range(workers)
        ]
        ready = [sys.executable, "-c", _READY, str(at), str(workers)]
        try:
            subprocess.run(ready, env=quiet, stdout=log, stderr=log, timeout=_PATIENCE, check=True)
        except subprocess.SubprocessError:
            raise SystemExit(f"the Dask cluster does not start:\n{(folder / 'log').read_text()}") from None
        yield Processes(tuple(pids), (str(json.loads(at.read_text())["address"]),))


def _end(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
