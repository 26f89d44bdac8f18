# SPDX-License-Identifier: Apache-2.0
"""`oci://HOST/…` and `docker://HOST/…` as sides of a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from ocibridge.mirror.plan import mirror_plan
from ocibridge.mirror.run import mirror_run
from ocibridge.oci import RegistryReference

from ..registry import RegistryServer
from .artifacts import job, put, tags
from .jobs import SYNC, entry, problem

SCHEMES = ["oci://", "docker://", "Oci://"]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("kind", ["repository", "image", "registry"])
def test_a_job_runs_with_a_scheme_on_both_sides(
    scheme: str, kind: str, tmp_path: Path, source: RegistryServer, target: RegistryServer, repository: str
) -> None:
    digest = put(source.host, repository, "v1", [repository.encode()]).digest
    sides = {
        "repository": (f"{source.host}/{repository}", f"{target.host}/copy/{repository}"),
        "image": (f"{source.host}/{repository}:v1", f"{target.host}/copy/{repository}"),
        "registry": (source.host, f"{target.host}/copy"),
    }[kind]
    text = f"""
        version: 1
        sync:
          - source: {scheme}{sides[0]}
            target: {scheme}{sides[1]}
            type: {kind}
        """
    if kind == "registry":
        text += f"    repos: {{allow: ['{repository}']}}\n"
    path = job(tmp_path / "job.yaml", text)
    (planned,) = mirror_plan(path).items
    assert (planned.source, planned.target) == (
        f"{source.host}/{repository}:v1",
        f"{target.host}/copy/{repository}:v1",
    )
    (done,) = mirror_run(path).items
    assert (done.outcome, done.target) == ("copied", f"{target.host}/copy/{repository}:v1")
    assert tags(target.host, f"copy/{repository}") == {"v1": digest}
    assert [each.name for each in tmp_path.iterdir() if each.is_dir()] == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_entry_is_the_same_with_a_scheme_as_without(scheme: str, tmp_path: Path) -> None:
    found = entry(tmp_path, text=SYNC.replace("reg.example", f"{scheme}reg.example"))
    assert found == entry(tmp_path)
    assert found.source == RegistryReference("reg.example", "models")


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        (
            "oci:///abs/layout",
            "sync[0].source: the reference 'oci:///abs/layout' names no registry host; a layout is oci:/abs/layout",
        ),
        (
            "https://reg.example/models",
            "sync[0].source: 'https://reg.example/models' is a web address, not a reference; write reg.example/models",
        ),
        (
            "oci://models",
            "sync[0].source: the reference 'oci://models' names no registry host; "
            "write oci://HOST[:PORT]/models, or oci:models for a layout",
        ),
    ],
)
def test_a_side_that_is_nearly_one(source: str, complaint: str, tmp_path: Path) -> None:
    assert problem(tmp_path, SYNC.replace("reg.example/models", source)) == f"job.yaml:2:13: {complaint}"


@pytest.mark.parametrize("text", ["https://reg.example", "https://reg.example/"])
def test_the_web_address_of_a_registry(text: str, tmp_path: Path) -> None:
    registry = f"sync:\n  - source: {text}\n    target: mirror.example/x\n    type: registry\n"
    complaint = f"sync[0].source: '{text}' is a web address, not a registry; write reg.example"
    assert problem(tmp_path, registry) == f"job.yaml:2:13: {complaint}"
