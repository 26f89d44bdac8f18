# SPDX-License-Identifier: Apache-2.0
"""The config object of a model artifact (seed 001; model-spec docs/config.md). Field order is that of `specs-go/v1`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field, WithJsonSchema, field_validator

from ..errors import FormatError
from ..model import ModelInfo
from ..oci import Digest, Document, parse_document

_OLD_SPELLINGS = ("parameterSize", "puantization")


class ModelDescriptor(Document):
    """General information about the model."""

    created_at: Annotated[str | None, WithJsonSchema({"type": "string", "format": "date-time"})] = None
    authors: list[str] | None = None
    family: str | None = None
    name: Annotated[str | None, Field(min_length=1)] = None
    doc_url: Annotated[str | None, Field(alias="docURL")] = None
    source_url: Annotated[str | None, Field(alias="sourceURL")] = None
    version: str | None = None
    revision: str | None = None
    vendor: str | None = None
    licenses: list[str] | None = None
    title: str | None = None
    description: str | None = None


class ModelFS(Document):
    """Digests of the uncompressed layers, in manifest order. Releases up to v0.0.6 spell the key `diff_ids`."""

    type: Literal["layers"] = "layers"
    diff_ids: Annotated[
        list[Digest],
        Field(min_length=1, validation_alias=AliasChoices("diffIds", "diff_ids"), serialization_alias="diffIds"),
    ]


class ModelExecution(Document):
    """Parameters for whoever runs the model; the key `config` of the config object."""

    architecture: str | None = None
    format: str | None = None
    param_size: Annotated[
        str | None,
        Field(validation_alias=AliasChoices("paramSize", "parameterSize"), serialization_alias="paramSize"),
    ] = None
    precision: str | None = None
    quantization: Annotated[
        str | None,
        Field(validation_alias=AliasChoices("quantization", "puantization"), serialization_alias="quantization"),
    ] = None


class ModelConfig(Document):
    """The config object."""

    descriptor: ModelDescriptor
    modelfs: ModelFS
    config: ModelExecution

    @field_validator("config", mode="before")
    @classmethod
    def _absent_is_empty(cls, value: Any) -> Any:
        return {} if value is None else value


class ModelFacts(Document):
    """The config object without its digests: all that it says about the model itself."""

    descriptor: ModelDescriptor
    config: ModelExecution


def config_of(info: ModelInfo, diff_ids: Sequence[str]) -> ModelConfig:
    """The config object of a model.

    Args:
        info: Metadata; what is None or empty is left out.
        diff_ids: One per layer, in manifest order.
    """
    return ModelConfig(
        descriptor=_descriptor_of(info), modelfs=ModelFS(diff_ids=list(diff_ids)), config=_execution_of(info)
    )


def facts_of(info: ModelInfo) -> ModelFacts:
    """The metadata of a model in the words of the config object."""
    return ModelFacts(descriptor=_descriptor_of(info), config=_execution_of(info))


def _descriptor_of(info: ModelInfo) -> ModelDescriptor:
    return ModelDescriptor(
        created_at=rfc3339(info.created_at) if info.created_at else None,
        authors=list(info.authors) or None,
        family=info.family or None,
        name=info.name or None,
        doc_url=info.doc_url or None,
        source_url=info.source_url or None,
        version=info.version or None,
        revision=info.revision or None,
        vendor=info.vendor or None,
        licenses=list(info.licenses) or None,
        title=info.title or None,
        description=info.description or None,
    )


def _execution_of(info: ModelInfo) -> ModelExecution:
    return ModelExecution(
        architecture=info.architecture or None,
        format=info.format or None,
        param_size=info.param_size or None,
        precision=info.precision or None,
        quantization=info.quantization or None,
    )


def info_of(config: ModelConfig | ModelFacts) -> ModelInfo:
    """The metadata in a config object."""
    general, run = config.descriptor, config.config
    return ModelInfo(
        name=general.name,
        title=general.title,
        description=general.description,
        version=general.version,
        revision=general.revision,
        vendor=general.vendor,
        family=general.family,
        authors=tuple(general.authors or ()),
        licenses=tuple(general.licenses or ()),
        doc_url=general.doc_url,
        source_url=general.source_url,
        created_at=_time(general.created_at),
        architecture=run.architecture,
        format=run.format,
        param_size=run.param_size,
        precision=run.precision,
        quantization=run.quantization,
    )


def parse_config(data: bytes, owner: str, limit: int) -> ModelConfig:
    """Parse a config object, in any of the spellings that releases of the specification have had.

    Raises:
        FormatError: it is none.
    """
    return parse_document(ModelConfig, data, owner, limit)


def dropped_keys(data: bytes, parsed: ModelConfig) -> list[str]:
    """Keys of a config object, such as `config.capabilities`, that we have read over and so cannot write again."""
    document = json.loads(data)
    known = json.loads(parsed.to_json())
    found = [key for key in document if key not in known]
    for part in ("descriptor", "config"):
        section = document.get(part) or {}
        found += [f"{part}.{key}" for key, value in section.items() if key not in known[part] and value is not None]
    return sorted(each for each in found if each.rpartition(".")[2] not in _OLD_SPELLINGS)


def rfc3339(moment: datetime) -> str:
    """A time as RFC 3339 in UTC, as Go writes it."""
    return moment.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")


def _time(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00").replace("z", "+00:00"))
    except ValueError:
        raise FormatError(f"the creation time {text!r} of the config is no RFC 3339 time") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
