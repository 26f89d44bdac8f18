# SPDX-License-Identifier: Apache-2.0
"""The TOML files of a carton, typed as far as the specification goes (seed 000, "carton.toml", "tensor_data").

Their bytes are stored as they are, so what is wrong in them harms nobody but the reader of the model: everything but
broken TOML is a warning that says what the carton client would do.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterator, Mapping
from datetime import date, time
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...errors import FormatError, LimitError
from ...model import ModelInfo
from ...oci.document import first_problem
from ...paths import show

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_REFUSES = "the carton client does not load it"
_COMPARATOR = r"(=|>=?|<=?|~|\^)?\s*\d+(\.(\d+|[*xX])){0,2}(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?"
REQUIREMENT = re.compile(rf"\s*(\*|{_COMPARATOR}(\s*,\s*{_COMPARATOR})*)\s*")
_INTEGER = 2**63 - 1  # the largest in TOML
_TRIPLE = re.compile(r"[a-z0-9_.]+(-[a-z0-9_.]+){1,3}")

DType = Literal[
    "float32", "float64", "string", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"
]
Shape = str | list[str | int]


class CartonTable(BaseModel):
    """A table of a carton: unknown keys are ignored, types are not converted."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, protected_namespaces=())


class TensorSpec(CartonTable):
    """`[[input]]` and `[[output]]`."""

    name: str
    dtype: DType
    shape: Shape
    description: str | None = None
    internal_name: str | None = None


class SelfTest(CartonTable):
    """`[[self_test]]`."""

    name: str | None = None
    description: str | None = None
    inputs: dict[str, str]
    expected_out: dict[str, str] | None = None


class Example(CartonTable):
    """`[[example]]`."""

    name: str | None = None
    description: str | None = None
    inputs: dict[str, str]
    sample_out: dict[str, str] | None = None


class RunnerTable(CartonTable):
    """`[runner]`."""

    runner_name: str | None = None
    required_framework_version: str | None = None
    runner_compat_version: int | None = Field(default=None, ge=0, le=_INTEGER)
    opts: dict[str, Any] = {}


class CartonToml(CartonTable):
    """`carton.toml`, with the four optional keys that the carton client added to the specification."""

    spec_version: int | None = Field(default=None, ge=0, le=_INTEGER)
    model_name: str | None = None
    short_description: str | None = None
    model_description: str | None = None
    license: str | None = None
    repository: str | None = None
    homepage: str | None = None
    required_platforms: list[str] = []
    input: list[TensorSpec] = []
    output: list[TensorSpec] = []
    self_test: list[SelfTest] = []
    example: list[Example] = []
    runner: RunnerTable | None = None

    def info(self) -> ModelInfo:
        """The metadata in neutral words."""
        return ModelInfo(
            name=self.model_name or None,
            description=self.model_description or self.short_description or None,
            licenses=(self.license,) if self.license else (),
            source_url=self.repository or None,
            doc_url=self.homepage or None,
            format=(self.runner and self.runner.runner_name) or "carton",
        )

    def origin(self) -> dict[str, str]:
        """Data without a field in `ModelInfo`, if present."""
        runner = self.runner or RunnerTable()
        found = {
            "carton.spec_version": self.spec_version,
            "carton.runner_name": runner.runner_name,
            "carton.required_framework_version": runner.required_framework_version,
            "carton.runner_compat_version": runner.runner_compat_version,
            "carton.required_platforms": ",".join(self.required_platforms) or None,
        }
        return {key: str(value) for key, value in found.items() if value is not None}

    def problems(self) -> Iterator[str]:
        """Violations of the specification or of the carton client's rules, one clause each."""
        if self.spec_version is None:
            yield f"spec_version is missing; {_REFUSES}"
        elif self.spec_version != 1:
            yield f"spec_version is {self.spec_version}, not 1; the carton client loads it as if it were 1"
        yield from _runner_problems(self.runner or RunnerTable())
        for platform in self.required_platforms:
            if not _TRIPLE.fullmatch(platform):
                yield f"required_platforms: {show(platform)} is no target triple; {_REFUSES}"
        if any(example.sample_out is None for example in self.example):
            yield f"an example has no sample_out; {_REFUSES}"
        for test in self.self_test:
            references = [*test.inputs.values(), *(test.expected_out or {}).values()]
            if not all(reference.startswith("@tensor_data/") for reference in references):
                yield f"a self_test refers to something outside of tensor_data; {_REFUSES}"


class IndexRow(CartonTable):
    """`[[tensor]]` of `tensor_data/index.toml`."""

    name: str
    dtype: DType | Literal["nested"]
    shape: list[int] | None = None
    file: str | None = None
    inner: list[str] | None = None


class TensorIndex(CartonTable):
    """`tensor_data/index.toml`."""

    tensor: list[IndexRow]

    def problems(self, files: Collection[str]) -> Iterator[str]:
        """Violations of the carton client's rules, one clause each; `files` are the paths in the carton."""
        if any(row.inner is None for row in self.tensor):
            yield "a tensor has no `inner` list; the carton client panics"
        for row in self.tensor:
            if row.file is not None and f"tensor_data/{row.file}" not in files:
                yield f"the file {show(row.file)} of a tensor is not in the carton; the carton client panics"


TableT = TypeVar("TableT", bound=CartonTable)


def parse_toml(data: bytes, owner: str, limit: int) -> dict[str, Any]:
    """Parse TOML from outside; a byte order mark is ignored, as the carton client does.

    Raises:
        LimitError: there are more than `limit` bytes.
        FormatError: the bytes are no TOML.
    """
    if len(data) > limit:
        raise LimitError(f"{owner} has {len(data)} bytes, more than the {limit} accepted")
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except RecursionError:
        raise FormatError(f"{owner} is nested too deeply") from None
    except ValueError as exc:
        raise FormatError(f"{owner} is not valid TOML ({exc})") from None


def parse_carton_toml(data: bytes, owner: str, limit: int) -> tuple[CartonToml, tuple[str, ...]]:
    """Parse `carton.toml`; the second value is its warnings.

    A key of a wrong type is set aside with a warning, and the rest is read.

    Raises:
        LimitError: see `parse_toml`.
        FormatError: see `parse_toml`.
    """
    table = parse_toml(data, owner, limit)
    wrong = []
    while True:
        try:
            parsed = CartonToml.model_validate(table)
        except ValidationError as exc:
            wrong.append(f"{first_problem(exc)}; {_REFUSES}")
            table = _without(table, exc.errors()[0]["loc"])
        else:
            problems = [*wrong, *parsed.problems()]
            return parsed, tuple(f"carton.toml: {problem}" for problem in problems)


def index_warnings(data: bytes, files: Collection[str], limit: int) -> tuple[str, ...]:
    """The warnings about `tensor_data/index.toml`, which nothing here depends on."""
    name = "tensor_data/index.toml"
    try:
        index = TensorIndex.model_validate(parse_toml(data, name, limit))
    except ValidationError as exc:
        return (f"{name}: {first_problem(exc)}; the carton client panics",)
    except FormatError as exc:
        return (f"{exc.message}; the carton client panics",)
    return tuple(f"{name}: {problem}" for problem in index.problems(files))


def _without(table: Mapping[str, Any], place: tuple[int | str, ...]) -> dict[str, Any]:
    """`table` without the top-level key of the problem, or without one key of `runner`."""
    key = str(place[0])
    if key == "runner" and len(place) > 1 and isinstance(table[key], dict):
        return {**table, key: {name: value for name, value in table[key].items() if name != place[1]}}
    return {name: value for name, value in table.items() if name != key}


def _runner_problems(runner: RunnerTable) -> Iterator[str]:
    for key in ("runner_name", "required_framework_version", "runner_compat_version"):
        if getattr(runner, key) is None:
            yield f"runner.{key} is missing; {_REFUSES}"
    version = runner.required_framework_version
    if version is not None and not REQUIREMENT.fullmatch(version):
        yield f"runner.required_framework_version: {show(version)} is no semver requirement; {_REFUSES}"
    for name, value in runner.opts.items():
        if isinstance(value, list | dict | date | time):
            yield f"runner.opts: {show(name)} is no number, string or boolean; {_REFUSES}"
