# SPDX-License-Identifier: Apache-2.0
"""`schemas/` is what the types say, and what we write follows it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import ocibridge
from ocibridge import schemas
from ocibridge.oci import Manifest

ROOT = Path(__file__).parent.parent
DIGITS = ROOT / "tests" / "fixtures" / "digits.carton"


def check(name: str, document: Any) -> None:
    schema = json.loads((ROOT / "schemas" / f"{name}.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(document)


@pytest.mark.parametrize("name", schemas.DOCUMENTS)
def test_the_files_are_what_the_types_say(name: str) -> None:
    written = json.loads((ROOT / "schemas" / f"{name}.json").read_text(encoding="utf-8"))
    assert written == json.loads(json.dumps(schemas.schema(name))), "run: make schemas"


@pytest.mark.parametrize("options", [{}, {"layers": "raw-files"}, {"compress": "zstd"}], ids=str)
def test_every_document_follows_its_schema(options: dict[str, Any], tmp_path: Path) -> None:
    layout = tmp_path / "layout"
    pushed = ocibridge.push(DIGITS, f"oci:{layout}:v1", ocibridge.PushOptions(**options))
    pulled = ocibridge.pull(pushed.reference, tmp_path / "back")
    check("push", json.loads(pushed.to_json()))
    check("pull", json.loads(pulled.to_json()))
    check("inspect", json.loads(ocibridge.inspect(DIGITS).to_json()))
    check("inspect", json.loads(ocibridge.inspect(pushed.reference).to_json()))
    check("verify", json.loads(ocibridge.verify(pushed.reference).to_json()))
    check("verify", json.loads(ocibridge.verify(DIGITS).to_json()))
    check("diff", json.loads(ocibridge.diff(DIGITS, pushed.reference).to_json()))

    check("index", json.loads((layout / "index.json").read_bytes()))
    data = (layout / "blobs" / "sha256" / pushed.digest[7:]).read_bytes()
    check("manifest", json.loads(data))
    manifest = Manifest.model_validate_json(data)
    check("config", json.loads((layout / "blobs" / "sha256" / manifest.config.digest[7:]).read_bytes()))
    assert manifest.annotations
    check("annotation-symlinks", json.loads(manifest.annotations["org.ocibridge.symlinks"]))
    for layer in manifest.layers:
        annotations = layer.annotations or {}
        if "org.ocibridge.files" in annotations:
            check("annotation-files", json.loads(annotations["org.ocibridge.files"]))
        if "org.cnai.model.file.metadata+json" in annotations:
            check("annotation-file-metadata", json.loads(annotations["org.cnai.model.file.metadata+json"]))


def test_an_unknown_key_would_be_noticed(tmp_path: Path) -> None:
    from jsonschema import ValidationError

    document = json.loads(ocibridge.inspect(DIGITS).to_json())
    with pytest.raises(ValidationError):
        check("inspect", {**document, "surprise": 1})
