# SPDX-License-Identifier: Apache-2.0
"""Sources that vanish or change while they are read: one sentence, and no tag."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import ocibridge
from ocibridge.settings import MiB

from ..faults.moves import WEIGHT, weight
from ..kill.counting import Line
from .conftest import Commands, Outcome

Change = Callable[[Path, int], None]
"""Given a file and the position of bytes in it that nobody has read yet."""


def other_bytes(path: Path, at: int) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(b"other bytes")


def shorter(path: Path, at: int) -> None:
    with open(path, "r+b") as file:
        file.truncate(at)


def longer(path: Path, at: int) -> None:
    with open(path, "ab") as file:
        file.write(b"more")


def vanished(path: Path, at: int) -> None:
    path.unlink()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two weights, of which the first is sent before the second is opened."""
    made = tmp_path / "model"
    made.mkdir()
    (made / "a.bin").write_bytes(weight(24 * MiB))
    (made / "b.bin").write_bytes(weight(16 * MiB)[::-1])
    return made


def push_and_change(
    command: Commands, line: Line, source: Path, target: str, change: Callable[[], None], *more: str
) -> Outcome:
    """Push, and change the source when 1 MiB of it is under way."""
    line.hold(MiB, up=True)
    running = command.start("push", "-q", source, target, "--concurrency", "1", *more)
    assert line.reached.wait(60)
    change()
    line.go.set()
    return command.end(running)


def no_tag(target: str) -> None:
    with pytest.raises(ocibridge.NotFound):
        ocibridge.inspect(target)


@pytest.mark.parametrize("known", [False, True], ids=["streamed", "hashed-before"])
@pytest.mark.parametrize("change", [other_bytes, shorter, longer, vanished])
def test_a_file_of_a_folder(
    command: Commands, line: Line, folder: Path, repository: str, known: bool, change: Change
) -> None:
    target = f"{line.host}/{repository}:v1"
    if known:
        # Where there is a tag already, what is to be sent is hashed first.
        assert command("push", "-q", Path(__file__).parent, f"{line.host}/{repository}:other").status == 0
    path = folder / "b.bin"
    ended = push_and_change(command, line, folder, target, lambda: change(path, path.stat().st_size - 100))
    if change is other_bytes and not known:
        # The file had what was read of it: nobody has read the old bytes.
        assert ended.status == 0
        assert ocibridge.verify(target)
        return
    assert "b.bin" in ended.sentence
    assert ";" in ended.sentence
    no_tag(target)


@pytest.mark.parametrize("form", [(), ("--layers", "raw-files"), ("--compress", "zstd")])
@pytest.mark.parametrize("change", [other_bytes, shorter, vanished])
def test_a_carton(
    command: Commands, line: Line, tmp_path: Path, carton: Path, repository: str, form: tuple[str, ...], change: Change
) -> None:
    source = tmp_path / "x.carton"
    shutil.copy(carton, source)
    with zipfile.ZipFile(source) as archive:
        end = archive.getinfo(WEIGHT).header_offset + archive.getinfo(WEIGHT).file_size - 100
    target = f"{line.host}/{repository}:v1"
    ended = push_and_change(command, line, source, target, lambda: change(source, end), *form)
    if change is vanished:
        # On POSIX, a file that is open stays; where another has to be opened, that is said.
        assert ended.status == 0 or "x.carton" in ended.sentence
        if ended.status == 0:
            assert ocibridge.verify(target)
            return
    else:
        assert WEIGHT in ended.sentence or "x.carton" in ended.sentence
        assert ";" in ended.sentence
    no_tag(target)
