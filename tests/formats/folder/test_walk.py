# SPDX-License-Identifier: Apache-2.0
"""What is found in a folder: links in every direction, things that are no files, names that are not safe."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ocibridge.errors import FormatError, LimitError, SourceError
from ocibridge.formats.folder.walk import FolderListing, walk
from ocibridge.io.content import FileContent


def listing(root: Path, ignored: Callable[[str, bool], bool] = lambda path, is_folder: False) -> FolderListing:
    return walk(root, lambda path, is_folder: "ignored" if ignored(path, is_folder) else None, 100)


def links(found: FolderListing) -> dict[str, str | None]:
    return {path: file.symlink for path, file in found.files.items()}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "model"
    (root / "v1").mkdir(parents=True)
    (root / "v1" / "a.bin").write_bytes(b"a")
    (root / "b.txt").write_bytes(b"bb")
    return root


def refusal(root: Path) -> str:
    with pytest.raises(FormatError) as caught:
        listing(root)
    return str(caught.value)


def test_files_in_the_order_of_their_bytes(root: Path) -> None:
    for name in ("v1.txt", "é", "Z", "v1/é"):
        (root / name).touch()
    found = listing(root)
    assert list(found.files) == ["Z", "b.txt", "v1.txt", "v1/a.bin", "v1/é", "é"]
    assert [file.size for file in found.files.values()] == [0, 2, 0, 1, 0, 0]
    assert found.warnings == ()


def test_the_stamps_are_those_that_the_files_have(root: Path) -> None:
    (root / "copy").symlink_to(root / "b.txt")
    for found in listing(root).files.values():
        assert found.stamp
        assert found.stamp == FileContent(found.real).stamp()


@pytest.mark.parametrize(
    ("path", "text"), [("l", "b.txt"), ("l", "v1/a.bin"), ("v1/l", "../b.txt"), ("v1/l", "a.bin"), ("l", "./b.txt")]
)
def test_a_link_to_a_file_stays_a_link(root: Path, path: str, text: str) -> None:
    (root / path).symlink_to(text)
    found = listing(root)
    assert found.files[path].symlink == os.readlink(root / path)  # noqa: PTH115
    assert Path(found.files[path].real).read_bytes() == (root / path).read_bytes()
    assert found.warnings == ()


def test_links_to_links(root: Path) -> None:
    (root / "l1").symlink_to("l2")
    (root / "l2").symlink_to("v1/a.bin")
    assert links(listing(root)) == {"b.txt": None, "l1": "l2", "l2": "v1/a.bin", "v1/a.bin": None}


@pytest.mark.parametrize("text", ["{root}/b.txt", "v1/../b.txt", "../model/b.txt"])
def test_a_link_that_only_works_here_is_a_copy(root: Path, text: str) -> None:
    (root / "l").symlink_to(text.format(root=root))
    found = listing(root)
    assert found.files["l"].symlink is None
    assert Path(found.files["l"].real).read_bytes() == b"bb"
    assert found.warnings == ("1 symbolic link ('l') is stored as a copy of the file",)


def test_a_link_to_an_ignored_file_is_a_copy(root: Path) -> None:
    (root / "l").symlink_to("v1/a.bin")
    found = listing(root, lambda path, is_folder: path == "v1")
    assert links(found) == {"b.txt": None, "l": None}
    assert found.warnings == (
        "1 file or folder ('v1') is ignored",
        "1 symbolic link ('l') is stored as a copy of the file",
    )


def test_a_link_to_a_folder_is_a_copy_of_it(root: Path) -> None:
    (root / "v1" / "up").symlink_to("../b.txt")
    (root / "v1" / "side").symlink_to("a.bin")
    (root / "x").mkdir()
    (root / "x" / "latest").symlink_to("../v1")
    found = listing(root)
    assert links(found) == {
        "b.txt": None,
        "v1/a.bin": None,
        "v1/side": "a.bin",
        "v1/up": "../b.txt",
        "x/latest/a.bin": None,
        "x/latest/side": "a.bin",
        "x/latest/up": None,  # from here its text leads elsewhere
    }
    assert Path(found.files["x/latest/up"].real).read_bytes() == b"bb"
    assert "1 symbolic link ('x/latest') is stored as a copy of the folder" in found.warnings


def test_a_link_to_its_own_folder(root: Path) -> None:
    (root / "v1" / "loop").symlink_to("..")
    assert "'v1/loop' leads to a folder that it is in itself; remove the link" in refusal(root)


def test_links_that_lead_back_through_other_links(root: Path) -> None:
    (root / "v2").mkdir()
    (root / "v1" / "two").symlink_to("../v2")
    (root / "v2" / "one").symlink_to("../v1")
    assert "leads to a folder that it is in itself" in refusal(root)


def test_a_link_out_of_the_folder(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").touch()
    (root / "l").symlink_to("../secret")
    assert refusal(root) == (
        f"{root}: the symbolic link 'l' leads out of the folder, and its target would not travel along; copy the "
        f"folder with its files by `cp -rL {root} COPY`, and give the copy"
    )


def test_a_folder_whose_name_begins_like_ours_is_outside(root: Path, tmp_path: Path) -> None:
    (tmp_path / "model2").mkdir()
    (root / "l").symlink_to("../model2")
    assert "leads out of the folder" in refusal(root)


def test_the_cache_of_huggingface_hub(tmp_path: Path) -> None:
    cache = tmp_path / "models--x--y"
    snapshot = cache / "snapshots" / "0123"
    snapshot.mkdir(parents=True)
    (cache / "blobs").mkdir()
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text("0123")
    (cache / "blobs" / "abc").write_text("{}")
    (snapshot / "config.json").symlink_to("../../blobs/abc")
    sentence = refusal(snapshot)
    assert "'config.json' leads out of the folder into the cache of huggingface_hub" in sentence
    assert f"cp -rL {snapshot} COPY" in sentence


@pytest.mark.parametrize("text", ["nothing", "l", "b.txt/x"])
def test_a_link_to_nothing(root: Path, text: str) -> None:
    (root / "l").symlink_to(text)
    assert f"the symbolic link 'l' leads to '{text}', which cannot be reached; remove the link" in refusal(root)


def test_what_is_neither_file_nor_folder(root: Path) -> None:
    os.mkfifo(root / "pipe")
    assert "'pipe' is neither a file nor a folder; remove it, or name it in .ocibridgeignore" in refusal(root)
    assert "pipe" not in listing(root, lambda path, is_folder: path == "pipe").files


def test_a_link_to_a_device(root: Path) -> None:
    (root / "l").symlink_to("/dev/null")
    assert "leads out of the folder" in refusal(root)


@pytest.mark.parametrize("name", ["a\\b", "a\nb", "c:x", os.fsdecode(b"\xff")])
def test_a_name_that_is_not_safe(root: Path, name: str) -> None:
    (root / name).touch()
    assert f"{root}: the name " in refusal(root)


def test_names_that_collide(root: Path) -> None:
    (root / "B.txt").touch()
    assert "collides with" in refusal(root)


def test_empty_folders_are_told(root: Path) -> None:
    (root / "e" / "f").mkdir(parents=True)
    found = listing(root)
    assert found.warnings == ("2 folders ('e', 'e/f') are not stored, being empty",)


def test_many_are_counted(root: Path) -> None:
    for number in range(5):
        (root / f"{number}.pyc").touch()
    found = listing(root, lambda path, is_folder: path.endswith(".pyc"))
    assert found.warnings == ("5 files or folders ('0.pyc', '1.pyc', '2.pyc', ...) are ignored",)


def test_too_many_files(root: Path) -> None:
    with pytest.raises(LimitError, match="more than the 2 files and folders accepted"):
        walk(root, lambda path, is_folder: None, 2)


def test_folders_that_multiply_by_links_are_bounded(tmp_path: Path) -> None:
    root = tmp_path / "model"
    for number in range(12):
        (root / str(number)).mkdir(parents=True)
        for name in "xy":
            (root / str(number) / name).symlink_to(f"../{number + 1}")
    (root / "12").mkdir()
    with pytest.raises(LimitError):
        listing(root)


def test_a_folder_that_may_not_be_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", denied)
    with pytest.raises(SourceError, match="permission denied; check its permissions"):
        listing(root)
