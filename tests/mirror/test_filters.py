# SPDX-License-Identifier: Apache-2.0
"""What an entry chooses, and where it goes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocibridge.mirror.jobs.entry import SyncEntry
from ocibridge.mirror.jobs.filters import (
    Pair,
    Traits,
    is_digest_tag,
    pair,
    prunable_tags,
    select_repositories,
    select_tags,
    wants_model,
)
from ocibridge.oci import LayoutReference, RegistryReference

from .jobs import entry, load

HEX = "0123456789abcdef" * 4
TAGS = ["v1.0.0", "v1.2.0", "v1.2.0-rc1", "v2.0.0", "latest", "stable-1", f"sha256-{HEX}", f"sha256-{HEX}.sig"]
REGISTRY = "sync: [{source: a.example, target: %s, type: registry%s}]"


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("", ["v1.0.0", "v1.2.0", "v1.2.0-rc1", "v2.0.0", "latest", "stable-1"]),
        ("tags: {}", ["v1.0.0", "v1.2.0", "v1.2.0-rc1", "v2.0.0", "latest", "stable-1"]),
        ("tags: {allow: ['v1']}", []),
        ("tags: {allow: ['v1.*']}", ["v1.0.0", "v1.2.0", "v1.2.0-rc1"]),
        ("tags: {allow: ['^v2\\.0\\.0$', stable]}", ["v2.0.0"]),
        ("tags: {allow: ['v1.*|latest'], deny: ['.*-rc\\d+']}", ["v1.0.0", "v1.2.0", "latest"]),
        ("tags: {deny: ['v.*']}", ["latest", "stable-1"]),
        ("tags: {semverRange: ['^1.0']}", ["v1.0.0", "v1.2.0"]),
        ("tags: {semverRange: ['<1.2', '>=2']}", ["v1.0.0", "v2.0.0"]),
        ("tags: {semverRange: ['>=1.2-0'], deny: ['v2.*']}", ["v1.2.0", "v1.2.0-rc1"]),
        ("tagSets: [{semverRange: ['2.x']}, {allow: [latest]}]", ["v2.0.0", "latest"]),
        ("tags: {allow: [latest]}\ntagSets: [{allow: ['v2.*']}]", ["v2.0.0", "latest"]),
        ("tags: {allow: ['.*']}", ["v1.0.0", "v1.2.0", "v1.2.0-rc1", "v2.0.0", "latest", "stable-1"]),
        ("tags: {allow: ['sha256-.*\\.sig']}", [f"sha256-{HEX}.sig"]),
        ("tags: {allow: ['sha256-x', '.*']}", ["v1.0.0", "v1.2.0", "v1.2.0-rc1", "v2.0.0", "latest", "stable-1"]),
    ],
)
def test_tags(rest: str, expected: list[str], tmp_path: Path) -> None:
    assert select_tags(entry(tmp_path, rest), TAGS) == expected


def test_tags_that_are_none_are_never_chosen(tmp_path: Path) -> None:
    strange = ["", "a b", "-a", ".a", "a/b", "a:b", "a@b", "é", "a\n", "x" * 129, f"a@sha256:{HEX}", "../a"]
    assert select_tags(entry(tmp_path, "tags: {allow: ['(?s).*']}"), [*strange, "a", "_", "x" * 128]) == [
        "a",
        "_",
        "x" * 128,
    ]


def test_each_tag_once_in_the_order_given(tmp_path: Path) -> None:
    assert select_tags(entry(tmp_path), ["b", "a", "b"]) == ["b", "a"]


PARTS = ("allow: ['[a0-9].*']", "deny: ['.*1']", "semverRange: ['<2']")


@pytest.fixture(scope="module")
def chosen(tmp_path_factory: pytest.TempPathFactory) -> list[SyncEntry]:
    """Entries with each of the parts, with all in one set, and with a set for each."""
    folder = tmp_path_factory.mktemp("job")
    rests = [f"tags: {{{part}}}" for part in PARTS] + [f"tags: {{{', '.join(PARTS)}}}"]
    rests.append(f"tagSets: [{', '.join(f'{{{part}}}' for part in PARTS)}]")
    return [entry(folder, rest) for rest in rests]


@given(tags=st.lists(st.from_regex(r"[a-c0-2_][a-c0-2.\-]{0,4}", fullmatch=True)))
def test_a_set_chooses_what_all_its_parts_choose(chosen: list[SyncEntry], tags: list[str]) -> None:
    *single, whole, several = (set(select_tags(each, tags)) for each in chosen)
    assert whole == set.intersection(*single)
    assert several == set.union(*single)


def test_digest_tags() -> None:
    assert is_digest_tag(f"sha256-{HEX}")
    assert is_digest_tag(f"sha256-{HEX}.att")
    assert not is_digest_tag(f"sha256-{HEX[1:]}")
    assert not is_digest_tag(f"sha256-{HEX.upper()}")
    assert not is_digest_tag("latest")


NAMES = ["models/a", "models/b", "library/a", "a"]


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("", NAMES),
        (", repos: {allow: ['models/.*']}", ["models/a", "models/b"]),
        (", repos: {allow: [a]}", ["a"]),
        (", repos: {deny: ['.*/a']}", ["models/b", "a"]),
        (", repos: {allow: ['models/.*'], deny: ['.*/a']}", ["models/b"]),
    ],
)
def test_repositories(rest: str, expected: list[str], tmp_path: Path) -> None:
    found = load(tmp_path, REGISTRY % ("b.example", rest)).entries[0]
    assert select_repositories(found, [*NAMES, "models/a"]) == expected


def test_repositories_that_are_none_are_never_chosen(tmp_path: Path) -> None:
    found = load(tmp_path, REGISTRY % ("b.example", "")).entries[0]
    assert select_repositories(found, ["", "A", "a//b", "/a", "a/", "../a", "a:b", f"a@sha256:{HEX}", "a b", "ok"]) == [
        "ok"
    ]


def test_what_the_entry_itself_writes_is_no_source(tmp_path: Path) -> None:
    text = REGISTRY % ("A.EXAMPLE/mirror", ", repos: {allow: ['(mirror/)*models/.*']}")
    # The names that stand for all in the check of the job are not chosen by this expression.
    found = load(tmp_path, text).entries[0]
    assert select_repositories(found, ["models/a", "mirror/models/a", "mirror/mirror/models/a"]) == ["models/a"]


def test_where_things_go(tmp_path: Path) -> None:
    text = f"""\
sync:
  - {{source: a.example, target: b.example/hub, type: registry}}
  - {{source: a.example, target: b.example, type: registry}}
  - {{source: a.example/x, target: 'oci:out', type: repository}}
  - {{source: 'a.example/x:v1@sha256:{HEX}', target: 'b.example/y:stable', type: image}}
"""
    prefixed, plain, layout, image = load(tmp_path, text).entries
    assert pair(prefixed, "m/x", "v1") == Pair(
        RegistryReference("a.example", "m/x", "v1"), RegistryReference("b.example", "hub/m/x", "v1")
    )
    assert pair(plain, "m/x") == Pair(RegistryReference("a.example", "m/x"), RegistryReference("b.example", "m/x"))
    assert pair(layout, tag="v1") == Pair(
        RegistryReference("a.example", "x", "v1"), LayoutReference(tmp_path / "out", "v1")
    )
    assert pair(image) == Pair(
        RegistryReference("a.example", "x", "v1", f"sha256:{HEX}"), RegistryReference("b.example", "y", "stable")
    )


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("", ["v1", "old", "keep"]),
        ("tags: {allow: ['v.*']}", ["v1"]),
        ("tags: {allow: ['v.*']}\nprune: {tags: {allow: ['.*'], deny: [keep]}}", ["v1", "old"]),
        ("prune: {tags: {allow: [old]}}", ["old"]),
        ("tags: {allow: ['sha256.*']}", []),
    ],
)
def test_tags_that_may_be_deleted(rest: str, expected: list[str], tmp_path: Path) -> None:
    there = ["v1", "old", "keep", f"sha256-{HEX}", f"sha256-{HEX}.sig"]
    assert prunable_tags(entry(tmp_path, rest), there) == expected


MODEL = Traits(
    artifact_type="application/vnd.cnai.model.manifest.v1+json",
    dialect="cnai",
    roles=frozenset({"weight", "doc"}),
    size=3 << 30,
    licences=("Apache-2.0",),
    architecture="Llama",
)
IMAGE = Traits(size=1024)


@pytest.mark.parametrize(
    ("models", "traits", "reason"),
    [
        ("{}", IMAGE, None),
        ("artifactTypes: [application/vnd.cnai.model.manifest.v1+json]", MODEL, None),
        ("artifactTypes: [x]", MODEL, "artifact type application/vnd.cnai.model.manifest.v1+json"),
        ("artifactTypes: [x]", IMAGE, "artifact type not given"),
        ("artifactTypes: []", MODEL, "artifact type application/vnd.cnai.model.manifest.v1+json"),
        ("dialects: [draft, cnai]", MODEL, None),
        ("dialects: [draft]", MODEL, "dialect cnai"),
        ("dialects: [draft]", IMAGE, "no model"),
        ("roles: [code, weight]", MODEL, None),
        ("roles: [code, dataset]", MODEL, "no layer of the role code or dataset"),
        ("size: {min: 3GiB, max: 3GiB}", MODEL, None),
        ("size: {min: 4GiB}", MODEL, "3.0 GiB, less than 4.0 GiB"),
        ("size: {max: 2GiB}", MODEL, "3.0 GiB, more than 2.0 GiB"),
        ("size: {max: 0}", IMAGE, "1.0 KiB, more than 0 B"),
        ("licences: [mit, apache-2.0]", MODEL, None),
        ("licences: [mit]", MODEL, "licence Apache-2.0"),
        ("licences: [mit]", IMAGE, "licence not given"),
        ("licences: [mit]", Traits(licences=("mit", "gpl-3.0")), "licence gpl-3.0"),
        ("architectures: [llama]", MODEL, None),
        ("architectures: [bert]", MODEL, "architecture Llama"),
        ("architectures: [bert]", IMAGE, "architecture not given"),
        ("{dialects: [cnai], roles: [doc], licences: [mit]}", MODEL, "licence Apache-2.0"),
    ],
)
def test_models(models: str, traits: Traits, reason: str | None, tmp_path: Path) -> None:
    inner = re.sub(r"^\{(.*)\}$", r"\1", models)
    assert wants_model(entry(tmp_path, f"models: {{{inner}}}"), traits) == reason


def test_without_a_filter_everything_is_wanted(tmp_path: Path) -> None:
    assert wants_model(entry(tmp_path), IMAGE) is None
