# SPDX-License-Identifier: Apache-2.0
"""What refers to a root comes along: by the API, by fallback tags, by cosign's tags."""

from __future__ import annotations

from pathlib import Path

import pytest

from ocibridge.errors import LimitError, StoreError
from ocibridge.oci import MEDIA_TYPE_INDEX, MEDIA_TYPE_MANIFEST, Descriptor, Index, RegistryReference
from ocibridge.stores.layout import LayoutStore
from ocibridge.stores.registry import RegistryStore
from ocibridge.transfer import copygraph
from ocibridge.transfer.copygraph import GraphCopier, GraphOptions
from ocibridge.transfer.session import CopySession

from ..stores.registry.fault_server import FaultServer, Reply
from ..stores.samples import Sample, sample
from .graphs import Logged, on, push_index, referrer

TAGS = GraphOptions(concurrency=1, digest_tags=True)


def descriptor(made: Sample) -> Descriptor:
    return Descriptor.of(made.manifest, MEDIA_TYPE_MANIFEST)


def listed(store: RegistryStore, digest: str) -> set[str]:
    return {each.digest for each in store.referrers(digest)}


def dashed(digest: str) -> str:
    return digest.replace(":", "-")


@pytest.fixture
def model(source: RegistryStore) -> Sample:
    made = sample(b"model")
    made.push(source, "v1")
    return made


def test_referrers_and_what_refers_to_them(source: RegistryStore, target: RegistryStore, model: Sample) -> None:
    sbom = referrer(descriptor(model))
    signature = referrer(descriptor(sbom), "signature", "application/vnd.example.signature")
    for each in (sbom, signature):
        each.push(source, None)
    copied = GraphCopier(source, target).copy("v1", "v1")
    assert (copied.referrers, copied.manifests, copied.copied) == (2, 3, 4)
    assert listed(target, model.digest) == {sbom.digest}
    assert listed(target, sbom.digest) == {signature.digest}
    signature.assert_in(target, signature.digest)
    # The registry has no list of its own: what it was told is under the fallback tag, words and all.
    index = Index.model_validate_json(target.fetch_manifest(dashed(model.digest))[1])
    assert index.manifests[0].artifact_type == "application/vnd.example.sbom"


def test_referrers_of_what_an_index_lists(source: RegistryStore, target: RegistryStore) -> None:
    one, two = sample(b"one"), sample(b"two")
    inner = push_index(source, [two.push(source, None)], None)
    push_index(source, [on(one.push(source, None), "linux/amd64"), inner], "v1")
    sboms = [referrer(each, each.digest) for each in (descriptor(one), inner, descriptor(two))]
    for each in sboms:
        each.push(source, None)
    assert GraphCopier(source, target).copy("v1", "v1").referrers == 3
    # Again, though the target has the root, all manifests are looked at.
    late = referrer(descriptor(two), "late")
    late.push(source, None)
    copied = GraphCopier(source, target).copy("v1", "v1")
    assert (copied.referrers, copied.manifests) == (4, 1)
    assert listed(target, two.digest) == {sboms[2].digest, late.digest}


def test_an_index_can_refer_to_something(source: RegistryStore, target: RegistryStore, model: Sample) -> None:
    image = sample(b"image")
    index = push_index(source, [image.push(source, None)], None, subject=descriptor(model))
    assert GraphCopier(source, target).copy("v1", "v1").referrers == 1
    assert listed(target, model.digest) == {index.digest}
    image.assert_in(target, image.digest)
    assert GraphCopier(source, target).copy("v1", "v1").manifests == 0


def test_platforms_of_the_root_need_not_be_those_of_a_referrer(
    source: RegistryStore, tmp_path: Path, model: Sample
) -> None:
    one, two = sample(b"one"), sample(b"two")
    children = [on(one.push(source, None), "linux/amd64"), on(two.push(source, None), "linux/arm64")]
    index = push_index(source, children, None, subject=descriptor(model))
    layout = LayoutStore(tmp_path / "layout", create=True)
    for platform, there in (("linux/s390x", []), ("linux/arm64", [two.digest])):
        options = GraphOptions(platforms=(platform,), full=True)
        assert GraphCopier(source, layout, options).copy("v1", "v1").referrers == 1
        assert layout.head(index.digest) is not None
        assert [each.digest for each in (one, two) if layout.head(each.digest)] == there


def test_entries_of_the_target_stay(source: RegistryStore, target: RegistryStore, model: Sample) -> None:
    theirs, ours = referrer(descriptor(model), "theirs"), referrer(descriptor(model), "ours")
    theirs.push(target, None)
    ours.push(source, None)
    GraphCopier(source, target, TAGS).copy("v1", "v1")
    assert listed(target, model.digest) == {theirs.digest, ours.digest}


def test_what_the_target_lists_is_not_read_again(
    here: Logged, there: Logged, source: RegistryStore, target: RegistryStore, model: Sample
) -> None:
    referrer(descriptor(model)).push(source, None)
    GraphCopier(source, target).copy("v1", "v1")
    session = CopySession()
    session.is_new(target)
    here.asked(source), there.asked(target)
    assert GraphCopier(source, target, session=session).copy("v1", "v1").referrers == 1
    # The root, its list and the list of its referrer.
    assert here.asked(source) == {"GET manifests 200": 2, "GET manifests 404": 1}
    assert there.asked(target) == {"HEAD manifests 200": 1, "GET referrers 404": 1, "GET manifests 200": 1}


def test_a_referrer_that_the_target_has_and_does_not_list(
    source: RegistryStore, target: RegistryStore, model: Sample
) -> None:
    sbom = referrer(descriptor(model))
    sbom.push(source, None)
    GraphCopier(source, target).copy("v1", "v1")
    target.push_manifest(Index(manifests=[]).to_json(), MEDIA_TYPE_INDEX, dashed(model.digest))
    assert listed(target, model.digest) == set()
    GraphCopier(source, target).copy("v1", "v1")
    assert listed(target, model.digest) == {sbom.digest}


def test_only_artifact_types_that_are_wanted(source: RegistryStore, target: RegistryStore, model: Sample) -> None:
    sbom, other = referrer(descriptor(model)), referrer(descriptor(model), "other", "application/vnd.example.other")
    for each in (sbom, other):
        each.push(source, None)
    options = GraphOptions(referrer_types=("application/vnd.example.other",))
    assert GraphCopier(source, target, options).copy("v1", "v1").referrers == 1
    assert listed(target, model.digest) == {other.digest}


def test_no_referrers_where_none_are_wanted(source: RegistryStore, target: RegistryStore, model: Sample) -> None:
    referrer(descriptor(model)).push(source, None)
    copied = GraphCopier(source, target, GraphOptions(referrers=False, digest_tags=True)).copy("v1", "v1")
    assert (copied.referrers, copied.manifests, copied.tags) == (0, 1, ("v1",))
    assert target.head(dashed(model.digest)) is None


def test_what_is_listed_and_no_referrer_is_left_out(
    source: RegistryStore, target: RegistryStore, model: Sample
) -> None:
    stranger = sample(b"stranger")
    gone = sample(b"gone").push(source, None)
    index = Index(manifests=[stranger.push(source, None), gone])
    source.push_manifest(index.to_json(), MEDIA_TYPE_INDEX, dashed(model.digest))
    source.delete(gone.digest)
    copied = GraphCopier(source, target).copy("v1", "v1")
    assert copied.referrers == 0
    assert copied.warnings == (
        f"{source.name} lists {stranger.digest} as a referrer of {model.digest}, which it is not: it was left out",
        f"{source.name} lists {gone.digest} as a referrer, and lacks it",
    )
    assert target.head(stranger.digest) is None


def test_a_list_that_is_none(source: RegistryStore, target: RegistryStore, model: Sample) -> None:
    # Another tool has put an artifact under the fallback tag: it goes along as it is.
    other = sample(b"other")
    other.push(source, dashed(model.digest))
    copied = GraphCopier(source, target, TAGS).copy("v1", "v1")
    assert copied.tags == (dashed(model.digest), "v1")
    other.assert_in(target, dashed(model.digest))


def test_entries_that_lead_nowhere_do_not_stand_in_the_way(
    source: RegistryStore, target: RegistryStore, model: Sample
) -> None:
    old, new = referrer(descriptor(model), "old"), referrer(descriptor(model), "new")
    old.push(target, None)
    target.delete(old.digest)
    new.push(source, None)
    GraphCopier(source, target).copy("v1", "v1")
    assert listed(target, model.digest) == {new.digest}


def test_a_list_that_cannot_be_read_is_left_out(target: RegistryStore) -> None:
    made = sample(b"model")
    with FaultServer() as server:
        server.on("GET", "/v2/r/manifests/v1", Reply(200, made.manifest, {"Content-Type": MEDIA_TYPE_MANIFEST}))
        for blob, data in made.blobs:
            server.on("GET", f"/v2/r/blobs/{blob.digest}", Reply(200, data))
        server.on("GET", f"/v2/r/referrers/{made.digest}", Reply(200, b"[]", {"Content-Type": MEDIA_TYPE_INDEX}))
        with RegistryStore(RegistryReference(server.host, "r")) as source:
            copied = GraphCopier(source, target).copy("v1", "v1")
    assert len(copied.warnings) == 1
    assert f"the list of what refers to {made.digest} cannot be read and was left out" in copied.warnings[0]
    made.assert_in(target, "v1")


def test_cosign_tags_and_any_other_of_a_digest(source: RegistryStore, target: RegistryStore, model: Sample) -> None:
    tags = [dashed(model.digest) + suffix for suffix in (".sig", ".att", "-ours")]
    made = [sample(tag.encode()) for tag in tags]
    for each, tag in zip(made, tags, strict=True):
        each.push(source, tag)
    # A signature of a signature, and a tag of something else.
    nested = sample(b"nested")
    nested.push(source, dashed(made[0].digest) + ".sig")
    sample(b"foreign").push(source, "sha256-" + "0" * 64 + ".sig")
    copied = GraphCopier(source, target, TAGS).copy("v1", "v1")
    wanted = {*tags, dashed(made[0].digest) + ".sig", "v1"}
    assert set(copied.tags) == set(target.tags()) == wanted
    assert copied.tags[-1] == "v1"
    again = GraphCopier(source, target, TAGS).copy("v1", "v1")
    assert again.manifests == 0
    assert set(again.tags) == set(tags) | {"v1"}


def test_what_is_in_both_places_moves_once(
    here: Logged, source: RegistryStore, target: RegistryStore, model: Sample
) -> None:
    signature = referrer(descriptor(model), "signature")
    signature.push(source, None)
    tag = dashed(model.digest) + ".sig"
    signature.push(source, tag)
    here.asked(source)
    copied = GraphCopier(source, target, TAGS).copy("v1", "v1")
    assert (copied.copied, copied.manifests, copied.referrers) == (3, 2, 1)
    assert here.asked(source)["GET blobs 200"] == 3
    assert listed(target, model.digest) == {signature.digest}
    assert target.tags() == sorted([dashed(model.digest), tag, "v1"])


def test_without_a_list_of_tags_the_usual_ones_are_asked_for(
    source: RegistryStore, target: RegistryStore, model: Sample
) -> None:
    class Untold(RegistryStore):
        def tags(self) -> list[str]:
            raise StoreError("no list", status=404)

    for suffix in (".sbom", ".other"):
        sample(suffix.encode()).push(source, dashed(model.digest) + suffix)
    with Untold(RegistryReference(source.host.name, source.container.repository)) as untold:
        copied = GraphCopier(untold, target, TAGS).copy("v1", "v1")
    assert copied.tags == (dashed(model.digest) + ".sbom", "v1")


def test_a_registry_with_the_api(target: RegistryStore, tmp_path: Path) -> None:
    """The source answers as registries with the API do; blobs and manifests are those of a layout."""
    layout = LayoutStore(tmp_path / "layout", create=True)
    made = sample(b"model")
    sbom = referrer(made.push(layout, "v1"))
    entry = sbom.push(layout, None).model_copy(update={"artifact_type": "application/vnd.example.sbom"})
    with FaultServer() as server:
        for each in (made, sbom):
            reply = Reply(200, each.manifest, {"Content-Type": MEDIA_TYPE_MANIFEST})
            server.on("GET", f"/v2/r/manifests/{each.digest}", reply)
            for blob, data in each.blobs:
                server.on("GET", f"/v2/r/blobs/{blob.digest}", Reply(200, data))
        server.on("GET", "/v2/r/manifests/v1", Reply(200, made.manifest, {"Content-Type": MEDIA_TYPE_MANIFEST}))
        kinds = {"Content-Type": MEDIA_TYPE_INDEX}
        server.on("GET", f"/v2/r/referrers/{made.digest}", Reply(200, Index(manifests=[entry]).to_json(), kinds))
        server.on("GET", f"/v2/r/referrers/{sbom.digest}", Reply(200, Index(manifests=[]).to_json(), kinds))
        with RegistryStore(RegistryReference(server.host, "r")) as api:
            assert GraphCopier(api, target).copy("v1", "v1").referrers == 1
            assert not api.capabilities.referrers_by_tag
        assert not [each for each in server.seen if "sha256-" in each.path]
    assert listed(target, made.digest) == {sbom.digest}


def test_chains_of_referrers_end(
    source: RegistryStore, target: RegistryStore, model: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = descriptor(model)
    for number in range(4):
        last = referrer(last, str(number)).push(source, None)
    monkeypatch.setattr(copygraph, "REFERRER_DEPTH", 3)
    with pytest.raises(LimitError, match="more than 3 manifests refer to one another in a row"):
        GraphCopier(source, target).copy("v1", "v1")
    assert target.head("v1") is None
    monkeypatch.setattr(copygraph, "REFERRER_DEPTH", 5)
    assert GraphCopier(source, target).copy("v1", "v1").referrers == 4
