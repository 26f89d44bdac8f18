# SPDX-License-Identifier: Apache-2.0
"""Which faults a connection has: all of them follow from a seed and the number of the connection."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .framing import CONTENT, FRAME, HEAD, Frames

RESET, END, STALL, DRIP, FLIP, INSERT = KINDS = ("reset", "end", "stall", "drip", "flip", "insert")
ALTERING = (FLIP, INSERT)
WITHOUT_WAITING = tuple(kind for kind in KINDS if kind != STALL)


class Fault(NamedTuple):
    """Something that happens to one direction of a connection.

    Attributes:
        kind: `reset` (RST to both sides), `end` (FIN to both sides), `stall` (nothing passes for a while), `drip`
            (hardly anything does), `flip` (one bit), `insert` (bytes that nobody has sent).
        up: Whether it is the direction to the server.
        at: Bytes that pass before it; of those that may be altered, where the fault alters some.
        where: Only messages are counted whose request has this in its first line, as a manifest is small and comes
            late. An answer is known to be one when its head has passed.
        seconds: How long a stall or a drip lasts.
        bit: The bit that is flipped, 0 to 7.
        data: What is inserted; of a drip, as many bytes pass at once.
        parts: Which parts of messages may be altered, see `tests.soak.framing`.
    """

    kind: str
    up: bool
    at: int
    seconds: float = 0.0
    bit: int = 0
    data: bytes = b""
    parts: tuple[str, ...] = ()
    where: bytes = b""


Plan = Callable[[int], Sequence[Fault]]
"""The faults of a connection by its number, from 0; at most one for each direction."""


@dataclass(frozen=True)
class Profile:
    """How bad the connections of a transfer are.

    Attributes:
        name: For the report.
        share: Of the connections that have a fault.
        kinds: Those that are drawn from.
        span: Faults happen within so many bytes.
        first: Only so many connections have faults; None is all of them.
        same: The fault that all of them have, or None.
        heads: Whether heads of responses and the framing of chunks may be altered.
    """

    name: str
    share: float = 0.0
    kinds: tuple[str, ...] = KINDS
    span: int = 1
    first: int | None = None
    same: Fault | None = None
    heads: bool = True

    def plan(self, key: str) -> Plan:
        """The plan of a proxy of its own, whose connections are drawn from `key`."""

        def faults(number: int) -> Sequence[Fault]:
            dice = random.Random(f"{key} {number}")
            if dice.random() >= self.share or (self.first is not None and number >= self.first):
                return ()
            if self.same:
                return (self.same,)
            one = draw(dice, self.kinds, self.span, heads=self.heads)
            harmless = tuple(kind for kind in self.kinds if kind not in ALTERING)
            # Two alterations at once could hide each other: that of a manifest behind that of its digest in the head.
            if dice.random() >= 0.2 or not harmless:
                return (one,)
            return one, draw(dice, harmless, self.span, up=not one.up)

        return faults


def draw(dice: random.Random, kinds: Sequence[str], span: int, *, up: bool | None = None, heads: bool = True) -> Fault:
    """One fault; small positions are as likely as large ones, so that heads are hit as well as weights."""
    kind = dice.choice(kinds)
    way = dice.random() < 0.5 if up is None else up
    parts: tuple[str, ...] = (CONTENT,)
    if heads:
        parts = (FRAME, CONTENT) if way else (HEAD, FRAME, CONTENT)
    where = dice.choice((b"", b"/manifests/", b"/manifests/", b"/blobs/")) if kind in ALTERING else b""
    return Fault(
        kind,
        way,
        at=int((min(span, 1500) if where == b"/manifests/" else span) ** dice.random()) - 1,
        seconds=dice.choice((0.1, 0.4, 1.5, 5.0)) if kind == STALL else dice.uniform(0.1, 0.6),
        bit=dice.randrange(8),
        data=dice.randbytes(dice.choice((1, 1, 2, 7, 40))),
        parts=parts if kind in ALTERING else (),
        where=where,
    )


def profile(dice: random.Random, span: int, *, command: bool) -> Profile:
    """The profile of a transfer.

    Args:
        dice: What it is drawn from.
        span: Bytes that the transfer moves, or so.
        command: Whether the timeouts are those of the command line: nothing may make it wait for them.
    """
    if command:
        return Profile("first", 0.9, WITHOUT_WAITING, span, first=dice.randint(1, 3), heads=False)
    name = dice.choices(("none", "some", "kind", "first", "same"), (6, 50, 20, 18, 6))[0]
    if name == "some":
        return Profile(name, dice.uniform(0.1, 0.8), span=span)
    if name == "kind":
        return Profile(name, dice.uniform(0.2, 1.0), (dice.choice(KINDS),), span)
    if name == "first":
        return Profile(name, 1.0, span=span, first=dice.randint(1, 4))
    if name == "same":
        return Profile(name, 1.0, same=draw(dice, KINDS, max(1000, span // 8)))
    return Profile(name)


class Faulty:
    """What becomes of the bytes of one direction.

    Args:
        fault: What happens to it, if anything.
        frames: Takes its messages apart; None where nothing of the connection is altered.
    """

    def __init__(self, fault: Fault | None, frames: Frames | None) -> None:
        self._fault = fault
        self._frames = frames
        self._count = 0
        self.hit = ""
        """The part of a message that was altered."""

    def feed(self, data: bytes) -> Iterator[bytes | Fault]:
        """What is to be sent for `data`; a fault that alters nothing stands in the place where it happens."""
        for what, piece in self._frames.split(data) if self._frames else ((CONTENT, data),):
            fault = self._fault
            if fault is None or not self._counts(fault, what):
                yield piece
            elif self._count + len(piece) <= fault.at:
                self._count += len(piece)
                yield piece
            else:
                self._fault, self.hit = None, what
                at = fault.at - self._count
                yield piece[:at]
                yield fault
                yield _altered(fault, piece[at:])

    def _counts(self, fault: Fault, what: str) -> bool:
        meant = not fault.where or (self._frames is not None and fault.where in self._frames.request)
        return meant and (not fault.parts or what in fault.parts)


def _altered(fault: Fault, data: bytes) -> bytes:
    if fault.kind == FLIP:
        return bytes([data[0] ^ 1 << fault.bit]) + data[1:]
    return fault.data + data if fault.kind == INSERT else data
