# SPDX-License-Identifier: Apache-2.0
"""`.ocibridge.toml` and `.ocibridgeignore`: what the owner of a folder says about it.

```toml
ignore = ["checkpoints/"]            # as lines of .ocibridgeignore, before them

[model]                              # wins over what headers and config.json say
name = "digits"
licenses = ["MIT"]

[roles]                              # the first match wins, before the default rules
"assets/*.bin" = "doc"
```
"""

from __future__ import annotations

import stat
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from ...content import FileContent, read_all
from ...errors import FormatError, LimitError, reading
from ...model import ModelInfo, Role
from ...oci.document import first_problem
from ...paths import show
from ...settings import Limits
from ..facts import spdx
from .ignore import DEFAULT_IGNORES, IGNORE_FILE, Ignores, parse_patterns, split_lines
from .roles import Rule, compiled

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SETTINGS_FILE = ".ocibridge.toml"
"""Name of the settings file, in the root of the folder. It is carried itself."""

_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4096)]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, protected_namespaces=())


class ModelTable(_Table):
    """`[model]`: fields of `ocibridge.model.ModelInfo`, each optional. Licences are SPDX expressions."""

    name: _Text | None = None
    title: _Text | None = None
    description: _Text | None = None
    version: _Text | None = None
    revision: _Text | None = None
    vendor: _Text | None = None
    family: _Text | None = None
    authors: list[_Text] | None = None
    licenses: list[_Text] | None = None
    doc_url: _Text | None = None
    source_url: _Text | None = None
    architecture: _Text | None = None
    format: _Text | None = None
    param_size: Annotated[str, StringConstraints(pattern=r"^[0-9]+(\.[0-9])?[KMBTQkmbtq]$")] | None = None
    precision: _Text | None = None
    quantization: _Text | None = None


class FolderSettings(_Table):
    """`.ocibridge.toml`.

    Attributes:
        ignore: Patterns as in `.ocibridgeignore`.
        model: What the owner says of the model.
        roles: Role by glob, in order.
    """

    ignore: list[str] = []
    model: ModelTable = ModelTable()
    roles: dict[str, Annotated[Role, Field(strict=False)]] = {}

    def over(self, info: ModelInfo) -> ModelInfo:
        """`info` with what `[model]` says in place of what was found; known licences get their SPDX spelling."""
        said: dict[str, Any] = self.model.model_dump(exclude_none=True)
        if "licenses" in said:
            said["licenses"] = tuple(spdx(text) or text for text in said["licenses"])
        if "authors" in said:
            said["authors"] = tuple(said["authors"])
        return replace(info, **said)


@dataclass(frozen=True, slots=True)
class Instructions:
    """What the two files say together."""

    settings: FolderSettings
    rules: tuple[Rule, ...]
    ignores: Ignores


def read_instructions(root: Path, limits: Limits) -> Instructions:
    """Read the files of instructions in the root of a folder; the defaults where there are none.

    Raises:
        SourceError: one cannot be read.
        FormatError: one is not valid, or no regular file.
        LimitError: one is larger than `limits.metadata`, or has too many patterns.
    """
    place = root / SETTINGS_FILE
    text = _read(place, limits)
    found = FolderSettings() if text is None else parse_settings(text, str(place))
    patterns = list(parse_patterns(DEFAULT_IGNORES, "the default patterns"))
    patterns += parse_patterns(found.ignore, f"{place}: ignore")
    text = _read(root / IGNORE_FILE, limits)
    patterns += parse_patterns(split_lines(text or ""), str(root / IGNORE_FILE))
    return Instructions(found, tuple(Rule(glob, role) for glob, role in found.roles.items()), Ignores(patterns))


def parse_settings(text: str, owner: str) -> FolderSettings:
    """Parse and check `.ocibridge.toml`.

    Raises:
        FormatError: it is no TOML, or has an unknown key, or one of a wrong type; the message names the key.
    """
    try:
        found = FolderSettings.model_validate(tomllib.loads(text))
    except ValidationError as exc:
        raise FormatError(f"{owner}: {first_problem(exc)}", hint=_hint(exc)) from None
    except RecursionError:
        raise FormatError(f"{owner} is nested too deeply") from None
    except ValueError as exc:
        raise FormatError(f"{owner} is not valid TOML ({exc})", hint="correct it, or remove it") from None
    for glob in found.roles:
        try:
            compiled(glob)
        except ValueError as exc:
            raise FormatError(f"{owner}: roles: the glob {show(glob)} {exc}", hint="correct it") from None
    return found


def _hint(exc: ValidationError) -> str:
    error = exc.errors(include_url=False, include_context=False, include_input=False)[0]
    if error["type"] != "extra_forbidden":
        return "correct it, or remove the key"
    known = ModelTable if error["loc"][0] == "model" else FolderSettings
    return f"the keys known here are {', '.join(known.model_fields)}"


def _read(place: Path, limits: Limits) -> str | None:
    """The text of a file of instructions, or None where there is none. Links are not followed out of the folder."""
    with reading(place):
        try:
            info = place.lstat()
        except FileNotFoundError:
            return None
    if not stat.S_ISREG(info.st_mode):
        raise FormatError(f"{place} is no regular file", hint="replace it by a file, or remove it")
    if info.st_size > limits.metadata:
        raise LimitError(f"{place} has {info.st_size} bytes, more than the {limits.metadata} accepted")
    try:
        return read_all(FileContent(place, 0, info.st_size)).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FormatError(f"{place} is not UTF-8", hint="save it as UTF-8") from None
