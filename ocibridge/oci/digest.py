# SPDX-License-Identifier: Apache-2.0
"""Digests (image-spec, descriptor.md, "Digests")."""

from __future__ import annotations

import hashlib
import re
from typing import Annotated

from pydantic import StringConstraints

from ..errors import FormatError
from ..paths import show

SHA256 = re.compile(r"[0-9a-f]{64}")
_DIGEST_PATTERN = r"^sha256:[0-9a-f]{64}$"

Digest = Annotated[str, StringConstraints(pattern=_DIGEST_PATTERN, strict=True)]
"""`sha256:` and 64 lower-case hexadecimal digits; the one algorithm that every registry verifies."""


def parse_digest(text: str, owner: str) -> str:
    """Return `text` if it is a digest that can be verified.

    Raises:
        FormatError: it is not `sha256:` and 64 lower-case hexadecimal digits.
    """
    if not (text.startswith("sha256:") and SHA256.fullmatch(text, 7)):
        raise FormatError(
            f"{owner}: {show(text)} is not a digest that can be verified",
            hint="give 'sha256:' and 64 lower-case hexadecimal digits",
        )
    return text


def sha256_digest(data: bytes) -> str:
    """The digest of some bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()
