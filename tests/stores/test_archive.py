# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import gzip
import io
import os
import tarfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ocibridge.errors import (
    DestinationError,
    FormatError,
    IntegrityError,
    LimitError,
    NotFound,
    OcibridgeError,
    StoreError,
)
from ocibridge.io.content import BytesContent
from ocibridge.oci import MEDIA_TYPE_MANIFEST, Descriptor
from ocibridge.settings import Limits
from ocibridge.stores.archive import ArchiveStore

from .samples import LAYER, read, sample


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.tar"


def push(path: Path, *layers: bytes, tag: str | None = "v1") -> None:
    with ArchiveStore(path, create=True) as store:
        sample(*layers).push(store, tag)


def members(path: Path) -> list[tuple[str, bytes]]:
    with tarfile.open(path) as tar:
        return [(each.name, file.read() if (file := tar.extractfile(each)) else b"") for each in tar.getmembers()]


def packed(path: Path, *entries: tuple[str, bytes] | tarfile.TarInfo, form: int = tarfile.PAX_FORMAT) -> Path:
    """Another tool's archive."""
    with tarfile.open(path, "w", format=form) as tar:
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                tar.addfile(entry)
            else:
                info = tarfile.TarInfo(entry[0])
                info.size = len(entry[1])
                tar.addfile(info, io.BytesIO(entry[1]))
    return path


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


LAYOUT = ("oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
INDEX = ("index.json", b'{"schemaVersion":2,"manifests":[]}')


class TestOpening:
    def test_absent(self, path: Path) -> None:
        with pytest.raises(NotFound, match="there is no archive"):
            ArchiveStore(path)

    def test_create_alone_makes_nothing(self, path: Path) -> None:
        with ArchiveStore(path, create=True) as store:
            assert store.tags() == []
            with pytest.raises(NotFound, match="it is empty"):
                store.resolve("v1")
        assert not list(path.parent.iterdir())

    def test_folder(self, tmp_path: Path) -> None:
        with pytest.raises(FormatError, match="is not a file; write oci:DIR"):
            ArchiveStore(tmp_path)

    def test_compressed(self, path: Path) -> None:
        push(path)
        path.write_bytes(gzip.compress(path.read_bytes()))
        with pytest.raises(FormatError, match="is compressed"):
            ArchiveStore(path)

    @pytest.mark.parametrize(("present", "missing"), [(LAYOUT, "index.json"), (INDEX, "oci-layout")])
    def test_not_a_layout(self, path: Path, present: tuple[str, bytes], missing: str) -> None:
        with pytest.raises(FormatError, match=f"no file {missing}"):
            ArchiveStore(packed(path, present))

    @pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
    def test_archives_of_tar(self, path: Path, form: int) -> None:
        model = sample()
        blobs = [("./blobs/sha256/" + blob.digest[7:], data) for blob, data in model.blobs]
        blobs.append(("./blobs/sha256/" + model.digest[7:], model.manifest))
        folder = tarfile.TarInfo("./")
        folder.type = tarfile.DIRTYPE
        packed(
            path,
            folder,
            ("./index.json", INDEX[1]),
            ("./" + "n" * 80 + "/" + "m" * 80, b"x"),
            *blobs,
            LAYOUT,
            form=form,
        )
        model.assert_in(ArchiveStore(path), model.digest)


class TestPushing:
    def test_round_trip(self, path: Path) -> None:
        model = sample(b"one" * 1000, b"", b"x" * 512)
        with ArchiveStore(path, create=True) as store:
            digest = model.push(store, "v1").digest
            model.assert_in(store, "v1")
        model.assert_in(ArchiveStore(path), "v1")
        model.assert_in(ArchiveStore(path), digest)
        assert [each.name for each in path.parent.iterdir()] == ["model.tar"]

    def test_form(self, path: Path) -> None:
        push(path, b"one")
        model = sample(b"one")
        names = [f"blobs/sha256/{digest[7:]}" for digest in [*(blob.digest for blob, _ in model.blobs), model.digest]]
        assert [name for name, _ in members(path)] == ["oci-layout", "blobs", "blobs/sha256", *names, "index.json"]
        with tarfile.open(path) as tar:
            for each in tar.getmembers():
                assert (each.mtime, each.uid, each.gid, each.uname, each.gname) == (0, 0, 0, "", "")
                assert each.mode == (0o755 if each.isdir() else 0o644)
                assert not each.pax_headers

    def test_second_tag_keeps_the_first(self, path: Path) -> None:
        push(path, b"one", b"shared", tag="v1")
        push(path, b"two", b"shared", tag="v2")
        store = ArchiveStore(path)
        assert store.tags() == ["v1", "v2"]
        sample(b"one", b"shared").assert_in(store, "v1")
        sample(b"two", b"shared").assert_in(store, "v2")
        names = [name for name, _ in members(path)]
        assert len(names) == len(set(names))

    def test_same_pushes_same_bytes(self, tmp_path: Path) -> None:
        for name in ("a.tar", "b.tar"):
            push(tmp_path / name, b"one", tag="v1")
            push(tmp_path / name, b"two", tag="v2")
        assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()

    def test_nothing_new_writes_nothing(self, path: Path) -> None:
        push(path)
        before = path.stat()
        push(path)
        after = path.stat()
        assert (after.st_ino, after.st_mtime_ns, after.st_size) == (before.st_ino, before.st_mtime_ns, before.st_size)

    @pytest.mark.parametrize("data", [b"abd", b"ab", b"abcd"])
    def test_wrong_bytes_are_taken_back(self, path: Path, data: bytes) -> None:
        with ArchiveStore(path, create=True) as store:
            with pytest.raises(IntegrityError):
                store.push_blob(Descriptor.of(b"abc", LAYER), BytesContent(data))
            sample(b"one").push(store, "v1")
        good = path.read_bytes()
        path.unlink()
        push(path, b"one")
        assert path.read_bytes() == good

    def test_push_without_manifest_leaves_the_old_file(self, path: Path) -> None:
        push(path, b"old")
        before = path.read_bytes()
        with ArchiveStore(path, create=True) as store:
            store.push_blob(Descriptor.of(b"abc", LAYER), BytesContent(b"abc"))
            assert read(store, Descriptor.of(b"abc", LAYER)) == b"abc"
        assert path.read_bytes() == before
        assert [each.name for each in path.parent.iterdir()] == ["model.tar"]
        assert not store.has_blob(Descriptor.of(b"abc", LAYER))
        sample(b"old").assert_in(store, "v1")

    def test_failure_after_a_manifest_keeps_the_manifest(self, path: Path) -> None:
        class Interrupted(Exception):
            pass

        def push_and_fail() -> None:
            with ArchiveStore(path, create=True) as store:
                sample(b"one").push(store, "v1")
                store.push_blob(Descriptor.of(b"abc", LAYER), BytesContent(b"abc"))
                raise Interrupted

        with pytest.raises(Interrupted):
            push_and_fail()
        sample(b"one").assert_in(ArchiveStore(path), "v1")
        assert [each.name for each in path.parent.iterdir()] == ["model.tar"]

    def test_disk_full(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        push(path, b"old")
        before = path.read_bytes()
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(
            DestinationError, match=r"cannot write .*model\.tar: no space left on device; free some space"
        ):
            push(path, b"new")
        assert path.read_bytes() == before
        assert [each.name for each in path.parent.iterdir()] == ["model.tar"]

    def test_folder_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(DestinationError, match="cannot write"):
            push(tmp_path / "absent" / "model.tar")

    def test_change_by_another_process_is_noticed(self, path: Path) -> None:
        push(path, b"old")
        store = ArchiveStore(path, create=True)
        store.push_blob(Descriptor.of(b"abc", LAYER), BytesContent(b"abc"))
        packed(path, LAYOUT, INDEX)
        before = path.read_bytes()
        with pytest.raises(StoreError, match="changed by another process"):
            sample(b"new").push(store, "v3")
        assert path.read_bytes() == before
        assert [each.name for each in path.parent.iterdir()] == ["model.tar"]

    def test_two_writers(self, path: Path) -> None:
        push(path, b"old")
        with ArchiveStore(path, create=True) as first, ArchiveStore(path, create=True) as second:
            first.push_blob(Descriptor.of(b"abc", LAYER), BytesContent(b"abc"))
            with pytest.raises(DestinationError, match="another process is writing"):
                sample(b"two").push(second, "v2")
            sample(b"one").push(first, "v1")
            sample(b"two").push(second, "v2")
        assert ArchiveStore(path).tags() == ["v1", "v2"]
        sample(b"one").assert_in(ArchiveStore(path), "v1")

    def test_what_a_killed_push_has_left_is_taken_over(self, path: Path) -> None:
        push(path, b"one")
        good = path.read_bytes()
        path.unlink()
        path.with_name(".model.tar.ocibridge-pack.part").write_bytes(good[:2000] + b"x" * 5000)
        push(path, b"one")
        assert path.read_bytes() == good
        assert [each.name for each in path.parent.iterdir()] == ["model.tar"]

    def test_reader_follows_another_process(self, path: Path) -> None:
        push(path, b"one")
        store = ArchiveStore(path)
        push(path, b"two", tag="v0")
        assert store.tags() == ["v0", "v1"]
        sample(b"one").assert_in(store, "v1")

    def test_damaged_blob_in_the_way(self, path: Path) -> None:
        descriptor = Descriptor.of(b"abc", LAYER)
        packed(path, LAYOUT, INDEX, ("blobs/sha256/" + descriptor.digest[7:], b"a"))
        with ArchiveStore(path, create=True) as store, pytest.raises(IntegrityError, match="the archive is damaged"):
            store.push_blob(descriptor, BytesContent(b"abc"))


class TestHostile:
    @pytest.mark.parametrize("name", ["../evil", "/etc/passwd", "a/../../b", "blobs/sha256/../../../x", "C:\\x"])
    def test_names(self, path: Path, name: str) -> None:
        with pytest.raises(FormatError, match="the name"):
            ArchiveStore(packed(path, LAYOUT, INDEX, (name, b"x")))

    @pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
    @pytest.mark.parametrize("name", ["index.json", "blobs/sha256/" + "0" * 64])
    def test_links(self, path: Path, name: str, kind: bytes) -> None:
        rest = [each for each in (LAYOUT, INDEX) if each[0] != name]
        with pytest.raises(FormatError, match="is a link"):
            ArchiveStore(packed(path, *rest, link(name, "/etc/passwd", kind)))

    @pytest.mark.parametrize("name", ["index.json", "./index.json", "blobs/sha256/" + "0" * 64])
    def test_duplicates(self, path: Path, name: str) -> None:
        with pytest.raises(FormatError, match="appears twice"):
            ArchiveStore(packed(path, LAYOUT, INDEX, (name, b""), (name, b"{}")))

    def test_device(self, path: Path) -> None:
        with pytest.raises(FormatError, match="neither a file"):
            ArchiveStore(packed(path, LAYOUT, INDEX, link("x", "", tarfile.CHRTYPE)))

    def test_other_files_are_passed_over(self, path: Path) -> None:
        blob = sample().blobs[1][0]
        packed(path, LAYOUT, INDEX, ("manifest.json", b"[]"), ("blobs/sha512/" + "0" * 128, b"x"), link("l", "blobs"))
        assert not ArchiveStore(path).has_blob(blob)

    def test_truncation_anywhere(self, path: Path) -> None:
        push(path, b"one")
        data = path.read_bytes()
        for size in range(0, len(data) - 512, 256):
            path.write_bytes(data[:size])
            with pytest.raises((FormatError, IntegrityError)):
                ArchiveStore(path)

    def test_size_beyond_the_end_costs_nothing(self, path: Path) -> None:
        packed(path, LAYOUT, INDEX, ("blobs/sha256/" + "0" * 64, b""))
        data = bytearray(path.read_bytes())
        start = data.index(b"blobs/sha256/")
        header = data[start : start + 512]
        header[124:136] = b"\x80" + (1 << 62).to_bytes(11, "big")
        header[148:156] = b" " * 8
        header[148:156] = b"%06o\0 " % sum(header)
        data[start : start + 512] = header
        path.write_bytes(data)
        with pytest.raises(IntegrityError):
            ArchiveStore(path)

    @pytest.mark.parametrize("limits", [Limits(entries=2), Limits(metadata=20)])
    def test_limits(self, path: Path, limits: Limits) -> None:
        push(path)
        with pytest.raises(LimitError):
            ArchiveStore(path, limits)


def attempts(path: Path) -> list[Callable[[], object]]:
    return [
        lambda: ArchiveStore(path).tags(),
        lambda: ArchiveStore(path).resolve("v1"),
        lambda: read(ArchiveStore(path), sample().blobs[1][0]),
    ]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=2048))
def test_any_bytes_end_in_a_result_or_our_error(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    for attempt in attempts(path):
        with pytest.raises(OcibridgeError):
            attempt()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.integers(0, 6143), byte=st.integers(0, 255), refresh=st.booleans())
def test_any_changed_byte_ends_in_a_result_or_our_error(path: Path, position: int, byte: int, refresh: bool) -> None:
    path.unlink(missing_ok=True)
    push(path)
    data = bytearray(path.read_bytes())
    data[position] = byte
    if refresh:  # a valid checksum lets the change through to what lies behind it
        start = position // 512 * 512
        data[start + 148 : start + 156] = b" " * 8
        data[start + 148 : start + 156] = b"%06o\0 " % sum(data[start : start + 512])
    path.write_bytes(data)
    for attempt in attempts(path):
        with suppress(OcibridgeError):
            attempt()


def test_manifest_is_verified_by_tag(path: Path) -> None:
    model = sample()
    push(path)
    path.write_bytes(path.read_bytes().replace(model.manifest, b" " * len(model.manifest)))
    with pytest.raises(IntegrityError, match="other bytes"):
        ArchiveStore(path).fetch_manifest("v1")
    assert MEDIA_TYPE_MANIFEST.encode() in model.manifest
