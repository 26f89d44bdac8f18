# SPDX-License-Identifier: Apache-2.0
"""The JSON Schema of every document that this package writes, and of the job file, which people write.

`python -m ocibridge.schemas DIR` writes them; `schemas/` in the repository holds the result, and a test compares.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, RootModel

from .airgap.inventory import Inventory
from .airgap.reports import PackReport, UnpackReport
from .dialects.annotations import FileMetadata
from .dialects.capabilities import ModelpackConfig
from .dialects.config import ModelConfig, ModelFacts
from .dialects.listings import FileListing, Symlinks
from .mirror.jobs.jobfile import JobFile
from .mirror.reports import MirrorPlan, MirrorReport, TagEvent
from .oci import Document, Index, Manifest
from .operations.pushplan import PushPlan
from .operations.reports import (
    ConvertReport,
    CopyReport,
    DiffReport,
    InspectReport,
    LoginReport,
    LogoutReport,
    LsReport,
    PrepareReport,
    PullReport,
    PushReport,
    RmReport,
    TagReport,
    TagsReport,
    VerifyReport,
)
from .report import ErrorReport
from .transfer.events import FinishEvent, MessageEvent, PlanEvent, ProgressEvent, StartEvent
from .volume.reports import VolumeCheckReport, VolumeManifestReport

Events = PlanEvent | StartEvent | ProgressEvent | FinishEvent | MessageEvent | TagEvent


class AnyEvent(RootModel[Annotated[Events, Field(discriminator="event")]]):
    """One line of what `--progress json` prints on standard error."""


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
    "push-plan": PushPlan,
    "pull": PullReport,
    "convert": ConvertReport,
    "copy": CopyReport,
    "inspect": InspectReport,
    "verify": VerifyReport,
    "diff": DiffReport,
    "volume-prepare": PrepareReport,
    "volume-check": VolumeCheckReport,
    "volume-manifest": VolumeManifestReport,
    "mirror-job": JobFile,
    "mirror-plan": MirrorPlan,
    "mirror-report": MirrorReport,
    "airgap-inventory": Inventory,
    "airgap-pack": PackReport,
    "airgap-unpack": UnpackReport,
    "tags": TagsReport,
    "ls": LsReport,
    "tag": TagReport,
    "rm": RmReport,
    "login": LoginReport,
    "logout": LogoutReport,
    "error": ErrorReport,
    "event": AnyEvent,
}
"""Name of the schema, and the type that it describes."""


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a document, closed: an unknown key is an error in what we write.

    That of the job file says what is accepted: a key that may be left out is not required.
    """
    kind = DOCUMENTS[name]
    written = not issubclass(kind, JobFile)
    found = kind.model_json_schema(by_alias=True, mode="serialization" if written else "validation")
    for part in (found, *found.get("$defs", {}).values()):
        if "properties" not in part:
            continue
        if written:
            _close(part, leaves_out_null=issubclass(kind, Document))
        else:
            for value in part["properties"].values():
                _plain(value)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:ocibridge:schema:{name}",
        **found,
    }


def _close(part: dict[str, Any], *, leaves_out_null: bool) -> None:
    part["additionalProperties"] = False
    required = []
    for key, value in part["properties"].items():
        optional = value.get("default", ...) is None
        if optional and leaves_out_null:
            _plain(value)
        else:
            value.pop("title", None)
            required.append(key)
    part["required"] = required


def _plain(value: dict[str, Any]) -> None:
    """A value that is left out where there is none, instead of being null."""
    value.pop("title", None)
    if value.get("default", ...) is None:
        del value["default"]
        choices = [each for each in value.pop("anyOf", ()) if each != {"type": "null"}]
        value |= choices[0] if choices else {}


def main(folder: str) -> None:
    """Write every schema into `folder`."""
    for name in DOCUMENTS:
        text = json.dumps(schema(name), indent=2, ensure_ascii=False) + "\n"
        (Path(folder) / f"{name}.json").write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(sys.argv[1])
