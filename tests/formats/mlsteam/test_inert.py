# SPDX-License-Identifier: Apache-2.0
"""Nothing in an archive is ever run: hooks, modules and pickles that would leave a mark leave none."""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path

import pytest

from ocibridge.errors import FormatError

from ..build import contents, fill, stored_of
from .archives import FORMAT, V2024, archive, back, read, with_manifest, zipped


class Mark:
    """Leaves a mark when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, tuple[str, ...]]:
        return os.mkdir, (str(self._path),)


def test_the_trap_works(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Mark(tmp_path / "mark")))
    assert (tmp_path / "mark").exists()


def test_nothing_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark = tmp_path / "mark"
    code = f"import pathlib\npathlib.Path({str(mark)!r}).mkdir()\n".encode()
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    names = ("hooks/load.py", "hooks/predict.py", "hooks/__init__.py", "src/net/__init__.py", "conftest.py", "setup.py")
    files = dict.fromkeys(names, code) | {"models/state.pt": pickle.dumps(Mark(mark))}
    path = zipped(tmp_path / "x.mlarchive", files)
    before = set(sys.modules)
    FORMAT.matches(path)
    for keep in (False, True):
        model = read(path, keep=keep)
        contents(model)
        back(model, work / f"{keep}.mlarchive")
        back(model, work / f"{keep}")
        fill(FORMAT.checker(stored_of(model)), model)
    assert not mark.exists()
    assert not {name for name in set(sys.modules) - before if name.startswith(("hooks", "net", "src"))}


def test_no_pattern_is_evaluated(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    base = V2024["models"][0]
    patterns = [["../*"], [str(victim)], ["models/../../victim"]]
    for number, found in enumerate(patterns):
        document = {**V2024, "models": [{**base, "enc_model_cleanup": "after-load", "enc_model_cleanup_files": found}]}
        with pytest.raises(FormatError, match="cleanup pattern"):
            read(with_manifest(tmp_path / f"{number}.mlarchive", document))
    path = archive(tmp_path / "good.mlarchive", {"models/a": b"1"})
    back(read(path), tmp_path / "out")
    assert victim.exists()
    assert (tmp_path / "out" / "models" / "a").exists()
