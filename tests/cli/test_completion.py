# SPDX-License-Identifier: Apache-2.0
"""Shell completion: the scripts, and what they are told."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ocibridge.cli import main

from .conftest import Run

COMMANDS = [name for word in main.COMMANDS for name in ((word, "logout") if word == "login" else (word,))]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", COMMANDS),
        ("pu", ["push", "pull"]),
        ("--v", ["--version"]),
        ("completion ", ["bash", "zsh", "fish"]),
        ("push --lay", ["--layers"]),
        ("convert a b --dialect ", ["cnai", "draft", "modelpack"]),
        ("pull --th", ["--thin"]),
        ("verify --man", ["--manifest-only"]),
        ("push --also ", ["ollama", "image"]),
        ("push --strip", ["--strip-from"]),
        ("push --layers raw", ["raw", "raw-files"]),
        ("push --layers=ra", ["--layers=raw", "--layers=raw-files"]),
        ("push --json a b --compress g", ["gzip"]),
        ("push --ca-file ", ["cert.pem"]),
        ("login --pass", ["--password-stdin"]),
        ("volume prep", ["prepare"]),
        ("volume prepare --suf", ["--suffix"]),
    ],
)
def test_what_may_stand_at_the_cursor(line: str, expected: list[str], tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "cert.pem").touch()
    line = f"ocibridge {line}"
    asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_SUPPRESS_SPACE": "1"}
    asked |= {"COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "out")}
    command = [sys.executable, "-m", "ocibridge"]
    subprocess.run(command, check=True, env={**os.environ, **asked}, cwd=tmp_path / "here", timeout=60)
    assert (tmp_path / "out").read_text().split("\n") == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_are_valid(run: Run, shell: str, tmp_path: Path) -> None:
    outcome = run("completion", shell)
    assert outcome.status == 0
    assert "_ARGCOMPLETE" in outcome.out
    if shutil.which(shell):
        script = tmp_path / "script"
        script.write_text(outcome.out)
        subprocess.run([shell, "-n", str(script)], check=True, timeout=30)
    else:
        assert shell != "bash", "bash is always there"


def test_bash_completes(run: Run, tmp_path: Path) -> None:
    program = tmp_path / "ocibridge"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ocibridge "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    script = tmp_path / "script"
    script.write_text(run("completion", "bash").out)
    ask = f"""source {script}
        for COMP_LINE in "ocibridge push --layers ra" "ocibridge v" "ocibridge push a"; do
            COMP_POINT=${{#COMP_LINE}}; _python_argcomplete ocibridge; echo "${{COMPREPLY[@]}}"
        done
    """
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True, env=env, timeout=60)
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["raw", "raw-files"],
        ["verify", "volume", "version"],
        [],
    ]
