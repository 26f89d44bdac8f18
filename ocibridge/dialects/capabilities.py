# SPDX-License-Identifier: Apache-2.0
"""The config object of the current specification, for its schema alone (model-spec docs/config.md)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, WithJsonSchema

from ..oci import Document
from .config import ModelConfig, ModelDescriptor, ModelExecution

Modality = Literal["text", "image", "audio", "video", "embedding", "other"]


class ModelCapabilities(Document):
    """Capabilities of a model; only in the current specification, and unknown to all formats."""

    input_types: list[Modality] | None = None
    output_types: list[Modality] | None = None
    knowledge_cutoff: Annotated[str | None, WithJsonSchema({"type": "string", "format": "date-time"})] = None
    reasoning: bool | None = None
    tool_usage: bool | None = None
    reward: bool | None = None
    languages: list[Annotated[str, Field(pattern="^[a-z]{2}$")]] | None = None


class ModelpackDescriptor(ModelDescriptor):
    """`ModelDescriptor` with what the current specification added."""

    datasets_url: Annotated[list[str] | None, Field(alias="datasetsURL")] = None


class ModelpackExecution(ModelExecution):
    """`ModelExecution` with what the current specification added."""

    capabilities: ModelCapabilities | None = None


class ModelpackConfig(ModelConfig):
    """The config object of the current specification: for its schema. Artifacts are read with `ModelConfig`, because a
    malformed capability is no reason not to restore a model."""

    descriptor: ModelpackDescriptor
    config: ModelpackExecution
