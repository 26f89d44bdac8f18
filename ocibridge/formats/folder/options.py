# SPDX-License-Identifier: Apache-2.0
"""The options of model folders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import UsageError
from ...options import option
from ..options import ReadOptions

ROLES = ("weight", "weight.config", "doc", "code", "dataset")
"""The values of `ocibridge.model.Role`."""


def role_rules(pairs: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """`GLOB=ROLE` pairs, in their order.

    Raises:
        UsageError: one has no glob, or a role that there is not.
    """
    found = []
    for pair in pairs:
        glob, _, role = pair.rpartition("=")
        if not glob or role not in ROLES:
            raise UsageError(
                f"the rule {pair!r} is malformed", hint=f"write --role 'GLOB=ROLE' with one of: {', '.join(ROLES)}"
            )
        found.append((glob, role))
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class FolderReadOptions(ReadOptions):
    """Options for reading a folder: globs with roles, which precede all other rules.

    Attributes:
        include: Globs, one of which a file has to match, or a folder that it is in; empty takes every file.
        exclude: Globs of files and folders that are left out.
        target: Where the model goes, if that is on this disk; it is left out should it be in the folder.
    """

    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    target: Path | None = None

    roles: Sequence[tuple[str, str]] = option(
        (),
        flag="--role",
        metavar="GLOB=ROLE",
        repeat=role_rules,
        help="role of the files of a folder that match: weight, weight.config, doc, code or dataset "
        "(may be given several times; the first match decides)",
    )
