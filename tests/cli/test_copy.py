# SPDX-License-Identifier: Apache-2.0
"""`ocibridge copy`."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from ocibridge.schemas import schema
from ocibridge.stores.layout import LayoutStore

from ..registry import PASSWORD, USER, RegistryServer
from ..stores.samples import sample
from ..transfer.graphs import referrer
from .conftest import Run


@pytest.fixture
def layout(tmp_path: Path) -> LayoutStore:
    store = LayoutStore(tmp_path / "layout", create=True)
    model = sample(b"model").push(store, "v1")
    referrer(model).push(store, None)
    sample(b"signature").push(store, model.digest.replace(":", "-") + ".sig")
    return store


def test_one_line_and_the_pinned_reference(
    run: Run, layout: LayoutStore, registry: RegistryServer, repository: str
) -> None:
    digest = layout.resolve("v1").digest
    outcome = run("copy", f"{layout.name}:v1", f"{registry.host}/{repository}", "--progress", "none")
    assert outcome.status == 0
    assert outcome.out == f"{registry.host}/{repository}@{digest}\n"
    assert outcome.err.startswith(f"ocibridge: copied {layout.name}@{digest}: blobs 4 copied (20 B), 1 referrers, in ")
    again = run("copy", f"{layout.name}:v1", f"{registry.host}/{repository}", "-q")
    assert (again.status, again.err) == (0, "")
    mounted = run("copy", f"{registry.host}/{repository}:v1", f"{registry.host}/{repository}/b", "--progress", "none")
    assert "blobs 4 mounted (20 B)" in mounted.err


def test_as_json(run: Run, layout: LayoutStore, tmp_path: Path) -> None:
    outcome = run("copy", f"{layout.name}:v1", f"oci:{tmp_path / 'b'}:v2", "--json")
    assert (outcome.status, outcome.err) == (0, "")
    report = json.loads(outcome.out)
    assert report.keys() == schema("copy")["properties"].keys()
    assert (report["tag"], report["moves"]["copied"], report["referrers"], len(report["tags"])) == ("v2", 4, 1, 2)


def test_what_can_be_left_out(run: Run, layout: LayoutStore, tmp_path: Path) -> None:
    outcome = run("copy", f"{layout.name}:v1", f"oci:{tmp_path / 'b'}", "--no-referrers", "--no-digest-tags", "--json")
    report = json.loads(outcome.out)
    assert (report["referrers"], report["tags"], report["moves"]["manifests"]) == (0, ["v1"], 1)
    sample(b"model").push(layout, "v2")
    sample(b"model").push(layout, "v2-ollama")
    for arguments, tags in (((), ["v2", "v2-ollama"]), (("--no-companions",), ["v2"])):
        target = f"oci:{tmp_path / str(len(arguments))}"
        found = run("copy", f"{layout.name}:v2", target, "--no-digest-tags", "--json", *arguments)
        assert json.loads(found.out)["tags"] == tags


def test_a_full_check_repairs(run: Run, layout: LayoutStore, tmp_path: Path) -> None:
    arguments = ("copy", f"{layout.name}:v1", f"oci:{tmp_path / 'b'}", "--json")
    run(*arguments)
    blob = sample(b"model").blobs[1][0]
    lost = tmp_path / "b/blobs/sha256" / blob.digest[7:]
    lost.unlink()
    assert json.loads(run(*arguments).out)["moves"]["copied"] == 0
    assert json.loads(run(*arguments, "--full").out)["moves"]["copied"] == 1
    assert lost.exists()


def test_platforms(run: Run, layout: LayoutStore, tmp_path: Path) -> None:
    # A manifest that is no index has none to choose from.
    outcome = run("copy", f"{layout.name}:v1", f"oci:{tmp_path / 'b'}", "--platform", "linux/amd64,linux/arm64", "-q")
    assert outcome.status == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "a copy needs a source and a target"),
        (("oci:a",), "a copy needs a source and a target"),
        (("oci:a", "oci:b", "oci:c"), "a copy needs a source and a target"),
        (("nothing", "oci:b"), "names no registry host"),
        (("oci:a", "oci:b", "--from-password-stdin"), "--from-password-stdin needs --from-username"),
        (
            ("oci:a", "oci:b", "-u", "x", "--password-stdin", "--from-username", "y", "--from-password-stdin"),
            "standard input has one password, and two are to be read from it",
        ),
    ],
)
def test_wrong_usage(run: Run, arguments: tuple[str, ...], message: str) -> None:
    outcome = run("copy", *arguments)
    assert (outcome.status, outcome.out) == (2, "")
    assert message in outcome.err


def test_a_login_for_each_side(
    run: Run,
    layout: LayoutStore,
    tmp_path: Path,
    auth_registry: RegistryServer,
    registry: RegistryServer,
    repository: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def typed() -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PASSWORD.encode())))

    place = f"{auth_registry.host}/{repository}:v1"
    assert run("copy", f"{layout.name}:v1", place, "-q").status == 1
    typed()
    assert run("copy", f"{layout.name}:v1", place, "-q", "-u", USER, "--password-stdin").status == 0
    back = f"{registry.host}/{repository}"
    assert run("copy", place, back, "-q").status == 1
    typed()
    outcome = run("copy", place, back, "-q", "--from-username", USER, "--from-password-stdin", "--from-plain-http")
    assert outcome.status == 0
    assert PASSWORD not in outcome.out + outcome.err


def test_tls_of_the_source(run: Run, layout: LayoutStore, tmp_path: Path, tls_registry: RegistryServer) -> None:
    from ..registry import TLS

    place, ca = f"{tls_registry.host}/copy/tls:v1", TLS / "ca.pem"
    assert run("copy", f"{layout.name}:v1", place, "-q", "--no-plain-http", "--ca-file", ca).status == 0
    for options in (("--from-ca-file", ca), ("--from-insecure",)):
        target = f"oci:{tmp_path / options[0]}"
        assert run("copy", place, target, "-q", "--no-from-plain-http", *options).status == 0


def test_a_dry_run_is_the_result(run: Run, layout: LayoutStore, tmp_path: Path) -> None:
    target = f"oci:{tmp_path}/dry"
    outcome = run("copy", f"{layout.name}:v1", target, "--dry-run")
    assert outcome.status == 0
    first, *rows = outcome.out.splitlines()
    assert first.startswith(f"{layout.name}@sha256:")
    assert f" to {target}@sha256:" in first
    assert [row.split()[0] for row in rows] == ["copy", "push", "tag"]
    assert outcome.err.startswith("ocibridge: dry run: nothing was written, in ")
    assert not (tmp_path / "dry").exists()
    assert run("copy", f"{layout.name}:v1", "--to", "oci-archive:x.tar", "--dry-run").status == 2
