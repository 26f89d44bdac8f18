# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import hashlib
import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ocibridge.errors import DestinationError, FormatError, IntegrityError, LimitError, OcibridgeError, UsageError
from ocibridge.formats.base import StoredModel
from ocibridge.formats.carton import CartonFormat
from ocibridge.formats.carton.options import CartonReadOptions, CartonWriteOptions
from ocibridge.formats.zip import read_directory
from ocibridge.io.content import BytesContent
from ocibridge.io.existing import Existing, TargetRules
from ocibridge.model import FileEntry, Model, Role
from ocibridge.paths import check_collisions, check_path
from ocibridge.settings import Limits

from ..build import carton, contents, fill, manifest_of, stored_of, whole

FIXTURES = Path(__file__).parents[2] / "fixtures"
FORMAT = CartonFormat()
METHODS = ("stored", "deflate", "zstd")
NAMES = ("out.carton", "out")
GOLDEN = {
    "stored": "cc0bdecd33b8ae489c391fa68d1312f6e1d56f591fda7efd2582afadbe4847e7",
    "deflate": "e06fc2b2075e5eb8b2796881cbdf5e13627bb2a557a66bd68839a909697dc860",
    "zstd": "c1539569425889ef3173ac3f31ea22bf0bb5143d9a1d1e811a96ee6e7302796d",
}


def read(path: Path) -> Model:
    return FORMAT.read(path, CartonReadOptions())


@pytest.fixture
def digits() -> Model:
    return read(FIXTURES / "digits.carton")


def nothing_left(folder: Path) -> bool:
    return [path for path in folder.iterdir() if path.name != "a.carton"] == []


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("complete", [True, False])
def test_golden_archives(tmp_path: Path, digits: Model, method: str, complete: bool) -> None:
    dest = tmp_path / "out.carton"
    stored = stored_of(digits, complete=complete)
    assert fill(FORMAT.sink(dest, stored, CartonWriteOptions(zip_method=method)), digits) == digits.identity
    again = read(dest)
    assert contents(again) == contents(digits)
    assert [(f.path, f.symlink, f.role) for f in again.files] == [(f.path, f.symlink, f.role) for f in digits.files]
    names = [member.name for member in read_directory(dest)]
    assert names == [*sorted(set(names) - {"MANIFEST"}), "MANIFEST"]
    if complete and ("ng" not in zlib.ZLIB_RUNTIME_VERSION or method != "deflate"):
        assert hashlib.sha256(dest.read_bytes()).hexdigest() == GOLDEN[method]
    assert [path.name for path in tmp_path.iterdir()] == ["out.carton"]


def test_folder(tmp_path: Path, digits: Model) -> None:
    dest = tmp_path / "out"
    assert fill(FORMAT.sink(dest, stored_of(digits), CartonWriteOptions()), digits) == digits.identity
    assert contents(read(dest)) == contents(digits)
    assert (dest / "model/assets/labels.txt").readlink() == Path("../labels.txt")
    assert not any(path.stat().st_mode & 0o111 for path in dest.rglob("*") if path.is_file())
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_folder_without_symlinks(tmp_path: Path, digits: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    assert fill(FORMAT.sink(tmp_path / "out", stored_of(digits), CartonWriteOptions()), digits) == digits.identity
    assert not (tmp_path / "out/model/assets/labels.txt").is_symlink()
    assert contents(read(tmp_path / "out")) == contents(digits)


@pytest.mark.parametrize("name", NAMES)
def test_any_order_in_parallel(tmp_path: Path, digits: Model, name: str) -> None:
    results = []
    for number in range(2):
        dest = tmp_path / str(number) / name
        dest.parent.mkdir()
        with FORMAT.sink(dest, stored_of(digits), CartonWriteOptions()) as sink:
            assert sink.parallel

            def send(index: int) -> None:
                file = digits.files[index]
                with file.content.open() as reader:
                    sink.write(file.path, file.size, reader, file.sha256)

            with ThreadPoolExecutor(4) as pool:
                list(pool.map(send, range(len(digits.files))[:: 1 - 2 * number]))
            sink.commit()
        results.append(dest)
    assert contents(read(results[0])) == contents(digits)
    if name.endswith(".carton"):
        assert results[0].read_bytes() == results[1].read_bytes()


def test_one_at_a_time_where_sizes_are_not_known(tmp_path: Path, digits: Model) -> None:
    for method, complete in (("stored", False), ("zstd", True)):
        with FORMAT.sink(
            tmp_path / "o.carton", stored_of(digits, complete=complete), CartonWriteOptions(zip_method=method)
        ) as sink:
            assert not sink.parallel
    assert nothing_left(tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_existing_targets(tmp_path: Path, digits: Model, name: str) -> None:
    dest = tmp_path / name
    stored = stored_of(digits)
    fill(FORMAT.sink(dest, stored, CartonWriteOptions()), digits)
    if dest.suffix:
        with pytest.raises(DestinationError, match="it exists; choose another name, or replace it with --overwrite"):
            FORMAT.sink(dest, stored, CartonWriteOptions())
    else:
        again = FORMAT.sink(dest, stored, CartonWriteOptions())
        fill(again, digits)
        assert again.changes == (0, 0, len(digits.files))
    (tmp_path / "mine").mkdir()
    late = FORMAT.sink(tmp_path / "mine" / name, stored, CartonWriteOptions())
    (tmp_path / "mine" / name).mkdir()
    (tmp_path / "mine" / name / "file").write_bytes(b"mine")
    with pytest.raises(DestinationError, match="another process has made or changed it"):
        fill(late, digits)
    assert [path.name for path in (tmp_path / "mine").iterdir()] == [name]
    assert (tmp_path / "mine" / name / "file").read_bytes() == b"mine"
    fill(FORMAT.sink(dest, stored, CartonWriteOptions(rules=TargetRules(Existing.OVERWRITE))), digits)
    assert contents(read(dest)) == contents(digits)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", name]


def test_a_file_that_appears_meanwhile_is_kept(tmp_path: Path, digits: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no hard links here")

    for links in (True, False):
        dest = tmp_path / "out.carton"
        sink = FORMAT.sink(dest, stored_of(digits), CartonWriteOptions())
        dest.write_bytes(b"mine")
        with monkeypatch.context() as patch:
            if not links:
                patch.setattr(os, "link", refuse)
            with pytest.raises(DestinationError, match="another process has made or changed it"):
                fill(sink, digits)
            assert dest.read_bytes() == b"mine"
            dest.unlink()
            assert nothing_left(tmp_path)
            fill(FORMAT.sink(dest, stored_of(digits), CartonWriteOptions()), digits)
        assert contents(read(dest)) == contents(digits)
        dest.unlink()


def test_impossible_targets(tmp_path: Path, digits: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = stored_of(digits)
    (tmp_path / "d.carton").mkdir()
    monkeypatch.chdir(tmp_path)
    for dest, sentence in (
        (Path(), "cannot replace .: it is the working folder"),
        (Path("/"), "it is the root of the file system"),
        (Path("no/such/out.carton"), "cannot write no/such/out.carton: no such file"),
        (Path("no/such/out"), "cannot write no/such/out: no such file"),
        (Path("d.carton"), "it is a folder"),
    ):
        with pytest.raises(DestinationError, match=sentence):
            FORMAT.sink(dest, stored, CartonWriteOptions(rules=TargetRules(Existing.DELETE)))
    with pytest.raises(UsageError, match="--zip-method cannot be 'lzma'; give one of: stored, deflate, zstd"):
        FORMAT.sink(Path("a.carton"), stored, CartonWriteOptions(zip_method="lzma"))


def test_packed_decides_before_the_name(tmp_path: Path, digits: Model) -> None:
    fill(FORMAT.sink(tmp_path / "a.zip", stored_of(digits), CartonWriteOptions(packed=True)), digits)
    fill(FORMAT.sink(tmp_path / "b.carton", stored_of(digits), CartonWriteOptions(packed=False)), digits)
    assert read_directory(tmp_path / "a.zip")
    assert contents(read(tmp_path / "b.carton")) == contents(digits)
    assert (tmp_path / "b.carton").is_dir()


def test_an_empty_folder_is_filled(tmp_path: Path, digits: Model) -> None:
    (tmp_path / "out").mkdir()
    fill(FORMAT.sink(tmp_path / "out", stored_of(digits), CartonWriteOptions()), digits)
    assert contents(read(tmp_path / "out")) == contents(digits)


@pytest.mark.parametrize("name", NAMES)
def test_disk_full(tmp_path: Path, digits: Model, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    sink = FORMAT.sink(tmp_path / name, stored_of(digits), CartonWriteOptions())
    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(DestinationError, match="no space left on device; free some space"):
        fill(sink, digits)
    assert nothing_left(tmp_path)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", ["stored", "zstd"])
def test_a_failed_file_can_be_sent_again(tmp_path: Path, digits: Model, name: str, method: str) -> None:
    with FORMAT.sink(tmp_path / name, stored_of(digits), CartonWriteOptions(zip_method=method)) as sink:
        for file in digits.files:
            with pytest.raises(IntegrityError):
                sink.write(file.path, file.size, BytesContent(b"").open())
            with file.content.open() as reader:
                sink.write(file.path, file.size, reader)
        assert sink.commit() == digits.identity
    assert contents(read(tmp_path / name)) == contents(digits)


def send(
    dest: Path, stored: StoredModel, files: dict[str, bytes], options: CartonWriteOptions | None = None
) -> str | None:
    with FORMAT.sink(dest, stored, options or CartonWriteOptions()) as sink:
        for path, data in files.items():
            sink.write(path, len(data), BytesContent(data).open())
        return sink.commit()


def stored_as(files: dict[str, bytes], *, complete: bool = False, **links: str) -> StoredModel:
    entries = [FileEntry(path, Role.WEIGHT, len(data), symlink=links.get(path)) for path, data in files.items()]
    return StoredModel("carton", tuple(entries), complete)


FILES = whole({"model/a": b"1", "model/b": b"1"})
GOOD = {**FILES, "MANIFEST": manifest_of(FILES)}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("complete", [True, False])
def test_what_is_not_promised_is_refused(tmp_path: Path, name: str, complete: bool) -> None:
    def refused(kind: type[OcibridgeError], sentence: str, files: dict[str, bytes], stored: StoredModel) -> None:
        with pytest.raises(kind, match=sentence):
            send(tmp_path / name, stored, files)
        assert nothing_left(tmp_path)

    stored = stored_as(GOOD, complete=complete)
    refused(IntegrityError, "'model/a' has not the sha256", {**GOOD, "model/a": b"2"}, stored)
    without = {path: data for path, data in GOOD.items() if path != "model/b"}
    refused(IntegrityError, "'model/b' of MANIFEST did not arrive", without, stored)
    no_manifest = {path: data for path, data in GOOD.items() if path != "MANIFEST"}
    refused(FormatError, "no MANIFEST", no_manifest, stored)
    refused(FormatError, "no MANIFEST", no_manifest, stored_as(no_manifest, complete=complete))
    refused(IntegrityError, "but was published as carton:00", GOOD, replace(stored, identity="carton:00"))
    refused(FormatError, "circle|no file of the model", GOOD, stored_as(GOOD, complete=complete, **{"model/a": "a"}))
    bent = stored_as(GOOD, complete=complete, **{"model/a": "../carton.toml"})
    refused(IntegrityError, "'model/a' and its target 'carton.toml' have different bytes", GOOD, bent)
    linked = stored_as(GOOD, complete=complete, MANIFEST="carton.toml")
    refused(FormatError, "MANIFEST and LINKS cannot be symbolic links", GOOD, linked)
    bad = {**GOOD, "MANIFEST": b"x" * len(GOOD["MANIFEST"])}
    refused(FormatError, "line 1 is no row", bad, stored)


@pytest.mark.parametrize("name", NAMES)
def test_twice_unsafe_or_colliding(tmp_path: Path, name: str) -> None:
    with FORMAT.sink(tmp_path / name, stored_as(GOOD), CartonWriteOptions()) as sink:
        sink.write("model/a", 1, BytesContent(b"1").open())
        with pytest.raises(FormatError, match="'model/a' arrives twice"):
            sink.write("model/a", 1, BytesContent(b"1").open())
        with pytest.raises(FormatError, match="leaves the folder"):
            sink.write("../x", 1, BytesContent(b"1").open())
    with pytest.raises(FormatError, match="collides"):
        send(tmp_path / name, stored_as({}), {**GOOD, "MODEL/c": b"", "model/C": b"", "model/c": b""})
    with pytest.raises(FormatError, match="collides"):
        FORMAT.sink(tmp_path / name, stored_as({"a": b"", "A": b"", "MANIFEST": b""}), CartonWriteOptions())
    with pytest.raises(LimitError, match="MANIFEST has"):
        send(tmp_path / name, stored_as({}), GOOD, CartonWriteOptions(limits=Limits(metadata=10)))
    assert nothing_left(tmp_path)


def test_what_was_not_announced(tmp_path: Path) -> None:
    for path, data in (("model/new", b"1"), ("model/a", b"22")):
        with pytest.raises(IntegrityError, match="is not what the artifact announced"):
            send(tmp_path / "out.carton", stored_as(GOOD, complete=True), {path: data})
    extra = stored_as({**GOOD, "extra": b"1"}, complete=True)
    with pytest.raises(IntegrityError, match="'extra' did not arrive"):
        send(tmp_path / "out.carton", extra, GOOD)
    assert nothing_left(tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_extra_files_and_odd_manifests_are_carried(tmp_path: Path, name: str) -> None:
    manifest = GOOD["MANIFEST"].replace(b"\n", b"\r\n")
    source = carton(tmp_path / "a.carton", FILES, manifest=manifest[:-2])
    model = read(source)
    files = {**contents(model), "LINKS": b"anything", "zz": b"extra"}
    assert send(tmp_path / name, stored_as(files), files) == model.identity
    again = read(tmp_path / name)
    assert contents(again) == {path: data for path, data in files.items() if path != "LINKS"}
    if name.endswith(".carton"):
        assert [m.name for m in read_directory(tmp_path / name)][-3:] == ["zz", "MANIFEST", "LINKS"]


def test_abort_after_commit_keeps_the_result(tmp_path: Path, digits: Model) -> None:
    for name in NAMES:
        sink = FORMAT.sink(tmp_path / name, stored_of(digits), CartonWriteOptions())
        fill(sink, digits)
        sink.abort()
        assert read(tmp_path / name).identity == digits.identity


parts = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/\\"), min_size=1, max_size=8)
paths = st.lists(parts, min_size=1, max_size=3).map(lambda parts: "/".join(["model", *parts]))


def possible(paths: list[str]) -> bool:
    try:
        check_collisions([check_path(path, "it") for path in paths], "it")
    except FormatError:
        return False
    return all(len(part.encode()) < 200 for path in paths for part in path.split("/"))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=st.dictionaries(paths, st.binary(max_size=3000), max_size=6).filter(lambda files: possible(list(files))),
    link=st.booleans(),
    method=st.sampled_from(METHODS),
    complete=st.booleans(),
    name=st.sampled_from(NAMES),
)
def test_round_trip(
    tmp_path: Path, files: dict[str, bytes], link: bool, method: str, complete: bool, name: str
) -> None:
    files = whole(files)
    links = {}
    if link:
        target = max(files)
        links["zz/link"] = f"../{target}"
        files["zz/link"] = files[target]
    files["MANIFEST"] = manifest_of(files)
    dest = tmp_path / name
    identity = send(
        dest,
        stored_as(files, complete=complete, **links),
        files,
        CartonWriteOptions(zip_method=method, rules=TargetRules(Existing.DELETE)),
    )
    model = read(dest)
    assert model.identity == identity
    assert contents(model) == files
    assert {file.path: file.symlink for file in model.files if file.symlink} == links
