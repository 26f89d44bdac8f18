# SPDX-License-Identifier: Apache-2.0
"""`convert`, and the options that came with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ocibridge.schemas import schema

from ..registry import RegistryServer
from .conftest import Run

IDENTITY = "carton:09b744842c693b5c529bece22e17ec602403a2ed8dc786b4fa7e57e038062471"


def test_convert_there_and_back(run: Run, carton: Path, tmp_path: Path) -> None:
    place = f"oci:{tmp_path}/layout"
    pushed = run("push", carton, f"{place}:v1", "--dialect", "modelpack")
    assert pushed.status == 0
    there = run("convert", f"{place}:v1", f"{place}:v2", "--dialect", "draft")
    assert (there.status, there.out.startswith(f"{place}@sha256:")) == (0, True)
    assert there.err.startswith(f"ocibridge: converted {IDENTITY} from modelpack to draft: 6 layers skipped (")
    back = run("convert", there.out.strip(), f"{place}:v3", "--dialect", "modelpack", "--json")
    assert (back.status, back.err) == (0, "")
    report = json.loads(back.out)
    assert report["reference"] == pushed.out.split()[1]
    assert report.keys() == schema("convert")["properties"].keys()
    assert run("convert", f"{place}:v1", f"{place}:v4", "--dialect", "cnai", "-q").err == ""


def test_convert_needs_a_dialect(run: Run) -> None:
    outcome = run("convert", "oci:a:v1", "oci:a:v2")
    assert (outcome.status, outcome.out) == (2, "")
    assert "--dialect" in outcome.err
    assert run("convert", "oci:a:v1", "oci:a:v2", "--dialect", "klingon").status == 2


@pytest.mark.parametrize("command", ["push", "pull", "convert", "verify"])
def test_help_has_an_example(run: Run, command: str) -> None:
    outcome = run(command, "--help")
    assert f"examples:\n  ocibridge {command} " in outcome.out


def test_exact_manifest_only_and_thin(
    run: Run, carton: Path, tmp_path: Path, registry: RegistryServer, repository: str
) -> None:
    place = f"{registry.host}/{repository}"
    assert run("push", carton, f"{place}:exact", "--exact").status == 0
    assert run("pull", f"{place}:exact", tmp_path / "same.carton").status == 0
    assert (tmp_path / "same.carton").read_bytes() == carton.read_bytes()

    assert run("push", carton, f"{place}:raw", "--layers", "raw-files").status == 0
    proven = run("verify", f"{place}:raw", "--manifest-only")
    assert (proven.status, proven.err) == (0, "")
    assert f"the identity is {IDENTITY}: its MANIFEST, rebuilt" in proven.out
    refused = run("verify", f"{place}:exact", "--manifest-only")
    assert (refused.status, refused.err.count("\n")) == (2, 1)

    thin = run("pull", f"{place}:raw", tmp_path / "thin.carton", "--thin", "-q")
    assert thin.status == 0
    assert thin.err.startswith("ocibridge: warning: ")
    assert f"only linked, to http://{registry.host}/v2/{repository}/blobs" in thin.err
    assert run("verify", tmp_path / "thin.carton", "--fetch-links", "--links-host", registry.host).status == 0
