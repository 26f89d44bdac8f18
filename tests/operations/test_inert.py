# SPDX-License-Identifier: Apache-2.0
"""Nothing from a model is executed, imported, unpickled or fetched, by any verb."""

from __future__ import annotations

import os
import pickle
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import ocibridge

from ..formats.build import carton

MANIFEST_2023 = b"""{"models": [{"name": "trap", "version": "1", "framework": "pytorch",
 "enc_model_cleanup": "after-load", "enc_model_cleanup_files": ["models"]}]}"""


class Trap:
    """What a hostile pickle does when somebody loads it."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (f"touch {self.mark}",)


def traps(mark: Path) -> dict[str, bytes]:
    """Files that leave the mark when anything runs, imports or loads them."""
    code = f"open({str(mark)!r}, 'w').close()\n".encode()
    script = f"#!/bin/sh\ntouch {mark}\n".encode()
    return {
        "load.py": code,
        "predict.py": code,
        "__init__.py": code,
        "conftest.py": code,
        "setup.py": code,
        "sitecustomize.py": code,
        "modeling_trap.py": code,
        "model.pt": pickle.dumps(Trap(mark)),
        "pytorch_model.bin": pickle.dumps(Trap(mark)),
        "model.pkl": pickle.dumps(Trap(mark)),
        "run.sh": script,
        "config.json": b'{"auto_map": {"AutoModel": "modeling_trap.Trap"}, "model_type": "llama"}',
        "README.md": b"---\nlicense: !!python/object/apply:os.system ['touch %s']\n---\n" % str(mark).encode(),
        "x.pth": code,
    }


def as_carton(root: Path, mark: Path) -> Path:
    return carton(root / "trap.carton", {f"model/{name}": data for name, data in traps(mark).items()})


def as_mlarchive(root: Path, mark: Path) -> Path:
    with zipfile.ZipFile(root / "trap.mlarchive", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", MANIFEST_2023)
        for name, data in traps(mark).items():
            for folder in ("models", "hooks", "src"):
                archive.writestr(f"{folder}/{name}", data)
    return root / "trap.mlarchive"


def as_folder(root: Path, mark: Path) -> Path:
    folder = root / "trap"
    folder.mkdir()
    for name, data in traps(mark).items():
        (folder / name).write_bytes(data)
        (folder / name).chmod(0o755)
    return folder


def test_the_traps_work(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    pickle.loads(traps(mark)["model.pt"])
    assert mark.exists()


@pytest.mark.parametrize("make", [as_carton, as_mlarchive, as_folder])
@pytest.mark.parametrize("layers", ["tar", "raw-files"])
def test_no_verb_leaves_the_mark(
    make: Callable[[Path, Path], Path], layers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "mark"
    source = make(tmp_path, mark)
    # As a careless user: in the folder of the model, which is then on the path of imports.
    monkeypatch.chdir(source if source.is_dir() else tmp_path)
    monkeypatch.syspath_prepend(str(Path.cwd()))
    modules = set(sys.modules)
    target = f"oci:{tmp_path / 'layout'}:v1"
    ocibridge.inspect(source)
    ocibridge.verify(source)
    ocibridge.push(source, target, ocibridge.PushOptions(layers=layers))
    ocibridge.inspect(target)
    ocibridge.verify(target)
    ocibridge.pull(target, tmp_path / f"back{source.suffix}")
    ocibridge.pull(target, tmp_path / "unpacked", ocibridge.PullOptions(as_format="folder"))
    ocibridge.convert(target, f"oci:{tmp_path / 'layout'}:v2", ocibridge.ConvertOptions(dialect="modelpack"))
    assert not mark.exists()
    assert not {name for name in set(sys.modules) - modules if "trap" in name or name in ("load", "predict")}
