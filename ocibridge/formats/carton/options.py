# SPDX-License-Identifier: Apache-2.0
"""The options of cartons."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import UsageError
from ...options import count, option
from ..options import ReadOptions, WriteOptions

ZIP_METHODS = ("stored", "deflate", "zstd")
_LINKS = "files that a carton only links to"
_NEW = "making a carton of a model that was none"


@dataclass(frozen=True, kw_only=True)
class CartonReadOptions(ReadOptions):
    """Options for reading a carton.

    Raises:
        UsageError: hosts are named, and nothing may be fetched.
    """

    fetch_links: bool = option(
        False, help="fetch them (without it, push and convert fail, inspect and verify pass over them)", group=_LINKS
    )
    links_hosts: tuple[str, ...] = option(
        (),
        flag="--links-host",
        metavar="HOST",
        repeat=True,
        help="fetch them from this host only (may be given several times)",
        group=_LINKS,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.links_hosts and not self.fetch_links:
            raise UsageError("--links-host says where --fetch-links may fetch from", hint="add --fetch-links")


@dataclass(frozen=True, kw_only=True)
class CartonWriteOptions(WriteOptions):
    """Options for writing a carton (seed 000; for a new one, "carton.toml", `[runner]`).

    Raises:
        UsageError: a runner without the framework versions that it needs, or the other way round.
    """

    zip_method: str = option(
        "stored", choices=ZIP_METHODS, help="how the members of an archive are compressed (default: %(default)s)"
    )
    runner_name: str | None = option(
        None, metavar="NAME", help="runner of a new carton, such as torchscript", group=_NEW
    )
    framework_version: str | None = option(
        None, metavar="REQ", help="framework versions it needs, such as =1.12.1", group=_NEW
    )
    runner_compat_version: int = option(
        1, metavar="N", parse=count, help="version of its model folder (default: %(default)s)", group=_NEW
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.runner_name is None) != (self.framework_version is None):
            raise UsageError(
                "a new carton needs a runner and the framework versions it runs",
                hint="give both, --runner-name and --framework-version",
            )
        if self.runner_compat_version != 1 and self.runner_name is None:
            raise UsageError(
                "--runner-compat-version is for a new carton with its runner",
                hint="add --runner-name and --framework-version, or leave it out",
            )
