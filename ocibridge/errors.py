# SPDX-License-Identifier: Apache-2.0
"""One family of errors.

    OcibridgeError
    ├── UsageError              the command or call is wrong (exit status 2)
    │   └── InvalidReference    a reference that cannot be parsed
    ├── SourceError             a local source is missing, unreadable or changed while it was read
    ├── FormatError             a document or archive breaks the rules of its format
    ├── LimitError              something is larger than the limit set for it
    ├── IntegrityError          bytes do not match the expected digest, size or checksum
    ├── DestinationError        a local target cannot be written
    └── StoreError              a registry or layout failed or refused a request
        ├── NotFound            no such manifest, blob or repository
        ├── AuthenticationError credentials are missing, wrong or not sufficient
        └── NetworkError        the host cannot be reached, or the connection broke repeatedly

Each error is one sentence (`message`) and, where there is one, the next step (`hint`).
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class OcibridgeError(Exception):
    """Root of every error that this package raises on purpose.

    Args:
        message: What failed, on which side, as a sentence without its full stop.
        hint: What to do next, as a clause that can follow a semicolon.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class UsageError(OcibridgeError):
    """The command or call is wrong."""


class InvalidReference(UsageError):
    """A reference that cannot be parsed."""


class SourceError(OcibridgeError):
    """A local source is missing, unreadable or changed while it was read."""


class FormatError(OcibridgeError):
    """A document or archive breaks the rules of its format."""


class LimitError(OcibridgeError):
    """Something is larger than the limit set for it (see `ocibridge.settings.Limits`)."""


class IntegrityError(OcibridgeError):
    """Bytes do not match the expected digest, size or checksum."""


class DestinationError(OcibridgeError):
    """A local target cannot be written."""


class StoreError(OcibridgeError):
    """A registry or layout failed or refused a request.

    Args:
        message: See `OcibridgeError`.
        hint: See `OcibridgeError`.
        status: HTTP status of the response, if there was one.
        code: Error code of the distribution specification, such as `MANIFEST_UNKNOWN`.
    """

    def __init__(
        self, message: str, *, hint: str | None = None, status: int | None = None, code: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.code = code


class NotFound(StoreError):
    """No such manifest, blob or repository."""


class AuthenticationError(StoreError):
    """Credentials are missing, wrong or not sufficient."""


class NetworkError(StoreError):
    """The host cannot be reached, or the connection broke repeatedly."""


_OS_HINTS = {
    errno.ENOENT: "check the path",
    errno.EACCES: "check its permissions",
    errno.EPERM: "check its permissions",
    errno.ENAMETOOLONG: "give it a shorter name",
    errno.ENOMEM: "raise the limit of memory (of the container or job, or 'ulimit -v')",
    errno.ENOSPC: "free some space, or write to another disk",
    errno.EDQUOT: "free some space, or ask for a larger quota",
    errno.EFBIG: "write to another disk, in volumes (--volume-size), or raise the limit (ulimit -f)",
    errno.EROFS: "choose a target that can be written",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
}


def _os_sentence(path: str | Path, verb: str, exc: OSError) -> tuple[str, str | None]:
    reason = (exc.strerror or type(exc).__name__).lower()
    return f"cannot {verb} {path}: {reason}", _OS_HINTS.get(exc.errno or 0)


_PASSING = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EEXIST)
"""Reasons that the user can remove: a full disk, or a file in the way."""
_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def can_resume(exc: BaseException) -> bool:
    """Return whether the same command may succeed later, so that partial results are kept."""
    if isinstance(exc, StoreError):
        return not isinstance(exc, NotFound)
    if isinstance(exc, DestinationError):
        return isinstance(exc.__cause__, OSError) and exc.__cause__.errno in _PASSING
    return not isinstance(exc, Exception)


def human_size(count: float) -> str:
    """Format a number of bytes for people.

    Example:
        >>> human_size(1536)
        '1.5 KiB'
    """
    if abs(count) < 1024:
        return f"{count:.0f} B"
    for unit in _UNITS:
        count /= 1024
        if abs(count) < 1023.95 or unit == _UNITS[-1]:
            break
    return f"{count:.1f} {unit}"


def number(count: int, noun: str) -> str:
    """A count with its noun.

    Example:
        >>> number(1, "tag"), number(2, "tag")
        ('1 tag', '2 tags')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Turn an `OSError` of the block into a `SourceError` about `path`."""
    try:
        yield
    except OSError as exc:
        message, hint = _os_sentence(path, "read", exc)
        raise SourceError(message, hint=hint) from exc


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Turn an `OSError` of the block into a `DestinationError` about `path`."""
    try:
        yield
    except OSError as exc:
        message, hint = _os_sentence(path, "write", exc)
        raise DestinationError(message, hint=hint) from exc
