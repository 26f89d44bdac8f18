# SPDX-License-Identifier: Apache-2.0
"""The manifest.json of an MLSteam archive (seed 002, "Manifest"; v2024.1 as the SDK's own schema describes it).

Its bytes are stored as they are. What the SDK refuses to load is refused here too; what it lets pass is a warning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from ...errors import FormatError
from ...model import ModelInfo
from ...oci.document import canonical_json, first_problem, parse_json
from ...paths import show

MANIFEST = "manifest.json"
CLEANUP = "enc_model_cleanup_files"
V2023 = "v2023.1"
V2024 = "v2024.1"

_BOM = b"\xef\xbb\xbf"
_DRIVE = re.compile(r"[A-Za-z]:")
_FUTURE = re.compile(r"v(\d{1,6})\.(\d{1,6})")
FRAMEWORKS = {
    "tensorflow": "tensorflow",
    "tensorflow.keras": "tensorflow",
    "pytorch": "pytorch",
    "pytorch.lightning": "pytorch",
}
"""Frameworks that a manifest may name, and the format of their models."""


def _downward(path: str) -> str:
    if ".." in path.split("/"):
        raise ValueError("the path leaves the package ('..')")
    return path


Text = Annotated[str, StringConstraints(min_length=1)]
RelativePath = Annotated[str, StringConstraints(pattern=r"^[^/]"), AfterValidator(_downward)]
Framework = Literal["tensorflow", "tensorflow.keras", "pytorch", "pytorch.lightning"]
Cleanup = Literal["never", "after-load"]
Integrity = Literal["skip", "permissive", "enforce", "strictly-enforce"]


class ManifestTable(BaseModel):
    """A part of a manifest: no unknown keys, no conversions; null stands for absent, as seed 002 allows."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True, protected_namespaces=())


class Port(ManifestTable):
    """One input or output."""

    name: str | None = None
    type: str | None = None


class Model2023(ManifestTable):
    """A model of v2023.1."""

    name: Text
    version: Text
    description: str | None = None
    framework: Framework
    inputs: list[Port] | None = None
    outputs: list[Port] | None = None
    enc_model_cleanup: Cleanup | None = None
    enc_model_cleanup_files: list[RelativePath] | None = None


class Manifest2023(ManifestTable):
    """manifest.json of v2023.1; a `schema` key would make it invalid."""

    models: list[Model2023]


class IntegrityCheck(ManifestTable):
    """`file_integrity_check`; the one place where the SDK lets unknown keys pass."""

    model_config = ConfigDict(extra="ignore")

    models: Integrity | None = None
    hooks: Integrity | None = None
    src: Integrity | None = None
    manifest: Integrity | None = None


class BuiltIn(ManifestTable):
    """A hook that the SDK brings along; further keys are its arguments."""

    model_config = ConfigDict(extra="allow")

    built_in: Text = Field(alias="built-in")


class HookFile(ManifestTable):
    """A hook in a file of the package."""

    file: RelativePath
    function: Annotated[str, StringConstraints(pattern=r"^[_a-zA-Z][_a-zA-Z0-9]*$")] | None = None


Hook = RelativePath | BuiltIn | HookFile


class Model2024(ManifestTable):
    """A model of v2024.1."""

    name: Text
    version: Text | None = None
    description: str | None = None
    framework: Framework | None = None
    loader: Hook | None = None
    enc_model_cleanup: Cleanup | None = None
    enc_model_cleanup_files: list[RelativePath] | None = None
    inputs: list[Port] | None = None
    outputs: list[Port] | None = None


class Service(ManifestTable):
    """A service of v2024.1."""

    name: Text
    predictor: Hook | None = None


class Manifest2024(ManifestTable):
    """manifest.json of v2024.1."""

    schema_: Literal["v2024.1"] = Field(alias="schema")
    name: Text | None = None
    version: Text
    in_memory_model_extraction: bool | None = None
    file_integrity_check: IntegrityCheck | None = None
    models: Annotated[list[Model2024], Field(min_length=1)]
    services: list[Service] | None = None


# The SDK's schema of v2024.1 spells these references `ref` instead of `$ref`, so nothing enforces them.
_UNENFORCED = re.compile(
    r"name|version|models\.\d+\.(name|version|enc_model_cleanup_files\b.*)"
    r"|file_integrity_check\.\w+|services\.\d+\.(name|predictor\b.*)"
)


@dataclass(frozen=True, slots=True)
class PackageManifest:
    """A parsed manifest.json.

    Attributes:
        schema: Its schema, such as `v2023.1`.
        document: What is in it.
        warnings: Oddities, one sentence each.
    """

    schema: str
    document: dict[str, Any]
    warnings: tuple[str, ...] = ()

    @property
    def models(self) -> list[dict[str, Any]]:
        """The entries of `models` that are objects."""
        found = self.document.get("models")
        return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []

    def info(self) -> ModelInfo:
        """The metadata in neutral words: of the top level where v2024.1 has it, else of the first model."""
        first = next(iter(self.models), {})
        return ModelInfo(
            name=_text(self.document.get("name")) or _text(first.get("name")),
            version=_text(self.document.get("version")) or _text(first.get("version")),
            description=_text(first.get("description")),
            format=FRAMEWORKS.get(_text(first.get("framework")) or ""),
        )

    def origin(self) -> dict[str, str]:
        """Data without a field in `ModelInfo`, if present."""
        names = [name for each in self.models if (name := _text(each.get("name")))]
        frameworks = dict.fromkeys(name for each in self.models if (name := _text(each.get("framework"))))
        found = {
            "mlarchive.schema": self.schema,
            "mlarchive.models": ",".join(names) if len(self.models) > 1 else None,
            "mlarchive.framework": ",".join(frameworks),
        }
        return {key: value for key, value in found.items() if value}


def parse_manifest(data: bytes, owner: str, limit: int) -> PackageManifest:
    """Parse a manifest.json.

    Args:
        data: Its bytes.
        owner: The archive, for messages.
        limit: Largest size accepted, in bytes.

    Raises:
        LimitError: there are more than `limit` bytes.
        FormatError: it is no JSON, starts with a byte order mark, is not valid by its own schema, or has a cleanup
            pattern that reaches outside the package.
    """
    where = f"{owner}: {MANIFEST}"
    if data.startswith(_BOM):
        raise FormatError(
            f"{where} starts with a byte order mark, which every version of the MLSteam SDK refuses",
            hint="save it as plain UTF-8 and pack again",
        )
    document = parse_json(data, where, limit)
    if not isinstance(document, dict):
        raise FormatError(f"{where} is not a JSON object", hint="write it as the MLSteam specification says")
    for pattern in _cleanup_patterns(document):
        _check_pattern(pattern, where)
    schema = document.get("schema", V2023)
    if schema == V2023 and "schema" in document:
        raise FormatError(
            f"{where} has a 'schema' key, which the MLSteam SDK refuses in {V2023}", hint="remove the key"
        )
    if schema in (V2023, V2024):
        problems = _problems(Manifest2024 if schema == V2024 else Manifest2023, document, where)
        found = PackageManifest(schema, document, tuple(problems))
        return replace(found, warnings=(*found.warnings, *_sdk_troubles(found.models, document)))
    number = _FUTURE.fullmatch(schema) if isinstance(schema, str) else None
    if not number or (int(number[1]), int(number[2])) <= (2024, 1):
        raise FormatError(
            f"{where} has the schema {show(str(schema))}, which does not exist", hint=f"use {V2023} or {V2024}"
        )
    warning = f"{MANIFEST} has the schema {schema}, which is newer than this program; it is stored without a check"
    return PackageManifest(number[0], document, (warning,))


def synthesise(info: ModelInfo, submodel: str) -> bytes:
    """A manifest.json (v2024.1) for a model that has none.

    The SDK reads name and version of the first model unconditionally, so both are there whatever the schema says.

    Args:
        info: What is known of the model.
        submodel: Name of the one model, and of its folder in `models/`.
    """
    version = info.version or info.revision or "1"
    model = {
        "name": submodel,
        "version": version,
        "description": info.description,
        "framework": info.format if info.format in FRAMEWORKS else None,
    }
    document = {
        "schema": V2024,
        "name": info.name or info.title or submodel,
        "version": version,
        "models": [{key: value for key, value in model.items() if value}],
    }
    return canonical_json(document) + b"\n"


def _problems(kind: type[BaseModel], document: dict[str, Any], where: str) -> Iterator[str]:
    try:
        kind.model_validate(document)
    except ValidationError as exc:
        for error in exc.errors(include_url=False, include_context=False, include_input=False):
            place = ".".join(str(part) for part in error["loc"])
            lenient = kind is Manifest2024 and error["type"] != "missing" and _UNENFORCED.fullmatch(place)
            if not lenient:
                raise FormatError(
                    f"{where} is not valid: {first_problem(exc)}",
                    hint="the MLSteam SDK refuses such an archive; correct the manifest and pack again",
                ) from None
            yield f"{MANIFEST} breaks its schema at {show(place)}; it is stored, and the MLSteam SDK lets it pass"


def _sdk_troubles(models: list[dict[str, Any]], document: dict[str, Any]) -> Iterator[str]:
    if any(each is None for each in _values(document)):
        yield f"{MANIFEST} has null in it, as the specification allows; the MLSteam SDK from 0.7 on refuses it"
    if models and models[0].get("version") is None:
        yield (
            f"{MANIFEST} gives its first model no version, as {V2024} allows; the MLSteam SDK fails with a KeyError "
            "when it imports such an archive"
        )


def _cleanup_patterns(document: Any) -> Iterator[Any]:
    """Whatever stands under the key for cleanup patterns, at any depth: a future schema may have it elsewhere."""
    for each in _values(document):
        if isinstance(each, dict):
            found = each.get(CLEANUP)
            yield from found if isinstance(found, list) else () if found is None else (found,)


def _values(document: Any) -> Iterator[Any]:
    left = [document]
    while left:
        each = left.pop()
        yield each
        if isinstance(each, dict):
            left.extend(each.values())
        elif isinstance(each, list):
            left.extend(each)


def _check_pattern(pattern: Any, where: str) -> None:
    if not isinstance(pattern, str):
        raise FormatError(f"{where}: a cleanup pattern is no text", hint="correct the manifest and pack again")
    reason = None
    if "\\" in pattern:
        reason = "has a backslash in it"
    elif pattern.startswith("/"):
        reason = "is absolute"
    elif _DRIVE.match(pattern):
        reason = "starts with a drive letter"
    elif ".." in pattern.split("/"):
        reason = "leaves the package ('..')"
    if reason:
        raise FormatError(
            f"{where}: the cleanup pattern {show(pattern)} {reason}; the MLSteam SDK deletes what it matches, also "
            "files of the user that are not part of the package",
            hint="do not load this archive; remove the pattern and pack again",
        )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
