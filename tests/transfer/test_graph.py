# SPDX-License-Identifier: Apache-2.0
"""Manifests of every kind as nodes, and the graphs that they make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ocibridge.errors import FormatError, LimitError, NotFound
from ocibridge.oci import (
    MEDIA_TYPE_DOCKER_INDEX,
    MEDIA_TYPE_DOCKER_MANIFEST,
    MEDIA_TYPE_INDEX,
    MEDIA_TYPE_MANIFEST,
    Descriptor,
)
from ocibridge.stores.layout import LayoutStore
from ocibridge.transfer import graph
from ocibridge.transfer.graph import Graph, Node, check_platforms, fetch_node, node_of, select_platforms

from ..stores.samples import sample
from .graphs import on, push_index, raw


@pytest.fixture
def store(tmp_path: Path) -> LayoutStore:
    return LayoutStore(tmp_path / "layout", create=True)


def blob(word: str, media_type: str = "application/octet-stream", **more: object) -> dict[str, Any]:
    found = Descriptor.of(word.encode(), media_type)
    return {"mediaType": media_type, "digest": found.digest, "size": found.size, **more}


def digest(word: str) -> str:
    return Descriptor.of(word.encode(), "").digest


def node(media_type: str = MEDIA_TYPE_MANIFEST, **fields: object) -> Node:
    data = raw(**fields)
    return node_of(Descriptor.of(data, media_type), data, "it")


def test_config_and_layers_each_once() -> None:
    found = node(config=blob("c", "x/config"), layers=[blob("b"), blob("a"), blob("b"), blob("c")])
    assert [each.digest for each in found.blobs] == [digest("c"), digest("b"), digest("a")]
    assert found.children == ()
    assert found.artifact_type == "x/config"


@pytest.mark.parametrize("layers", [{"layers": []}, {"layers": None}, {}])
def test_no_layers(layers: dict[str, Any]) -> None:
    assert [each.digest for each in node(config=blob("c"), **layers).blobs] == [digest("c")]


def test_the_oci_artifact_manifest() -> None:
    kind = "application/vnd.oci.artifact.manifest.v1+json"
    found = node(kind, mediaType=kind, artifactType="x/y", blobs=[blob("a")], subject=blob("s", MEDIA_TYPE_MANIFEST))
    assert [each.digest for each in found.blobs] == [digest("a")]
    assert found.artifact_type == "x/y"
    assert found.subject is not None
    assert found.subject.digest == digest("s")


def test_docker_manifests_and_what_registries_do_not_keep() -> None:
    found = node(
        MEDIA_TYPE_DOCKER_MANIFEST,
        config=blob("c"),
        layers=[
            blob("a", "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", urls=["https://elsewhere.example"]),
            blob("b", "application/vnd.oci.image.layer.nondistributable.v1.tar+zstd"),
            blob("d", "application/vnd.docker.image.rootfs.diff.tar.gzip"),
        ],
    )
    assert [each.digest for each in found.blobs] == [digest("c"), digest("d")]


def test_fields_that_no_copy_needs_may_be_strange() -> None:
    found = node(config=blob("c", urls=None, data=7, extra=[]), layers=[blob("a", annotations=None)])
    assert len(found.blobs) == 2


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"[]", "it is not a manifest (a JSON object)"),
        (b"{", "it is not valid JSON"),
        (b'{"schemaVersion":1}', "Docker's schema 1"),
        (raw(layers={}), "'layers' is not a list"),
        (raw(layers=["x"]), "layers.0 is no descriptor that can be verified"),
        (raw(layers=[{**blob("a"), "digest": "sha512:" + "0" * 128}]), "layers.0 is no descriptor"),
        (raw(manifests=[{**blob("a"), "size": -1}]), "manifests.0 is no descriptor"),
        (raw(subject=7), "subject is no descriptor"),
    ],
)
def test_what_cannot_be_copied_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        node_of(Descriptor.of(data, MEDIA_TYPE_MANIFEST), data, "it")
    assert message in caught.value.message


def index(*platforms: str | None, **more: object) -> Node:
    children = []
    for platform in platforms:
        child = blob(f"child {platform}", MEDIA_TYPE_MANIFEST)
        if platform:
            child["platform"] = dict(zip(("os", "architecture", "variant"), platform.split("/"), strict=False))
        children.append(child)
    return node(MEDIA_TYPE_INDEX, manifests=[*children, *more.get("also", ())])  # type: ignore[misc]


def chosen(found: Node, *platforms: str) -> list[str]:
    names = {digest(f"child {each}"): each for each in ("linux/amd64", "linux/arm64", "linux/arm/v6", "linux/arm/v7")}
    names |= {digest("child linux/arm64/v8"): "linux/arm64/v8", digest("child None"): "none"}
    return [names.get(each.digest, each.digest) for each in select_platforms(found, platforms)]


def test_platforms_that_are_wanted() -> None:
    found = index("linux/amd64", "linux/arm/v6", "linux/arm/v7", "linux/arm64", None)
    assert len(chosen(found)) == 5
    assert chosen(found, "linux/amd64") == ["linux/amd64", "none"]
    assert chosen(found, "linux/arm") == ["linux/arm/v6", "linux/arm/v7", "none"]
    assert chosen(found, "linux/arm/v7", "linux/amd64") == ["linux/amd64", "linux/arm/v7", "none"]
    # 64-bit ARM is version 8 (containerd, platforms.Normalize).
    assert chosen(found, "linux/arm64/v8") == ["linux/arm64", "none"]
    assert chosen(index("linux/arm64/v8"), "linux/arm64") == ["linux/arm64/v8"]


def test_attestations_stay_with_what_they_are_about() -> None:
    unknown = {"os": "unknown", "architecture": "unknown"}
    also = [
        blob(
            f"about {each}",
            MEDIA_TYPE_MANIFEST,
            platform=unknown,
            annotations={"vnd.docker.reference.digest": digest(f"child {each}")},
        )
        for each in ("linux/amd64", "linux/arm64")
    ]
    found = index("linux/amd64", "linux/arm64", also=also)
    assert chosen(found, "linux/amd64") == ["linux/amd64", digest("about linux/amd64")]


def test_a_platform_that_is_not_there() -> None:
    found = index("linux/amd64", "linux/arm/v7")
    assert chosen(found, "linux/s390x") == []
    check_platforms(found, ["linux/arm", "linux/amd64"])
    check_platforms(index(None), ["linux/s390x"])
    with pytest.raises(NotFound) as caught:
        check_platforms(found, ["linux/amd64", "linux/s390x"])
    assert "has nothing for the platform 'linux/s390x'; it has: 'linux/amd64', 'linux/arm/v7'" in str(caught.value)


def test_an_index_without_platforms_is_whole() -> None:
    assert chosen(index(None), "linux/amd64") == ["none"]


def test_a_graph_has_children_first_and_each_once(store: LayoutStore) -> None:
    one, two = (sample(word.encode()).push(store, None) for word in ("one", "two"))
    inner = push_index(store, [two, one], None, media_type=MEDIA_TYPE_DOCKER_INDEX)
    push_index(store, [one, inner, two, one], "v1")
    found = Graph(store, fetch_node(store, "v1"))
    assert [each.digest for each in found.nodes[:-1]] == [one.digest, two.digest, inner.digest]
    assert found.nodes[-1].digest == store.resolve("v1").digest
    assert len(found.blobs()) == 3  # two layers and the empty config
    assert found.missing == []


def test_children_that_are_not_there_are_named(store: LayoutStore) -> None:
    one = sample(b"one").push(store, None)
    gone = Descriptor.of(b"gone", MEDIA_TYPE_MANIFEST)
    push_index(store, [gone, one], "v1")
    found = Graph(store, fetch_node(store, "v1"))
    assert found.missing == [gone]
    assert len(found.nodes) == 2


def test_what_stops_is_not_read(store: LayoutStore) -> None:
    gone = on(Descriptor.of(b"gone", MEDIA_TYPE_MANIFEST), "linux/amd64")
    push_index(store, [gone], "v1")
    found = Graph(store, fetch_node(store, "v1"), stop=lambda child: True)
    assert found.missing == []
    assert list(found.digests()) == [store.resolve("v1").digest, gone.digest]


@pytest.mark.parametrize(("limit", "value"), [("DEPTH", 1), ("NODES", 3), ("NODE_BYTES", 1000)])
def test_graphs_are_bounded(store: LayoutStore, monkeypatch: pytest.MonkeyPatch, limit: str, value: int) -> None:
    inner = sample(b"x").push(store, None)
    for _ in range(5):
        inner = push_index(store, [inner], None)
    root = fetch_node(store, inner.digest)
    assert len(Graph(store, root).nodes) == 6
    monkeypatch.setattr(graph, limit, value)
    with pytest.raises(LimitError, match="more manifests than can be sensible"):
        Graph(store, root)
