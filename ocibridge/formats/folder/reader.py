# SPDX-License-Identifier: Apache-2.0
"""A folder, or one file of weights, as a model."""

from __future__ import annotations

from pathlib import Path

from ...errors import FormatError, UsageError
from ...io.content import FileContent
from ...model import Model, ModelFile, Role
from ...paths import check_path, show
from .instructions import read_instructions
from .metadata import describe
from .options import ROLES, FolderReadOptions
from .roles import RoleTable, Rule
from .walk import walk

_FORMAT = "folder"


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


def _read_folder(path: Path, options: FolderReadOptions) -> Model:
    instructions = read_instructions(path, options.limits)
    table = _table(options, instructions.rules)
    listing = walk(path, instructions.ignores.ignores, options.limits.entries)
    files = []
    for inner, found in listing.files.items():
        role, guessed = table.role_of(inner, found.size)
        content = FileContent(found.real, 0, found.size, whole=True, seen=found.stamp)
        files.append(ModelFile(inner, role, content, symlink=found.symlink, guessed=guessed))
    if not files:
        raise FormatError(f"{path} has no file that could be stored", hint="check the path, and .ocibridgeignore")
    about = describe(files, options.limits)
    return Model(
        format=_FORMAT,
        files=tuple(files),
        info=instructions.settings.over(about.info) if instructions.settings else about.info,
        origin=about.origin,
        warnings=(*listing.warnings, *about.warnings),
    )


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
