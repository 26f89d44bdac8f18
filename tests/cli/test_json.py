# SPDX-License-Identifier: Apache-2.0
"""One JSON language: every command is run with `--json`, and what it prints follows its schema and the conventions."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ocibridge import schemas
from ocibridge.about import SCHEMAS, USER_AGENT
from ocibridge.airgap.inventory import Inventory
from ocibridge.report import JsonReport

from ..registry import PASSWORD, USER, RegistryServer
from ..test_schemas import check
from .conftest import FIXTURES, Run

CARTON = FIXTURES / "digits.carton"
JOB = "version: 1\nsync:\n  - {{source: 'oci:{folder}/layout', target: 'oci:{folder}/mirror', type: repository}}\n"
COMMANDS = """
push            push {carton} {place}:v1 --also image
push            push {carton} oci:{folder}/layout:v1 -q
push-plan       push {carton} {place}:planned --dry-run
inspect         inspect {place}:v1
inspect         inspect {carton}
verify          verify {place}:v1
verify          verify {carton}
diff            diff {carton} {place}:v1
push            push {carton} {place}:raw --layers raw-files
verify          verify {place}:raw --manifest-only
pull            pull {place}:v1 {folder}/back.carton
pull            pull {place}:raw {folder}/thin.carton --thin
copy            copy {place}:v1 oci:{folder}/copied
convert         convert {carton} {place}:converted
convert         convert {place}:v1 {place}:other --dialect modelpack
convert         convert {place}:v1 {folder}/folder
convert         convert {carton} {folder}/other
airgap-pack     copy {place}:v1 --to oci-archive:{folder}/a.tar --inventory {folder}/inventory.json
airgap-pack     copy {place}:v1 --to oci-archive:{folder}/b.tar --since {folder}/inventory.json
airgap-pack     copy {place}:v1 --to oci-archive:{folder}/c.tar --volume-size 1MiB
airgap-unpack   copy --from oci-archive:{folder}/a.tar --to {host}/restored
airgap-unpack   copy --from oci-archive:{folder}/a.tar --to oci:{folder}/restored
mirror-plan     mirror plan {folder}/job.yaml -o {folder}/plan.json
mirror-report   mirror run {folder}/job.yaml --report {folder}/report.json
mirror-plan     mirror check {folder}/job.yaml
volume-prepare  volume prepare {place}:v1
volume-check    volume check {place}:v1-image
volume-manifest volume manifest {place}:v1
tags            tags {place}
ls              ls {host}
tag             tag {place}:v1 stable
rm              rm {place}:v1 --all-tags --companions
logout          logout {host}
"""
WRITTEN = {"airgap-inventory": "inventory.json", "mirror-plan": "plan.json", "mirror-report": "report.json"}
ELSEWHERE = {"login", "error", "event"}
"""Documents that tests of their own check."""


def ours() -> dict[str, Any]:
    """The schemas of documents that are this program's own, by name."""
    found = {}
    for name, kind in schemas.DOCUMENTS.items():
        if issubclass(kind, JsonReport | schemas.AnyEvent | Inventory):
            found[name] = schemas.schema(name)
    return found


def objects(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The properties of every object of a schema."""
    for part in (schema, *schema.get("$defs", {}).values()):
        if "properties" in part:
            yield part["properties"]


def types_of(value: dict[str, Any]) -> set[str]:
    """The types that a property may have, but for null."""
    return {each.get("type", "object") for each in value.get("anyOf", [value])} - {"null"}


def test_every_command_prints_what_its_schema_says(
    run: Run, registry: RegistryServer, repository: str, tmp_path: Path
) -> None:
    words = {"host": registry.host, "place": f"{registry.host}/{repository}", "carton": CARTON, "folder": tmp_path}
    (tmp_path / "job.yaml").write_text(JOB.format(**words))
    for line in COMMANDS.strip().splitlines():
        name, *arguments = line.format(**words).split()
        done = run(*arguments, "--json")
        assert (done.status, done.err) == (0, ""), line
        document = json.loads(done.out)
        check(name, document)
        assert (document["$schema"], document["generator"]) == (SCHEMAS + name, USER_AGENT), line
    for name, file in WRITTEN.items():
        check(name, json.loads((tmp_path / file).read_bytes()))
    tested = {line.split()[0] for line in COMMANDS.strip().splitlines()} | set(WRITTEN) | ELSEWHERE
    assert tested == set(ours())


def test_a_login(run: Run, auth_registry: RegistryServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PASSWORD.encode())))
    done = run("login", auth_registry.host, "-u", USER, "--password-stdin", "--json")
    check("login", json.loads(done.out))
    check("logout", json.loads(run("logout", auth_registry.host, "--json").out))


@pytest.mark.parametrize("arguments", [["inspect", "nothing-here", "--json"], ["inspect", "--json"], ["push", "--jsn"]])
def test_an_error(run: Run, arguments: list[str]) -> None:
    done = run(*arguments)
    if "--json" not in arguments:
        assert done.err.startswith("ocibridge: error: ")
        return
    check("error", json.loads(done.err))


def test_all_of_standard_error_is_json(run: Run, registry: RegistryServer, repository: str, tmp_path: Path) -> None:
    place = f"{registry.host}/{repository}:v1"
    (tmp_path / "job.yaml").write_text(JOB.format(folder=tmp_path))
    seen = set()
    for arguments in (
        ["push", CARTON, place],
        ["push", CARTON, f"oci:{tmp_path}/layout:v1"],
        ["convert", CARTON, tmp_path / "x.mlarchive"],
        ["pull", place, tmp_path / "thin.carton", "--thin"],
        ["volume", "prepare", place],
        ["mirror", "run", tmp_path / "job.yaml"],
    ):
        done = run(*arguments, "--progress", "json")
        for line in done.err.splitlines():
            document = json.loads(line)
            check("event" if "event" in document else "error", document)
            seen.add(document.get("event", "error"))
    assert seen >= {"plan", "start", "finish", "warning", "summary", "tag", "error"}


def test_losses_are_in_the_report_and_nowhere_else(run: Run, tmp_path: Path) -> None:
    done = run("convert", CARTON, tmp_path / "x.mlarchive", "--json")
    assert (done.status, done.err) == (0, "")
    assert any("symbolic links" in loss for loss in json.loads(done.out)["losses"])


@pytest.mark.parametrize("name", ours())
def test_documents_name_their_schema_and_their_generator(name: str) -> None:
    schema = ours()[name]
    assert schema["$id"] == SCHEMAS + name
    parts = schema["$defs"].values() if name == "event" else [schema]
    heads = [part for part in parts if "$schema" in part["properties"]]
    assert len(heads) >= 1
    for part in heads:
        assert part["properties"]["$schema"]["const"] == schema["$id"]
        assert {"$schema", "generator"} <= set(part["required"])


@pytest.mark.parametrize("name", ours())
def test_the_same_thing_has_the_same_name_and_type_everywhere(name: str) -> None:
    for properties in objects(ours()[name]):
        for key, value in properties.items():
            types = types_of(value)
            if key in ("started", "ended", "time") or key.endswith("At"):
                formats = {each.get("format") for each in value.get("anyOf", [value]) if each.get("type") != "null"}
                assert (types, formats) == ({"string"}, {"date-time"}), (name, key)
            if key in ("files", "warnings", "failures", "items", "tags"):
                assert types == {"array"}, (name, key)
            if key in ("size", "kept") or key.endswith(("Bytes", "Count")):
                assert types == {"integer"}, (name, key)
            if key == "seconds":
                assert types == {"number"}, (name, key)
            assert key not in ("subject", "archive", "fileNames", "bytes", "duration"), (name, key)
