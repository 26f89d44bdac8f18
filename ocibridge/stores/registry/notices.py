# SPDX-License-Identifier: Apache-2.0
"""What a registry wants its users to know (distribution-spec, "Warnings")."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence

from ...settings import KiB
from .problems import printable

MAX_NOTICES = 20
MAX_LENGTH = 300
_HEADER = 16 * KiB
_WARNING = re.compile(r'(?:^|,)\s*299 - "((?:[^"\\]|\\.)*)"')


class Notices:
    """The warnings of one host, each once; nothing is ever done because of them."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._lock = threading.Lock()

    def add(self, headers: Mapping[str, str]) -> None:
        """Take the `Warning` headers of an answer; code 299 and agent `-` alone are the registry's own."""
        for found in _WARNING.finditer(headers.get("warning", "")[:_HEADER]):
            text = printable(re.sub(r"\\(.)", r"\1", found[1]), MAX_LENGTH).strip()
            with self._lock:
                if text and text not in self._texts and len(self._texts) < MAX_NOTICES:
                    self._texts.append(text)

    @property
    def texts(self) -> Sequence[str]:
        """What was said so far: at most 20 texts of 300 printable characters, in the order of their arrival."""
        with self._lock:
            return tuple(self._texts)
