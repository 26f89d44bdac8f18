# SPDX-License-Identifier: Apache-2.0
"""Media types of Ollama layers and their parameters (seed 004; RFC 2045 section 5.1, RFC 2231)."""

from __future__ import annotations

import re
from email.utils import decode_params, unquote

from ...errors import FormatError
from ...paths import show

PREFIX = "application/vnd.ollama.image."
MAX_LENGTH = 4096
"""Characters of one media type; a tensor's name and shape need a few hundred."""

_WORD = r"[!#$&^_.+%'*A-Za-z0-9-]+"
_TYPE = re.compile(rf"{_WORD}/{_WORD}")
# RFC 2045 wants quotes around "1,2,3" and "[1,2,3]"; seed 004 writes the first without them.
_VALUE = r'"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s";]+)'
_PARAMETER = re.compile(rf"\s*;\s*(?:(?P<key>{_WORD})\s*=\s*(?:{_VALUE}))?\s*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_CHARSETS = ("", "utf-8", "us-ascii")


def parse_media_type(text: str, owner: str) -> tuple[str, dict[str, str]]:
    """Split a media type into its kind and its parameters.

    Example:
        >>> parse_media_type('application/vnd.ollama.image.tensor; dtype=BF16; shape="[1,2]"', "a layer")
        ('tensor', {'dtype': 'BF16', 'shape': '[1,2]'})

    Args:
        text: The media type; parameters may be tokens, quoted strings, or split and encoded as in RFC 2231.
        owner: Whose media type it is, for messages.

    Returns:
        What follows `application/vnd.ollama.image.`, or the whole type if it does not start so; and the parameters
        under lower-case names.

    Raises:
        FormatError: it is malformed, has control characters, or gives a parameter twice.
    """
    base, _, _ = text.partition(";")
    if len(text) > MAX_LENGTH or _CONTROL.search(text) or not _TYPE.fullmatch(base.strip()):
        raise _malformed(text, owner)
    params: dict[str, str] = {}
    extended: list[tuple[str, str]] = []
    position = len(base)
    while position < len(text):
        match = _PARAMETER.match(text, position)
        if not match:
            raise _malformed(text, owner)
        position = match.end()
        if match["key"] is None:
            continue
        key = match["key"].lower()
        value = match["plain"] if match["quoted"] is None else re.sub(r"\\(.)", r"\1", match["quoted"])
        if "*" in key:
            extended.append((key, value))
        else:
            _add(params, key, value, text, owner)
    for key, value in _decode(extended, text, owner):
        _add(params, key, value, text, owner)
    return base.strip().removeprefix(PREFIX), params


def _add(params: dict[str, str], key: str, value: str, text: str, owner: str) -> None:
    if key in params:
        raise FormatError(f"{owner}: the media type {show(text)} gives {show(key)} twice")
    if _CONTROL.search(value):
        raise _malformed(text, owner)
    params[key] = value


def _decode(extended: list[tuple[str, str]], text: str, owner: str) -> list[tuple[str, str]]:
    """Join and decode the parameters of RFC 2231."""
    if len({key.rstrip("*") for key, _ in extended}) != len(extended):
        raise _malformed(text, owner)
    found = []
    try:
        for key, value in decode_params([("", ""), *extended])[1:]:
            if isinstance(value, tuple):
                charset, _, encoded = value
                if (charset or "").lower() not in _CHARSETS:
                    raise _malformed(text, owner)
                found.append((key, unquote(encoded).encode("latin-1").decode(charset or "utf-8")))
            else:
                found.append((key, unquote(value)))
    except (ValueError, TypeError):
        raise _malformed(text, owner) from None
    return found


def _malformed(text: str, owner: str) -> FormatError:
    return FormatError(
        f"{owner} has the malformed media type {show(text)}", hint='write TYPE; name=value; name="quoted value"'
    )
