# SPDX-License-Identifier: Apache-2.0
"""The part of `docs/benchmarks.md` about the processor time of a small request."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from .clients import HTTP_CLIENT, HTTPX, OURS
from .mirror_inputs import artifact, make_artifacts
from .page import table
from .place import Place, note

REPOSITORY = "bench/request"


@dataclass(frozen=True)
class Amount:
    """How much is measured, and how often.

    Attributes:
        count: Requests of each client in a round.
        rounds: Rounds.
    """

    count: int
    rounds: int


@dataclass(frozen=True)
class Cost:
    """Medians of what a request costs a client.

    Attributes:
        user: Milliseconds of processor time in the program.
        system: Milliseconds of processor time in the kernel on its behalf.
        wall: Milliseconds until it has the answer.
    """

    user: float
    system: float
    wall: float

    @property
    def cpu(self) -> float:
        """Milliseconds of processor time."""
        return self.user + self.system


def measure(place: Place, amount: Amount) -> dict[str, Cost]:
    """What a request for a small manifest costs each client, all of them in one process of its own."""
    make_artifacts(place.pulls.host, REPOSITORY, 1)
    arguments = (place.pulls.host, REPOSITORY, "v0", str(amount.count), str(amount.rounds))
    command = (sys.executable, "-m", "benchmarks.clients", *arguments)
    done = subprocess.run(command, env=place.env(), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    found = {name: cost_of(rounds) for name, rounds in json.loads(done.stdout).items()}
    for name, cost in found.items():
        note(f"a small request, {name}: {cost.cpu:.3f} ms of processor time")
    place.forget()
    return found


def cost_of(rounds: list[dict[str, float]]) -> Cost:
    """The medians of what `benchmarks.clients` has printed of one client."""
    return Cost(*(statistics.median(each[name] for each in rounds) for name in ("user", "system", "wall")))


def clients_page(found: Mapping[str, Cost], machine: Mapping[str, str], how: str) -> str:
    """The part of the page.

    Args:
        found: What a request costs each client.
        machine: What took part.
        how: When and how often was measured, in a sentence.
    """
    size = len(artifact(0)[1])
    return f"""## Processor time of a small request

{how}

{table(("", ""), machine.items())}

A GET of a manifest of {size} bytes by its tag over plain HTTP, one request after the other over one connection that
stays open, all clients in turns in one process. The last one is what the commands and the library use: it verifies the
digest and reads the manifest's media type, too. The registry's own processor time is not in it; the wall time is that
of the client and the registry together.

{cost_table(found)}

{meaning(found)}
"""


def cost_table(found: Mapping[str, Cost]) -> str:
    """A row for each client; the ratio is to http.client."""
    head = ("client", "processor ms a request", "user ms", "system ms", "ratio", "wall ms a request")
    least = found[HTTP_CLIENT].cpu
    rows = [
        (
            name,
            f"{cost.cpu:.3f}",
            f"{cost.user:.3f}",
            f"{cost.system:.3f}",
            f"{cost.cpu / least:.2f}",
            f"{cost.wall:.3f}",
        )
        for name, cost in found.items()
    ]
    return table(head, rows)


def meaning(found: Mapping[str, Cost]) -> str:
    """What follows for commands that send many small requests."""
    ours, library = found[OURS].cpu, found[HTTPX].cpu
    return (
        f"What it means: a command that sends many small requests, as a mirror job does, cannot send more than "
        f"{1000 / ours:.0f} of them a second for each processor that it keeps busy, however many threads it has; with "
        f"httpx alone it would be {1000 / library:.0f}, with http.client {1000 / found[HTTP_CLIENT].cpu:.0f}. A "
        f"thousand requests take {ours:.2f} s of processor time, {abs(ours - library):.2f} s "
        f"{'more' if ours >= library else 'less'} than with httpx alone."
    )
