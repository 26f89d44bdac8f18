# SPDX-License-Identifier: Apache-2.0
"""Select the format of a target, by its name or by `--as`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ..errors import FormatError, UsageError, writing
from ..formats.base import Sink, StoredModel, WriteOptions
from ..formats.filenames import named_as_file, similar_name
from ..formats.format import AnyFormat
from ..formats.registry import FOLDER, address_of, fitting, format_for, format_named, options_set, path_formats
from ..io.existing import TargetRules
from ..oci import LayoutReference, Reference, RegistryReference
from ..oci.reference import web_address, without_login
from ..options import fields_of, refuse_set
from ..paths import show
from .options import STANDARD_OUTPUT, SelectOptions, TargetOptions
from .selection import Selection, listed
from .sources import is_like_reference

FILE = "file"
"""What reports call the format of a target that is the only file of a model."""
_SHOWN = 5


class Target(NamedTuple):
    """The place that a model is written to, and the way.

    Attributes:
        kind: What reports call its format.
        packed: Whether it is a file; None where it has no path.
        place: Its path; None where it has none.
        sink: Makes its sink, with a key (see `WriteOptions`) and rules for what exists there.
    """

    kind: str
    packed: bool | None
    place: Path | None
    sink: Callable[[str | None, TargetRules], Sink]


def target_for(dest: str | os.PathLike[str], stored: StoredModel, options: TargetOptions) -> Target:
    """The target that a name stands for; nothing is written yet.

    Args:
        dest: A path, a name with the scheme of a format, or `-`.
        stored: What will arrive.
        options: How it is written.

    Raises:
        UsageError: an option is for another kind of target, or `dest` names none.
        FormatError: it is the name of a single file, and the model has several.
    """
    text = os.fspath(dest)
    address = address_of(dest) if isinstance(dest, str) else None
    if address:
        if options.as_format is not None:
            raise UsageError("--as is for files and folders", hint="leave it out, or give a path as DEST")
        _refuse_partial(text, options)
        return _target(address.format.name, None, None, address.format, options, text, partial(address.sink, stored))
    if text == STANDARD_OUTPUT:
        sink = _standard_output(stored, options)
        return Target(FILE, None, None, lambda *_: sink)
    if isinstance(dest, str):
        _refuse_reference(dest)
    form, packed = format_to_write(dest, options.as_format, stored)
    if packed and form.name != FOLDER:
        _refuse_partial(text, options)
    kind = FOLDER if not packed else FILE if form.name == FOLDER else form.name
    return _target(kind, packed, Path(dest), form, options, text, partial(form.sink, Path(dest), stored))


def _target(
    kind: str,
    packed: bool | None,
    place: Path | None,
    form: AnyFormat,
    options: TargetOptions,
    dest: str,
    make: Callable[[WriteOptions], Sink],
) -> Target:
    writing_of(form, options, dest, packed, None)  # refuses options that do not fit
    return Target(kind, packed, place, lambda key, rules: make(writing_of(form, options, dest, packed, key, rules)))


def writing_of(
    form: AnyFormat,
    options: TargetOptions,
    dest: str,
    packed: bool | None,
    key: str | None,
    rules: TargetRules = TargetRules(),
) -> WriteOptions:
    """Return the write options of the target's format.

    Raises:
        UsageError: an option is for another format.
    """
    if packed is False:
        _refuse_archive_options(form, options, dest)
    fitted: WriteOptions = fitting(form.write_options, options.writing, dest)
    kind = FOLDER if packed is False else FILE if packed and form.name == FOLDER else form.name
    record = {**rules.record, "format": kind}
    return replace(fitted, packed=packed, key=key, rules=replace(rules, record=record), limits=options.limits)


def format_to_write(dest: str | os.PathLike[str], as_format: str | None, stored: StoredModel) -> tuple[AnyFormat, bool]:
    """The format to write, and whether as a file: as asked for, else by the name of the target.

    A name that ends with a slash is a folder.

    Raises:
        UsageError: there is no such format, or the name looks like a file of none.
        FormatError: it is the name of a single file, and the model has several.
    """
    target = Path(dest)
    if as_format is None and os.fspath(dest).endswith("/"):
        as_format = FOLDER
    found = format_for(target) if as_format is None else format_named(as_format)
    if as_format is not None and (found is None or found.scheme):
        raise UsageError(f"{as_format!r} is no format to pull as", hint=f"give one of: {', '.join(path_formats())}")
    if found and found.name != FOLDER:
        return found, True
    folder = format_named(FOLDER)
    assert folder
    if as_format is None and named_as_file(target):
        _check_file(target, stored)
        return folder, True
    # A folder of a model that came from an archive is that archive unpacked, with its identity.
    origin = format_named(stored.format)
    return (origin if origin and not origin.scheme else folder), False


def _standard_output(stored: StoredModel, options: TargetOptions) -> Sink:
    from ..formats.standardoutput import StandardOutputSink

    refuse_set(options, TargetOptions, "files and folders, and - is standard output")
    _check_only_file(STANDARD_OUTPUT, stored)
    folder = format_named(FOLDER)
    assert folder
    writing_of(folder, options, "standard output", True, None)
    return StandardOutputSink()


def _check_file(target: Path, stored: StoredModel) -> None:
    """Check that a model is one file, of the kind that `target` is named as.

    Raises:
        UsageError: the suffix is misspelt, or not that of the file.
        FormatError: there are more files.
    """
    meant = similar_name(target)
    if meant:
        raise UsageError(
            f"{target} looks like a file, and {target.suffix} is the suffix of no format",
            hint=f"did you mean {meant}? For a folder of that name, add --as folder",
        )
    _check_only_file(str(target), stored)
    suffix = Path(stored.files[0].path).suffix
    if suffix.lower() != target.suffix.lower():
        raise UsageError(
            f"{target} would not be what its name says: the only file is {show(stored.files[0].path)}",
            hint=f"name it {target.with_suffix(suffix)}, or add --as folder for a folder of that name",
        )


def _check_only_file(dest: str, stored: StoredModel) -> None:
    origin = format_named(stored.format)
    own = origin.suffixes[0] if origin and origin.suffixes and origin.name != FOLDER else None
    stem = "model" if dest == STANDARD_OUTPUT else Path(dest).stem
    place = "standard output" if dest == STANDARD_OUTPUT else dest
    whole = f"name the target {stem}{own} for the archive, or {stem} for a folder" if own else f"name a folder: {stem}"
    if not stored.complete:
        raise FormatError(
            f"{place} takes a model of one file, and this artifact does not list its files",
            hint=f"name a folder: {stem}",
        )
    if len(stored.files) != 1:
        names = sorted(each.path for each in stored.files)
        raise FormatError(
            f"{place} takes a model of one file, and this one has {len(names)}: {listed(names, _SHOWN)}",
            hint=f"{whole}; or take one of them with --include",
        )


def _refuse_archive_options(form: AnyFormat, options: TargetOptions, dest: str) -> None:
    useless = [name for name in options_set(options.writing) if name in form.archive_options]
    for option in fields_of(form.write_options):
        if option.name in useless:
            raise UsageError(
                f"{option.flags[0]} is for archives, and {dest} is a folder",
                hint=f"leave it out, or name the target x{form.suffixes[0]}",
            )


def _refuse_partial(dest: str, options: TargetOptions) -> None:
    if isinstance(options, SelectOptions) and Selection(options):
        raise UsageError(
            f"{dest} needs all files of the model, and --include and --exclude leave some out",
            hint="leave them out, or name a folder",
        )


def default_dest(reference: Reference, stored: StoredModel, as_format: str | None = None) -> str:
    """The name of the model, with the suffix of its format or of its only file; with a slash for a folder.

    Raises:
        UsageError: it has no name, or that of the layout that it is in.
    """
    if isinstance(reference, RegistryReference):
        name = reference.repository.rpartition("/")[2]
    elif isinstance(reference, LayoutReference):
        name = reference.path.absolute().name.removesuffix(".tar")
    else:
        raise UsageError(f"{reference} has no name that a target could have", hint="give DEST")
    origin = format_named(as_format or stored.format)
    suffix = origin.suffixes[0] if origin and origin.suffixes and origin.name != FOLDER else "/"
    if suffix == "/" and as_format is None and stored.complete and len(stored.files) == 1:
        only = Path(stored.files[0].path)
        suffix = only.suffix if named_as_file(only) else "/"
    found = name if name.endswith(suffix) else name + suffix
    if isinstance(reference, LayoutReference) and Path(found).absolute() == reference.path.absolute():
        raise UsageError(f"{found} is what the model is read from", hint="give another name as DEST")
    return found


@contextmanager
def folders_above(dest: str | os.PathLike[str], *, keep: bool = True) -> Iterator[None]:
    """Make the folders that `dest` is to be in; where the block fails, those that are empty are removed again.

    Args:
        dest: The target.
        keep: Whether they stay where it does not fail.

    Raises:
        DestinationError: they cannot be made.
    """
    made: list[Path] = []
    if not (isinstance(dest, str) and (dest == STANDARD_OUTPUT or address_of(dest) or is_like_reference(dest))):
        above = Path(dest).parent
        with writing(Path(dest)):
            made = [each for each in (above, *above.parents) if not each.exists()]
            above.mkdir(parents=True, exist_ok=True)
    done = False
    try:
        yield
        done = keep
    finally:
        for folder in () if done else made:
            with suppress(OSError):
                folder.rmdir()


def _refuse_reference(dest: str) -> None:
    """Refuse what is written as a reference: as a path it would be a folder that nobody looks for."""
    if is_like_reference(dest) or web_address(dest):
        raise UsageError(
            f"{show(without_login(dest))} is a reference, and the target of a pull is a path",
            hint="copy between stores with 'ocibridge copy', or write ./ before a path",
        )
