# SPDX-License-Identifier: Apache-2.0
"""Pushes, pulls and copies of random models, and what must hold after each of them, whether it failed or not."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import ocibridge

from .calls import Call, Ended
from .faults import Profile
from .models import Made, arguments, contents, make_model
from .places import Layout, Place, Repository
from .proxy import FaultyProxy
from .results import UNFINISHED, WRONG, Problem

TAG = "v1"


@dataclass(frozen=True)
class Stage:
    """Where a transfer takes place.

    Attributes:
        folder: An empty folder.
        first: A registry, `HOST:PORT`.
        second: Another one.
        repository: A name that neither of them has.
    """

    folder: Path
    first: str
    second: str
    repository: str


class Transfer(ABC):
    """A random transfer.

    Args:
        stage: Where it takes place.
        dice: What it is drawn from.
    """

    name = ""
    registries: tuple[str, ...] = ("first",)
    """The registries that it talks to, each through a proxy."""

    def __init__(self, stage: Stage, dice: random.Random) -> None:
        self.stage = stage
        self.dice = dice
        self.hosts: dict[str, str] = {}
        self.size = 1
        self.about = ""

    @abstractmethod
    def prepare(self) -> None:
        """Make what is needed, over connections without faults."""

    @abstractmethod
    def call(self) -> Call:
        """What is done through the proxies, which are in `hosts`."""

    @abstractmethod
    def check(self, ended: Ended, proxies: dict[str, FaultyProxy]) -> list[Problem]:
        """What is there afterwards that must not be, or is missing."""

    def proxied(self, profile: Profile, key: str) -> dict[str, FaultyProxy]:
        """A proxy for each registry."""
        return {name: FaultyProxy(getattr(self.stage, name), profile.plan(f"{key} {name}")) for name in self.registries}

    def older(self) -> Made:
        """A small model that is there before."""
        return make_model(self.dice, self.stage.folder / "older", small=True)


def compare(found: dict[str, str], allowed: list[dict[str, str]], place: Place) -> list[Problem]:
    """Tags that lead to something else than any of `allowed` says, or to something of which a part is missing."""
    problems = []
    for tag, digest in found.items():
        # Lists of referrers are merged at the target; whether they are complete is all that can be said.
        if not tag.startswith("sha256-") and digest not in {each.get(tag) for each in allowed}:
            problems.append(Problem(UNFINISHED, f"tag {tag} leads to {digest}, which nobody has pushed there"))
        problems += [Problem(UNFINISHED, f"tag {tag}: {text}") for text in place.missing(digest)]
    return problems


def absent(found: dict[str, str], wanted: dict[str, str]) -> list[Problem]:
    """Tags that a success promises, and that are not there."""
    return [
        Problem(WRONG, f"success, but tag {tag} leads to {found.get(tag)} instead of {digest}")
        for tag, digest in wanted.items()
        if found.get(tag) != digest and not tag.startswith("sha256-")
    ]


class Push(Transfer):
    """A model is pushed, in some cases to a tag that leads to an older one."""

    name = "push"

    def prepare(self) -> None:
        """See `Transfer`."""
        self.model = make_model(self.dice, self.stage.folder / "model")
        self.size = self.model.size
        self.about = f"{self.model.path.name} {self.model.options}"
        self._place = Repository(self.stage.first, self.stage.repository)
        self._before = {}
        if self.dice.random() < 0.2:
            ocibridge.push(self.older().path, f"{self.stage.first}/{self.stage.repository}:{TAG}")
            self._before = self._place.tags()

    @property
    def target(self) -> str:
        """Where it goes."""
        return f"{self.hosts['first']}/{self.stage.repository}:{TAG}"

    def call(self) -> Call:
        """See `Transfer`."""
        model, target = self.model, self.target
        return Call(
            lambda options: ocibridge.push(
                model.path, target, ocibridge.PushOptions(**model.options), registry=options
            ),
            ("push", model.path, target, *arguments(model.options)),
        )

    @cached_property
    def expected(self) -> dict[str, str]:
        """The tags of the same model in a layout: digests do not depend on the place."""
        layout = self.stage.folder / "expected"
        ocibridge.push(self.model.path, f"oci:{layout}:{TAG}", ocibridge.PushOptions(**self.model.options))
        return Layout(layout).tags()

    def check(self, ended: Ended, proxies: dict[str, FaultyProxy]) -> list[Problem]:
        """See `Transfer`."""
        found = self._place.tags()
        problems = compare(found, [self.expected, self._before], self._place)
        if ended.done:
            problems += absent(found, {**self.expected, TAG: ended.report["digest"]})
        return problems


class Pull(Transfer):
    """A model is pulled, in some cases over an older one."""

    name = "pull"

    def prepare(self) -> None:
        """See `Transfer`."""
        self.model = make_model(self.dice, self.stage.folder / "model")
        self.size = self.model.size
        ocibridge.push(
            self.model.path,
            f"{self.stage.first}/{self.stage.repository}:{TAG}",
            ocibridge.PushOptions(**self.model.options),
        )
        self._options: dict[str, Any] = {"concurrency": self.dice.randint(1, 4)}
        self._folder = self.stage.folder / "pulled"
        self._folder.mkdir()
        name = self.model.name
        plain = self.model.path.suffix == ".carton" and "exact" not in self.model.options
        if plain and self.dice.random() < 0.4:
            name = "back"
        elif plain:
            self._options["writing"] = {"zip_method": self.dice.choice(("stored", "deflate"))}
        self._dest = self._folder / name
        self._allowed = [contents(self.model.path)]
        if self.dice.random() < 0.15:
            ocibridge.pull(self._older(), self._dest)
            # The soak works on a tmpfs, some of which keep no record of a single file, so that it counts as foreign.
            self._options["overwrite" if self._dest.suffix else "force"] = True
            self._allowed.append(contents(self._dest))
        self.about = f"{self.model.path.name} {self.model.options} to {name} {self._options}"

    def _older(self) -> str:
        reference = f"{self.stage.first}/{self.stage.repository}:older"
        older = make_model(self.dice, self.stage.folder / "older", small=True, suffix=self.model.path.suffix)
        ocibridge.push(older.path, reference)
        return reference

    def call(self) -> Call:
        """See `Transfer`."""
        source, dest = f"{self.hosts['first']}/{self.stage.repository}:{TAG}", self._dest
        given = {**self._options, **self._options.get("writing", {})}
        argv = [
            f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}")
            for name, value in given.items()
            if name != "writing"
        ]
        return Call(
            lambda options: ocibridge.pull(source, dest, ocibridge.PullOptions(**self._options), registry=options),
            ("pull", source, dest, *argv),
        )

    def check(self, ended: Ended, proxies: dict[str, FaultyProxy]) -> list[Problem]:
        """See `Transfer`."""
        found = contents(self._dest) if self._dest.exists() else None
        if not ended.done:
            if found is None and len(self._allowed) > 1:
                return [Problem(WRONG, "a failed pull took away what was there before")]
            fine = found is None or found in self._allowed
            return [] if fine else [Problem(UNFINISHED, f"{self._dest.name} is there, but not as it was pushed")]
        problems = [] if found == self._allowed[0] else [Problem(WRONG, "success, but other files than were pushed")]
        more = [path.name for path in self._folder.iterdir() if path != self._dest]
        return [*problems, *([Problem(WRONG, f"success, but {more} are left behind")] if more else [])]


class Copy(Transfer):
    """A model is copied: between registries, within one, into a layout or an archive, or out of a layout."""

    name = "copy"
    registries: tuple[str, ...] = ("first", "second")

    def prepare(self) -> None:
        """See `Transfer`."""
        self.model = make_model(self.dice, self.stage.folder / "model")
        self.size = self.model.size
        way = self.dice.choices(("other", "same", "layout", "archive", "out"), (50, 10, 20, 8, 12))[0]
        self.registries = ("first", "second") if way == "other" else ("second" if way == "out" else "first",)
        self._way = way
        layout = self.stage.folder / "layout"
        where = f"oci:{layout}" if way == "out" else f"{self.stage.first}/{self.stage.repository}"
        ocibridge.push(self.model.path, f"{where}:{TAG}", ocibridge.PushOptions(**self.model.options))
        there: Place = Layout(layout) if way == "out" else Repository(self.stage.first, self.stage.repository)
        self._source = there.tags()
        self._options: dict[str, Any] = {"concurrency": self.dice.randint(1, 4)}
        self.about = f"{self.model.path.name} {self.model.options} to {way} {self._options}"
        copied = f"{self.stage.repository}-copy"
        if way in ("layout", "archive"):
            self._dest = self.stage.folder / ("copy.tar" if way == "archive" else "copy")
            self._place: Place = Layout(self._dest)
        else:
            self._place = Repository(self.stage.first if way == "same" else self.stage.second, copied)
        self._before = {}
        if way in ("other", "same", "out") and self.dice.random() < 0.2:
            host = self.stage.first if way == "same" else self.stage.second
            ocibridge.push(self.older().path, f"{host}/{copied}:{TAG}")
            self._before = self._place.tags()

    def _ends(self) -> tuple[str, str]:
        source = f"{self.hosts.get('first')}/{self.stage.repository}:{TAG}"
        copied = f"{self.stage.repository}-copy:{TAG}"
        if self._way == "out":
            source = f"oci:{self.stage.folder / 'layout'}:{TAG}"
        if self._way in ("layout", "archive"):
            return source, f"{'oci-archive' if self._way == 'archive' else 'oci'}:{self._dest}:{TAG}"
        return source, f"{self.hosts['first' if self._way == 'same' else 'second']}/{copied}"

    def call(self) -> Call:
        """See `Transfer`."""
        source, target = self._ends()
        return Call(
            lambda options: ocibridge.copy(
                source, target, ocibridge.CopyOptions(**self._options), registry=options, source_registry=options
            ),
            ("copy", source, target, f"--concurrency={self._options['concurrency']}"),
        )

    def check(self, ended: Ended, proxies: dict[str, FaultyProxy]) -> list[Problem]:
        """See `Transfer`."""
        found = self._place.tags()
        problems = compare(found, [self._source, self._before], self._place)
        if ended.done:
            problems += absent(found, {**self._source, TAG: ended.report["digest"]})
            if ended.report["digest"] != self._source[TAG]:
                problems.append(Problem(WRONG, "success, but the report names another digest than the source has"))
        return problems
