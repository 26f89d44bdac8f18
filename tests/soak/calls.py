# SPDX-License-Identifier: Apache-2.0
"""One call of the library in this process, or the same as a command of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from ocibridge import OcibridgeError, RegistryOptions, UsageError
from ocibridge.mirror.jobs.job import Job
from ocibridge.stores.registry import Retry, Timeouts

from .results import LONG, TRACEBACK, Problem

OPTIONS = RegistryOptions(
    retries=Retry(attempts=4, first=0.01, longest=0.1),
    timeouts=Timeouts(connect=5.0, read=1.0, commit=2.0, write=1.0, rate=1024, window=2.0),
)
"""So little time that stalls do not take minutes."""


class QuickJob(Job):
    """A mirror job with `OPTIONS` for all registries."""

    @classmethod
    def of(cls, job: Job) -> QuickJob:
        """From any job."""
        return cls(**{each.name: getattr(job, each.name) for each in fields(job)})

    def options_for(self, host: str) -> RegistryOptions:
        """See `Job`."""
        return OPTIONS


@dataclass
class Ended:
    """How a call ended.

    Attributes:
        seconds: How long it took.
        report: The report as JSON; None where it failed before there was one.
        error: Class and text of the error, or nothing.
        problems: What must not be.
    """

    seconds: float = 0.0
    report: Any = None
    error: str = ""
    problems: list[Problem] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """Whether it reports success."""
        return self.report is not None and not self.error


@dataclass(frozen=True)
class Call:
    """What is to be done.

    Attributes:
        function: Does it with given options for registries, and returns a report.
        argv: The command that does the same.
    """

    function: Callable[[RegistryOptions | None], Any]
    argv: Sequence[object]

    def run(self, *, command: bool, longest: float, options: RegistryOptions | None = OPTIONS) -> Ended:
        """Do it, and measure."""
        began = time.monotonic()
        ended = self._command(longest) if command else self._here(options)
        ended.seconds = time.monotonic() - began
        if ended.seconds > longest:
            ended.problems.append(Problem(LONG, f"{ended.seconds:.0f} s {ended.error}"))
        if ended.report and (failed := _failed(ended.report)):
            ended.error = failed
            ended.problems += _of_unknown_class(ended.report)
        return ended

    def _here(self, options: RegistryOptions | None) -> Ended:
        try:
            return Ended(report=json.loads(self.function(options).to_json()))
        except UsageError as exc:
            return _bad(f"{type(exc).__name__}: {exc}", "nobody has made a mistake")
        except OcibridgeError as exc:
            return Ended(error=f"{type(exc).__name__}: {exc}")
        except Exception as exc:  # noqa: BLE001 - this is what is looked for
            text = "".join(traceback.format_exception(type(exc), exc, exc.__traceback__))
            return _bad(f"{type(exc).__name__}: {exc}", text)

    def _command(self, longest: float) -> Ended:
        command = [sys.executable, "-m", "ocibridge", *map(str, self.argv), "--json", "--progress=none"]
        try:
            found = subprocess.run(command, capture_output=True, text=True, timeout=longest + 5)
        except subprocess.TimeoutExpired:
            return Ended(error="TimeoutExpired: the command was ended")
        # A mirror run with failures prints its report, too.
        text = found.stdout.strip()
        report = json.loads(text) if text.startswith("{") else None
        said = found.stderr.strip()
        if found.returncode not in (0, 1) or "Traceback" in said or "should not happen" in said + text:
            return _bad(said, f"status {found.returncode}: {text}")
        if found.returncode == 0:
            return Ended(report=report)
        if report is not None and "items" in report:
            return Ended(report=report)
        if not said and not text:
            return _bad("nothing", "status 1, and not a word why")
        error = json.loads(said.splitlines()[-1])["error"]
        return Ended(error=f"{error['type']}: {error['message']}")


def _bad(error: str, text: str) -> Ended:
    return Ended(error=error, problems=[Problem(TRACEBACK, f"{error}: {text}")])


def _failed(report: dict[str, Any]) -> str:
    errors = [item["error"] for item in report.get("items", ()) if item["outcome"] == "failed"]
    return f"{errors[0]['type']}: {errors[0]['message']}" if errors else ""


def _of_unknown_class(report: dict[str, Any]) -> list[Problem]:
    known = {each.__name__ for each in _family(OcibridgeError)}
    found = [item["error"] for item in report["items"] if item["error"] and item["error"]["type"] not in known]
    return [Problem(TRACEBACK, f"{each['type']}: {each['message']}") for each in found]


def _family(kind: type[Exception]) -> set[type[Exception]]:
    return {kind}.union(*(_family(each) for each in kind.__subclasses__()))
