# SPDX-License-Identifier: Apache-2.0
"""Random models, how they are pushed, and what is in them."""

from __future__ import annotations

import hashlib
import random
import shutil
import stat
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ocibridge.settings import KiB, MiB

from ..formats.build import carton
from ..trees import paths_in

_FIXTURES = Path(__file__).parent.parent / "fixtures"
_ARCHIVES = ("digits.mlarchive", "digits-2024.mlarchive", "digits-encrypted.mlarchive", "digits-stored.carton")
_SMALL = ("config.json", "README.md", "LICENSE", "vocab.txt", "code/run.py", "data/train.csv", "a/b/c/notes", "empty")


@dataclass(frozen=True)
class Made:
    """A model on disk.

    Attributes:
        path: The archive or folder.
        options: How it is pushed: arguments of `ocibridge.push`.
        size: Bytes of its files, or so.
    """

    path: Path
    options: dict[str, Any]
    size: int

    @property
    def name(self) -> str:
        """What a copy of it has to be called to be of the same format."""
        return f"back{self.path.suffix}"


def make_model(dice: random.Random, path: Path, *, small: bool = False, suffix: str | None = None) -> Made:
    """A model of random kind, size and push options.

    Args:
        dice: What it is drawn from.
        path: Its name without suffix.
        small: Whether it has no large files.
        suffix: Decides over the kind; None draws it, too.
    """
    kind = dice.choices(("folder", "carton", "fixture"), (45, 40, 15))[0]
    if suffix is not None:
        kind = {"": "folder", ".carton": "carton"}.get(suffix, "fixture")
    if kind == "fixture":
        source = _FIXTURES / dice.choice([name for name in _ARCHIVES if name.endswith(suffix or "")])
        made = path.with_suffix(source.suffix)
        shutil.copyfile(source, made)
        return Made(made, _push_options(dice, archive=True), made.stat().st_size)
    files = _files(dice, small)
    size = sum(len(data) for data in files.values())
    if kind == "carton":
        inside = {f"model/{name}": data for name, data in files.items()}
        return Made(carton(path.with_suffix(".carton"), inside), _push_options(dice, archive=True), size)
    for name, data in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    return Made(path, _push_options(dice, archive=False), size)


def _files(dice: random.Random, small: bool) -> dict[str, bytes]:
    names = dice.sample(_SMALL, dice.randint(1, len(_SMALL)))
    files = {name: _data(dice, 0 if name == "empty" else int((20 * KiB) ** dice.random())) for name in names}
    sizes = {"few": (1, 60 * KiB), "some": (100 * KiB, MiB), "many": (MiB, 6 * MiB)}
    least, most = sizes["few" if small else dice.choices(tuple(sizes), (70, 20, 10))[0]]
    for number in range(1, dice.randint(1, 4)):
        files[f"model-{number:05}.bin"] = _data(dice, dice.randint(least, most))
    return files


def _data(dice: random.Random, size: int) -> bytes:
    """Bytes that compress well, or do not."""
    if dice.random() < 0.3:
        line = dice.randbytes(50).hex().encode() + b"\n"
        return (line * (size // len(line) + 1))[:size]
    return dice.randbytes(size)


def _push_options(dice: random.Random, *, archive: bool) -> dict[str, Any]:
    options: dict[str, Any] = {"concurrency": dice.randint(1, 4)}
    if dice.random() < 0.2:
        options["cache"] = False
    if archive and dice.random() < 0.1:
        return {**options, "exact": True}
    options["layers"] = dice.choice(("tar", "tar", "raw", "raw-files"))
    options["dialect"] = dice.choice(("cnai", "modelpack"))
    if options["layers"] == "tar":
        options["compress"] = dice.choice(("none", "none", "gzip", "zstd"))
        # The draft dialect has no name for zstd.
        options["dialect"] = dice.choice(("cnai", "modelpack", "draft")[: 2 if options["compress"] == "zstd" else 3])
    if dice.random() < 0.15:
        options["also"] = ("image",)
        options["platforms"] = ("linux/amd64",)
    return options


def arguments(options: dict[str, Any]) -> list[str]:
    """Options of `ocibridge.push` as those of the command line."""
    switches = {"exact": "--exact", "cache": "--no-cache"}
    names = {"also": "--also", "platforms": "--platform"}
    found = []
    for name, value in options.items():
        if name in switches:
            found.append(switches[name])
        else:
            text = value[0] if isinstance(value, tuple) else value
            found.append(f"{names.get(name, f'--{name}')}={text}")
    return found


def contents(path: Path) -> dict[str, str]:
    """What a model consists of: for each name the sha256 of a file, or the target of a link."""
    found = {}
    if path.is_dir():
        for each in paths_in(path):
            name = each.relative_to(path).as_posix()
            if each.is_symlink():
                found[name] = f"-> {each.readlink()}"
            elif each.is_file():
                found[name] = hashlib.sha256(each.read_bytes()).hexdigest()
        return found
    if not zipfile.is_zipfile(path):  # an encrypted archive
        return {"": hashlib.sha256(path.read_bytes()).hexdigest()}
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if info.is_dir():
                continue
            data = archive.read(info) if not info.flag_bits & 1 else b""
            link = stat.S_ISLNK(info.external_attr >> 16)
            found[info.filename] = f"-> {data.decode()}" if link else hashlib.sha256(data).hexdigest()
    return found
