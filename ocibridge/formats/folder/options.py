# SPDX-License-Identifier: Apache-2.0
"""The options of model folders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    """Options for reading a folder: globs with roles, which precede all other rules."""

    roles: Sequence[tuple[str, str]] = option(
        (),
        flag="--role",
        metavar="GLOB=ROLE",
        repeat=role_rules,
        help="role of the files of a folder that match: weight, weight.config, doc, code or dataset "
        "(may be given several times; the first match decides)",
    )
