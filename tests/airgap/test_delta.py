# SPDX-License-Identifier: Apache-2.0
"""Archives that lack what the other side has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from ocibridge import schemas
from ocibridge.airgap import inventory as inventory_module
from ocibridge.airgap.inventory import Inventory, ReferenceInventory
from ocibridge.airgap.options import PackOptions, UnpackOptions
from ocibridge.airgap.pack import pack
from ocibridge.airgap.unpack import unpack
from ocibridge.errors import FormatError, LimitError, SourceError, StoreError
from ocibridge.oci import Descriptor
from ocibridge.stores.archive import ArchiveStore
from ocibridge.stores.layout import LayoutStore

from ..mirror.artifacts import drop_blob, put, requests, tags, whole
from ..registry import RegistryServer

SIGNATURE = "application/vnd.example.signature"
BIG = b"shared" * 5000


class Two:
    """Two sides, a repository, and inventories."""

    def __init__(self, source: str, target: str, repository: str, folder: Path) -> None:
        self.source, self.target, self.repository, self.folder = source, target, repository, folder
        self.place = f"{target}/mirror"

    def path(self, name: str) -> Path:
        return self.folder / name

    def put(self, name: str, tag: str, *layers: bytes) -> Descriptor:
        return put(self.source, f"{self.repository}/{name}", tag, layers)

    def ref(self, name: str, tag: str) -> str:
        return f"{self.source}/{self.repository}/{name}:{tag}"

    def there(self, name: str) -> dict[str, str]:
        return tags(self.target, f"mirror/{self.repository}/{name}")

    def assert_same(self, name: str, tag: str) -> None:
        repository = f"{self.repository}/{name}"
        assert whole(self.target, f"mirror/{repository}", tag) == whole(self.source, repository, tag)


@pytest.fixture
def two(source: RegistryServer, target: RegistryServer, repository: str, tmp_path: Path) -> Two:
    return Two(source.host, target.host, repository, tmp_path)


@pytest.fixture
def first(two: Two) -> Path:
    """The inventory after a first archive with a:v1 has been restored."""
    two.put("a", "v1", BIG, b"one")
    pack([two.ref("a", "v1")], two.path("first.tar"), PackOptions(inventory=two.path("first.json")))
    unpack(two.path("first.tar"), two.place)
    return two.path("first.json")


class TestDelta:
    def test_only_what_is_new(self, two: Two, first: Path) -> None:
        two.put("a", "v2", BIG, b"two")
        references = [two.ref("a", "v1"), two.ref("a", "v2")]
        report = pack(references, two.path("d.tar"), PackOptions(since=first, inventory=two.path("second.json")))
        assert [(each.name, each.action) for each in report.references] == [
            (references[0], "unchanged"),
            (references[1], "packed"),
        ]
        assert (report.totals.copied, report.totals.copied_bytes, report.totals.present) == (1, 3, 2)
        assert report.totals.present_bytes > len(BIG)
        assert two.path("d.tar").stat().st_size < 10_000
        assert list(ArchiveStore(two.path("d.tar")).tags()) == [references[1]]
        restored = unpack(two.path("d.tar"), two.place, UnpackOptions(inventory=first))
        assert (restored.expected_count, restored.totals.copied) == (2, 1)
        two.assert_same("a", "v2")
        assert first.read_bytes() == two.path("second.json").read_bytes()

    def test_nothing_is_new(self, two: Two, first: Path) -> None:
        report = pack(
            [two.ref("a", "v1")], two.path("d.tar"), PackOptions(since=first, inventory=two.path("second.json"))
        )
        assert (report.totals.copied, report.totals.manifests, report.totals.present) == (0, 0, 0)
        assert unpack(two.path("d.tar"), two.place).references == []
        assert first.read_bytes() == two.path("second.json").read_bytes()

    def test_a_tag_that_was_moved(self, two: Two, first: Path) -> None:
        new = two.put("a", "v1", BIG, b"moved")
        assert pack([two.ref("a", "v1")], two.path("d.tar"), PackOptions(since=first)).totals.copied == 1
        unpack(two.path("d.tar"), two.place)
        assert two.there("a")["v1"] == new.digest
        two.assert_same("a", "v1")

    def test_a_signature_that_came_later(self, two: Two, first: Path) -> None:
        """The reference itself has not changed."""
        held = Inventory.read(first).references[two.ref("a", "v1")]
        subject = Descriptor(media_type="x/y", digest=held.digest, size=held.manifests[held.digest])
        signed = put(two.source, f"{two.repository}/a", None, [b"signature"], subject=subject, artifact_type=SIGNATURE)
        report = pack([two.ref("a", "v1")], two.path("d.tar"), PackOptions(since=first))
        assert [each.action for each in report.references] == ["packed"]
        assert (report.totals.copied, report.totals.copied_bytes) == (1, len(b"signature"))
        unpack(two.path("d.tar"), two.place)
        two.assert_same("a", signed.digest)

    def test_blobs_of_another_repository_are_mounted(self, two: Two, target: RegistryServer, first: Path) -> None:
        two.put("b", "v1", BIG, b"new")
        pack([two.ref("b", "v1")], two.path("d.tar"), PackOptions(since=first))
        since = len(requests(target.log()))
        report = unpack(two.path("d.tar"), two.place)
        assert (report.totals.copied, report.totals.copied_bytes, report.totals.mounted) == (1, 3, 2)
        mounts = [path for method, path, _ in requests(target.log())[since:] if "mount=" in path]
        assert len(mounts) == 2
        two.assert_same("b", "v1")

    def test_registries_that_do_not_mount(self, two: Two, first: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The blobs are read from the repository that has them."""
        from ocibridge.stores.registry import RegistryStore

        two.put("b", "v1", BIG, b"new")
        pack([two.ref("b", "v1")], two.path("d.tar"), PackOptions(since=first))
        monkeypatch.setattr(RegistryStore, "mount_blob", lambda *_: False)
        report = unpack(two.path("d.tar"), two.place)
        assert (report.totals.copied, report.totals.mounted) == (3, 0)
        two.assert_same("b", "v1")

    def test_without_the_host(self, two: Two, first: Path, tmp_path: Path) -> None:
        """A layout as target: what it has, it has for all repositories."""
        place = f"oci:{tmp_path / 'layout'}"
        unpack(two.path("first.tar"), place)
        two.put("b", "v1", BIG, b"new")
        pack([two.ref("b", "v1")], two.path("d.tar"), PackOptions(since=first))
        report = unpack(two.path("d.tar"), place)
        assert (report.expected_count, report.totals.copied) == (2, 1)
        assert LayoutStore(tmp_path / "layout").tags() == [two.ref("a", "v1"), two.ref("b", "v1")]

    def test_a_target_that_lacks_something(self, two: Two, target: RegistryServer, first: Path) -> None:
        """No tag is set, not even of what could be restored."""
        two.put("a", "v2", BIG, b"two")
        two.put("c", "v1", b"whole")
        drop_blob(two.target, f"mirror/{two.repository}/a", Descriptor.of(BIG, "").digest)
        pack([two.ref("a", "v2"), two.ref("c", "v1")], two.path("d.tar"), PackOptions(since=first))
        since = len(requests(target.log()))
        with pytest.raises(StoreError) as caught:
            unpack(two.path("d.tar"), two.place)
        digest = Descriptor.of(BIG, "").digest
        assert str(caught.value) == (
            f"{two.place}/{two.repository}/a lacks the blob {digest} of {two.ref('a', 'v2')}, and "
            f"oci-archive:{two.path('d.tar')} was packed for a target that has it; pack again without --since, or with "
            "an inventory that was written on this side"
        )
        assert {method for method, _, _ in requests(target.log())[since:]} <= {"HEAD", "GET"}
        assert ("v2" in two.there("a"), two.there("c")) == (False, {})

    def test_another_target(self, two: Two, first: Path) -> None:
        two.put("a", "v2", BIG, b"two")
        pack([two.ref("a", "v2")], two.path("d.tar"), PackOptions(since=first))
        with pytest.raises(StoreError, match=r"lacks the blob .* and 1 more, and"):
            unpack(two.path("d.tar"), f"{two.target}/elsewhere")

    def test_places_that_strip_leaves_out(self, two: Two, first: Path) -> None:
        """A hint at repositories that are not restored here is no reason to fail."""
        two.put("b", "v1", BIG)
        pack([two.ref("b", "v1")], two.path("d.tar"), PackOptions(since=first))
        with pytest.raises(StoreError, match="lacks the blob"):
            unpack(two.path("d.tar"), two.place, UnpackOptions(strip=f"{two.repository}/b"))

    def test_many_deltas(self, two: Two, first: Path) -> None:
        """Each builds on the inventory that the one before wrote."""
        inventory = first
        for number in range(2, 5):
            two.put("a", f"v{number}", BIG, b"%d" % number)
            following = two.path(f"{number}.json")
            references = [two.ref("a", f"v{each}") for each in range(1, number + 1)]
            report = pack(references, two.path(f"{number}.tar"), PackOptions(since=inventory, inventory=following))
            assert report.totals.copied == 1
            unpack(two.path(f"{number}.tar"), two.place)
            inventory = following
        assert two.there("a").keys() == {"v1", "v2", "v3", "v4"}
        for number in range(1, 5):
            two.assert_same("a", f"v{number}")


class TestInventory:
    def test_both_sides_write_the_same(self, two: Two, first: Path) -> None:
        unpack(two.path("first.tar"), two.place, UnpackOptions(inventory=two.path("theirs.json")))
        assert two.path("theirs.json").read_bytes() == first.read_bytes()

    def test_it_follows_its_schema(self, first: Path) -> None:
        schema = schemas.schema("airgap-inventory")
        Draft202012Validator.check_schema(schema)
        Draft202012Validator(schema).validate(json.loads(first.read_bytes()))

    def test_what_it_says(self, two: Two, first: Path) -> None:
        (held,) = Inventory.read(first).references.values()
        repository = f"{two.repository}/a"
        assert held.manifests | held.blobs == whole(two.source, repository, "v1")
        assert held.digest == tags(two.source, repository)["v1"]

    def test_nothing_is_written_where_packing_fails(self, two: Two, first: Path) -> None:
        before = first.read_bytes()
        with pytest.raises(StoreError):
            pack([two.ref("a", "absent")], two.path("d.tar"), PackOptions(since=first, inventory=first))
        assert first.read_bytes() == before

    def test_absent(self, two: Two) -> None:
        with pytest.raises(SourceError, match="cannot read"):
            pack([two.ref("a", "v1")], two.path("d.tar"), PackOptions(since=two.path("absent")))

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "[]",
            '{"version": 2, "references": {}}',
            '{"version": 1, "references": {"../x": {"digest": "DIGEST", "manifests": {}, "blobs": {}}}}',
            '{"version": 1, "references": {"v1": {"digest": "sha256:x", "manifests": {}, "blobs": {}}}}',
            '{"version": 1, "references": {"v1": {"digest": "DIGEST", "manifests": {"x": 1}, "blobs": {}}}}',
            '{"version": 1, "references": {"v1": {"digest": "DIGEST", "manifests": {}, "blobs": {"DIGEST": -1}}}}',
            '{"version": 1, "references": {"v1": {"digest": "DIGEST", "manifests": {}, "blobs": {"DIGEST": "1"}}}}',
            '{"version": 1, "references": {"v1": {"digest": "DIGEST"}}}',
        ],
    )
    def test_what_is_none(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "inventory.json"
        path.write_text(text.replace("DIGEST", "sha256:" + "0" * 64))
        with pytest.raises(FormatError):
            Inventory.read(path)

    def test_limit(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(inventory_module, "_LARGEST", 10)
        (tmp_path / "inventory.json").write_text(" " * 11)
        with pytest.raises(LimitError):
            Inventory.read(tmp_path / "inventory.json")

    def test_joined(self) -> None:
        def held(text: str) -> ReferenceInventory:
            return ReferenceInventory(digest=f"sha256:{text * 64}", manifests={}, blobs={f"sha256:{text * 64}": 1})

        inventory = Inventory(references={"x.y/b:v1": held("0"), "x.y/a:v1": held("1")})
        assert list(inventory.joined({"x.y/b:v1": held("2")}).references) == ["x.y/a:v1", "x.y/b:v1"]
        homes = inventory.joined({"x.y/c:v1": held("1")}).homes({f"sha256:{each * 64}" for each in "1f"})
        assert homes == {f"sha256:{'1' * 64}": ["x.y/a", "x.y/c"]}
