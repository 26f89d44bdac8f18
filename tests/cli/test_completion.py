# SPDX-License-Identifier: Apache-2.0
"""Shell completion: the scripts, and the answers to their question."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import Run

COMMANDS = ["push", "pull", "copy", "convert", "inspect", "verify", "mirror", "volume"]
COMMANDS += ["login", "logout", "completion", "version"]


def answers(run: Run, *words: str) -> list[str]:
    outcome = run("__complete", *words)
    assert (outcome.status, outcome.err) == (0, "")
    return [line.partition("\t")[0] for line in outcome.out.splitlines()]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([""], COMMANDS),
        (["pu"], ["push", "pull"]),
        (["--v"], ["--version"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["push", "--lay"], ["--layers"]),
        (["convert", "a", "b", "--dialect", ""], ["cnai", "draft", "modelpack"]),
        (["pull", "--th"], ["--thin"]),
        (["verify", "--man"], ["--manifest-only"]),
        (["push", "--layers", ""], ["tar", "raw", "raw-files"]),
        (["push", "--layers", "raw"], ["raw", "raw-files"]),
        (["push", "--layers", "=", "ra"], ["raw", "raw-files"]),
        (["push", "--layers=ra"], ["--layers=raw", "--layers=raw-files"]),
        (["push", "--ca-file=x"], []),
        (["push", "--compress", "="], ["none", "gzip", "zstd"]),
        (["push", "--json", "a", "b", "--compress", "g"], ["gzip"]),
        (["push", ""], []),
        (["push", "--ca-file", ""], []),
        (["nonsense", ""], []),
        (["login", "--pass"], ["--password-stdin"]),
        (["volume", "prep"], ["prepare"]),
        (["volume", "prepare", "--suf"], ["--suffix"]),
        (["-x", "--y", "="], COMMANDS),
    ],
)
def test_candidates(run: Run, words: list[str], expected: list[str]) -> None:
    assert answers(run, *words) == expected


def test_commands_come_with_their_help(run: Run) -> None:
    assert run("__complete", "ver").out.splitlines()[0].startswith("verify\tread every byte")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_are_valid(run: Run, shell: str, tmp_path: Path) -> None:
    outcome = run("completion", shell)
    assert outcome.status == 0
    assert "__complete" in outcome.out
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
        COMP_WORDS=(ocibridge push --layers = ra); COMP_CWORD=4; _ocibridge; echo "${{COMPREPLY[@]}}"
        COMP_WORDS=(ocibridge v ''); COMP_CWORD=1; _ocibridge; echo "${{COMPREPLY[@]}}"
        COMP_WORDS=(ocibridge push ''); COMP_CWORD=2; _ocibridge; echo "${{#COMPREPLY[@]}}"
    """
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True, env=env, timeout=60)
    assert done.stdout.splitlines() == ["raw raw-files", "verify volume version", "0"]
