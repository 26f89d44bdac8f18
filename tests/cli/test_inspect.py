# SPDX-License-Identifier: Apache-2.0
"""`ocibridge inspect` and `verify`: what belongs to an artifact, documents as they are, and nothing to compare with."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from ocibridge.cli.inspect import described
from ocibridge.operations.reports import CompanionReport, InfoReport, InspectReport, ReferrerReport

from .conftest import Run


@pytest.fixture
def stored(run: Run, carton: Path, tmp_path: Path) -> str:
    assert run("push", carton, f"oci:{tmp_path}/layout:v1", "--also", "image", "-q").status == 0
    return f"oci:{tmp_path}/layout:v1"


def test_documents_as_they_are(run: Run, stored: str, tmp_path: Path) -> None:
    name = stored.removesuffix(":v1")
    pinned = json.loads(run("inspect", stored, "--json").out)["digest"]
    raw = run("inspect", "--raw", stored)
    assert (raw.status, raw.err) == (0, "")
    assert "sha256:" + hashlib.sha256(raw.out.encode()).hexdigest() == pinned
    for flags in (("--config",), ("--raw", "--config")):
        config = run("inspect", *flags, stored).out
        assert json.loads(raw.out)["config"]["digest"] == "sha256:" + hashlib.sha256(config.encode()).hexdigest()
    assert json.loads(run("inspect", "--raw", f"{name}:v1-image").out)["subject"]["digest"] == pinned
    refused = run("inspect", "--raw", tmp_path)
    assert (refused.status, refused.err) == (
        2,
        f"ocibridge: error: --raw is for artifacts, and {tmp_path} is none; leave it out, or give a reference\n",
    )
    missing = run("inspect", "--raw", f"{name}:v2")
    assert missing.status == 1
    assert "its tags are" in missing.err or "tags there: " in missing.err


def test_a_companion_is_named_and_leads_to_the_model(run: Run, stored: str) -> None:
    lines = run("inspect", stored).out.splitlines()
    assert lines[-2:-1] == ["└── companions"]
    assert lines[-1].startswith("    └── v1-image (image)  oci:")
    assert "size           70.5 KiB" in lines
    image = run("inspect", f"{stored}-image")
    assert (image.status, image.out.splitlines()) == (0, lines)
    assert image.err.startswith(f"ocibridge: warning: {stored}-image is the image of the model oci:")
    assert image.err.endswith("; the model itself is read\n")


def test_a_tree() -> None:
    def referrer(name: str, *below: ReferrerReport) -> ReferrerReport:
        return ReferrerReport(
            reference=f"r@{name}", media_type="m", artifact_type=name, size=1, annotations={}, referrers=list(below)
        )

    report = InspectReport(
        source="r", kind="artifact", format=None, identity=None, origin={}, files=[], size=0, info=InfoReport(),
        companions=[CompanionReport(kind="image", tag="v1-image", reference="r@i")],
        referrers=[referrer("sbom", referrer("signature")), referrer("\x1b[1m")],
    )  # fmt: skip
    assert described(report)[-7:] == [
        "r",
        "├── companions",
        "│   └── v1-image (image)  r@i",
        "└── referrers",
        "    ├── sbom  r@sbom",
        "    │   └── signature  r@signature",
        "    └── \\x1b[1m  r@\\x1b[1m",
    ]


def test_nothing_to_compare_with(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.bin").write_bytes(b"bytes")
    alone = run("verify", folder)
    assert (alone.status, alone.out) == (
        3,
        f"{folder}\n  - 1 file (5 bytes) can be read to their end\n"
        "nothing to compare with: the files have no checksums of their own; give --against REF\n",
    )
    assert json.loads(run("verify", folder, "--json").out)["verified"] is False
    reference = f"oci:{tmp_path}/layout:v1"
    pinned = run("push", folder, reference, "-q").out.strip()
    assert run("pull", reference, tmp_path / "pulled", "-q").status == 0
    pulled = run("verify", tmp_path / "pulled")
    assert (pulled.status, pulled.out.splitlines()[-1].split("; ")[1]) == (3, f"give --against {pinned}")
    assert run("verify", tmp_path / "pulled", "--against", pinned).status == 0
    same = run("verify", folder, "--against", reference)
    assert same.status == 0
    assert same.out.splitlines()[-2].startswith("  ✓ 1 file, and no other, is byte for byte in oci:")
    (folder / "model.bin").write_bytes(b"other")
    other = run("verify", folder, "--against", reference)
    assert (other.status, other.out) == (1, "")
    assert f"{folder} is not {reference}: changed 'model.bin'; " in other.err
