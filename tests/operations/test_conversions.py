# SPDX-License-Identifier: Apache-2.0
"""The conversion table of docs/formats/README.md: this test runs every cell, and the page holds what it found."""

from __future__ import annotations

import hashlib
import os
import tarfile
from pathlib import Path

import pytest

import ocibridge

from .conftest import FIXTURES

PAGE = Path(__file__).parent.parent.parent / "docs" / "formats" / "README.md"
START, END = "<!-- table: made by tests/operations/test_conversions.py -->", "<!-- end of table -->"
SOURCES = {
    "carton": "digits.carton",
    "MLSteam archive": "digits.mlarchive",
    "MLSteam archive, encrypted": "digits-encrypted.mlarchive",
    "Ollama model": "ollama:tinyllama-test",
    "Hugging Face folder": "hf-digits",
    "GGUF file": "model.gguf",
}
TARGETS = {
    "`x.carton`": "x.carton",
    "`x.mlarchive`": "x.mlarchive",
    "`ollama:x`": "ollama:x",
    "folder": "x",
}


@pytest.fixture
def boxes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one of every kind of source, which is also the working folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("hf-digits", "ollama-store"):
        with tarfile.open(FIXTURES / f"{name}.tar") as archive:
            archive.extractall(tmp_path / name, filter="data")
    for name in ("digits.carton", "digits.mlarchive", "digits-encrypted.mlarchive"):
        (tmp_path / name).symlink_to(FIXTURES / name)
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "ollama-store"))
    gguf = max((tmp_path / "ollama-store" / "blobs").iterdir(), key=_is_gguf)
    os.link(gguf, tmp_path / "model.gguf")
    return tmp_path


def _is_gguf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"GGUF"


def cell(source: str, target: str, number: int) -> str:
    """What a pull as `target` makes of a pushed `source`."""
    pushed = ocibridge.push(source, f"oci:layout:v{number}")
    place = f"ollama:x{number}" if target.startswith("ollama:") else f"out{number}/{target}"
    Path(f"out{number}").mkdir()
    direct = f"ollama:direct{number}" if target.startswith("ollama:") else f"out{number}/direct-{target}"
    try:
        pulled = ocibridge.pull(pushed.reference, place)
    except ocibridge.OcibridgeError as exc:
        assert exc.hint, exc
        with pytest.raises(type(exc)):
            ocibridge.convert(source, direct)
        assert not os.path.lexists(direct)
        return "refused"
    converted = ocibridge.convert(source, direct)
    assert isinstance(converted, ocibridge.ConvertReport)
    assert (converted.format, converted.note) == (pulled.format, pulled.note)
    assert len(converted.losses) == len(pulled.losses)
    if pushed.identity and pulled.identity == pushed.identity:
        assert converted.identity == pulled.identity
    assert ocibridge.verify(place).identity == pulled.identity or target == "x"
    if pushed.identity and pulled.identity == pushed.identity:
        return "same identity, byte for byte" if pulled.note == "exact" else "same identity"
    if target == "x" and _every_file(pushed.reference, Path(place)):
        return "every file"
    return f"new {pulled.format}"


def _every_file(reference: str, folder: Path) -> bool:
    return all(
        hashlib.sha256((folder / file.path).read_bytes()).hexdigest() == file.sha256
        for file in ocibridge.inspect(reference).files
    )


def test_the_table_is_what_every_cell_gives(boxes: Path) -> None:
    rows = [f"| from \\ to | {' | '.join(TARGETS)} |", "|---" * (len(TARGETS) + 1) + "|"]
    number = 0
    for name, source in SOURCES.items():
        found = []
        for target in TARGETS.values():
            number += 1
            found.append(cell(source, target, number))
        rows.append(f"| {name} | {' | '.join(found)} |")
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    made = f"{before}{START}\n" + "\n".join(rows) + f"\n{END}{after}"
    if os.environ.get("OCIBRIDGE_WRITE_DOCS"):
        PAGE.write_text(made, encoding="utf-8")
        text = made
    assert text == made, "run: make tables"
