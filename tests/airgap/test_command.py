# SPDX-License-Identifier: Apache-2.0
"""`ocibridge copy` of many references: what it takes, and what it says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from ocibridge import schemas

from ..cli.conftest import Run, run
from ..mirror.artifacts import put, tags
from ..registry import RegistryServer

__all__ = ["run"]


@pytest.fixture
def references(source: RegistryServer, repository: str) -> list[str]:
    put(source.host, repository, "v1", [b"x" * 100_000])
    put(source.host, repository, "v2", [b"x" * 100_000, b"two"])
    return [f"{source.host}/{repository}:{tag}" for tag in ("v1", "v2")]


def test_there_and_back(
    run: Run, references: list[str], target: RegistryServer, repository: str, tmp_path: Path
) -> None:
    archive, inventory = f"oci-archive:{tmp_path}/x.tar", tmp_path / "inventory.json"
    packed = run("copy", *references, "--to", archive, "--inventory", inventory, "--volume-size", "64KiB")
    assert packed.status == 0
    assert packed.out.splitlines() == [f"{tmp_path}/x.tar.00{number}" for number in (1, 2)]
    assert re.search(r"ocibridge: packed 2 references; 3 blobs \(97\.7 KiB\); 2 volumes, in ", packed.err)

    restored = run("copy", "--from", archive, "--to", f"{target.host}/cli")
    assert restored.status == 0
    there = tags(target.host, f"cli/{repository}")
    assert restored.out.splitlines() == [f"{target.host}/cli/{repository}:{tag}@{there[tag]}" for tag in ("v1", "v2")]
    assert re.search(
        r"ocibridge: restored 2 references: 3 blobs copied \(97\.7 KiB\), 0 mounted, 2 there, in ", restored.err
    )

    delta = run(
        "copy", *references, "--to", f"oci-archive:{tmp_path}/d.tar", "--since", inventory, "--inventory", inventory
    )
    assert "packed 0 references, 2 unchanged; 0 blobs (0 B)" in delta.err
    again = run("copy", "--from", archive, "--to", f"{target.host}/cli", references[0], "-q")
    assert (again.status, again.err, len(again.out.splitlines())) == (0, "", 1)


def test_json(run: Run, references: list[str], target: RegistryServer, tmp_path: Path) -> None:
    archive = f"oci-archive:{tmp_path}/x.tar"
    for name, words in (
        ("airgap-pack", [*references, "--to", archive]),
        ("airgap-unpack", ["--from", archive, "--to", f"{target.host}/json"]),
    ):
        done = run("copy", *words, "--json")
        assert (done.status, done.err) == (0, "")
        Draft202012Validator(schemas.schema(name)).validate(json.loads(done.out))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["REF", "--volume-size", "4GiB"], "is for copies into and out of an archive; leave it out"),
        (["--from", "ARCHIVE"], "where the copies go is missing"),
        (["REF", "--to", "localhost:5000/x"], "many references go into one archive, and localhost:5000/x is none"),
        (["REF", "--to", "ARCHIVE", "--strip", "x"], "--strip is for restoring an archive; leave it out"),
        (["REF", "--to", "ARCHIVE", "--full"], "--full is for restoring an archive"),
        (["REF", "--to", "ARCHIVE", "--volume-size", "1"], "a volume of 1 bytes is too small"),
        (["REF", "--to", "ARCHIVE", "--volume-size", "many"], "'many' is no size; write for example"),
        (["REF", "--to", "ARCHIVE", "--from-insecure"], "--from-insecure is for a copy from SOURCE to TARGET"),
        (["--to", "ARCHIVE"], "there is nothing to pack"),
        (["--from", "ARCHIVE", "--to", "localhost:5000", "--since", "x"], "--since is for packing an archive"),
        (["--from", "ARCHIVE", "--to", "localhost:5000", "--no-referrers"], "--no-referrers is for packing an archive"),
        (["--from", "ARCHIVE", "--to", "localhost:5000", "--platform", "a/b"], "--platform is for packing an archive"),
        (["--from", "ARCHIVE:v1", "--to", "localhost:5000"], "names a tag; leave it out"),
        (["--from", "ARCHIVE", "--to", "oci:x", "--strip", "y"], "leave out --strip for a layout"),
    ],
)
def test_usage(run: Run, references: list[str], tmp_path: Path, words: list[str], message: str) -> None:
    places = {"REF": references[0], "ARCHIVE": f"oci-archive:{tmp_path}/x.tar"}
    outcome = run("copy", *(re.sub("^[A-Z]{3,}", lambda found: places[found[0]], word) for word in words))
    assert message in outcome.err
    assert (outcome.status, outcome.out, outcome.err.count("\n")) == (1 if "too small" in message else 2, "", 1)
    assert not list(tmp_path.iterdir())


def test_absent_archive(run: Run, tmp_path: Path) -> None:
    outcome = run("copy", "--from", f"oci-archive:{tmp_path}/x.tar", "--to", "localhost:5000")
    assert (outcome.status, outcome.err.count("\n")) == (1, 1)
    assert f"there is no archive oci-archive:{tmp_path}/x.tar; check the path" in outcome.err
