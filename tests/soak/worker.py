# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.soak.worker SEED LONGEST FOLDER`: does the transfers whose numbers it reads, and writes results.

It is a process of its own, with registries of its own, so that a transfer that does not end can be ended with it.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import resource
import shutil
import signal
import sys
import threading
import traceback
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ocibridge.settings import MiB

from ..registry import registry_server
from .calls import OPTIONS
from .faults import profile
from .mirrors import Mirror
from .proxy import FaultyProxy
from .results import TRACEBACK, WRONG, Problem, Result
from .transfers import Copy, Pull, Push, Stage, Transfer

_LARGEST = 64 * MiB
KINDS: tuple[type[Transfer], ...] = (Push, Push, Pull, Pull, Copy, Mirror)
_COMMANDS = 0.05
"""The share of transfers that the command line does."""
_HOMES = {"HOME": "", "DOCKER_CONFIG": "docker", "XDG_CACHE_HOME": "cache", "XDG_CONFIG_HOME": "config"}


class Worker:
    """Does transfers, one after the other.

    Args:
        seed: Of the whole run.
        longest: Seconds that a command may take.
        folder: For everything that it writes.
        first: A registry, and the folder of its storage.
        second: Another one.
    """

    def __init__(
        self, seed: int, longest: float, folder: Path, first: tuple[str, Path], second: tuple[str, Path]
    ) -> None:
        self._seed = seed
        self._longest = longest
        self._folder = folder
        self._registries = (first, second)
        self._seen: list[Problem] = []
        threading.excepthook = self._note

    def _note(self, args: Any) -> None:
        text = "".join(traceback.format_exception(args.exc_type, args.exc_value, args.exc_traceback))
        self._seen.append(Problem(TRACEBACK, f"in thread {args.thread and args.thread.name}: {text}"))

    def do(self, number: int) -> Result:
        """Do the transfer of that number."""
        result = Result(number)
        folder = self._folder / str(number)
        folder.mkdir()
        os.environ.update({name: str(folder / "home" / inside) for name, inside in _HOMES.items()})
        work = folder / "work"
        work.mkdir()
        hosts = [host for host, _ in self._registries]
        try:
            self._do(Stage(work, hosts[0], hosts[1], f"soak/t{number}"), result)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            for _, storage in self._registries:
                shutil.rmtree(storage, ignore_errors=True)
        result.problems += self._seen
        self._seen.clear()
        return result

    def _do(self, stage: Stage, result: Result) -> None:
        key = f"{self._seed} {result.number}"
        dice = random.Random(key)
        transfer = dice.choice(KINDS)(stage, dice)
        command = dice.random() < _COMMANDS
        result.what, result.command = transfer.name, command
        transfer.prepare()
        chosen = profile(dice, transfer.size + 2000, command=command)
        result.about = f"{transfer.about}; faults: {chosen}"
        proxies = transfer.proxied(chosen, key)
        with ExitStack() as stack:
            for name, proxy in proxies.items():
                stack.enter_context(proxy)
                transfer.hosts[name] = proxy.host
            say(begun=result.to_dict())
            ended = transfer.call().run(command=command, longest=self._longest, options=OPTIONS)
            result.seconds, result.error = ended.seconds, ended.error
            result.outcome = "done" if ended.done else "failed"
            for proxy in proxies.values():
                result.connections += proxy.connections
                for fault, count in proxy.happened.items():
                    name = " ".join(filter(None, fault))
                    result.faults[name] = result.faults.get(name, 0) + count
                proxy.heal()
            result.problems += [*ended.problems, *transfer.check(ended, proxies)]
            if not ended.done:
                result.problems += self._once_more(transfer, result, proxies)

    def _once_more(self, transfer: Transfer, result: Result, proxies: dict[str, FaultyProxy]) -> list[Problem]:
        """The same without faults, and with the usual timeouts: it must succeed, whatever the failed one has left."""
        say(begun=result.to_dict())
        ended = transfer.call().run(command=False, longest=self._longest, options=None)
        problems = [*ended.problems, *transfer.check(ended, proxies)]
        if not ended.done:
            problems.append(Problem(WRONG, f"the same without faults fails, too: {ended.error}"))
        return problems


def say(**what: Any) -> None:
    """Write a line for the process that started this one."""
    print(json.dumps(what), file=_OUT, flush=True)


def main() -> None:
    """Work until there are no more numbers."""
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    seed, longest, folder = int(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3])
    # No file is as large; one that grows on and on must not take the disk of whoever runs this.
    resource.setrlimit(resource.RLIMIT_FSIZE, (_LARGEST, _LARGEST))
    os.environ["OCIBRIDGE_TEST_REGISTRY"] = "process"
    with ExitStack() as stack:
        registries = []
        for each in ("first", "second"):
            folder.joinpath(each).mkdir()
            server = stack.enter_context(registry_server(folder / each))
            registries.append((server.host, folder / each / "storage"))
        worker = Worker(seed, longest, folder, *registries)
        for line in sys.stdin:
            number = int(line)
            try:
                result = worker.do(number)
            except BaseException:  # noqa: BLE001 - what else went wrong with a transfer belongs to it
                result = Result(number, problems=[Problem(TRACEBACK, traceback.format_exc())])
            say(result=result.to_dict())


_OUT = os.fdopen(os.dup(1), "w")

if __name__ == "__main__":
    # What is printed by mistake must not get in between.
    os.dup2(2, 1)
    main()
