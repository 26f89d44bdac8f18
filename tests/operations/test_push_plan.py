# SPDX-License-Identifier: Apache-2.0
"""`push --dry-run`: what would be published, without reading weights or asking the target."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import ocibridge
from ocibridge.oci.manifest import ANNOTATION_TITLE

from ..formats.ollama.samples import unpack_store

FIXTURES = Path(__file__).parents[1] / "fixtures"
NOBODY = "localhost:1/a/b"


def layers_of(place: Path, digest: str) -> list[tuple[str, str]]:
    manifest = json.loads((place / "blobs" / "sha256" / digest.removeprefix("sha256:")).read_bytes())
    return [(each["annotations"][ANNOTATION_TITLE], each["mediaType"]) for each in manifest["layers"]]


@pytest.mark.parametrize("source", ["digits.carton", "digits.mlarchive", "ollama:tinyllama-test"])
@pytest.mark.parametrize("options", [{}, {"layers": "raw-files"}, {"compress": "zstd"}, {"prefix": "models/"}])
def test_a_push_makes_what_was_planned(
    source: str, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_MODELS", str(unpack_store(tmp_path / "models")))
    given = source if source.startswith("ollama:") else str(FIXTURES / source)
    chosen = ocibridge.PushOptions(**options)
    plan = ocibridge.plan_push(given, f"oci:{tmp_path}/x:v1,v2", chosen)
    assert not (tmp_path / "x").exists()
    pushed = ocibridge.push(given, f"oci:{tmp_path}/x:v1,v2", chosen)
    assert (plan.source, plan.target, plan.tags) == (pushed.source, pushed.target, pushed.tags)
    assert (plan.identity, plan.format) == (pushed.identity, pushed.format)
    assert [(each.title, each.media_type) for each in plan.layers] == layers_of(tmp_path / "x", pushed.digest)
    if "compress" not in options:
        assert [each.size for each in plan.layers] == [each.size for each in pushed.layers]
    assert {each.path for each in plan.files} == {each.path for each in ocibridge.inspect(pushed.reference).files}
    assert sum(each.file_count for each in plan.layers) == len(plan.files)


def test_no_weight_is_read_and_the_target_is_not_asked(tmp_path: Path) -> None:
    root = tmp_path / "mine"
    (root / ".git").mkdir(parents=True)
    (root / "notes.txt").touch()
    with (root / "model.bin").open("wb") as file:
        file.truncate(1 << 40)
    options = ocibridge.PushOptions(also=["image"], exclude=["*.txt"])
    plan = ocibridge.plan_push(root, f"{NOBODY}:v1,v2", options)
    assert [(each.path, each.role, each.size) for each in plan.files] == [("model.bin", "weight", 1 << 40)]
    assert [(each.path, each.reason) for each in plan.left_out] == [(".git", "ignored"), ("notes.txt", "excluded")]
    assert [(each.kind, each.tags) for each in plan.also] == [("image", ["v1-image", "v2-image"])]


def test_what_a_push_refuses_is_refused(tmp_path: Path) -> None:
    (tmp_path / "token").touch()
    with pytest.raises(ocibridge.SourceError, match="'token'"):
        ocibridge.plan_push(tmp_path, NOBODY)
    with pytest.raises(ocibridge.UsageError, match="given twice"):
        ocibridge.plan_push(tmp_path, f"{NOBODY}:a,a")
    with pytest.raises(ocibridge.UsageError, match="--also ollama needs every blob"):
        ocibridge.plan_push(FIXTURES / "digits.carton", NOBODY, ocibridge.PushOptions(also=["ollama"]))
    with pytest.raises(ocibridge.FormatError):
        options = ocibridge.PushOptions(also=["ollama"], layers="raw-files")
        ocibridge.plan_push(FIXTURES / "digits.carton", NOBODY, options)
