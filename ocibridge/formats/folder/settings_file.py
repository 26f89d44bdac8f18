# SPDX-License-Identifier: Apache-2.0
"""`.ocibridge.toml`: what the owner of a folder says about it.

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

import sys
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from ...errors import FormatError
from ...model import ModelInfo, Role
from ...oci.document import first_problem
from ...paths import show
from ..facts import spdx
from .roles import compiled

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=4096)]


class _SettingsTable(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, protected_namespaces=())


class ModelTable(_SettingsTable):
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


class FolderSettings(_SettingsTable):
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
        values: dict[str, Any] = self.model.model_dump(exclude_none=True)
        if "licenses" in values:
            values["licenses"] = tuple(spdx(text) or text for text in values["licenses"])
        if "authors" in values:
            values["authors"] = tuple(values["authors"])
        return replace(info, **values)


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
