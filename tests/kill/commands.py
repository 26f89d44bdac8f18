# SPDX-License-Identifier: Apache-2.0
"""The command line in a process of its own, and its sudden end."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

_LONGEST = 120.0


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes:
        status: Exit status, or minus the signal that ended it.
        out: Standard output.
        err: Standard error.
        seconds: How long it ran.
    """

    status: int
    out: str
    err: str
    seconds: float

    @property
    def report(self) -> Any:
        """What `--json` printed."""
        assert self.status == 0, self.err
        return json.loads(self.out)


def start(*argv: object) -> subprocess.Popen[str]:
    """Start `ocibridge ARGV`."""
    command = [sys.executable, "-m", "ocibridge", *map(str, argv)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(*argv: object, kill_after: float | None = None) -> Ended:
    """Run `ocibridge ARGV` to its end, or to that which comes after so many seconds."""
    began = time.monotonic()
    with start(*argv) as process:
        try:
            out, err = process.communicate(timeout=_LONGEST if kill_after is None else kill_after)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            assert kill_after is not None, f"it does not end: {argv} {err}"
    return Ended(process.returncode, out, err, time.monotonic() - began)
