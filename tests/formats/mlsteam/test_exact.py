# SPDX-License-Identifier: Apache-2.0
"""An archive goes out and comes back: byte for byte where zlib allows, else with everything that counts."""

from __future__ import annotations

import random
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ocibridge.errors import DestinationError
from ocibridge.formats.mlsteam import deflate, rebuild
from ocibridge.formats.mlsteam.options import MlsteamWriteOptions
from ocibridge.formats.mlsteam.skeleton import SKELETON, parse_skeleton
from ocibridge.formats.zip import records
from ocibridge.io.content import BytesContent
from ocibridge.model import ModelFile

from ...trees import paths_in
from ..build import Raw, contents, fill, raw_zip
from .archives import FIXTURES, GENUINE, MANIFEST, PLAIN, WORDS, Unseekable, archive, back, read, sink, zipped

ODD = {
    "models/größe/重み.pt": WORDS,
    "models/empty": b"",
    "models/one": b"1",
    "hooks/load.py": b"raise SystemExit",
    "src/a/__init__.py": b"",
    "extra.bin": bytes(range(256)),
}


def check_exact(path: Path, dest: Path) -> None:
    assert back(read(path), dest) == "exact"
    assert dest.read_bytes() == path.read_bytes()
    assert [each.name for each in dest.parent.iterdir() if "ocibridge" in each.name] == []


@pytest.mark.parametrize("name", GENUINE)
def test_genuine_archives(tmp_path: Path, name: str) -> None:
    check_exact(FIXTURES / name, tmp_path / "back.mlarchive")


@pytest.mark.parametrize("level", range(10))
def test_every_level(tmp_path: Path, level: int) -> None:
    check_exact(zipped(tmp_path / "x.mlarchive", ODD, level=level), tmp_path / "back.mlarchive")


def test_stored(tmp_path: Path) -> None:
    check_exact(zipped(tmp_path / "x.mlarchive", ODD, method=zipfile.ZIP_STORED), tmp_path / "back.mlarchive")


def test_several_pieces(tmp_path: Path) -> None:
    data = b"".join(zlib.crc32(b"%d" % number).to_bytes(4, "big") + bytes(9) for number in range(250_000))
    assert len(data) > 3 << 20
    check_exact(zipped(tmp_path / "x.mlarchive", {"models/a": data}, level=1), tmp_path / "back.mlarchive")


def test_every_oddity_of_a_header(tmp_path: Path) -> None:
    path = tmp_path / "x.mlarchive"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        target.comment = b"a comment, PK\5\6 almost the end"
        for name, data in {"models/": b"", "models/a": WORDS, "manifest.json": MANIFEST, "models/b": b""}.items():
            info = zipfile.ZipInfo(name, (2107, 12, 31, 23, 59, 58) if data else (1980, 0, 0, 0, 0, 0))
            info.compress_type = zipfile.ZIP_STORED if name.endswith("/") else zipfile.ZIP_DEFLATED
            info.extra = b"UT\5\0\1\0\0\0\0"
            info.comment = b"about it"
            info.create_system = 0
            info.external_attr = 0x20
            info.internal_attr = 1
            target.writestr(info, data)
    check_exact(path, tmp_path / "back.mlarchive")


def test_data_descriptors_and_zip64(tmp_path: Path) -> None:
    target = Unseekable()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as writer:
        writer.writestr("manifest.json", MANIFEST)
        with writer.open("models/wide", "w", force_zip64=True) as member:
            member.write(WORDS)
        writer.writestr("models/plain", WORDS)
    path = tmp_path / "x.mlarchive"
    path.write_bytes(target.data)
    assert {info.flag_bits & 8 for info in zipfile.ZipFile(path).infolist()} == {8}
    check_exact(path, tmp_path / "back.mlarchive")


def test_names_in_an_old_code_page_trailing_bytes_and_gaps(tmp_path: Path) -> None:
    path = archive(
        tmp_path / "x.mlarchive", [Raw(b"models/caf\x82", b"1"), Raw(b"manifest.json", MANIFEST)], comment=b"bye"
    )
    path.write_bytes(path.read_bytes() + b"trailing")
    assert "models/café" in contents(read(path))
    check_exact(path, tmp_path / "back.mlarchive")


def test_a_directory_in_another_order_than_the_members(tmp_path: Path) -> None:
    members = [Raw(b"manifest.json", MANIFEST), Raw(b"models/b", b"2"), Raw(b"models/a", b"1")]
    data = raw_zip(members)
    first = len(b"".join(raw_zip([each])[: -22 - 46 - len(each.name)] for each in members[:1]))
    second = first + 30 + 8 + 1
    swapped = [members[0], replace(members[2], offset=second), replace(members[1], offset=first)]
    other = raw_zip(swapped)
    path = tmp_path / "x.mlarchive"
    border = data.index(b"PK\1\2")
    path.write_bytes(data[:border] + other[other.index(b"PK\1\2") :])
    assert [file.path for file in read(path).files] == [SKELETON, "manifest.json", "models/a", "models/b"]
    check_exact(path, tmp_path / "back.mlarchive")


def test_info_zip_is_exact_or_equivalent(tmp_path: Path) -> None:
    """An archive that Info-ZIP 3.0 has made, with folders, extra fields and a deflate of its own."""
    source = Path(__file__).parents[2] / "fixtures" / "info-zip.mlarchive"
    model = read(source)
    note = back(model, tmp_path / "back.mlarchive")
    assert note == ("equivalent" if model.warnings else "exact")
    same_members(source, tmp_path / "back.mlarchive")


def test_files_may_arrive_in_any_order(tmp_path: Path) -> None:
    path = zipped(tmp_path / "x.mlarchive", ODD)
    for number, arrange in enumerate((reverse, by_name, rotated)):
        model = read(path)
        dest = tmp_path / f"{number}.mlarchive"
        back(replace(model, files=arrange(model.files)), dest)
        assert dest.read_bytes() == path.read_bytes()


Files = tuple[ModelFile, ...]


def reverse(files: Files) -> Files:
    return files[::-1]


def by_name(files: Files) -> Files:
    return tuple(sorted(files, key=lambda file: file.path))


def rotated(files: Files) -> Files:
    return files[3:] + files[:3]


def test_nothing_but_what_comes_too_early_is_kept_twice(tmp_path: Path) -> None:
    model = read(FIXTURES / PLAIN[0])
    target = sink(tmp_path / "out.mlarchive", model)
    with target:
        for file in model.files:
            with file.content.open() as reader:
                target.write(file.path, file.size, reader)
            (waiting,) = tmp_path.glob(".*.ocibridge/waiting")
            assert list(waiting.iterdir()) == []
        target.commit()


def unlike_zlib(shift: int) -> Callable[[Iterable[bytes | memoryview], int], Iterator[bytes]]:
    """Another codec: right, but longer or shorter than what zlib makes at the level that is asked for."""

    def encode(pieces: Iterable[bytes | memoryview], level: int) -> Iterator[bytes]:
        yield from deflate.deflate(pieces, max(0, min(9, level + shift)))

    return encode


@pytest.mark.parametrize("shift", [-6, -5, 3], ids=["much longer", "longer", "shorter"])
@pytest.mark.parametrize("kind", ["plain", "descriptors"])
def test_another_zlib_gives_an_equivalent_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shift: int, kind: str
) -> None:
    path = tmp_path / "x.mlarchive"
    target = Unseekable() if kind == "descriptors" else path
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as writer:
        writer.comment = b"kept only by an exact restoration"
        writer.writestr("manifest.json", MANIFEST)
        with writer.open("models/wide", "w", force_zip64=True) as member:
            member.write(WORDS)
        info = zipfile.ZipInfo("models/größe", (2001, 2, 3, 4, 5, 6))
        info.extra, info.comment, info.external_attr = b"UT\5\0\1\0\0\0\0", b"c", 0o100755 << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        writer.writestr(info, WORDS)
        writer.writestr("models/", b"")
        writer.writestr("models/stored", b"1", zipfile.ZIP_STORED)
    if isinstance(target, Unseekable):
        path.write_bytes(target.data)
    model = read(path)
    monkeypatch.setattr(rebuild, "deflate", unlike_zlib(shift))
    dest = tmp_path / "back.mlarchive"
    assert back(model, dest) == "equivalent"
    assert dest.read_bytes() != path.read_bytes()
    same_members(path, dest)
    same_flags(dest)
    assert read(dest).identity == model.identity


def same_flags(path: Path) -> None:
    """The local header of each member has the flags of the directory."""
    data = path.read_bytes()
    for info in zipfile.ZipFile(path).infolist():
        assert int.from_bytes(data[info.header_offset + 6 : info.header_offset + 8], "little") == info.flag_bits


@pytest.mark.parametrize("wide", [True, False])
def test_equivalent_archives_of_4_gib_and_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wide: bool) -> None:
    path = tmp_path / "x.mlarchive"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        target.writestr("manifest.json", MANIFEST)
        for name in ("models/a", "models/b"):
            with target.open(name, "w", force_zip64=wide) as member:
                member.write(WORDS)
    model = read(path)
    monkeypatch.setattr(rebuild, "deflate", unlike_zlib(3))
    # What does not fit into 4 GiB, at a size that a test can afford.
    monkeypatch.setattr(records, "MAX32", 1500)
    dest = tmp_path / "back.mlarchive"
    if wide:
        assert back(model, dest) == "equivalent"
        assert read(dest).identity == model.identity
        assert b"PK\6\6" in dest.read_bytes()
    else:
        with pytest.raises(DestinationError, match="its old header has no field"):
            back(model, dest)
        assert not dest.exists()


def same_members(one: Path, other: Path) -> None:
    def described(path: Path) -> list[object]:
        with zipfile.ZipFile(path) as source:
            assert source.testzip() is None
            return [
                (
                    *(info.filename, source.read(info), info.date_time, info.compress_type, info.external_attr),
                    *(info.comment, info.create_system, b"UT" in info.extra),
                )
                for info in source.infolist()
            ]

    assert described(one) == described(other)


def test_the_original_travels_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zipped(tmp_path / "x.mlarchive", ODD)
    for number, arrange in enumerate((by_name, reverse, rotated)):
        model = read(path, keep=True)
        monkeypatch.setattr(rebuild, "deflate", unlike_zlib(3))
        dest = tmp_path / f"{number}.mlarchive"
        assert back(replace(model, files=arrange(model.files)), dest) == "exact"
        assert dest.read_bytes() == path.read_bytes()
        monkeypatch.undo()


def test_as_a_folder(tmp_path: Path) -> None:
    path = zipped(tmp_path / "x.mlarchive", {**ODD, "models/void/": b""})
    for keep in (False, True):
        model = read(path, keep=keep)
        dest = tmp_path / f"out{keep}"
        back(model, dest)
        with zipfile.ZipFile(path) as source:
            source.extractall(tmp_path / f"sdk{keep}")
        assert tree(dest) == tree(tmp_path / f"sdk{keep}")


def tree(folder: Path) -> dict[str, bytes | None]:
    return {
        each.relative_to(folder).as_posix(): each.read_bytes() if each.is_file() else None for each in paths_in(folder)
    }


def test_options_decide_over_the_name(tmp_path: Path) -> None:
    model = read(FIXTURES / PLAIN[0])
    fill(sink(tmp_path / "a.mlarchive", model, MlsteamWriteOptions(packed=False)), model)
    fill(sink(tmp_path / "b", model, MlsteamWriteOptions(packed=True)), model)
    assert (tmp_path / "a.mlarchive").is_dir()
    assert (tmp_path / "b").read_bytes() == (FIXTURES / PLAIN[0]).read_bytes()


def test_the_skeleton_is_the_same_on_every_day(tmp_path: Path) -> None:
    data = contents(read(FIXTURES / PLAIN[0]))[SKELETON]
    assert data == contents(read(FIXTURES / PLAIN[0]))[SKELETON]
    skeleton = parse_skeleton(data, "x", 1 << 20)
    assert skeleton.to_json() == data
    assert "tests" not in data.decode()


@pytest.mark.skipif(sys.platform != "linux", reason="resource.getrusage counts in KiB on Linux")
def test_memory_stays_bounded(tmp_path: Path) -> None:
    path = tmp_path / "x.mlarchive"
    noise = random.Random(1)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as target:
        target.writestr("manifest.json", MANIFEST)
        with target.open("models/a", "w") as member:
            for _ in range(1000):
                member.write(noise.randbytes(30_000) + bytes(10_000))
    assert path.stat().st_size > 30_000_000
    script = (
        "import resource, sys\nfrom pathlib import Path\n"
        "from tests.formats.mlsteam.archives import back, read\n"
        "start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "model = read(Path(sys.argv[1]))\n"
        "assert back(model, Path(sys.argv[2])) == 'exact'\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(path), str(tmp_path / "back.mlarchive")],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 20 * 1024


def test_levels_are_found(tmp_path: Path) -> None:
    for level in range(1, 10):
        packed = b"".join(deflate.deflate([WORDS], level))
        assert (
            b"".join(deflate.deflate([WORDS], deflate.find_level(BytesContent(WORDS), BytesContent(packed)) or 0))
            == packed
        )
        for wrong in (packed + b"x", packed[:-1], b"", packed[:-1] + bytes([packed[-1] ^ 1])):
            assert deflate.find_level(BytesContent(WORDS), BytesContent(wrong)) is None
