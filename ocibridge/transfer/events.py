# SPDX-License-Identifier: Apache-2.0
"""Events of a command as JSON lines, as `--progress json` prints them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from ..report import JsonReport, Time, now, schema_named


class Event(JsonReport):
    """Base of all events: one JSON object on one line."""

    schema_id: str = schema_named("event")
    event: str
    time: Time = Field(default_factory=now)

    def line(self) -> str:
        """The event as JSON, without a line break."""
        return self.model_dump_json(by_alias=True)


class PlanEvent(Event):
    """A phase begins. There may be several phases, and none of them needs to have anything to do."""

    event: Literal["plan"] = "plan"
    phase: str
    tasks: int = Field(description="number of tasks of the phase, such as layers")
    size: int = Field(description="bytes; 0 where nobody knows how many there will be")


class ProgressEvent(Event):
    """The state of a phase, once a second."""

    event: Literal["progress"] = "progress"
    phase: str
    tasks: int = Field(description="number of tasks of the phase")
    finished: int = Field(description="number of those that are finished")
    size: int = Field(description="bytes of the phase; 0 where nobody knows how many there will be")
    done: int = Field(description="bytes that are where they belong")
    rate: int = Field(description="bytes a second that move at present")


class StartEvent(Event):
    """A task begins."""

    event: Literal["start"] = "start"
    phase: str
    label: str = Field(description="what is moved or read: a file, a digest, a reference")
    part_of: str | None = Field(None, description="label of the task that it is a part of, such as the tag of a blob")
    size: int = Field(description="bytes; 0 if nobody knows yet")


class FinishEvent(Event):
    """A task has ended."""

    event: Literal["finish"] = "finish"
    phase: str
    label: str = Field(description="what was moved or read: a file, a digest, a reference")
    part_of: str | None = Field(None, description="label of the task that it was a part of, such as the tag of a blob")
    size: int = Field(description="bytes; 0 if nobody knows yet")
    outcome: str = Field(description="such as done, skipped, mounted, failed")


class MessageEvent(Event):
    """A sentence for people: a note, a warning, or the summary of a command that has come to its end."""

    event: Literal["note", "warning", "summary"]
    text: str
