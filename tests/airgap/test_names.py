# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocibridge.airgap.names import Name, name_of, parse_destination, parse_name
from ocibridge.errors import UsageError
from ocibridge.oci import parse_reference

DIGEST = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("text", "repository", "tag"),
    [
        ("v1", "", "v1"),
        ("localhost:5000/a/b:v1", "localhost:5000/a/b", "v1"),
        ("example.com/a:v1-image", "example.com/a", "v1-image"),
        ("[::1]:5000/a:v1", "[::1]:5000/a", "v1"),
        ("docker.io/alpine:3", "docker.io/alpine", "3"),
        (f"example.com/a@{DIGEST}", "example.com/a", None),
        ("example.com/a", "example.com/a", "latest"),
        (f"example.com/a:{'sha256-' + '0' * 64}.sig", "example.com/a", f"sha256-{'0' * 64}.sig"),
    ],
)
def test_names(text: str, repository: str, tag: str | None) -> None:
    assert parse_name(text) == Name(text, repository, tag)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "a/b:v1",
        "v1/",
        "/v1",
        f"v1@{DIGEST}",
        DIGEST,
        "x:v1",
        "oci:a/b:v1",
        "oci-archive:a/b",
        "v1\n",
        "oci://a.io/b:v1",
        "Docker://a.io/b",
    ],
)
def test_what_is_no_name(text: str) -> None:
    assert parse_name(text) is None


@given(st.text(max_size=60) | st.text("abA0._-:/@", max_size=40))
def test_any_text_is_a_name_of_harmless_parts_or_none(text: str) -> None:
    name = parse_name(text)
    if name is not None:
        place = parse_destination("target.example/mirror")
        version = f"@{DIGEST}" if name.tag is None else f":{name.tag}"
        restored = parse_reference(f"{place.repository(name)}{version}")
        assert str(restored).startswith("target.example/mirror")
        assert ".." not in str(restored).split("/")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("example.com/a:v1", "example.com/a:v1"),
        ("example.com/a", "example.com/a:latest"),
        (f"example.com/a:v1@{DIGEST}", "example.com/a:v1"),
        (f"example.com/a@{DIGEST}", f"example.com/a@{DIGEST}"),
        ("docker.io/alpine:3", "docker.io/library/alpine:3"),
        ("oci:folder:v1", "v1"),
        ("oci-archive:x.tar:v1", "v1"),
        ("oci:folder", "latest"),
    ],
)
def test_names_of_references(text: str, name: str) -> None:
    found = name_of(parse_reference(text))
    assert found.text == name
    assert parse_name(name) == found


def test_a_digest_in_a_layout_has_no_name() -> None:
    with pytest.raises(UsageError, match="has no name for the archive; name it by a tag"):
        name_of(parse_reference(f"oci:folder@{DIGEST}"))


@pytest.mark.parametrize(
    ("place", "strip", "name", "repository"),
    [
        ("t.example", "", "s.example/a/b:v1", "t.example/a/b"),
        ("t.example:5000", "", "s.example/a:v1", "t.example:5000/a"),
        ("localhost", "", "s.example/a:v1", "localhost/a"),
        ("t.example/p/q", "", "s.example/a/b:v1", "t.example/p/q/a/b"),
        ("t.example/p/", "a/", "s.example/a/b:v1", "t.example/p/b"),
        ("t.example/p", "/a/b", "s.example/a/b:v1", "t.example/p"),
        ("t.example/p", "", "v1", "t.example/p"),
        ("t.example/p", "a", "v1", "t.example/p"),
        ("oci:folder", "", "s.example/a/b:v1", "s.example/a/b"),
        ("oci:folder", "", "v1", ""),
        ("oci://t.example/p/", "a", "s.example/a/b:v1", "t.example/p/b"),
        ("Docker://t.example:5000", "", "s.example/a:v1", "t.example:5000/a"),
    ],
)
def test_places(place: str, strip: str, name: str, repository: str) -> None:
    parsed = parse_name(name)
    assert parsed is not None
    assert parse_destination(place, strip).repository(parsed) == repository
