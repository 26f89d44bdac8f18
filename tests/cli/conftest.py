# SPDX-License-Identifier: Apache-2.0
"""Running the command line inside the test process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from ocibridge.cli.main import main

FIXTURES = Path(__file__).parents[1] / "fixtures"


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str


Run = Callable[..., Outcome]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("inspect", path)`: status, standard output, standard error."""

    def call(*argv: object) -> Outcome:
        capsys.readouterr()
        status = main([str(each) for each in argv])
        out, err = capsys.readouterr()
        return Outcome(status, out, err)

    return call


@pytest.fixture
def carton() -> Path:
    return FIXTURES / "digits.carton"
