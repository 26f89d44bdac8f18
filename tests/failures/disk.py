# SPDX-License-Identifier: Apache-2.0
"""A disk that is full when a test wants it to be: a small tmpfs where one can be mounted, else a pretended one."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from ocibridge.formats.zip import writer
from ocibridge.io import positioned as filling
from ocibridge.settings import MiB

SIZE = 48 * MiB


class Disk(ABC):
    """A disk.

    Attributes:
        folder: A folder on it.
    """

    folder: Path

    @abstractmethod
    def fill(self, left: int = 0) -> None:
        """Leave so many bytes free."""

    @abstractmethod
    def free(self) -> None:
        """Free what `fill` took."""

    @property
    def names(self) -> list[str]:
        """What is in the folder."""
        return sorted(path.name for path in self.folder.iterdir())


class RealDisk(Disk):
    """A mounted tmpfs."""

    def __init__(self, mount: Path) -> None:
        self._ballast = mount / "ballast"
        self.folder = mount / "folder"
        self.folder.mkdir()

    def fill(self, left: int = 0) -> None:
        # Somebody may be writing at the same time, so that less is free than was found.
        with open(self._ballast, "wb", buffering=0) as file, suppress(OSError):
            while (room := shutil.disk_usage(self.folder).free - left) > 0:
                file.write(bytes(min(room, MiB)))

    def free(self) -> None:
        self._ballast.unlink()


class PretendedDisk(Disk):
    """Refuses writes as a full disk does, wherever large files are written."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._left = sys.maxsize
        write_at = filling.write_at

        def limited_write_at(handle: int, view: memoryview, offset: int) -> int:
            self._take(len(view))
            return write_at(handle, view, offset)

        def usage(path: Any) -> Any:
            return shutil._ntuple_diskusage(SIZE, 0, self._left)

        monkeypatch.setattr(filling, "write_at", limited_write_at)
        monkeypatch.setattr(writer, "write_at", limited_write_at)
        monkeypatch.setattr(shutil, "disk_usage", usage)

    def _take(self, count: int) -> None:
        if count > self._left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self._left < sys.maxsize:
            self._left -= count

    def fill(self, left: int = 0) -> None:
        self._left = left

    def free(self) -> None:
        self._left = sys.maxsize


@contextmanager
def mounted(place: Path, size: int = SIZE) -> Iterator[bool]:
    """Mount a tmpfs at a new folder; False where that is not allowed, or not known."""
    place.mkdir()
    mount = shutil.which("mount") if sys.platform == "linux" else None
    command = [mount or "false", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    done = mount is not None and not subprocess.run(command, capture_output=True, timeout=30).returncode
    try:
        yield done
    finally:
        if done:
            subprocess.run(["umount", str(place)], check=True, timeout=30)
