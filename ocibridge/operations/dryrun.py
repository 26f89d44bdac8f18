# SPDX-License-Identifier: Apache-2.0
"""Plan of what a pull or a conversion to disk would write (`--dry-run`)."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from typing import NamedTuple

from ..errors import writing
from ..formats.base import StoredModel
from ..io.existing import Existing, TargetRules, check_apart, check_file, check_folder, real_target, say_deleted
from ..io.merge import ExpectedFile, Merge
from ..io.staging import has_left_over
from .options import TargetOptions
from .reports import FileChanges, PlannedFile
from .targets import FILE, Target, folders_above, target_for


class Plan(NamedTuple):
    """A plan of what would be written.

    Attributes:
        format: Its format.
        files: Its files; an archive is one file.
        losses: See `Sink.losses`.
    """

    format: str
    files: list[PlannedFile]
    losses: tuple[str, ...]

    @property
    def changes(self) -> FileChanges:
        """Numbers of files; those whose bytes have to be compared are not counted."""
        counts = Counter(each.action for each in self.files)
        return FileChanges(added=counts["add"], updated=counts["update"], kept=counts["keep"])


def plan_target(dest: str | os.PathLike[str], stored: StoredModel, options: TargetOptions, rules: TargetRules) -> Plan:
    """Find out what would be written; nothing is, but for a hidden folder that is gone at the end.

    Args:
        dest: See `pull`.
        stored: What would arrive.
        options: How it would be written.
        rules: What may happen to what exists there.

    Raises:
        UsageError: an option is for another kind of target.
        FormatError: the model cannot be written there.
        DestinationError: something is in the way.
    """
    target = target_for(dest, stored, options)
    files = _files(dest, target, stored, rules)
    losses: tuple[str, ...] = ()
    if target.place is not None and not has_left_over(target.place):
        # What is there was looked at. The sink knows what the format cannot hold, and the space that it needs.
        with folders_above(dest, keep=False), target.sink(None, replace(rules, existing=Existing.OVERWRITE)) as sink:
            losses = sink.losses
    return Plan(target.kind, files, losses)


def _files(dest: str | os.PathLike[str], target: Target, stored: StoredModel, rules: TargetRules) -> list[PlannedFile]:
    new = [PlannedFile(path=each.path, size=each.size, action="add") for each in stored.files]
    if target.place is None:
        return new
    label = str(dest)
    with writing(label):
        final = real_target(target.place)
        check_apart(final, label, rules)
        if target.packed:
            size = stored.files[0].size if target.kind == FILE else None
            action = "add" if check_file(final, label, rules) is None else "update"
            return [PlannedFile(path=label, size=size, action=action)]
        replaced = check_folder(final, label, rules)
        if replaced is not None:
            say_deleted(*replaced, label, rules, dry_run=True)
            return new
        if not final.is_dir():
            return new
    merge = Merge(final, label, rules)
    expected = [ExpectedFile(each.path, each.size, each.sha256, each.symlink) for each in stored.files]
    merge.check(expected)
    return [PlannedFile(path=each.path, size=each.size, action=merge.action(each)) for each in expected]
