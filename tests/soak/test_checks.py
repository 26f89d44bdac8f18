# SPDX-License-Identifier: Apache-2.0
"""What must not be is found: each test makes one such thing, and looks whether it is counted."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ocibridge
from ocibridge import OcibridgeError, RegistryOptions

from ..registry import RegistryServer
from .calls import Call
from .models import arguments, contents, make_model
from .places import Layout, Place, Repository
from .results import LONG, TRACEBACK, UNFINISHED, WRONG, Problem, Result, figures, summary
from .transfers import Pull, Push, Stage, absent, compare

Report = dict[str, Any]


class Said:
    """A report."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def to_json(self) -> str:
        return json.dumps(self._report)


def raising(exc: Exception) -> Callable[[RegistryOptions | None], Any]:
    def function(options: RegistryOptions | None) -> Any:
        raise exc

    return function


def kinds(problems: list[Problem]) -> list[str]:
    return [problem.kind for problem in problems]


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    model = make_model(random.Random(3), tmp_path / "model", small=True, suffix=".carton")
    ocibridge.push(model.path, f"oci:{tmp_path / 'layout'}:v1")
    return tmp_path / "layout"


def blobs(layout: Path) -> list[Path]:
    root = next(iter(Layout(layout).tags().values())).removeprefix("sha256:")
    return sorted(path for path in (layout / "blobs" / "sha256").iterdir() if path.name != root)


def test_a_whole_layout_is_fine(layout: Path) -> None:
    place = Layout(layout)
    assert compare(place.tags(), [place.tags()], place) == []
    assert absent(place.tags(), place.tags()) == []


@pytest.mark.parametrize("harm", ["gone", "longer", "altered"])
def test_blobs_that_are_not_as_the_manifest_says(layout: Path, harm: str) -> None:
    place = Layout(layout)
    for path in blobs(layout):
        data = path.read_bytes()
        if harm == "gone":
            path.unlink()
        else:
            path.write_bytes(data + b"x" if harm == "longer" else bytes([data[0] ^ 1]) + data[1:])
        assert kinds(compare(place.tags(), [place.tags()], place)) == [UNFINISHED]
        path.write_bytes(data)


def test_a_tag_that_leads_elsewhere(layout: Path) -> None:
    place = Layout(layout)
    assert kinds(compare(place.tags(), [{"v2": place.tags()["v1"]}, {}], place)) == [UNFINISHED]
    assert kinds(absent(place.tags(), {"v1": "sha256:0", "v2": "sha256:1"})) == [WRONG, WRONG]


def test_repositories_and_archives_are_read_as_layouts_are(
    layout: Path, tmp_path: Path, registry: RegistryServer, repository: str
) -> None:
    ocibridge.copy(f"oci:{layout}:v1", f"oci-archive:{tmp_path / 'a.tar'}:v1")
    ocibridge.copy(f"oci:{layout}:v1", f"{registry.host}/{repository}:v1")
    places: list[Place] = [Layout(tmp_path / "a.tar"), Repository(registry.host, repository)]
    for place in places:
        assert place.tags() == Layout(layout).tags()
        assert compare(place.tags(), [place.tags()], place) == []
        assert place.missing(f"sha256:{'0' * 64}") == [f"manifest sha256:{'0' * 64} is not there"]
    assert Repository(registry.host, f"{repository}-none").tags() == Layout(tmp_path / "none").tags() == {}


@pytest.mark.parametrize(
    ("exc", "expected"),
    [
        (OcibridgeError("it failed"), []),
        (ocibridge.NetworkError("it failed"), []),
        (ocibridge.UsageError("it is wrong"), [TRACEBACK]),
        (ValueError("what is that"), [TRACEBACK]),
    ],
)
def test_other_errors_than_those_of_the_package(exc: Exception, expected: list[str]) -> None:
    ended = Call(raising(exc), ()).run(command=False, longest=10)
    assert not ended.done
    assert kinds(ended.problems) == expected
    assert str(exc) in ended.error


@pytest.mark.parametrize(("kind", "expected"), [("NetworkError", []), ("KeyError", [TRACEBACK])])
def test_errors_in_the_report_of_a_mirror_run(kind: str, expected: list[str]) -> None:
    item = {"outcome": "failed", "error": {"type": kind, "message": "it failed"}}
    ended = Call(lambda options: Said({"items": [item]}), ()).run(command=False, longest=10)
    assert not ended.done
    assert kinds(ended.problems) == expected


def test_calls_that_take_too_long() -> None:
    def slow(options: RegistryOptions | None) -> Said:
        time.sleep(0.05)
        return Said({})

    assert kinds(Call(slow, ()).run(command=False, longest=0.01).problems) == [LONG]


def test_commands(layout: Path) -> None:
    def problems(*argv: object) -> tuple[bool, list[str]]:
        ended = Call(raising(AssertionError()), argv).run(command=True, longest=60)
        return ended.done, kinds(ended.problems)

    assert problems("copy", f"oci:{layout}:v1", f"oci:{layout}-copy") == (True, [])
    assert problems("copy", f"oci:{layout}:v2", f"oci:{layout}-copy") == (False, [])
    assert problems("copy", "--no-such-option") == (False, [TRACEBACK])


def test_transfers_without_faults_are_fine_and_spoilt_ones_are_not(
    tmp_path: Path, registry: RegistryServer, repository: str
) -> None:
    for number in range(4):
        for kind in (Push, Pull):
            folder = tmp_path / f"{kind.name}{number}"
            folder.mkdir()
            name = f"{repository}-{kind.name}{number}"
            transfer = kind(Stage(folder, registry.host, registry.host, name), random.Random(number))
            transfer.prepare()
            transfer.hosts["first"] = registry.host
            ended = transfer.call().run(command=False, longest=60, options=None)
            assert ended.done, ended.error
            assert transfer.check(ended, {}) == []
            if isinstance(transfer, Push):
                ended.report["digest"] = "sha256:0"
                assert kinds(transfer.check(ended, {})) == [WRONG]
            else:
                (folder / "pulled" / "more").write_bytes(b"")
                assert kinds(transfer.check(ended, {})) == [WRONG]


def test_models_are_the_same_for_the_same_seed(tmp_path: Path) -> None:
    kinds_seen = set()
    for number in range(12):
        one, two = (make_model(random.Random(number), tmp_path / f"{number}{name}") for name in "ab")
        assert contents(one.path) == contents(two.path)
        assert (one.options, one.size) == (two.options, two.size)
        assert all(each.startswith("--") for each in arguments(one.options))
        kinds_seen.add(one.path.suffix)
    assert kinds_seen == {"", ".carton", ".mlarchive"}


def test_figures() -> None:
    results = [
        Result(0, "push", outcome="done", seconds=1.0, faults={"reset up": 2}, connections=3),
        Result(1, "pull", command=True, error="NetworkError: x", problems=[Problem(WRONG, "it is")]),
    ]
    lines = [" ".join(line.split()) for line in figures(results, 2.0)]
    assert "push 1 1 0" in lines
    assert "(by command line) 1 0 1" in lines
    assert "reset 2 0" in lines
    assert "errors: NetworkError 1" in lines
    assert summary(results).startswith("2 transfers: 1 wrong results, 0 look finished and are not")
    assert [Result.of(each.to_dict()) for each in results] == results
