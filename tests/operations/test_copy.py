# SPDX-License-Identifier: Apache-2.0
"""`copy`: between two real registries, layouts and archives, with companions and separate credentials."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

import ocibridge
from ocibridge.oci import MEDIA_TYPE_DOCKER_MANIFEST, LayoutReference, RegistryReference, parse_reference
from ocibridge.operations.copy import copy
from ocibridge.operations.options import CopyOptions
from ocibridge.stores.layout import LayoutStore
from ocibridge.stores.opening import open_store
from ocibridge.stores.registry import RegistryOptions, RegistryStore

from ..registry import PASSWORD, USER, RegistryServer
from ..stores.registry.fault_server import FaultServer, Reply
from ..stores.samples import sample
from ..transfer.graphs import on, push_index, referrer
from .conftest import FIXTURES

LOGIN = RegistryOptions(username=USER, password=PASSWORD)
DIGITS = FIXTURES / "digits-stored.carton"


def same(source: str, target: str, version: str, options: RegistryOptions | None = None) -> None:
    """Whether a tag leads to the same bytes on both sides."""
    with open_store(parse_reference(source)) as here, open_store(parse_reference(target), options) as there:
        assert here.fetch_manifest(version) == there.fetch_manifest(version)


def test_from_registry_to_registry(
    registry: RegistryServer, auth_registry: RegistryServer, repository: str, tmp_path: Path
) -> None:
    source, target = f"{registry.host}/{repository}", f"{auth_registry.host}/{repository}/copy"
    pushed = ocibridge.push(DIGITS, f"{source}:v1")
    report = ocibridge.copy(f"{source}:v1", target, registry=LOGIN)
    assert report.source == f"{source}@{pushed.digest}"
    assert report.reference == f"{target}@{pushed.digest}"
    assert (report.tag, report.tags, report.moves.manifests) == ("v1", ["v1"], 1)
    layers = {layer.digest: layer.size for layer in pushed.layers}
    assert report.moves.copied == len(layers) + 1  # and the config
    assert report.moves.copied_bytes > sum(layers.values())
    same(source, target, "v1", LOGIN)
    pulled = ocibridge.pull(f"{target}:v1", tmp_path / "digits.carton", registry=LOGIN)
    assert pulled.identity == pushed.identity
    again = ocibridge.copy(f"{source}:v1", target, registry=LOGIN)
    assert (again.moves.copied, again.moves.mounted, again.moves.manifests, again.moves.present) == (
        0,
        0,
        0,
        report.moves.copied,
    )


def test_within_one_registry(auth_registry: RegistryServer, repository: str) -> None:
    source, target = f"{auth_registry.host}/{repository}", f"{auth_registry.host}/{repository}/copy"
    ocibridge.push(DIGITS, f"{source}:v1", registry=LOGIN)
    report = copy(f"{source}:v1", f"{target}:v2", registry=LOGIN)
    assert (report.moves.copied, report.moves.mounted > 0, report.tag) == (0, True, "v2")


def test_companions_travel_along(
    registry: RegistryServer, auth_registry: RegistryServer, repository: str, tmp_path: Path
) -> None:
    source, target = f"{registry.host}/{repository}", f"{auth_registry.host}/{repository}"
    pushed = ocibridge.push(DIGITS, f"{source}:v1", ocibridge.PushOptions(also=["image"]))
    report = copy(f"{source}:v1", f"{target}:v2", registry=LOGIN)
    (image,) = report.companions
    assert (image.kind, image.tag, image.digest) == ("image", "v2-image", pushed.also[0].digest)
    assert set(report.tags) == {"v2", "v2-image"}
    with open_store(parse_reference(target), LOGIN) as store:
        found = store.head("v2-image")
        assert found is not None
        assert found.digest == image.digest
    alone = copy(
        f"{source}:v1", f"oci:{tmp_path / 'layout'}", CopyOptions(companions=False, referrers=False, digest_tags=False)
    )
    assert alone.companions == []
    assert LayoutStore(tmp_path / "layout").tags() == ["v1"]


def test_the_ollama_companion(
    registry: RegistryServer, repository: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tarfile.open(FIXTURES / "ollama-store.tar") as archive:
        archive.extractall(tmp_path / "ollama", filter="data")
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "ollama"))
    source = f"{registry.host}/{repository}"
    pushed = ocibridge.push("ollama:tinyllama-test", f"{source}:v1", ocibridge.PushOptions(also=["ollama"]))
    report = copy(f"{source}:v1", f"oci-archive:{tmp_path / 'a.tar'}")
    assert [(each.kind, each.tag, each.digest) for each in report.companions] == [
        ("ollama", "v1-ollama", pushed.also[0].digest)
    ]
    assert report.tags == ["v1", "v1-ollama"]
    assert ocibridge.verify(f"oci-archive:{tmp_path / 'a.tar'}:v1").identity == pushed.identity


def test_what_only_has_the_name_of_a_companion_stays(registry: RegistryServer, repository: str, tmp_path: Path) -> None:
    source = LayoutStore(tmp_path / "layout", create=True)
    model, other = sample(b"model"), sample(b"other")
    model.push(source, "v1")
    referrer(other.push(source, None)).push(source, "v1-image")
    push_index(source, [], "v1-ollama", media_type=MEDIA_TYPE_DOCKER_MANIFEST)
    report = copy(f"{source.name}:v1", f"{registry.host}/{repository}")
    assert (report.companions, report.tags) == ([], ["v1"])
    # A tag that is as long as a tag can be has none.
    model.push(source, "x" * 128)
    assert copy(f"{source.name}:{'x' * 128}", f"{registry.host}/{repository}").companions == []


@pytest.mark.parametrize("one", ["oci", "oci-archive", "registry"])
@pytest.mark.parametrize("two", ["oci", "oci-archive", "registry"])
def test_every_combination(one: str, two: str, registry: RegistryServer, repository: str, tmp_path: Path) -> None:
    def place(kind: str, name: str) -> str:
        return f"{registry.host}/{repository}/{name}" if kind == "registry" else f"{kind}:{tmp_path / name}"

    source, target = place(one, "a"), place(two, "b")
    pushed = ocibridge.push(DIGITS, f"{source}:v1", ocibridge.PushOptions(also=["image"]))
    report = copy(f"{source}:v1", f"{target}:v2")
    assert report.digest == pushed.digest
    assert report.referrers >= 1  # the image refers to the model
    with open_store(parse_reference(target)) as store:
        assert {"v2", "v2-image"} <= set(store.tags())
    assert ocibridge.verify(f"{target}:v2").identity == pushed.identity
    again = copy(f"{source}:v1", f"{target}:v2", CopyOptions(full=True))
    assert (again.moves.copied, again.moves.mounted, again.moves.manifests) == (0, 0, 0)


def test_platforms(registry: RegistryServer, repository: str, tmp_path: Path) -> None:
    one, two = sample(b"one"), sample(b"two")
    with RegistryStore(RegistryReference(registry.host, repository)) as store:
        push_index(store, [on(one.push(store, None), "linux/amd64"), on(two.push(store, None), "linux/arm64")], "v1")
    place = f"{registry.host}/{repository}:v1"
    copy(place, f"oci:{tmp_path / 'layout'}", CopyOptions(platforms=["linux/arm64"]))
    layout = LayoutStore(tmp_path / "layout")
    assert layout.head(two.digest) is not None
    assert layout.head(one.digest) is None
    with pytest.raises(ocibridge.NotFound, match="has nothing for the platform 'linux/s390x'"):
        copy(place, f"oci:{tmp_path / 'layout'}", CopyOptions(platforms=["linux/s390x"]))


def test_a_digest_needs_no_tag(registry: RegistryServer, repository: str, tmp_path: Path) -> None:
    pushed = ocibridge.push(DIGITS, f"{registry.host}/{repository}:v1")
    report = copy(pushed.reference, f"oci:{tmp_path / 'layout'}")
    assert (report.tag, report.tags) == (None, [])
    assert LayoutStore(tmp_path / "layout").tags() == []
    tagged = copy(f"{registry.host}/{repository}:v1@{pushed.digest}", f"oci:{tmp_path / 'layout'}")
    assert tagged.tag == "v1"
    named = copy(pushed.reference, LayoutReference(tmp_path / "layout", "v3"))
    assert named.tags == ["v3"]
    assert LayoutStore(tmp_path / "layout").tags() == ["v1", "v3"]


def test_no_tag_is_latest_on_both_sides(tmp_path: Path) -> None:
    ocibridge.push(DIGITS, f"oci:{tmp_path / 'a'}")
    assert copy(f"oci:{tmp_path / 'a'}", f"oci:{tmp_path / 'b'}").tag == "latest"


def test_a_target_has_no_digest(tmp_path: Path) -> None:
    digest = sample(b"x").digest
    with pytest.raises(ocibridge.UsageError, match="a tag, not a digest"):
        copy(f"oci:{tmp_path / 'a'}:v1", f"oci:{tmp_path / 'b'}@{digest}")


def test_what_is_not_there(registry: RegistryServer, repository: str, tmp_path: Path) -> None:
    with pytest.raises(ocibridge.NotFound):
        copy(f"{registry.host}/{repository}:v1", f"oci:{tmp_path / 'b'}")
    assert list(tmp_path.iterdir()) == []


def test_a_root_can_be_refused(tmp_path: Path) -> None:
    ocibridge.push(DIGITS, f"oci:{tmp_path / 'a'}:v1")

    def refuse(root: object) -> None:
        raise ocibridge.StoreError("it is not signed")

    with pytest.raises(ocibridge.StoreError, match="it is not signed"):
        copy(f"oci:{tmp_path / 'a'}:v1", f"oci:{tmp_path / 'b'}:v1", before=refuse)
    assert LayoutStore(tmp_path / "b").tags() == []


@pytest.fixture
def wanting() -> Callable[[FaultServer], None]:
    """Has a server ask for a login, and refuse whatever comes."""

    def wants(server: FaultServer) -> None:
        refusal = Reply(401, headers={"WWW-Authenticate": 'Basic realm="x"'})
        server.on("GET", "/v2/r/manifests/v1", refusal)

    return wants


def test_a_login_for_one_side_never_reaches_the_other(
    auth_registry: RegistryServer, repository: str, wanting: Callable[[FaultServer], None]
) -> None:
    with FaultServer() as server:
        wanting(server)
        with pytest.raises(ocibridge.AuthenticationError, match="pulling the manifest v1"):
            copy(f"{server.host}/r:v1", f"{auth_registry.host}/{repository}", registry=LOGIN)
        assert server.seen
        assert all(seen.authorization is None for seen in server.seen)
    # And the other way round.
    ocibridge.push(DIGITS, f"{auth_registry.host}/{repository}:v1", registry=LOGIN)
    with FaultServer() as server:
        server.on("GET", "/v2/r/tags/list", Reply(404))
        with pytest.raises(ocibridge.OcibridgeError):
            copy(f"{auth_registry.host}/{repository}:v1", f"{server.host}/r:v1", source_registry=LOGIN)
        assert server.seen
        assert all(seen.authorization is None for seen in server.seen)


@pytest.mark.parametrize("kind", ["registry", "layout", "archive"])
def test_a_dry_run_says_what_a_copy_does_and_writes_nothing(
    registry: RegistryServer, repository: str, tmp_path: Path, kind: str
) -> None:
    source = f"{registry.host}/{repository}"
    ocibridge.push(DIGITS, f"{source}:v1", ocibridge.PushOptions(also=["image"]))
    with open_store(parse_reference(source)) as store:
        descriptor, _ = store.fetch_manifest("v1")
        referrer(descriptor).push(store, None)
    target = {
        "registry": f"{registry.host}/{repository}/copy",
        "layout": f"oci:{tmp_path / 'layout'}",
        "archive": f"oci-archive:{tmp_path / 'archive.tar'}",
    }[kind]
    dry = copy(f"{source}:v1", f"{target}:v1", CopyOptions(dry_run=True))
    assert dry.dry_run
    assert list(tmp_path.iterdir()) == []
    if kind == "registry":
        with open_store(parse_reference(target)) as store:
            assert store.head("v1") is None
            assert store.is_new()
    done = copy(f"{source}:v1", f"{target}:v1")
    assert done == dry.model_copy(update={"dry_run": False})
    again = copy(f"{source}:v1", f"{target}:v1", CopyOptions(dry_run=True))
    assert (again.moves.copied, again.moves.mounted, again.moves.manifests) == (0, 0, 0)
    assert copy(f"{source}:v1", f"{target}:v1") == again.model_copy(update={"dry_run": False})
