# SPDX-License-Identifier: Apache-2.0
"""The JSON Schema of every document that this package writes.

`python -m ocibridge.schemas DIR` writes them; `schemas/` in the repository holds the result, and a test compares.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from .dialects.annotations import FileListing, FileMetadata, Symlinks
from .dialects.config import ModelConfig, ModelFacts, ModelpackConfig
from .oci import Document, Index, Manifest
from .verbs.reports import (
    ConvertReport,
    InspectReport,
    PrepareReport,
    PullReport,
    PushReport,
    RewriteReport,
    VerifyReport,
)
from .volume.reports import VolumeCheckReport, VolumeManifestReport

DOCUMENTS: dict[str, type[BaseModel]] = {
    "manifest": Manifest,
    "index": Index,
    "config": ModelConfig,
    "config-modelpack": ModelpackConfig,
    "annotation-file-metadata": FileMetadata,
    "annotation-files": FileListing,
    "annotation-symlinks": Symlinks,
    "annotation-info": ModelFacts,
    "push": PushReport,
    "pull": PullReport,
    "convert": ConvertReport,
    "rewrite": RewriteReport,
    "inspect": InspectReport,
    "verify": VerifyReport,
    "volume-prepare": PrepareReport,
    "volume-check": VolumeCheckReport,
    "volume-manifest": VolumeManifestReport,
}
"""Name of the schema, and the type that it describes."""


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a document, closed: an unknown key is an error in what we write."""
    kind = DOCUMENTS[name]
    found = kind.model_json_schema(by_alias=True, mode="serialization")
    for part in (found, *found.get("$defs", {}).values()):
        if "properties" in part:
            _close(part, leaves_out_null=issubclass(kind, Document))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:ocibridge:schema:{name}",
        **found,
    }


def _close(part: dict[str, Any], *, leaves_out_null: bool) -> None:
    part["additionalProperties"] = False
    required = []
    for key, value in part["properties"].items():
        value.pop("title", None)
        optional = value.get("default", ...) is None
        if not (optional and leaves_out_null):
            required.append(key)
            continue
        del value["default"]
        choices = [each for each in value.pop("anyOf", ()) if each != {"type": "null"}]
        value |= choices[0] if choices else {}
    part["required"] = required


def main(folder: str) -> None:
    """Write every schema into `folder`."""
    for name in DOCUMENTS:
        text = json.dumps(schema(name), indent=2, ensure_ascii=False) + "\n"
        (Path(folder) / f"{name}.json").write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(sys.argv[1])
