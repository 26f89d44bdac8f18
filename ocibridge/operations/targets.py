# SPDX-License-Identifier: Apache-2.0
"""What a model is written as: the format that a target's name or `--as` asks for."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from .. import settings
from ..errors import UsageError
from ..formats.base import Format, Runner, Sink, StoredModel, WriteOptions
from .sources import OLLAMA, formats

FOLDER = "folder"


def write_options(
    zip_method: str, force: bool, runner: Runner | None, hooks: str | os.PathLike[str] | None
) -> WriteOptions:
    """The options of a write, checked.

    Raises:
        UsageError: there is no such zip method.
    """
    if zip_method not in settings.ZIP_METHODS:
        raise UsageError(f"{zip_method!r} is no zip method", hint=f"give one of: {', '.join(settings.ZIP_METHODS)}")
    folder = None if hooks is None else Path(hooks)
    return WriteOptions(zip_method=zip_method, force=force, runner=runner, hooks=folder)


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
