# SPDX-License-Identifier: Apache-2.0
"""Selection of files of a model: `--include` and `--exclude`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..dialects.base import StoredArtifact
from ..errors import FormatError, UsageError
from ..formats.folder.globs import Glob
from ..formats.registry import FOLDER
from ..layers import StoredLayer
from ..model import Model, StoredModel
from ..paths import show
from .options import SelectOptions

_SHOWN = 10


class Selection:
    """Globs of gitignore(5), which match a file, or a folder that it is in.

    Args:
        options: The globs. Without any to include, every file is.

    Raises:
        UsageError: one is no glob.
    """

    def __init__(self, options: SelectOptions) -> None:
        self._include = [_glob("--include", each) for each in options.include]
        self._exclude = [_glob("--exclude", each) for each in options.exclude]

    def __bool__(self) -> bool:
        """Return whether there are any globs."""
        return bool(self._include or self._exclude)

    def takes(self, path: str) -> bool:
        """Return whether the file `path` is selected."""
        included = not self._include or any(each.holds(path) for each in self._include)
        return included and not any(each.holds(path) for each in self._exclude)

    def of_source(self, model: Model) -> Model:
        """The model with the selected files alone; see `of_artifact`.

        Raises:
            FormatError: no file is selected.
        """
        if not self:
            return model
        files = tuple(each._replace(symlink=None) for each in model.files if self.takes(each.path))
        if not files:
            raise _no_match(sorted(each.path for each in model.files))
        return replace(model, format=FOLDER, files=files, identity=None, origin={})

    def _of_stored(self, stored: StoredModel) -> StoredModel:
        files = tuple(each._replace(symlink=None) for each in stored.files if self.takes(each.path))
        if stored.complete and not files:
            raise _no_match(sorted(each.path for each in stored.files))
        return replace(stored, format=FOLDER, files=files, identity=None, origin={})

    def of_artifact(self, artifact: StoredArtifact) -> tuple[StoredModel, Sequence[StoredLayer]]:
        """The model with the selected files alone, and the layers that they are in, or may be in.

        It is a folder then, without an identity; what was a symbolic link is a file, as its target may be missing.

        Raises:
            FormatError: no file is selected.
        """
        if not self:
            return artifact.model, artifact.layers
        layers = [
            each for each in artifact.layers if not each.files or any(self.takes(file.path) for file in each.files)
        ]
        return self._of_stored(artifact.model), layers


def _no_match(paths: Sequence[str]) -> FormatError:
    return FormatError("no file is selected by --include and --exclude", hint=f"there are: {listed(paths, _SHOWN)}")


def listed(paths: Sequence[str], count: int) -> str:
    """Some names, for a message.

    Args:
        paths: All of them.
        count: How many are shown.
    """
    more = f" and {len(paths) - count} more" if len(paths) > count else ""
    return ", ".join(show(each) for each in paths[:count]) + more


def _glob(flag: str, text: str) -> Glob:
    try:
        found = Glob(text)
    except ValueError as exc:
        raise UsageError(f"the pattern {show(text)} of {flag} {exc}", hint="correct it") from None
    if not found.include:
        raise UsageError(
            f"{flag} takes one glob, and {show(text)} is none",
            hint="give a glob such as '*.safetensors'; instead of '!' use --exclude",
        )
    return found
