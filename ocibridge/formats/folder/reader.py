# SPDX-License-Identifier: Apache-2.0
"""A folder, or one file of weights, as a model."""

from __future__ import annotations

import os
from pathlib import Path

from ...errors import FormatError, UsageError
from ...io.content import FileContent
from ...model import Model, ModelFile, Role
from ...paths import check_path, show
from .hubcache import blobs_of, snapshot_of
from .ignore import Ignores, parse_patterns
from .instructions import read_instructions
from .metadata import describe
from .options import ROLES, FolderReadOptions
from .roles import RoleTable, Rule
from .walk import LeavesOut, walk

_FORMAT = "folder"
_LAYOUT = "oci-layout"  # image-spec, image-layout.md: the file by which an image layout is known


def read_tree(path: Path, options: FolderReadOptions) -> Model:
    """Read the folder or file at `path`; its files are in the order of the UTF-8 bytes of their paths.

    The model has no identity: that is every file, and to state it would mean to read them all.

    Raises:
        SourceError: something cannot be read.
        UsageError: a rule in `options.roles` is not well formed.
        FormatError: the folder has no file, or something in it that cannot be stored; or its `.ocibridge.toml` or
            `.ocibridgeignore` is not valid.
        LimitError: there are too many files, or one of those two is too large.
    """
    return _read_folder(path, options) if path.is_dir() else _read_file(path, options)


def _read_folder(given: Path, options: FolderReadOptions) -> Model:
    path = snapshot_of(given)
    instructions = read_instructions(path, options.limits)
    table = _table(options, instructions.rules)
    leaves_out = _leaves_out(path, options, instructions.ignores)
    listing = walk(path, leaves_out, options.limits.entries, blobs=blobs_of(path.resolve()))
    files = []
    for inner, found in listing.files.items():
        role, guessed = table.role_of(inner, found.size)
        content = FileContent(found.real, 0, found.size, whole=True, seen=found.stamp)
        files.append(ModelFile(inner, role, content, symlink=found.symlink, guessed=guessed))
    if not files:
        flags = "--include, --exclude and " if options.include or options.exclude else ""
        raise FormatError(f"{path} has no file to store", hint=f"check the path, {flags}.ocibridgeignore")
    about = describe(files, options.limits)
    return Model(
        format=_FORMAT,
        files=tuple(files),
        info=instructions.settings.over(about.info) if instructions.settings else about.info,
        origin=about.origin,
        warnings=(
            *(() if path is given else (f"the snapshot {path.name} is taken",)),
            *listing.warnings,
            *about.warnings,
        ),
        left_out=listing.left_out,
    )


def _leaves_out(root: Path, options: FolderReadOptions, ignores: Ignores) -> LeavesOut:
    """Why a path of the folder is left out.

    Raises:
        FormatError: the folder is an image layout, or a glob is not well formed.
        UsageError: the folder is the target.
    """
    if (root / _LAYOUT).is_file():
        raise FormatError(
            f"{root} is an image layout, and no model",
            hint=f"to publish what is in it, run 'ocibridge copy oci:{root}:TAG'",
        )
    target = (
        options.target and Path(os.path.relpath(os.path.realpath(options.target), os.path.realpath(root))).as_posix()
    )
    if target == ".":
        raise UsageError(f"the target is the folder {root} itself", hint="give a target elsewhere")
    included = list(parse_patterns(options.include, "--include"))
    excludes = Ignores(parse_patterns(options.exclude, "--exclude"))

    def reason(path: str, is_folder: bool) -> str | None:
        if ignores.ignores(path, is_folder):
            return "ignored"
        if excludes.ignores(path, is_folder):
            return "excluded"
        if path == target:
            return "left out, being the target"
        if is_folder and (root / path / _LAYOUT).is_file():
            return "left out, being an image layout"
        if included and not (is_folder or any(each.holds(path) for each in included)):
            return None if (root / path).is_dir() else "not included"
        return None

    return reason


def _read_file(path: Path, options: FolderReadOptions) -> Model:
    name = check_path(path.name, str(path))
    content = FileContent(path, whole=True)
    role, guessed = _table(options, ()).role_of(name, content.size)
    files = (ModelFile(name, role, content, guessed=guessed),)
    about = describe(files, options.limits)
    return Model(_FORMAT, files, info=about.info, origin=about.origin, warnings=about.warnings)


def _table(options: FolderReadOptions, rules: tuple[Rule, ...]) -> RoleTable:
    """The rules that the caller gives, then those of the folder, then the default ones."""
    given = []
    for glob, word in options.roles:
        if word not in ROLES:
            raise UsageError(f"the rule for {show(glob)} names no role", hint=f"give one of: {', '.join(ROLES)}")
        rule = Rule(glob, Role(word))
        try:
            RoleTable((rule,))
        except ValueError as exc:
            raise UsageError(f"the rule {show(f'{glob}={rule.role.value}')} {exc}", hint="correct its glob") from None
        given.append(rule)
    return RoleTable((*given, *rules))
