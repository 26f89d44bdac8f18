# SPDX-License-Identifier: Apache-2.0
"""A place with everything that somebody could lose, and a picture of it."""

from __future__ import annotations

import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

import ocibridge
from ocibridge.cli.main import main

CARTON = Path(__file__).parents[1] / "fixtures" / "digits.carton"
FILES = {"config.json": b'{"model_type": "tiny"}', "README.md": b"# tiny\n", "weights/a.bin": b"a" * 3000}
NEWER = {**FILES, "config.json": b'{"model_type": "tiny", "n": 2}', "weights/b.bin": b"b" * 2000}

Snapshot = dict[str, tuple[object, ...]]


@dataclass(frozen=True)
class Scene:
    """Folders of a user.

    Attributes:
        root: The folder that everything is in.
        work: The working folder.
        home: The home folder.
        layout: A layout with the models v1, v2 (newer) and carton.
    """

    root: Path

    @property
    def work(self) -> Path:
        return self.root / "desk" / "work"

    @property
    def home(self) -> Path:
        return self.root / "homes" / "me"

    @property
    def layout(self) -> Path:
        return self.root / "stores" / "lay"

    def pull(self, dest: object, *flags: str, tag: str = "v1") -> int:
        """`ocibridge pull`, and its status."""
        return main(["pull", f"oci:{self.layout}:{tag}", str(dest), *flags])


def make_layout(folder: Path) -> None:
    """The layout of a `Scene`."""
    for tag, files in (("v1", FILES), ("v2", NEWER)):
        fill(folder / tag, files)
        ocibridge.push(folder / tag, f"oci:{folder}/lay:{tag}")
        ocibridge.push(folder / tag, f"oci:{folder}/lay:{tag}-raw", ocibridge.PushOptions(layers="raw-files"))
    ocibridge.push(CARTON, f"oci:{folder}/lay:carton")
    ocibridge.pull(f"oci:{folder}/lay:v1", folder / "ours")


def make_scene(root: Path, template: Path) -> Scene:
    """Put everything in place."""
    scene = Scene(root)
    fill(scene.home, {"thesis.txt": b"three years", "photos/one.jpg": b"\xff\xd8"})
    fill(scene.work, {"notes.txt": b"mine", "a/deep/file": b"mine"})
    fill(root / "foreign", {"precious.txt": b"mine", "config.json": b"my own"})
    shutil.copytree(template / "lay", scene.layout)
    shutil.copytree(template / "ours", root / "ours")
    shutil.copy(CARTON, root / "mine.carton")
    (root / "to-home").symlink_to(scene.home)
    (root / "to-work").symlink_to(scene.work)
    (root / "to-layout").symlink_to(scene.layout)
    return scene


def fill(folder: Path, files: dict[str, bytes]) -> None:
    """Write files."""
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)


def snapshot(folder: Path) -> Snapshot:
    """Names, kinds, modes, owners, bytes and link targets of everything in a folder."""
    found: Snapshot = {}
    for place, folders, names in os.walk(folder):
        for name in [*folders, *names]:
            path = Path(place, name)
            status = path.lstat()
            data: object = None
            if stat.S_ISREG(status.st_mode):
                data = path.read_bytes()
            elif stat.S_ISLNK(status.st_mode):
                data = path.readlink()
            found[path.relative_to(folder).as_posix()] = (status.st_mode, status.st_uid, status.st_rdev, data)
    return found


def lost(before: Snapshot, after: Snapshot) -> list[str]:
    """Paths that are gone or have changed."""
    return [path for path, facts in before.items() if after.get(path) != facts]


def files_of(folder: Path) -> dict[str, bytes]:
    """The files of a model in a folder, without the record."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != ".ocibridge")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}
