# SPDX-License-Identifier: Apache-2.0
"""`ocibridge cat`."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import ocibridge

from .conftest import FIXTURES, Outcome, Run

TEXT = ocibridge.open_file(FIXTURES / "digits.carton", "carton.toml").readall()


def cat(*args: object, stdout: int = subprocess.PIPE, cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "ocibridge", "cat", *map(str, args)]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, timeout=60, cwd=cwd)


@pytest.fixture
def stored(tmp_path: Path) -> str:
    reference = f"oci:{tmp_path}/layout:v1"
    ocibridge.push(FIXTURES / "digits.carton", reference)
    return reference


def test_nothing_but_the_bytes(stored: str) -> None:
    for subject in (stored, FIXTURES / "digits.carton"):
        done = cat(subject, "carton.toml")
        assert (done.returncode, done.stdout, done.stderr) == (0, TEXT, b"")


def test_a_file(run: Run, stored: str, tmp_path: Path) -> None:
    target = tmp_path / "out.toml"
    assert run("cat", stored, "carton.toml", "-o", target) == Outcome(0, "", "")
    assert target.read_bytes() == TEXT
    again = run("cat", stored, "carton.toml", "-o", target)
    assert (again.status, again.err) == (
        1,
        f"ocibridge: error: cannot write {target}: it exists; name another file with -o FILE\n",
    )


def test_a_wrong_path(run: Run, stored: str) -> None:
    outcome = run("cat", stored, "config.json")
    assert outcome.status == 1
    assert outcome.err.startswith(
        f"ocibridge: error: {stored} has no file 'config.json'; files there: model/config.json, "
    )


def test_a_damaged_file_leaves_nothing(run: Run, stored: str, tmp_path: Path) -> None:
    blobs = tmp_path / "layout" / "blobs" / "sha256"
    (blob,) = [each for each in blobs.iterdir() if each.stat().st_size > 40_000]
    with open(blob, "r+b") as file:
        file.seek(20_000)
        file.write(b"other")
    outcome = run("cat", stored, "model/model.pt", "-o", tmp_path / "model.pt")
    assert outcome.status == 1
    assert "gave other bytes" in outcome.err
    assert sorted(each.name for each in tmp_path.iterdir()) == ["layout"]
    assert cat(stored, "model/model.pt").returncode == 1


def test_a_reader_that_goes_away(stored: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = cat(stored, "model/model.pt", stdout=writing)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


def test_a_terminal_gets_text_only(stored: str) -> None:
    master, slave = pty.openpty()
    try:
        binary = cat(stored, "model/model.pt", stdout=slave)
        text = cat(stored, "carton.toml", stdout=slave)
    finally:
        os.close(slave)
    with open(master, "rb", buffering=0) as end:
        shown = end.read(65536)
    assert (binary.returncode, binary.stderr) == (
        1,
        b"ocibridge: error: model/model.pt is binary, and may confuse the terminal; write it to a file with -o FILE\n",
    )
    assert (text.returncode, shown) == (0, TEXT.replace(b"\n", b"\r\n"))
