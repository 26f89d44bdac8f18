# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.sampling RESULT ARGUMENT...`: runs ocibridge, and looks every 5 ms at what its threads do.

A sample is the line that a thread is in, also while that line has handed the work to C. All waits for other threads
have one name, and so have all imports.
"""

from __future__ import annotations

import json
import linecache
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType

INTERVAL = 0.005
WAITING = "(waiting for another thread)"
IMPORTING = "(importing modules)"
_WAITS = ("threading", "queue", "concurrent.futures", "selectors")


class Sampler:
    """Counts what the threads of this process do, until `stop`."""

    def __init__(self) -> None:
        self.looks = 0
        self.lines: Counter[str] = Counter()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        own = threading.get_ident()
        while not self._done.wait(INTERVAL):
            self.looks += 1
            for thread, frame in sys._current_frames().items():
                if thread != own:
                    self.lines[described(frame)] += 1


def described(frame: FrameType) -> str:
    """Function and source line of a frame."""
    module = frame.f_globals.get("__name__", "?")
    if module.startswith(_WAITS):
        return WAITING
    if module.startswith("importlib"):
        return IMPORTING
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    return f"{module}.{frame.f_code.co_name}" + (f": {line}" if line else "")


def main(arguments: list[str]) -> int:
    """Run a command, and write `{"looks": N, "lines": {LINE: SAMPLES}}`."""
    from ocibridge.cli.main import main as run

    sampler = Sampler()
    sampler.start()
    try:
        return run(arguments[1:])
    finally:
        sampler.stop()
        Path(arguments[0]).write_text(json.dumps({"looks": sampler.looks, "lines": sampler.lines}))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
