# SPDX-License-Identifier: Apache-2.0
"""Many references through an archive, from one real registry to another."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import ocibridge
from ocibridge.airgap.options import PackOptions, UnpackOptions
from ocibridge.airgap.pack import pack
from ocibridge.airgap.unpack import unpack
from ocibridge.errors import DestinationError, FormatError, IntegrityError, NotFound, OcibridgeError, UsageError
from ocibridge.io.content import BytesContent
from ocibridge.oci import Descriptor
from ocibridge.stores.archive import ArchiveStore, open_archive
from ocibridge.stores.archivewriter import ArchiveWriter
from ocibridge.stores.imageindex import ImageIndex
from ocibridge.stores.layout import LayoutStore
from ocibridge.stores.registry import RegistryOptions
from ocibridge.transfer import Progress, Task

from ..mirror.artifacts import drop_blob, put, put_index, requests, store, tags, whole
from ..registry import RegistryServer
from ..stores.samples import files, sample
from ..stores.test_archivewriter import entry

SIGNATURE = "application/vnd.example.signature"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out" / "models.tar"


def sign(host: str, repository: str, subject: Descriptor, data: bytes = b"signature") -> Descriptor:
    return put(host, repository, None, [data], subject=subject, artifact_type=SIGNATURE)


def referrers(host: str, repository: str, digest: str) -> set[str]:
    with store(host, repository) as there:
        return {each.digest for each in there.referrers(digest)}


def lines(server: RegistryServer, since: int = 0) -> list[tuple[str, str, int]]:
    return requests(server.log())[since:]


def names(archive: Path) -> list[str]:
    return list(ArchiveStore(archive).tags())


class Rich:
    """Two repositories with everything that there is: models, an index, signatures of two kinds, a shared layer."""

    def __init__(self, host: str, repository: str) -> None:
        self.host, self.a, self.b = host, f"{repository}/a", f"{repository}/b"
        self.one = put(host, self.a, "v1", [b"shared" * 1000, b"one"])
        self.two = put(host, self.b, "v2", [b"shared" * 1000, b"two"])
        children = [put(host, self.b, None, [name.encode()]) for name in ("amd64", "arm64")]
        self.index = put_index(host, self.b, "multi", children)
        self.signature = sign(host, self.a, self.one)
        self.countersignature = sign(host, self.a, self.signature, b"counter")
        self.about_child = sign(host, self.b, children[1], b"child")
        self.cosign = put(host, self.a, self.one.digest.replace(":", "-") + ".sig", [b"cosign"])
        self.references = [f"{host}/{self.a}:v1", f"{host}/{self.b}:v2", f"{host}/{self.b}:multi"]

    def assert_at(self, host: str, prefix: str) -> None:
        a, b = f"{prefix}{self.a}", f"{prefix}{self.b}"
        found = tags(host, a)
        assert found["v1"] == self.one.digest
        assert found[self.one.digest.replace(":", "-") + ".sig"] == self.cosign.digest
        assert {tag: tags(host, b)[tag] for tag in ("v2", "multi")} == {
            "v2": self.two.digest,
            "multi": self.index.digest,
        }
        for repository, tag in ((a, "v1"), (b, "v2"), (b, "multi")):
            own = self.a if repository == a else self.b
            assert whole(host, repository, tag) == whole(self.host, own, tag)
        assert referrers(host, a, self.one.digest) == {self.signature.digest}
        assert referrers(host, a, self.signature.digest) == {self.countersignature.digest}
        for each in (self.signature, self.countersignature):
            assert whole(host, a, each.digest) == whole(self.host, self.a, each.digest)
        assert whole(host, b, self.about_child.digest) == whole(self.host, self.b, self.about_child.digest)


@pytest.fixture
def rich(source: RegistryServer, repository: str) -> Rich:
    return Rich(source.host, repository)


class TestRoundTrip:
    @pytest.mark.parametrize("volume_size", [None, 64 * 1024])
    def test_everything(self, rich: Rich, target: RegistryServer, archive: Path, volume_size: int | None) -> None:
        packed = pack(rich.references, archive, PackOptions(volume_size=volume_size))
        prefix = f"{'split' if volume_size else 'whole'}/"
        unpacked = unpack(archive, f"{target.host}/{prefix[:-1]}")
        rich.assert_at(target.host, prefix)
        assert {each.name: each.digest for each in unpacked.references} == {
            each.name: each.digest for each in packed.references
        }
        assert [each.target for each in unpacked.references] == [
            each.name.replace(rich.host, f"{target.host}/{prefix[:-1]}") for each in unpacked.references
        ]
        assert (packed.warnings, unpacked.warnings) == ([], [])

    def test_what_is_said_is_what_is_in_it(self, rich: Rich, archive: Path) -> None:
        report = pack(rich.references, f"oci-archive:{archive}")
        with tarfile.open(archive) as tar:
            sizes = {member.name.rpartition("/")[2]: member.size for member in tar if member.name.startswith("blobs/")}
        assert len(sizes) == report.totals.copied + report.totals.manifests
        assert {each.digest[7:] for each in report.references} <= sizes.keys()
        assert [each.name for each in report.references] == names(archive)
        assert (report.totals.present, report.inventory) == (0, None)
        assert [(each.path, each.size, each.digest) for each in report.volumes] == [
            (str(archive), archive.stat().st_size, None)
        ]

    def test_same_content_same_bytes(self, rich: Rich, tmp_path: Path) -> None:
        found = []
        for number, references in enumerate((rich.references, rich.references[::-1])):
            path = tmp_path / f"{number}" / "x.tar"
            path.parent.mkdir()
            pack(
                references,
                path,
                PackOptions(volume_size=64 * 1024, inventory=path.parent / "inventory", concurrency=1 + 7 * number),
            )
            found.append(files(path.parent))
        assert found[0] == found[1]

    def test_each_blob_is_fetched_once(self, rich: Rich, source: RegistryServer, archive: Path) -> None:
        since = len(requests(source.log()))
        report = pack(rich.references, archive)
        fetched = [path.rpartition("/")[2] for method, path, _ in lines(source, since) if "/blobs/sha256:" in path]
        assert len(fetched) == len(set(fetched)) == report.totals.copied

    def test_again_moves_nothing(self, rich: Rich, target: RegistryServer, archive: Path) -> None:
        pack(rich.references, archive)
        unpack(archive, f"{target.host}/again")
        since = len(requests(target.log()))
        report = unpack(archive, f"{target.host}/again")
        assert (report.totals.copied, report.totals.mounted, report.totals.manifests) == (0, 0, 0)
        assert {method for method, _, _ in lines(target, since)} <= {"GET", "HEAD"}
        rich.assert_at(target.host, "again/")

    def test_a_full_check_repairs_the_target(self, rich: Rich, target: RegistryServer, archive: Path) -> None:
        pack(rich.references[:1], archive)
        unpack(archive, f"{target.host}/repaired")
        blob = Descriptor.of(b"one", "")
        drop_blob(target.host, f"repaired/{rich.a}", blob.digest)
        assert unpack(archive, f"{target.host}/repaired", UnpackOptions(full=True)).totals.copied == 1
        assert blob.digest in whole(target.host, f"repaired/{rich.a}", "v1")

    def test_a_tag_that_moves_meanwhile(self, source: RegistryServer, repository: str, archive: Path) -> None:
        """What was resolved first is what is packed, under one digest."""
        old = put(source.host, repository, "v1", [b"old"])

        class Moving(Progress):
            def plan(self, phase: str, tasks: int, size: int) -> None:
                if phase == "packing":
                    put(source.host, repository, "v1", [b"new"])

        report = pack([f"{source.host}/{repository}:v1"], archive, progress=Moving())
        assert [each.digest for each in report.references] == [old.digest]
        assert open_archive(archive).resolve("v1").digest == old.digest

    def test_companions(self, source: RegistryServer, target: RegistryServer, repository: str, archive: Path) -> None:
        carton = Path(__file__).parents[1] / "fixtures" / "digits.carton"
        ocibridge.push(carton, f"{source.host}/{repository}:v1", ocibridge.PushOptions(also=("image",)))
        reference = f"{source.host}/{repository}:v1"
        report = pack([reference], archive)
        assert [each.name for each in report.references] == [reference, f"{reference}-image"]
        unpack(archive, target.host)
        assert tags(target.host, repository).items() >= tags(source.host, repository).items()
        ocibridge.verify(f"{target.host}/{repository}:v1")
        alone = pack([reference], archive, PackOptions(companions=False, force=True))
        assert [each.name for each in alone.references] == [reference]

    def test_without_what_belongs_to_it(self, rich: Rich, archive: Path) -> None:
        report = pack(rich.references[:1], archive, PackOptions(referrers=False, digest_tags=False))
        assert [(each.name, each.manifest_count) for each in report.references] == [(rich.references[0], 1)]

    def test_chosen_platforms(self, rich: Rich, archive: Path) -> None:
        report = pack(rich.references[2:], archive, PackOptions(platforms=["linux/amd64"], referrers=False))
        (only,) = report.references
        assert (only.digest, only.manifest_count) == (rich.index.digest, 2)

    def test_a_digest(self, rich: Rich, target: RegistryServer, archive: Path) -> None:
        reference = f"{rich.host}/{rich.a}@{rich.one.digest}"
        report = pack([reference], archive)
        assert reference in [each.name for each in report.references]
        unpack(archive, f"{target.host}/digest")
        assert whole(target.host, f"digest/{rich.a}", rich.one.digest) == whole(rich.host, rich.a, rich.one.digest)
        assert "v1" not in tags(target.host, f"digest/{rich.a}")

    def test_tag_and_digest(self, rich: Rich, archive: Path) -> None:
        put(rich.host, rich.a, "v1", [b"newer"])
        report = pack([f"{rich.host}/{rich.a}:v1@{rich.one.digest}"], archive, PackOptions(digest_tags=False))
        assert [(each.name, each.digest) for each in report.references] == [(rich.references[0], rich.one.digest)]

    def test_progress(self, rich: Rich, target: RegistryServer, archive: Path) -> None:
        phases: dict[str, int] = {}
        done: dict[str, int] = {}

        class Seen(Progress):
            def plan(self, phase: str, tasks: int, size: int) -> None:
                assert phase not in phases
                phases[phase] = size

            def advance(self, task: Task, count: int) -> None:
                done[task.phase] = done.get(task.phase, 0) + count

            def finish(self, task: Task, outcome: str) -> None:
                assert outcome != "failed"

        report = pack(rich.references, archive, PackOptions(volume_size=64 * 1024), progress=Seen())
        assert list(phases) == ["reading", "packing"]
        assert done["packing"] == phases["packing"] > report.totals.copied_bytes
        phases.clear()
        unpack(archive, f"{target.host}/progress", progress=Seen())
        assert list(phases) == ["verifying", "unpacking"]
        assert done["verifying"] == phases["verifying"] == sum(each.size for each in report.volumes)


class TestPlaces:
    def test_a_layout(self, rich: Rich, tmp_path: Path, archive: Path) -> None:
        pack(rich.references, archive)
        report = unpack(archive, f"oci:{tmp_path / 'layout'}")
        layout = LayoutStore(tmp_path / "layout")
        assert layout.tags() == names(archive)
        assert layout.resolve(rich.references[0]).digest == rich.one.digest
        assert [each.digest for each in layout.referrers(rich.one.digest)] == [rich.signature.digest]
        assert {each.target for each in report.references} == set(names(archive))
        assert unpack(archive, f"oci:{tmp_path / 'layout'}").totals.copied == 0

    def test_strip(self, rich: Rich, target: RegistryServer, archive: Path) -> None:
        pack(rich.references[:1], archive)
        outer = rich.a.rpartition("/")[0]
        unpack(archive, f"{target.host}/{outer}-stripped", UnpackOptions(strip=outer))
        assert tags(target.host, f"{outer}-stripped/a")["v1"] == rich.one.digest

    def test_strip_all(self, rich: Rich, target: RegistryServer, archive: Path) -> None:
        pack(rich.references[:1], archive)
        unpack(archive, f"{target.host}/{rich.a}-only", UnpackOptions(strip=f"/{rich.a}/"))
        assert tags(target.host, f"{rich.a}-only")["v1"] == rich.one.digest
        with pytest.raises(UsageError, match="names no repository in"):
            unpack(archive, target.host, UnpackOptions(strip=rich.a))

    def test_strip_that_does_not_fit(self, rich: Rich, target: RegistryServer, archive: Path) -> None:
        pack(rich.references[:1], archive)
        with pytest.raises(UsageError, match="is in no repository below 'tes'; leave out --strip"):
            unpack(archive, target.host, UnpackOptions(strip="tes"))

    @pytest.mark.parametrize(
        "place", ["", "x", "oci:DIR:v1", "oci-archive:x.tar", "host.x/a:v1", "host.x/A", f"host.x/a@sha256:{'0' * 64}"]
    )
    def test_no_place(self, rich: Rich, archive: Path, place: str) -> None:
        pack(rich.references[:1], archive)
        with pytest.raises(UsageError, match=r"is no place to restore to; write HOST\[:PORT\]\[/PREFIX\] or oci:DIR"):
            unpack(archive, place)

    def test_some(self, rich: Rich, target: RegistryServer, archive: Path) -> None:
        pack(rich.references, archive)
        report = unpack(archive, f"{target.host}/some", references=rich.references[1:2])
        assert [each.name for each in report.references] == rich.references[1:2]
        assert tags(target.host, f"some/{rich.b}") == {"v2": rich.two.digest}
        with pytest.raises(NotFound, match=r"does not hold 'x\.y/z:v1'; its names are: "):
            unpack(archive, f"{target.host}/some", references=["x.y/z:v1"])

    def test_two_that_become_one(self, target: RegistryServer, tmp_path: Path, archive: Path) -> None:
        one, two = sample(b"one"), sample(b"two")
        with ArchiveWriter(archive) as writer:
            for model in (one, two):
                for descriptor, data in model.blobs:
                    writer.add(descriptor, BytesContent(data))
                writer.add(Descriptor.of(model.manifest, ""), BytesContent(model.manifest))
            writer.publish(ImageIndex.of([entry(one, "a.example/m:v1"), entry(two, "b.example/m:v1")]))
        with pytest.raises(
            UsageError, match=r"'a\.example/m:v1' and 'b\.example/m:v1' would both become .*; restore them"
        ):
            unpack(archive, target.host)
        assert tags(target.host, "m") == {}
        assert unpack(archive, f"oci:{tmp_path / 'layout'}").totals.copied == 3

    def test_layouts_as_sources(self, target: RegistryServer, repository: str, tmp_path: Path, archive: Path) -> None:
        model = sample(b"one")
        with LayoutStore(tmp_path / "layout", create=True) as layout:
            model.push(layout, "v1")
        pack([f"oci:{tmp_path / 'layout'}:v1"], archive)
        assert names(archive) == ["v1"]
        with pytest.raises(UsageError, match="names no repository"):
            unpack(archive, target.host)
        report = unpack(archive, f"{target.host}/{repository}")
        assert [each.target for each in report.references] == [f"{target.host}/{repository}:v1"]
        with store(target.host, repository) as there:
            model.assert_in(there, "v1")

    def test_a_single_model_is_pulled_from_it(self, source: RegistryServer, repository: str, tmp_path: Path) -> None:
        """By its name, by its tag where that is clear, and by digest; from volumes, too."""
        carton = Path(__file__).parents[1] / "fixtures" / "digits.carton"
        pushed = ocibridge.push(carton, f"{source.host}/{repository}:v1")
        for size in (None, 64 * 1024):
            file = tmp_path / f"x{size}.tar"
            pack([f"{source.host}/{repository}:v1"], file, PackOptions(volume_size=size))
            for end in (f":{source.host}/{repository}:v1", ":v1", f"@{pushed.digest}"):
                assert ocibridge.inspect(f"oci-archive:{file}{end}").digest == pushed.digest
                ocibridge.verify(f"oci-archive:{file}{end}")


class TestFailures:
    def test_nothing_to_pack(self, archive: Path) -> None:
        with pytest.raises(UsageError, match="there is nothing to pack"):
            pack([], archive)

    def test_an_absent_reference(self, rich: Rich, archive: Path) -> None:
        with pytest.raises(NotFound):
            pack([*rich.references, f"{rich.host}/{rich.a}:absent"], archive)
        assert files(archive.parent) == {}

    def test_a_target_with_a_tag(self, rich: Rich, archive: Path) -> None:
        with pytest.raises(UsageError, match="names a tag; leave it out"):
            pack(rich.references, f"oci-archive:{archive}:v1")

    def test_an_archive_that_is_there(self, rich: Rich, archive: Path) -> None:
        pack(rich.references[:1], archive)
        before = files(archive.parent)
        with pytest.raises(DestinationError, match="exists; choose another name"):
            pack(rich.references, archive)
        assert files(archive.parent) == before
        pack(rich.references, archive, PackOptions(force=True))
        assert len(names(archive)) == 4

    def test_two_of_one_name(self, rich: Rich, tmp_path: Path, archive: Path) -> None:
        for name in ("a", "b"):
            with LayoutStore(tmp_path / name, create=True) as layout:
                sample(name.encode()).push(layout, "v1")
        with pytest.raises(UsageError, match="would both be called 'v1'; pack them into two archives"):
            pack([f"oci:{tmp_path / 'a'}:v1", f"oci:{tmp_path / 'b'}:v1"], archive)
        assert len(pack([rich.references[1]] * 2, archive).references) == 1

    def test_credentials_are_for_one_host(self, rich: Rich, target: RegistryServer, archive: Path) -> None:
        options = RegistryOptions(username="me", password="hunter2")
        with pytest.raises(UsageError, match="are for one registry, and the references are in several") as caught:
            pack([*rich.references, f"{target.host}/x:v1"], archive, registry=options)
        assert "hunter2" not in str(caught.value)

    def test_a_damaged_volume_is_named_before_anything_else(
        self, rich: Rich, target: RegistryServer, archive: Path
    ) -> None:
        pack(rich.references, archive, PackOptions(volume_size=64 * 1024))
        volume = archive.with_name("models.tar.001")
        data = bytearray(volume.read_bytes())
        data[data.index(b"shared")] ^= 1
        volume.write_bytes(data)
        since = len(requests(target.log()))
        with pytest.raises(IntegrityError, match=r"models\.tar\.001 is damaged"):
            unpack(archive, target.host)
        assert lines(target, since) == []

    def test_a_damaged_blob_sets_no_tag(self, rich: Rich, target: RegistryServer, archive: Path) -> None:
        pack(rich.references[:1], archive)
        archive.write_bytes(archive.read_bytes().replace(b"shared" * 1000, b"sharee" * 1000))
        with pytest.raises(IntegrityError):
            unpack(archive, f"{target.host}/damaged")
        assert "v1" not in tags(target.host, f"damaged/{rich.a}")

    def test_a_missing_blob(self, rich: Rich, target: RegistryServer, archive: Path) -> None:
        """A source that lacks a blob of a manifest gives no archive."""
        drop_blob(rich.host, rich.a, Descriptor.of(b"one", "").digest)
        with pytest.raises(NotFound):
            pack(rich.references[:1], archive)
        assert files(archive.parent) == {}


def hostile(archive: Path, manifests: Sequence[dict[str, Any]]) -> Path:
    """An archive with one real artifact, whose index says something else."""
    model = sample(b"one")
    with ArchiveWriter(archive) as writer:
        for descriptor, data in model.blobs:
            writer.add(descriptor, BytesContent(data))
        writer.add(Descriptor.of(model.manifest, ""), BytesContent(model.manifest))
        base = {
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": model.digest,
            "size": len(model.manifest),
        }
        writer.publish(ImageIndex.of([{**base, **each} for each in manifests]))
    return archive


NAME = "org.opencontainers.image.ref.name"
PLACES = "org.ocibridge.bundle.blobs-at"


class TestHostile:
    @pytest.mark.parametrize(
        "name",
        [
            "../../etc/passwd",
            "example.com/../x:v1",
            "example.com/a:../v1",
            "example.com/A:v1",
            "example.com/a?x=1:v1",
            "user:pw@example.com/a:v1",
            "http://example.com/a:v1",
            "example.com/a:v1@sha256:" + "0" * 64,
            "example.com/a:" + "v" * 129,
            "v1\n",
            "-v1",
            "",
            "a b",
            "oci:x/y:v1",
        ],
    )
    def test_names(self, target: RegistryServer, archive: Path, name: str) -> None:
        hostile(archive, [{"annotations": {NAME: name}}])
        since = len(requests(target.log()))
        with pytest.raises(FormatError, match="which is no reference"):
            unpack(archive, f"{target.host}/hostile")
        assert lines(target, since) == []

    @pytest.mark.parametrize("value", [1, ["v1"], {"a": 1}])
    def test_names_that_are_no_text(self, target: RegistryServer, archive: Path, value: object) -> None:
        hostile(archive, [{"annotations": {NAME: value}}])
        with pytest.raises(FormatError):
            unpack(archive, f"{target.host}/hostile")

    @pytest.mark.parametrize("value", ["x", "../a", "example.com/a,", "example.com/a?b:v1", "v1", "," * 10])
    def test_places(self, target: RegistryServer, archive: Path, value: str) -> None:
        hostile(archive, [{"annotations": {NAME: "example.com/a:v1", PLACES: value}}])
        since = len(requests(target.log()))
        with pytest.raises(FormatError, match="blobs-at"):
            unpack(archive, f"{target.host}/hostile")
        assert lines(target, since) == []

    def test_a_digest_that_is_none(self, target: RegistryServer, archive: Path) -> None:
        hostile(archive, [{"digest": "sha256:../../x", "annotations": {NAME: "example.com/a:v1"}}])
        with pytest.raises(FormatError, match="digest"):
            unpack(archive, f"{target.host}/hostile")

    def test_a_manifest_that_is_not_there(self, target: RegistryServer, archive: Path) -> None:
        hostile(archive, [{"digest": "sha256:" + "0" * 64, "annotations": {NAME: "example.com/a:v1"}}])
        with pytest.raises(NotFound, match="has no manifest"):
            unpack(archive, f"{target.host}/hostile")

    def test_one_name_at_two_manifests(self, target: RegistryServer, archive: Path) -> None:
        other = sample(b"one").blobs[0][0].digest
        hostile(
            archive, [{"annotations": {NAME: "e.com/a:v1"}}, {"digest": other, "annotations": {NAME: "e.com/a:v1"}}]
        )
        with pytest.raises(OcibridgeError):
            unpack(archive, f"{target.host}/hostile")
        assert tags(target.host, "hostile/a") == {}

    def test_no_names(self, target: RegistryServer, archive: Path) -> None:
        hostile(archive, [{}])
        with pytest.raises(FormatError, match="has no names in it; copy what you need by its digest"):
            unpack(archive, f"{target.host}/hostile")

    def test_an_empty_one(self, target: RegistryServer, archive: Path) -> None:
        hostile(archive, [])
        assert json.loads(unpack(archive, f"{target.host}/hostile").to_json())["references"] == []
