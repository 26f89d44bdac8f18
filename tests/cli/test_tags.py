# SPDX-License-Identifier: Apache-2.0
"""`tags`, `ls`, `tag` and `rm`, against the real registry, layouts and archives."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import ocibridge
from ocibridge.errors import NotFound, StoreError
from ocibridge.oci import parse_reference
from ocibridge.stores.opening import open_store

from .. import registry as registries
from ..registry import PASSWORD, USER, RegistryServer, registry_server
from .conftest import FIXTURES, Run

CARTON = FIXTURES / "digits.carton"


@pytest.fixture(params=["registry", "oci", "oci-archive"])
def place(request: pytest.FixtureRequest, registry: RegistryServer, repository: str, tmp_path: Path) -> str:
    """A repository with the model `v1` in it, and its image."""
    name = f"{registry.host}/{repository}" if request.param == "registry" else f"{request.param}:{tmp_path}/place"
    ocibridge.push(CARTON, f"{name}:v1", ocibridge.PushOptions(also=["image"]))
    return name


def named(place: str) -> set[str]:
    """The tags, but for the lists of referrers that registries without the API keep."""
    return {tag for tag in ocibridge.tags(place).tags if not tag.startswith("sha256-")}


def test_tags_are_listed(run: Run, place: str) -> None:
    done = run("tags", place)
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines() == ocibridge.tags(place).tags
    assert named(place) == {"v1", "v1-image"}


def test_more_tags_lead_to_the_same_bytes(run: Run, place: str) -> None:
    digest = ocibridge.inspect(f"{place}:v1").digest
    done = run("tag", f"{place}:v1", "stable", "v1.0", "stable")
    assert done.out.splitlines() == [f"stable  {place}@{digest}", f"v1.0    {place}@{digest}"]
    assert {ocibridge.inspect(f"{place}:{tag}").digest for tag in ("v1", "stable", "v1.0")} == {digest}
    other = ocibridge.push(FIXTURES / "digits.mlarchive", f"{place}:other")
    ocibridge.tag(other.reference, "stable")
    assert ocibridge.inspect(f"{place}:stable").digest == other.digest


def test_a_tag_goes_alone(run: Run, place: str) -> None:
    digest = ocibridge.tag(f"{place}:v1", "v2").digest
    would = run("rm", f"{place}:v1", "--dry-run")
    assert would.out == f"would delete the tag v1 of {place}@{digest}\n"
    assert named(place) == {"v1", "v2", "v1-image"}
    done = run("rm", f"{place}:v1")
    assert (done.status, done.out) == (0, f"deleted the tag v1 of {place}@{digest}\n")
    hint = f"the companion v1-image stays; delete it with 'ocibridge rm {place}:v1-image'"
    assert done.err == f"ocibridge: warning: {hint}\n"
    assert run(*hint.split("'")[1].split()[1:]).status == 0
    assert named(place) == {"v2"}
    assert ocibridge.verify(f"{place}:v2").digest == digest


def test_a_tag_goes_with_its_companions(run: Run, place: str) -> None:
    ocibridge.tag(f"{place}:v1", "v2")
    assert run("rm", f"{place}:v1", "--companions").out.count("deleted the tag") == 2
    assert named(place) == {"v2"}


def test_a_companion_of_another_model_stays(place: str) -> None:
    other = ocibridge.push(FIXTURES / "digits.mlarchive", f"{place}:v1").digest
    assert ocibridge.rm(f"{place}:v1", ocibridge.RmOptions(companions=True)).digest == other
    assert named(place) == {"v1-image"}


def test_a_manifest_goes_with_all_its_tags_only_if_that_is_said(run: Run, place: str) -> None:
    digest = ocibridge.tag(f"{place}:v1", "v2").digest
    refused = run("rm", f"{place}@{digest}")
    assert (refused.status, refused.out) == (1, "")
    assert f"{place}@{digest} would be deleted with its tags: v1, v2; delete one tag with" in refused.err
    assert named(place) == {"v1", "v2", "v1-image"}
    done = run("rm", f"{place}@{digest}", "--all-tags")
    assert done.out == f"deleted the manifest {place}@{digest}, and its tags v1, v2\n"
    assert named(place) == {"v1-image"}


def test_a_manifest_goes_with_all_that_belongs_to_it(place: str) -> None:
    ocibridge.tag(f"{place}:v1", "v2")
    planned = ocibridge.rm(f"{place}:v2", ocibridge.RmOptions(all_tags=True, companions=True, dry_run=True))
    done = ocibridge.rm(f"{place}:v2", ocibridge.RmOptions(all_tags=True, companions=True))
    assert planned.removed == done.removed
    assert [each.tags for each in done.removed if each.kind == "manifest"] == [["v1-image"], ["v1", "v2"]]
    with open_store(parse_reference(place)) as store:
        assert list(store.tags()) == []
        for each in done.removed:  # layouts keep all blobs, of which manifests are some
            assert place.startswith("oci") or store.head(each.tag or each.digest) is None


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (["tags", "PLACE:v1"], 2, "write PLACE"),
        (["tags", "PLACE/none"], 1, ""),
        (["rm", "PLACE"], 2, "PLACE names neither tag nor digest; write PLACE:TAG"),
        (["rm", "PLACE:none"], 1, "tags there: v1"),
        (["tag", "PLACE:none", "x"], 1, "tags there: v1"),
        (["tag", "PLACE:v1", "sha256:" + "a" * 64], 2, "is a digest, not a tag; give a tag, such as v1"),
        (["tag", "PLACE:v1", "PLACE:v2"], 2, "is a reference, not a tag; give the tag alone"),
        (["tag", "PLACE:v1", "a b"], 2, "the tag 'a b' in 'a b' is not valid"),
        (["tag", "PLACE:v1"], 2, "NEW"),
        (["ls", "PLACE"], 2, "is a repository, not a registry host; run 'ocibridge ls HOST'"),
        (["ls", "http://HOST"], 2, "is an address, not a registry host; run 'ocibridge ls HOST'"),
    ],
)
def test_mistakes(
    run: Run, registry: RegistryServer, repository: str, words: list[str], status: int, sentence: str
) -> None:
    place = f"{registry.host}/{repository}"
    ocibridge.push(CARTON, f"{place}:v1")

    def filled(text: str) -> str:
        return text.replace("PLACE", place).replace("HOST", registry.host)

    done = run(*map(filled, words))
    assert (done.status, done.out) == (status, "")
    assert filled(sentence) in done.err
    assert named(place) == {"v1"}


def test_repositories_are_listed(run: Run, auth_registry: RegistryServer, repository: str) -> None:
    login = ocibridge.RegistryOptions(username=USER, password=PASSWORD)
    ocibridge.push(CARTON, f"{auth_registry.host}/{repository}:v1", registry=login)
    assert repository in ocibridge.ls(auth_registry.host, registry=login).repositories
    refused = run("ls", auth_registry.host)
    assert (refused.status, refused.out) == (1, "")
    assert f"'ocibridge login {auth_registry.host}'" in refused.err


@contextmanager
def without_catalog(status: int) -> Iterator[str]:
    """The host of a registry that lists no repositories."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if "_catalog" in self.path else 200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            """Be silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("status", [401, 403, 404, 405])
def test_a_registry_that_lists_no_repositories(run: Run, status: int) -> None:
    with without_catalog(status) as host:
        done = run("ls", host)
    assert (done.status, done.out) == (1, "")
    assert f"{host} does not list its repositories (status {status}); " in done.err
    assert f"ocibridge tags {host}/REPOSITORY" in done.err


def test_a_registry_that_deletes_nothing(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registries, "_write_config", _no_delete(registries._write_config))
    with registry_server(tmp_path) as server:
        place = f"{server.host}/models/digits"
        digest = ocibridge.push(CARTON, f"{place}:v1").digest
        for reference in (f"{place}:v1", f"{place}@{digest}"):
            done = run("rm", reference, "--all-tags")
            assert (done.status, done.out) == (1, "")
            assert "its administrator can (for distribution: storage.delete.enabled)" in done.err
        with pytest.raises(StoreError, match="deleting the tag v1"):
            ocibridge.rm(f"{place}:v1")
        assert ocibridge.inspect(f"{place}:v1").digest == digest
        with pytest.raises(NotFound):
            ocibridge.tags(f"{server.host}/models/none")


def _no_delete(write: Callable[..., Path]) -> Callable[..., Path]:
    def written(*args: object) -> Path:
        path = write(*args)
        config = json.loads(path.read_text())
        config["storage"]["delete"]["enabled"] = False
        path.write_text(json.dumps(config))
        return path

    return written
