# SPDX-License-Identifier: Apache-2.0
"""The documents inside annotation values that are only read where there are some."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, RootModel
from typing_extensions import TypedDict  # pydantic takes no other before Python 3.12

from ..oci.digest import SHA256


class ListedFile(TypedDict):
    """One row of our listing of a layer's files.

    Attributes:
        path: Path inside the model.
        size: Length in bytes.
        sha256: Hex sha256 of the file's own bytes.
    """

    path: str
    size: Annotated[int, Field(ge=0)]
    sha256: Annotated[str, Field(pattern=f"^{SHA256.pattern}$")]


class FileListing(RootModel[list[ListedFile]]):
    """Value of `org.ocibridge.files`: the files of a layer, in the order of the layer."""


class Symlinks(RootModel[dict[str, str]]):
    """Value of `org.ocibridge.symlinks`: path of each file that is a symlink in the source, and its target."""
