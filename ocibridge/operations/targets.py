# SPDX-License-Identifier: Apache-2.0
"""What a model is written as: the format that a target's name or `--as` asks for."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from .. import settings
from ..errors import UsageError
from ..formats.base import Format, Sink, StoredModel, WriteOptions
from .options import TargetOptions
from .sources import OLLAMA, formats

FOLDER = "folder"


def write_options(options: TargetOptions) -> WriteOptions:
    """How a target is written, for its format.

    Raises:
        UsageError: no format has such an option, or there is no such zip method.
    """
    given = dict(options.writing)
    known = ("zip_method", "runner", "hooks")
    for name in given:
        if name not in known:
            raise UsageError(f"no format has an option {name}", hint=f"give one of: {', '.join(known)}")
    method = given.get("zip_method", "stored")
    if method not in settings.ZIP_METHODS:
        raise UsageError(f"{method!r} is no zip method", hint=f"give one of: {', '.join(settings.ZIP_METHODS)}")
    if given.get("hooks") is not None:
        given["hooks"] = Path(given["hooks"])
    return WriteOptions(**given, force=options.force, limits=options.limits)


def sink_for(
    dest: str | os.PathLike[str], as_format: str | None, stored: StoredModel, options: WriteOptions
) -> tuple[str, Sink]:
    """The name of the format that is written, and where it goes.

    Raises:
        UsageError: an option is for another kind of target.
    """
    if isinstance(dest, str) and dest.startswith(OLLAMA):
        from .ollama import ollama_sink

        if as_format is not None:
            raise UsageError("--as is for files and folders", hint="leave it out, or give a path as DEST")
        _check_extras("ollama", options)
        return "ollama", ollama_sink(dest, stored, options)
    target = Path(dest)
    found, packed = format_for(target, as_format, stored)
    _check_extras(found.name, options)
    return found.name if packed else FOLDER, found.sink(target, stored, replace(options, packed=packed))


def _check_extras(kind: str, options: WriteOptions) -> None:
    if options.hooks is not None and kind != "mlarchive":
        raise UsageError("hooks are for MLSteam archives", hint="leave out --hooks, or name the target x.mlarchive")
    if options.runner is not None and kind != "carton":
        raise UsageError("a runner is for cartons", hint="leave out --runner-name, or name the target x.carton")


def format_for(target: Path, as_format: str | None, stored: StoredModel) -> tuple[Format, bool]:
    """The format to write, and whether as an archive: as asked for, else by the name of the target."""
    known = {each.name: each for each in formats()}
    if as_format is None:
        as_format = next((each.name for each in known.values() if each.suits(target)), FOLDER)
    if as_format not in known:
        raise UsageError(f"{as_format!r} is no format to pull as", hint=f"give one of: {', '.join(known)}")
    if as_format != FOLDER:
        return known[as_format], True
    # A folder of a model that came from an archive is that archive unpacked, with its identity.
    return known.get(stored.format or FOLDER, known[FOLDER]), False
