# SPDX-License-Identifier: Apache-2.0
"""A job of 200 artifacts, killed at 20 moments: each run goes on, and nothing that was finished moves again."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ..mirror.artifacts import job, put, tags, whole
from ..registry import registry_server
from .commands import run, start

ARTIFACTS, KILLS = 200, 20


@pytest.mark.xdist_group("mirror-kills")
@pytest.mark.timeout(600)
def test_a_job_that_is_killed_again_and_again(tmp_path: Path) -> None:
    chance = random.Random(6)
    for name in ("source", "target"):
        (tmp_path / name).mkdir()
    with registry_server(tmp_path / "source") as source, registry_server(tmp_path / "target") as target:
        shared = chance.randbytes(300_000)

        def make(repository: int) -> None:
            for number in range(repository, ARTIFACTS, 10):
                own = random.Random(number)
                size = 3_000_000 if number % 20 == 0 else 4096
                layers = [shared, own.randbytes(size), own.randbytes(999)]
                put(source.host, f"models/m{repository}", f"v{number}", layers)

        # A repository is filled by one thread: a registry that writes the link of a shared blob anew reads half of it.
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(make, range(10)))
        path = job(
            tmp_path / "job.yaml",
            f"""
            version: 1
            sync:
              - {{source: {source.host}, target: {target.host}, type: registry}}
            """,
        )
        journal = tmp_path / "journal"
        command = ("mirror", "run", path, "--journal", journal, "--json")
        kills = changes = 0
        while kills < KILLS:
            if _killed(command, journal, chance.randrange(40_000)):
                kills += 1
                _assert_nothing_moved_twice(journal)
                continue
            # It was done before its moment came: give it more to do.
            changes += 1
            for number in range(ARTIFACTS):
                put(source.host, f"models/m{number % 10}", f"v{number}", [b"%d %d" % (number, changes), shared])
        report = run(*command).report
        for number in range(10):
            there = tags(source.host, f"models/m{number}")
            assert tags(target.host, f"models/m{number}") == there
            for tag in there:
                expected = whole(source.host, f"models/m{number}", tag)
                assert whole(target.host, f"models/m{number}", tag) == expected
        assert report["counts"].get("failed", 0) == 0
        assert report["resumed"] <= report["counts"].get("skipped", 0)
        _assert_nothing_moved_twice(journal)
        assert changes < KILLS


def _killed(command: tuple[object, ...], journal: Path, after: int) -> bool:
    """Run the job until its journal has grown by so many bytes, and kill it; False if it was done before that."""
    before = journal.stat().st_size if journal.exists() else 0
    with start(*command) as process:
        end = time.monotonic() + 120
        while process.poll() is None:
            assert time.monotonic() < end, "it does not get on"
            if journal.exists() and journal.stat().st_size >= before + after:
                process.kill()
                break
            time.sleep(0.005)
        _, err = process.communicate()
    assert process.returncode in (0, -9), err
    return process.returncode == -9


def _assert_nothing_moved_twice(journal: Path) -> None:
    # The last line may be torn.
    lines: list[dict[str, Any]] = [json.loads(line) for line in journal.read_text().split("\n")[:-1]]
    copied = Counter(line["blob"] for line in lines if line.get("action") == "copied")
    assert set(copied.values()) <= {1}, copied.most_common(3)
