# SPDX-License-Identifier: Apache-2.0
"""The companions of a model: what is published in its repository under its tag and a suffix, for the tools of others.

One is the image that container runtimes mount; the others are the manifests that formats declare (`Format.companion`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..formats.registry import formats
from ..settings import IMAGE_SUFFIX

if TYPE_CHECKING:
    from ..oci import Reference

IMAGE = "image"


def companion_suffixes() -> dict[str, str]:
    """Suffixes of the tags of companions, by their names: the choices of `--also`."""
    return {**{each.name: f"-{each.name}" for each in formats() if each.companion}, IMAGE: IMAGE_SUFFIX}


def companion_names() -> tuple[str, ...]:
    """The names of all companions."""
    return tuple(companion_suffixes())


def companion_tags(tag: str) -> list[str]:
    """The tags that the companions of the model with this tag have."""
    return [tag + suffix for suffix in companion_suffixes().values()]


def main_tag(tag: str) -> str:
    """The tag of the model whose companion has this tag; any other tag as it is."""
    return next((tag.removesuffix(each) for each in companion_suffixes().values() if tag.endswith(each)), tag)


def companion_reference(target: Reference, suffix: str) -> Reference:
    """The reference of a companion: the repository of `target`, and its tag with a suffix.

    Raises:
        InvalidReference: the two make no tag.
    """
    from ..oci import parse_reference  # help texts need the names alone

    return parse_reference(f"{target.at()}:{target.version}{suffix}")
