# SPDX-License-Identifier: Apache-2.0
"""Select the format of a target, by its name or by `--as`."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from ..errors import UsageError
from ..formats.base import Sink, StoredModel, WriteOptions
from ..formats.format import AnyFormat
from ..formats.registry import FOLDER, address_of, fitting, format_for, format_named, path_formats
from .options import TargetOptions


def sink_for(
    dest: str | os.PathLike[str], stored: StoredModel, options: TargetOptions, key: str | None = None
) -> tuple[str, Sink]:
    """The name of the format that is written, and where it goes.

    Args:
        dest: A path, or a name with the scheme of a format.
        stored: What will arrive.
        options: How it is written.
        key: See `WriteOptions`.

    Raises:
        UsageError: an option is for another kind of target.
    """
    address = address_of(dest) if isinstance(dest, str) else None
    if address:
        if options.as_format is not None:
            raise UsageError("--as is for files and folders", hint="leave it out, or give a path as DEST")
        return address.format.name, address.sink(stored, writing_of(address.format, options, str(dest), None, key))
    target = Path(dest)
    form, packed = format_to_write(target, options.as_format, stored)
    writing = writing_of(form, options, str(dest), packed, key)
    return form.name if packed else FOLDER, form.sink(target, stored, writing)


def writing_of(
    form: AnyFormat, options: TargetOptions, dest: str, packed: bool | None, key: str | None
) -> WriteOptions:
    """Return the write options of the target's format.

    Raises:
        UsageError: an option is for another format.
    """
    fitted: WriteOptions = fitting(form.write_options, options.writing, dest)
    return replace(fitted, packed=packed, key=key, force=options.force, limits=options.limits)


def format_to_write(target: Path, as_format: str | None, stored: StoredModel) -> tuple[AnyFormat, bool]:
    """The format to write, and whether as an archive: as asked for, else by the name of the target.

    Raises:
        UsageError: there is no such format.
    """
    found = format_for(target) if as_format is None else format_named(as_format)
    if as_format is not None and (found is None or found.scheme):
        raise UsageError(f"{as_format!r} is no format to pull as", hint=f"give one of: {', '.join(path_formats())}")
    if found and found.name != FOLDER:
        return found, True
    # A folder of a model that came from an archive is that archive unpacked, with its identity.
    origin = format_named(stored.format)
    folder = format_named(FOLDER)
    assert folder
    return (origin if origin and not origin.scheme else folder), False
