# SPDX-License-Identifier: Apache-2.0
"""The log of the package on standard error: warnings while progress is shown, everything with `--verbose`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .output import say

_LOG = logging.getLogger("ocibridge")


class Notes(logging.Handler):
    """Hands what is logged to `show`, which bars replace, so that they and the lines do not garble each other."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.show: Callable[[str], None] = say

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        self.show(record.getMessage())


@contextmanager
def noting(level: int) -> Iterator[Notes]:
    """Show what is logged at this level and above while the block runs, unless that is done already."""
    found = next((each for each in _LOG.handlers if isinstance(each, Notes)), None)
    if found is not None:
        yield found
        return
    notes, before = Notes(level), _LOG.level
    _LOG.addHandler(notes)
    if level < logging.WARNING:
        _LOG.setLevel(level)
    try:
        yield notes
    finally:
        _LOG.removeHandler(notes)
        _LOG.setLevel(before)


@contextmanager
def shown_by(show: Callable[[str], None]) -> Iterator[None]:
    """Show what is logged, warnings at least, by another function while the block runs."""
    with noting(logging.WARNING) as notes:
        before, notes.show = notes.show, show
        try:
            yield
        finally:
            notes.show = before
