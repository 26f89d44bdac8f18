# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from ocibridge.errors import DestinationError, FormatError, IntegrityError
from ocibridge.formats.base import Sink, StoredModel, WriteOptions
from ocibridge.formats.foldersink import FolderSink
from ocibridge.io.content import BytesContent
from ocibridge.io.existing import Existing, TargetRules
from ocibridge.io.marker import MARKER
from ocibridge.model import FileEntry, Role

NOTHING = StoredModel(None, (), False)


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name != MARKER]


def write(sink: Sink, files: dict[str, bytes], sha256: str | None = None) -> None:
    for path, data in files.items():
        sink.write(path, len(data), BytesContent(data).open(), sha256)


def test_any_files(tmp_path: Path) -> None:
    files = {"a/b/c": b"1", "a/ä": b"", "big": bytes(3 << 20)}
    with FolderSink(tmp_path / "out", NOTHING, WriteOptions()) as sink:
        write(sink, files)
        assert not (tmp_path / "out").exists()
        assert sink.commit() is None
    assert {path: (tmp_path / "out" / path).read_bytes() for path in files} == files
    assert names(tmp_path) == ["out"]


def test_a_vouched_hash_is_taken_over(tmp_path: Path) -> None:
    sink = FolderSink(tmp_path / "out", NOTHING, WriteOptions())
    with sink:
        write(sink, {"a": b"1"}, "0" * 64)
        assert sink.hashes == {"a": "0" * 64}


def test_without_commit_nothing_stays(tmp_path: Path) -> None:
    with pytest.raises(IntegrityError, match="'b' has 1 bytes, not the 2 promised"):
        with FolderSink(tmp_path / "out", NOTHING, WriteOptions()) as sink:
            write(sink, {"a": b"1"})
            sink.write("b", 2, BytesContent(b"1").open())
    assert names(tmp_path) == []


def test_what_ocibridge_wrote_is_replaced_by_force(tmp_path: Path) -> None:
    force = WriteOptions(rules=TargetRules(Existing.FORCE))
    for name in ("old", "new"):
        with FolderSink(tmp_path / "out", NOTHING, force) as sink:
            write(sink, {name: b"1"})
            sink.commit()
    assert names(tmp_path / "out") == ["new"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_the_old_folder_stays_where_the_new_one_cannot_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old").write_bytes(b"")
    rename = Path.rename

    def refuse(self: Path, target: Path) -> Path:
        if self.parent.suffix == ".ocibridge" and self.name != "old":
            raise OSError("no")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(DestinationError, match="cannot write"):
        with FolderSink(tmp_path / "out", NOTHING, WriteOptions(rules=TargetRules(Existing.DELETE))) as sink:
            write(sink, {"new": b"1"})
            sink.commit()
    assert names(tmp_path / "out") == ["old"]
    assert names(tmp_path) == ["out"]


def test_a_file_in_the_place_of_a_folder(tmp_path: Path) -> None:
    with FolderSink(tmp_path / "out", NOTHING, WriteOptions()) as sink:
        write(sink, {"a": b"1"})
        with pytest.raises(DestinationError, match="cannot write"):
            write(sink, {"a/b": b"1"})


def test_links_that_lead_nowhere_are_refused_before_anything_moves(tmp_path: Path) -> None:
    for target in ("../../etc", "/etc/hostname", "b", "a"):
        stored = StoredModel(None, (FileEntry("a", Role.DOC, 1, symlink=target),), True)
        with pytest.raises(FormatError, match="symbolic link"):
            FolderSink(tmp_path / "out", stored, WriteOptions())
    assert names(tmp_path) == []
