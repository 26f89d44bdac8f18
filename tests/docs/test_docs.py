# SPDX-License-Identifier: Apache-2.0
"""Every command and every Python example of the documentation runs as written, and prints what the pages show."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from ..registry import PASSWORD, USER, RegistryServer

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "README.md", *ROOT.glob("docs/**/*.md")))
BLOCK = re.compile(r"^```(sh|python|output)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SETUP = {"pip install .": "pip install"}
"""Commands that set up an environment, and what in `make venv` runs them."""


def blocks(page: str) -> list[tuple[str, str]]:
    return BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES)
def test_every_command_runs(page: str, tmp_path: Path, auth_registry: RegistryServer) -> None:
    """`localhost:5000` of the pages is the real registry, which wants the user of the pages."""
    shutil.copyfile(ROOT / "examples" / "digits.carton", tmp_path / "digits.carton")
    for name, folder in (("ollama-store", "ollama"), ("hf-digits", "hf-digits")):
        with tarfile.open(ROOT / "tests" / "fixtures" / f"{name}.tar") as archive:
            archive.extractall(tmp_path / folder, filter="data")
    (tmp_path / "password.txt").write_text(PASSWORD + "\n")
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    env["OLLAMA_MODELS"] = str(tmp_path / "ollama")
    login = ["ocibridge", "login", auth_registry.host, "--username", USER, "--password-stdin"]
    subprocess.run(login, env=env, input=PASSWORD, text=True, check=True, capture_output=True)
    printed = ""
    for language, text in blocks(page):
        text = text.replace("localhost:5000", auth_registry.host).replace("--username me", f"--username {USER}")
        if language == "output":
            for line in text.splitlines():
                assert _shown(line, printed), f"{page} shows\n{line}\nprinted was\n{printed}"
            continue
        if language == "python":
            command = [sys.executable, "-c", text]
        else:
            lines = [line for line in text.splitlines() if not _elsewhere(line)]
            command = ["bash", "-euo", "pipefail", "-c", "\n".join(lines)]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == 0, f"{page}:\n{text}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        printed = done.stdout + done.stderr


def _shown(line: str, printed: str) -> bool:
    """Whether a line of the documentation was printed.

    `…` stands for any text; the registry is that of all pages, and may have the layers already.
    """
    pattern = re.sub(
        " (uploaded|skipped) ", " (uploaded|skipped|mounted) ", re.escape(line).replace("…", ".*").replace("\\ ", " ")
    )
    return re.search(f"^{pattern}$", printed, re.MULTILINE) is not None


def _elsewhere(line: str) -> bool:
    """Whether a line sets something up; then it must be what the Makefile has, which CI runs."""
    command = line.partition("#")[0].strip()
    if command.startswith("make "):
        subprocess.run(["make", "--dry-run", command.removeprefix("make ")], cwd=ROOT, check=True, capture_output=True)
        return True
    return command in SETUP


def test_the_pages_have_commands() -> None:
    assert sum(len(blocks(page)) for page in PAGES) >= 12


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if not target.startswith("https://"):
            assert ((ROOT / page).parent / target).exists(), target
