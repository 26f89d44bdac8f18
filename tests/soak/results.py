# SPDX-License-Identifier: Apache-2.0
"""What became of transfers, and the figures about all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

WRONG, UNFINISHED, TRACEBACK, LONG = ZEROS = ("wrong results", "look finished and are not", "tracebacks", "too long")


@dataclass(frozen=True)
class Problem:
    """What must not be.

    Attributes:
        kind: One of `ZEROS`.
        text: What it is.
    """

    kind: str
    text: str


@dataclass
class Result:
    """What became of a transfer.

    Attributes:
        number: Of the transfer.
        what: What was done: `push`, `pull` and so on.
        command: Whether the command line did it.
        about: Model, options and profile of the faults.
        outcome: `done`, or `failed`.
        error: Class and text of the error of a failed one.
        seconds: The longest of its commands.
        faults: How often each fault did happen, by `KIND DIRECTION PART`.
        connections: How many there were, through all proxies.
        problems: What must not be.
    """

    number: int
    what: str = "?"
    command: bool = False
    about: str = ""
    outcome: str = "failed"
    error: str = ""
    seconds: float = 0.0
    faults: dict[str, int] = field(default_factory=dict)
    connections: int = 0
    problems: list[Problem] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @classmethod
    def of(cls, found: dict[str, Any]) -> Result:
        """From JSON."""
        return cls(**{**found, "problems": [Problem(**each) for each in found["problems"]]})


def figures(results: Sequence[Result], seconds: float) -> list[str]:
    """The lines of a report."""
    kinds = Counter(name for each in results for name in _rows(each))
    outcomes = Counter((name, each.outcome) for each in results for name in _rows(each))
    lines = [_row("transfers", "all", "done", "failed")]
    lines += [_row(name, kinds[name], outcomes[name, "done"], outcomes[name, "failed"]) for name in sorted(kinds)]
    lines += [_row("all", len(results), *(sum(each.outcome == how for each in results) for how in ("done", "failed")))]
    errors = Counter(each.error.partition(":")[0] for each in results if each.error)
    lines += ["", f"errors: {', '.join(f'{name} {count}' for name, count in errors.most_common()) or 'none'}"]
    faults: Counter[str] = Counter()
    for each in results:
        faults.update(each.faults)
    lines += ["", _row("faults that happened", "up", "down")]
    for name in sorted({key.replace(" up", "").replace(" down", "") for key in faults}):
        kind, _, part = name.partition(" ")
        lines.append(_row(name, *(faults[f"{kind} {way} {part}".strip()] for way in ("up", "down"))))
    longest = max(results, key=lambda each: each.seconds)
    lines += [
        "",
        f"{sum(faults.values())} faults in {sum(each.connections for each in results)} connections",
        f"longest command {longest.seconds:.1f} s (transfer {longest.number}), all {seconds:.0f} s, "
        f"{len(results) / seconds:.1f} transfers/s",
    ]
    return lines


def summary(results: Sequence[Result]) -> str:
    """One line: how often what must not be has been."""
    counts = Counter(problem.kind for each in results for problem in each.problems)
    return f"{len(results)} transfers: {', '.join(f'{counts[kind]} {kind}' for kind in ZEROS)}"


def _rows(result: Result) -> Sequence[str]:
    return (result.what, "(by command line)") if result.command else (result.what,)


def _row(name: str, *cells: object) -> str:
    return f"{name:<28}" + "".join(f"{cell!s:>8}" for cell in cells)
