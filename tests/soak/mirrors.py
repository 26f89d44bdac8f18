# SPDX-License-Identifier: Apache-2.0
"""Runs of mirror jobs with a few tags: artifacts that share layers, indexes, and what refers to them."""

from __future__ import annotations

from pathlib import Path

import ocibridge
from ocibridge.mirror.jobs.job import Job

from ..mirror.artifacts import put, put_index
from .calls import Call, Ended, QuickJob
from .places import Layout, Place, Repository
from .proxy import FaultyProxy
from .results import WRONG, Problem
from .transfers import Transfer, absent, compare


class Mirror(Transfer):
    """A mirror job is run; its targets may have some of the tags, or older ones."""

    name = "mirror"
    registries: tuple[str, ...] = ("first", "second")

    def prepare(self) -> None:
        """See `Transfer`."""
        dice, stage = self.dice, self.stage
        self._to_layout = dice.random() < 0.2
        if self._to_layout:
            self.registries = ("first",)
        self._repositories = [f"{stage.repository}-{number}" for number in range(dice.choice((1, 1, 2)))]
        self._tags = dice.randint(2, 5)
        self._workers = dice.randint(1, 4)
        self._journal = stage.folder / "journal" if dice.random() < 0.5 else None
        self.about = f"{self._repositories} {self._tags} tags, {self._workers} workers, layout {self._to_layout}"
        shared = dice.randbytes(dice.randint(1, 200_000))
        for name in self._repositories:
            for number in range(self._tags):
                self._put(name, f"v{number}", shared)
        self._source = {name: Repository(stage.first, name).tags() for name in self._repositories}
        self._before = {name: self._earlier(name, shared) for name in self._repositories}

    def _put(self, name: str, tag: str, shared: bytes) -> None:
        dice, host = self.dice, self.stage.first
        layers = [dice.randbytes(int(100_000 ** dice.random())) for _ in range(dice.randint(0, 3))]
        if dice.random() < 0.05:
            layers.append(dice.randbytes(dice.randint(1_000_000, 4_000_000)))
        layers.append(shared if dice.random() < 0.6 else dice.randbytes(100))
        self.size += sum(len(layer) for layer in layers)
        if dice.random() < 0.2:
            children = [put(host, name, None, [each]) for each in layers[:2]]
            root = put_index(host, name, tag, children)
        else:
            root = put(host, name, tag, layers)
        if dice.random() < 0.2:
            put(host, name, None, [b"signature"], subject=root, artifact_type="application/vnd.example.signature")

    def _earlier(self, name: str, shared: bytes) -> dict[str, str]:
        if self._to_layout or self.dice.random() < 0.7:
            return {}
        put(self.stage.second, name, "v0", [shared, b"older"])
        return Repository(self.stage.second, name).tags()

    def _target(self, name: str) -> Path:
        return self.stage.folder / name.replace("/", "-")

    def call(self) -> Call:
        """See `Transfer`."""
        path = self.stage.folder / "job.yaml"
        lines = ["version: 1", "sync:"]
        for name in self._repositories:
            target = f"oci:{self._target(name)}" if self._to_layout else f"{self.hosts['second']}/{name}"
            lines.append(f"  - {{source: '{self.hosts['first']}/{name}', target: '{target}', type: repository}}")
        path.write_text("\n".join(lines) + "\n")

        def run(options: ocibridge.RegistryOptions | None) -> ocibridge.MirrorReport:
            job = Job.load(path)
            return ocibridge.mirror_run(
                job if options is None else QuickJob.of(job),
                journal=self._journal,
                options=ocibridge.RunOptions(workers=self._workers),
            )

        journal = ["--no-journal"] if self._journal is None else ["--journal", str(self._journal)]
        return Call(run, ("mirror", "run", path, f"--workers={self._workers}", *journal))

    def check(self, ended: Ended, proxies: dict[str, FaultyProxy]) -> list[Problem]:
        """See `Transfer`."""
        problems = []
        for name in self._repositories:
            place: Place = Layout(self._target(name)) if self._to_layout else Repository(self.stage.second, name)
            found = place.tags()
            source = self._source[name]
            problems += compare(found, [source, self._before[name]], place)
            # A list of tags has no digest: what was altered in it may hide some of them, which nobody can notice.
            if ended.done and not proxies["first"].altered("down"):
                problems += absent(found, source)
            problems += self._check_items(ended, name, found)
        return problems

    def _check_items(self, ended: Ended, name: str, found: dict[str, str]) -> list[Problem]:
        problems = []
        end = f"{self._target(name)}" if self._to_layout else f"/{name}"
        for item in ended.report["items"] if ended.report else ():
            place, _, tag = item["target"].rpartition(":")
            if item["outcome"] in ("copied", "skipped") and place.endswith(end):
                wanted = self._source[name].get(tag)
                if not found.get(tag) == item["digest"] == wanted:
                    text = f"{item['target']} is {item['outcome']} as {item['digest']}; it leads to {found.get(tag)}"
                    problems.append(Problem(WRONG, f"{text} instead of {wanted}"))
        return problems
