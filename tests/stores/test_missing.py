# SPDX-License-Identifier: Apache-2.0
"""A tag that is not there: the error says which are, for one more request, and stays the error that it was."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ocibridge
from ocibridge.airgap.pack import pack
from ocibridge.cli.main import main
from ocibridge.errors import NotFound, StoreError
from ocibridge.oci import RegistryReference, parse_reference
from ocibridge.stores.layout import LayoutStore
from ocibridge.stores.missing import closest, naming_tags, some_tags
from ocibridge.stores.opening import open_store
from ocibridge.stores.registry import RegistryOptions, RegistryStore
from ocibridge.stores.registry.options import Retry

from ..mirror.artifacts import job
from ..registry import PASSWORD, USER, RegistryServer
from .registry.fault_server import FaultServer, Reply
from .samples import sample

DIGITS = Path(__file__).parents[1] / "fixtures" / "digits.carton"
TAGS = [f"v{number}" for number in range(1, 18)]
DIGEST = f"sha256:{'0' * 64}"
LISTED = "tags there: v9, v17, v16, v15, v14, v13, v12, v11 (of 17)"


@pytest.mark.parametrize(
    ("tags", "wanted", "expected"),
    [
        (["v1", "v10", "v9"], "latest", "tags there: v10, v9, v1"),
        (["1.9.0", "1.10.0", "2.0.0"], "1.10", "tags there: 1.10.0, 1.9.0, 2.0.0"),
        (["main", "v1", "v2"], "mian", "tags there: main, v2, v1"),
        (["Release", "v1"], "release", "tags there: Release, v1"),
        (TAGS, "v9-", LISTED),
        (["v1", f"sha256-{'0' * 64}.sig"], "v2", "tags there: v1"),
        ([f"sha256-{'0' * 64}.sig"], "v2", f"tags there: sha256-{'0' * 64}.sig"),
        (["a.io/m:v1", "a.io/m:v22", "b.io/main:x"], "v2", "tags there: a.io/m:v22, b.io/main:x, a.io/m:v1"),
        (["bad\x1b[31m", "9" * 5000], "v1", r"tags there: '" + "9" * 117 + r"...', 'bad\x1b[31m'"),
        ([], "v1", ""),
    ],
)
def test_the_tags_that_may_be_meant_come_first(tags: list[str], wanted: str, expected: str) -> None:
    assert some_tags(closest(tags, wanted)) == expected


@given(st.lists(st.text(max_size=20), unique=True), st.text(max_size=20))
def test_every_tag_is_listed_once(tags: list[str], wanted: str) -> None:
    found = closest(tags, wanted)
    assert sorted(found) == sorted([tag for tag in tags if not tag.startswith("sha256-")] or tags)
    assert all(char.isprintable() for char in some_tags(found))


@pytest.fixture(scope="module")
def place(registry: RegistryServer) -> str:
    """A repository of a real registry that has many tags."""
    place = f"{registry.host}/test/many"
    for tag in TAGS:
        ocibridge.push(DIGITS, f"{place}:{tag}")
    return place


CALLS: dict[str, Callable[[str, Path], object]] = {
    "pull": lambda text, folder: ocibridge.pull(text, folder / "digits.carton"),
    "inspect": lambda text, folder: ocibridge.inspect(text),
    "verify": lambda text, folder: ocibridge.verify(text),
    "copy to a layout": lambda text, folder: ocibridge.copy(text, f"oci:{folder / 'copy'}"),
    "copy to a registry": lambda text, folder: ocibridge.copy(text, "127.0.0.1:9/x/y"),
    "pack": lambda text, folder: pack([text], folder / "models.tar"),
    "convert": lambda text, folder: ocibridge.convert(
        text, f"oci:{folder / 'copy'}", ocibridge.ConvertOptions(dialect="draft")
    ),
    "volume check": lambda text, folder: ocibridge.volume_check(text),
    "volume prepare": lambda text, folder: ocibridge.volume_prepare(text),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_asks_a_registry_for_a_tag_names_the_tags(name: str, place: str, tmp_path: Path) -> None:
    with pytest.raises(NotFound) as caught:
        CALLS[name](f"{place}:v9-", tmp_path)
    assert caught.value.hint == LISTED
    assert caught.value.status == 404
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", CALLS)
def test_what_asks_a_layout_for_a_tag_names_the_tags(name: str, tmp_path: Path) -> None:
    store = LayoutStore(tmp_path / "layout", create=True)
    for tag in TAGS:
        sample().push(store, tag)
    (tmp_path / "work").mkdir()
    with pytest.raises(NotFound) as caught:
        CALLS[name](f"{store.name}:v9-", tmp_path / "work")
    assert caught.value.hint == LISTED


def test_an_archive_names_its_tags(place: str, tmp_path: Path) -> None:
    ocibridge.copy(f"{place}:v1", f"oci-archive:{tmp_path / 'one.tar'}")
    pack([f"{place}:v1", f"{place}:v2"], tmp_path / "many.tar")
    with pytest.raises(NotFound, match=r"tags there: v1$"):
        ocibridge.inspect(f"oci-archive:{tmp_path / 'one.tar'}:v2")
    with pytest.raises(NotFound, match=f"tags there: {place}:v2, {place}:v1$"):
        ocibridge.inspect(f"oci-archive:{tmp_path / 'many.tar'}:v3")


def test_the_command_line_says_it_in_one_sentence(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", f"{place}:v9-"]) == 1
    err = capsys.readouterr().err
    assert (err.count("\n"), err.endswith(f"; {LISTED}\n")) == (1, True)
    assert main(["inspect", f"{place}:v9-", "--json"]) == 1
    assert json.loads(capsys.readouterr().err)["error"]["hint"] == LISTED


def test_credentials_serve_for_the_list_too(auth_registry: RegistryServer, repository: str) -> None:
    options = RegistryOptions(username=USER, password=PASSWORD)
    ocibridge.push(DIGITS, f"{auth_registry.host}/{repository}:v1", registry=options)
    with pytest.raises(NotFound, match=r"tags there: v1$"):
        ocibridge.inspect(f"{auth_registry.host}/{repository}:v2", registry=options)


def test_a_repository_that_is_not_there(registry: RegistryServer, repository: str) -> None:
    with pytest.raises(NotFound) as caught:
        ocibridge.inspect(f"{registry.host}/{repository}:v1")
    assert caught.value.hint == "there is no such repository, or you may not see it; check its name"


def test_for_a_digest_no_tag_is_listed(place: str) -> None:
    with pytest.raises(NotFound) as caught:
        ocibridge.inspect(f"{place}@{DIGEST}")
    assert caught.value.hint == "check the name, the tag and your access rights"


def asked(server: FaultServer) -> list[str]:
    return [f"{seen.method} {seen.path.partition('?')[0]}" for seen in server.seen]


MISSING = ["GET /v2/r/manifests/v1", "GET /v2/r/tags/list"]


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (Reply(200, b'{"name":"r","tags":[]}'), "the repository has no tag"),
        (Reply(200, b'{"name":"r","tags":["v2"]}'), "tags there: v2"),
        (Reply(404), None),
        (Reply(401), None),
        (Reply(403), None),
        (Reply(500), None),
        (Reply(0), None),
        (Reply(200, b"no JSON"), None),
        (Reply(200, b'{"tags":[1]}'), None),
        (Reply(200, b'{"tags":5}'), None),
    ],
)
def test_a_list_that_cannot_be_had_leaves_the_error_as_it_is(answer: Reply, hint: str | None) -> None:
    options = RegistryOptions(retries=Retry(attempts=2, first=0.001))
    with FaultServer() as server:
        server.on("GET", "/v2/r/tags/list", answer)
        with RegistryStore(RegistryReference(server.host, "r"), options) as store, pytest.raises(NotFound) as plain:
            store.fetch_manifest("v1")
        assert asked(server) == MISSING[:1], "a store that is asked lists nothing by itself"
        server.seen.clear()
        with pytest.raises(NotFound) as caught:
            ocibridge.inspect(f"{server.host}/r:v1", registry=options)
        assert caught.value.message == plain.value.message
        assert caught.value.hint == (hint or plain.value.hint)
        assert list(dict.fromkeys(asked(server))) == MISSING


def test_nothing_is_listed_for_what_may_be_missing(registry: RegistryServer, repository: str) -> None:
    class Unlisted(RegistryStore):
        def tags(self) -> list[str]:
            raise AssertionError("the tags were listed")

    with Unlisted(RegistryReference(registry.host, repository)) as store:
        assert store.head("v1") is None
        with pytest.raises(NotFound), naming_tags(store, DIGEST):
            store.fetch_manifest(DIGEST)
        with pytest.raises(AssertionError, match="were listed"), naming_tags(store, "v1"):
            store.fetch_manifest("v1")


def test_a_push_lists_nothing_for_a_tag_that_is_new(place: str, tmp_path: Path) -> None:
    with FaultServer() as server:
        with pytest.raises(StoreError):
            ocibridge.push(DIGITS, f"{server.host}/r:v1")
        assert "GET /v2/r/manifests/v1" in asked(server)
        assert {seen.path for seen in server.seen if "tags/list" in seen.path} <= {"/v2/r/tags/list?n=1"}


def test_a_job_lists_nothing_for_an_image_that_is_not_there(tmp_path: Path) -> None:
    with FaultServer() as server:
        path = job(
            tmp_path / "job.yaml",
            f"""
            version: 1
            sync:
              - source: {server.host}/r:v1
                target: oci:copy
                type: image
            """,
        )
        assert ocibridge.mirror_run(path).items[0].outcome == "failed"
        assert [each for each in asked(server) if "tags/list" in each] == []


def test_a_host_that_cannot_be_reached_is_not_asked_again(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{probe.getsockname()[1]}"
    with pytest.raises(ocibridge.NetworkError, match="refused the connection"):
        ocibridge.inspect(f"{host}/r:v1", registry=RegistryOptions(retries=Retry(attempts=1)))


def test_a_tag_that_is_there_costs_no_list(place: str) -> None:
    with open_store(parse_reference(place)) as store, naming_tags(store, "v1"):
        assert store.fetch_manifest("v1")[0].size
