# SPDX-License-Identifier: Apache-2.0
"""Nothing heavy is imported for what does not need it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"pydantic", "httpx", "rich", "oras", "requests", "typer", "zstandard", "asyncio", "sqlite3"}


def imported(*argv: str) -> set[str]:
    program = (
        "import sys; from ocibridge.cli.main import main\n"
        f"status = main({list(argv)!r})\n"
        "sys.stderr.write(' '.join(sys.modules)); sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return {name.partition(".")[0] for name in done.stderr.split()}


@pytest.mark.parametrize(
    "argv", [["--help"], ["--version"], ["push", "--help"], ["completion", "bash"], ["__complete", "pu"]], ids=" ".join
)
def test_light_commands(argv: list[str]) -> None:
    assert imported(*argv) & HEAVY == set()


def test_inspecting_a_path_needs_neither_a_registry_nor_bars(carton: Path) -> None:
    assert imported("inspect", str(carton)) & {"oras", "requests", "rich", "httpx"} == set()
