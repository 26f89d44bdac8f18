# SPDX-License-Identifier: Apache-2.0
"""The benchmark over TLS verifies certificates with every tool that is there, and its bars are the bars."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import cases, tools
from benchmarks.cases import Model
from benchmarks.floors import GET_TLS, HASH, SYNC, Floor, tls_floors
from benchmarks.inputs import Blob
from benchmarks.measure import Row, Run
from benchmarks.place import Place
from benchmarks.server import Server
from benchmarks.tls import ORAS_CLI, Amount, Encrypted, pulls, pushes
from benchmarks.tls_page import tls_bars, tls_page

from .registry import TLS, RegistryServer

MiB = 1024 * 1024
RUN = Run(wall=1.3, user=0.5, system=0.25, server=0.25, rss=50 * MiB, disk=100 * MiB, read=7 * MiB)


def found() -> Encrypted:
    one, eight = (Model(label, Path("model.carton"), Path("layout"), (), "bench/model") for label in ("large", "eight"))
    rows = [
        Row(measure, tool, replace(RUN, wall=1.0 if tool == ORAS_CLI else 1.3), 1.0, 1.3)
        for model in (one, eight)
        for measure in (model.push, model.pull)
        for tool in (cases.CURL, cases.TAR, cases.FOLDER, cases.SKOPEO, ORAS_CLI)
    ]
    return Encrypted(
        Amount(512 * MiB, 1, 1), one, eight, rows, {GET_TLS: Floor(2.0, 1.0, 1.0), SYNC: Floor(0.5, 0.0, 0.0)}
    )


def changed(measure: str, tool: str, **figures: Any) -> Encrypted:
    """The same with other figures of one row."""
    rows = [
        replace(row, run=replace(row.run, **figures)) if (row.measure, row.tool) == (measure, tool) else row
        for row in found().rows
    ]
    return replace(found(), rows=rows)


def held(results: Encrypted) -> dict[str, bool | None]:
    return {bar.measure: bar.holds for bar in tls_bars(results, 2)}


@pytest.mark.parametrize(
    ("measure", "tool", "figures", "missed"),
    [
        ("pull, large", cases.FOLDER, {"wall": 1.31}, "pull, large, to a folder"),
        ("pull, eight", ORAS_CLI, {"wall": 0.99}, "pull, eight, to a folder"),
        ("push, large", cases.TAR, {"rss": 101 * MiB}, "peak RSS, all of ocibridge"),
    ],
)
def test_a_bar_fails_just_beyond_its_limit(measure: str, tool: str, figures: dict[str, float], missed: str) -> None:
    assert set(held(found()).values()) == {True}
    assert [name for name, holds in held(changed(measure, tool, **figures)).items() if not holds] == [missed]


def test_without_the_oras_cli_a_pull_is_compared_with_nothing() -> None:
    rest = replace(found(), rows=[row for row in found().rows if row.tool != ORAS_CLI])
    assert list(held(rest).values()) == [None, None, True]
    assert "Not installed, and left out: oras." in tls_page(rest, {}, 2, "Once.", ["oras"])


def test_the_page_has_every_row_and_what_stands_behind_a_miss() -> None:
    slow = changed("pull, large", cases.FOLDER, wall=1.5)
    text = tls_page(slow, {"memory": "1 GiB"}, 2, "Once.", [])
    for row in slow.rows:
        assert f"| {row.measure} | {row.tool} |" in text
    assert "1.50 × (1.50 s to 1.00 s) | **does not hold**" in text
    assert f"Steps that the other does not do, each alone: {SYNC} 0.25 s" in text
    assert f"Steps that nobody can leave out, each alone: {GET_TLS} 1.00 s;" in text
    assert "ocibridge 0.75 s and the registry 0.25 s, 33% of the 2 processors; oras CLI 0.75 s" in text


def place(folder: Path, registry: RegistryServer, authorities: Path = TLS / "ca.pem") -> Place:
    """One registry for both; commands that are not `ocibridge` need nothing but its address."""
    for name in ("work", "trust", "server"):
        (folder / name).mkdir(parents=True)
    shutil.copyfile(authorities, folder / "trust" / tools.AUTHORITIES)
    server = Server(registry.host, folder / "server", None)
    return Place(folder / "work", server, server, fsync_all=False, trust=folder / "trust")


def test_every_tool_that_is_there_pushes_and_pulls_over_tls(tls_registry: RegistryServer, tmp_path: Path) -> None:
    where = place(tmp_path, tls_registry)
    model = cases.weights(where, "few", "few", [MiB, MiB])
    weights = {blob.path.read_bytes() for blob in model.blobs}
    run = [case for case in pushes(where, model) if where.installed(case)]
    assert {case.tool for case in run} >= {cases.CURL, cases.TAR, cases.RAW}
    for case in run:
        where.measured(case)
    run = [case for case in pulls(where, model) if where.installed(case)]
    assert {case.tool for case in run} >= {cases.CURL, cases.CURL_PARALLEL, cases.FOLDER, cases.RAW_FOLDER}
    for case in run:
        where.measured(case)
        assert weights <= {path.read_bytes() for path in where.out.rglob("*") if path.is_file()}, case.tool


def test_every_tool_that_is_there_refuses_a_certificate_of_another_authority(
    tls_registry: RegistryServer, tmp_path: Path
) -> None:
    """Figures of a tool that does not verify the certificate would compare nothing."""
    where = place(tmp_path / "right", tls_registry)
    model = cases.weights(where, "few", "few", [MiB])
    other = place(tmp_path / "wrong", tls_registry, TLS / "client.pem")
    for case in (*pushes(other, model), *pulls(other, model)):
        if other.installed(case):
            with pytest.raises(SystemExit, match=r"(?i)certificate"):
                other.measured(case)


def test_the_steps_of_a_pull_over_tls_are_measured(tls_registry: RegistryServer, tmp_path: Path) -> None:
    where = place(tmp_path, tls_registry)
    model = cases.weights(where, "steps", "steps", [MiB])
    (blob,) = model.blobs
    assert blob == Blob(blob.path, "sha256:" + hashlib.sha256(blob.path.read_bytes()).hexdigest())
    steps = tls_floors(where, blob, model.repository, 1)
    assert {GET_TLS, HASH} < set(steps)
    assert all(step.wall > 0 for step in steps.values())
