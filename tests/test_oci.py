# SPDX-License-Identifier: Apache-2.0
"""Documents, digests and references."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocibridge.errors import FormatError, InvalidReference, LimitError, OcibridgeError
from ocibridge.oci import (
    ArchiveReference,
    Descriptor,
    LayoutReference,
    Manifest,
    RegistryReference,
    canonical_json,
    parse_document,
    parse_json,
    parse_reference,
)

HEX = "a" * 64
DIGEST = f"sha256:{HEX}"
FORMS = "HOST[:PORT]/REPOSITORY[:TAG], oci:DIR[:TAG] or oci-archive:FILE[:TAG]"


def test_json_is_what_go_writes() -> None:
    assert canonical_json({"a": "<é&>\u2028\x7f\n"}) == b'{"a":"\\u003c\xc3\xa9\\u0026\\u003e\\u2028\x7f\\n"}'


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"]))
    )
)
def test_documents_are_written_as_canonical_json(annotations: dict[str, str]) -> None:
    document = Descriptor(media_type="<\x7f\x01", digest=DIGEST, size=2**40, annotations=annotations)
    assert document.to_json() == canonical_json(document.model_dump(mode="json", exclude_none=True))


def test_the_field_order_is_that_of_the_go_types() -> None:
    part = Descriptor(media_type="m", digest=f"sha256:{HEX}", size=1, annotations={"k": "v"}, artifact_type="t")
    manifest = Manifest(artifact_type="a", config=part, layers=[part], subject=part, annotations={"k": "v"})
    document = json.loads(manifest.to_json())
    order = ["schemaVersion", "mediaType", "artifactType", "config", "layers", "subject", "annotations"]
    assert list(document) == order
    assert list(document["config"]) == ["mediaType", "digest", "size", "annotations", "artifactType"]


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", "not valid JSON"),
        (b"[]", "not a JSON object"),
        (b'{"a":1,"a":2}', "appears twice"),
        (b'{"size":NaN}', "NaN"),
        (b"[" * 100_000, "too deeply"),
        (b"\xff", "not valid JSON"),
        (b'{"mediaType":"m","digest":"sha256:00","size":1}', "digest"),
        (b'{"mediaType":"m","digest":"sha256:%s","size":-1}' % HEX.encode(), "size"),
        (b'{"mediaType":"m","digest":"sha256:%s","size":"1"}' % HEX.encode(), "size"),
        (b'{"mediaType":"m","digest":"sha256:%s","size":1}' % HEX.upper().encode(), "digest"),
    ],
)
def test_malformed_documents(data: bytes, word: str) -> None:
    with pytest.raises(FormatError, match=word) as caught:
        parse_document(Descriptor, data, "the descriptor", 1 << 20)
    assert "\n" not in str(caught.value)


def test_a_document_over_its_limit() -> None:
    with pytest.raises(LimitError):
        parse_json(b"{}" + b" " * 100, "it", 50)


@given(st.binary(max_size=200))
def test_any_bytes_end_in_a_document_or_an_error(data: bytes) -> None:
    try:
        parse_document(Manifest, data, "it", 1 << 20)
    except OcibridgeError:
        pass


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost:5000/a/b:v1", RegistryReference("localhost:5000", "a/b", "v1")),
        ("[::1]:5000/a", RegistryReference("[::1]:5000", "a")),
        ("ghcr.io/a/b", RegistryReference("ghcr.io", "a/b")),
        (f"ghcr.io/a@sha256:{HEX}", RegistryReference("ghcr.io", "a", None, f"sha256:{HEX}")),
        (f"ghcr.io/a:v1@sha256:{HEX}", RegistryReference("ghcr.io", "a", "v1", f"sha256:{HEX}")),
        ("docker.io/a", RegistryReference("docker.io", "library/a")),
    ],
)
def test_registry_references(text: str, expected: RegistryReference) -> None:
    assert parse_reference(text) == expected


def test_layout_references() -> None:
    assert str(parse_reference("oci:dir/x:v1")) == "oci:dir/x:v1"
    assert parse_reference("oci:dir").version == "latest"
    assert isinstance(parse_reference("oci:C:/dir"), LayoutReference)
    archive = parse_reference("oci-archive:x.tar:v1")
    assert isinstance(archive, ArchiveReference)
    assert (archive.path.name, archive.tag) == ("x.tar", "v1")


@pytest.mark.parametrize("scheme", ["oci://", "docker://", "OCI://", "Docker://"])
@pytest.mark.parametrize(
    "rest", ["localhost:5000/a/b:v1", "ghcr.io/a", f"ghcr.io/a@{DIGEST}", f"[::1]:5000/a:v1@{DIGEST}"]
)
def test_a_scheme_before_a_registry_changes_nothing_and_is_not_printed(scheme: str, rest: str) -> None:
    assert parse_reference(scheme + rest) == parse_reference(rest)
    assert str(parse_reference(scheme + rest)) == rest


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "oci:///abs/path:v1",
            "the reference 'oci:///abs/path:v1' names no registry host; a layout is oci:/abs/path:v1",
        ),
        ("OCI:///abs", "the reference 'OCI:///abs' names no registry host; a layout is oci:/abs"),
        ("oci://", f"the reference 'oci://' names no registry host; write {FORMS}"),
        ("docker:///a", f"the reference 'docker:///a' names no registry host; write {FORMS}"),
        ("oci://docker://a.io/b", f"the reference 'oci://docker://a.io/b' names no registry host; write {FORMS}"),
        (
            "oci://models/digits:v1",
            "the reference 'oci://models/digits:v1' names no registry host; "
            "write oci://HOST[:PORT]/models/digits:v1, or oci:models/digits:v1 for a layout",
        ),
        (
            "docker://alpine:3",
            "the reference 'docker://alpine:3' names no registry host; "
            "write docker://HOST[:PORT]/alpine:3, or docker.io/alpine:3 for Docker Hub",
        ),
        ("oci://ghcr.io", "the reference 'oci://ghcr.io' names no repository; write ghcr.io/REPOSITORY[:TAG]"),
        (
            "oci-archive:///x.tar:v1",
            "the path in 'oci-archive:///x.tar:v1' begins with '//'; "
            "write oci-archive:/x.tar:v1 for an absolute path, oci-archive:x.tar:v1 for a relative one",
        ),
        (
            "https://ghcr.io/org/model:v1",
            "'https://ghcr.io/org/model:v1' is a web address, not a reference; write ghcr.io/org/model:v1",
        ),
        ("HTTP://a.io:80/b/", "'http://a.io:80/b/' is a web address, not a reference; write a.io:80/b"),
        ("https://a.io/", "'https://a.io/' is a web address, not a reference; write a.io/REPOSITORY[:TAG]"),
        ("https://a.io/B", f"'https://a.io/B' is a web address, not a reference; write {FORMS}"),
        ("https://me:hunter2@a.io/b", "'https://a.io/b' is a web address, not a reference; write a.io/b"),
        (
            "oci://me:hunter2@a.io/b",
            "there is a login before the registry host; leave it out, and run 'ocibridge login HOST'",
        ),
        (
            "me:hunter2@a.io/b",
            "there is a login before the registry host; leave it out, and run 'ocibridge login HOST'",
        ),
    ],
)
def test_what_is_nearly_a_reference_says_what_to_write(text: str, message: str) -> None:
    with pytest.raises(InvalidReference) as caught:
        parse_reference(text)
    assert str(caught.value) == message


@pytest.mark.parametrize("kind", [LayoutReference, ArchiveReference])
def test_a_path_that_begins_with_two_slashes_is_not_printed_as_a_registry(kind: type[LayoutReference]) -> None:
    reference = kind(Path("//abs/path"), "v1")
    assert str(reference) == f"{kind.scheme}:/abs/path:v1"
    assert parse_reference(str(reference)) == reference


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "a/b:v1",
        "https://a.io/b",
        "a.io/B",
        "a.io/b:",
        "a.io/b:-x",
        "a.io//b",
        "a.io/b@sha256:12",
        "oci:",
        "a.io/",
    ],
)
def test_refused_references_say_what_to_write(text: str) -> None:
    with pytest.raises(InvalidReference) as caught:
        parse_reference(text)
    assert caught.value.hint


@given(
    st.text(max_size=80)
    | st.builds(
        "".join,
        st.tuples(
            st.sampled_from(["oci:", "oci://", "OCI://", "docker://", "oci-archive:", "https://"]),
            st.text("abA0.:/@-", max_size=20),
        ),
    )
)
def test_any_text_ends_in_a_reference_or_an_error(text: str) -> None:
    try:
        reference = parse_reference(text)
    except InvalidReference:
        return
    assert parse_reference(str(reference)) == reference
