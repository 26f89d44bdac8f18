# SPDX-License-Identifier: Apache-2.0
"""Memory does not follow the bytes of very many small files, and hardly their number, whatever the operation."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

import ocibridge

RUNNER = {"runner_name": "noop", "framework_version": "*"}
FEW, MANY = 50, 350
PER_FILE = 5 * 1024
"""Bytes of memory that an operation may take for each file: 20,000 files stay under 100 MB."""
BUFFERS = 4 << 20
"""Bytes of memory by which two runs may differ: threads have buffers, and not always all of them at once."""
OPERATIONS: dict[str, Callable[[Path, Path], object]] = {
    "inspect carton": lambda at, out: ocibridge.inspect(at / "m.carton"),
    "inspect folder": lambda at, out: ocibridge.inspect(at / "folder"),
    "inspect artifact": lambda at, out: ocibridge.inspect(f"oci:{at}/layout:carton"),
    "inspect mlarchive": lambda at, out: ocibridge.inspect(at / "m.mlarchive"),
    "verify carton": lambda at, out: ocibridge.verify(at / "m.carton"),
    "verify folder": lambda at, out: ocibridge.verify(at / "folder"),
    "verify mlarchive": lambda at, out: ocibridge.verify(at / "m.mlarchive"),
    "verify artifact": lambda at, out: ocibridge.verify(f"oci:{at}/layout:carton"),
    "push carton": lambda at, out: ocibridge.push(
        at / "m.carton", f"oci:{out}/new", ocibridge.PushOptions(cache=False)
    ),
    "push folder": lambda at, out: ocibridge.push(at / "folder", f"oci:{out}/new", ocibridge.PushOptions(cache=False)),
    "push one layer a file": lambda at, out: ocibridge.push(
        at / "folder", f"oci:{out}/new", ocibridge.PushOptions(layers="raw-files", cache=False)
    ),
    "pull mlarchive": lambda at, out: ocibridge.pull(f"oci:{at}/layout:mlarchive", out / "new.mlarchive"),
    "pull carton": lambda at, out: ocibridge.pull(f"oci:{at}/layout:carton", out / "new.carton"),
    "pull folder": lambda at, out: ocibridge.pull(f"oci:{at}/layout:folder", out / "new"),
    "convert to carton": lambda at, out: ocibridge.convert(
        at / "folder", out / "new.carton", ocibridge.ConvertOptions(writing=RUNNER)
    ),
    "convert to folder": lambda at, out: ocibridge.convert(at / "m.carton", out / "new"),
    "convert an mlarchive": lambda at, out: ocibridge.convert(
        at / "m.mlarchive", out / "new", ocibridge.ConvertOptions(as_format="folder")
    ),
    "convert to mlarchive": lambda at, out: ocibridge.convert(at / "folder", out / "new.mlarchive"),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Folders with a model of few files and of many, as a folder, as a carton, and in a layout."""
    made = {}
    for count in (FEW, MANY):
        made[count] = at = tmp_path_factory.mktemp("models")
        (at / "folder" / "part").mkdir(parents=True)
        (at / "folder" / "config.json").write_text("{}")
        for number in range(count):
            (at / "folder" / "part" / f"{number}.txt").write_bytes(number.to_bytes(2, "big") * 700)
        ocibridge.convert(at / "folder", at / "m.carton", ocibridge.ConvertOptions(writing=RUNNER))
        ocibridge.convert(at / "folder", at / "m.mlarchive")
        for name, source in {"carton": "m.carton", "folder": "folder", "mlarchive": "m.mlarchive"}.items():
            ocibridge.push(at / source, f"oci:{at}/layout:{name}", ocibridge.PushOptions(cache=False))
    return made


@pytest.mark.parametrize("name", OPERATIONS)
def test_memory_grows_by_a_few_kibibytes_for_each_file(models: dict[int, Path], name: str, tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    OPERATIONS[name](models[FEW], tmp_path / "first")
    peaks = {}
    for count, at in models.items():
        out = tmp_path / str(count)
        out.mkdir()
        # What only the garbage collector frees counts: it comes rarely where objects are few and large.
        gc.collect()
        gc.disable()
        tracemalloc.start()
        try:
            OPERATIONS[name](at, out)
            peaks[count] = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
            gc.enable()
    assert peaks[MANY] - peaks[FEW] < PER_FILE * (MANY - FEW) + BUFFERS
