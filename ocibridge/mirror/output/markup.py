# SPDX-License-Identifier: Apache-2.0
"""HTML from hostile text: a string is text and is escaped, unless it was made here."""

from __future__ import annotations

from html import escape

_VOID = frozenset({"input", "link", "meta"})


class Markup(str):
    """HTML that was made by `element`, or is otherwise known to be harmless."""

    __slots__ = ()


def element(name: str, /, *children: str, **attributes: str | float | bool | None) -> Markup:
    """One element.

    Args:
        name: Of the element.
        children: `Markup` as it is, any other string as text.
        attributes: Values; None and False leave the attribute out, True gives it none. `class_` is `class`, and an
            underscore elsewhere a hyphen.

    Example:
        >>> element("td", "<b>", class_="tag")
        '<td class="tag">&lt;b&gt;</td>'
    """
    words = [name]
    for key, value in attributes.items():
        attribute = key.rstrip("_").replace("_", "-")
        if value is True:
            words.append(attribute)
        elif value is not None and value is not False:
            words.append(f'{attribute}="{escape(str(value))}"')
    start = f"<{' '.join(words)}>"
    return Markup(start if name in _VOID else f"{start}{joined(*children)}</{name}>")


def joined(*children: str) -> Markup:
    """Elements and texts, one after the other."""
    return Markup("".join(child if isinstance(child, Markup) else escape(child) for child in children))
