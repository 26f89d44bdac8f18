# SPDX-License-Identifier: Apache-2.0
"""The files of two models, compared by path and sha256; a file is read only where its sha256 has to be found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from ..layers import Encoding, Layer, LayerStream
from ..model import ModelFile
from ..transfer import Task, Workers, reported

Change = Literal["added", "removed", "changed"]


class FilePair(NamedTuple):
    """A file of two models.

    Attributes:
        path: Its path.
        change: What happened to it from the first to the second; None if it is the same.
        before: The file of the first model, if it has one.
        after: That of the second.
    """

    path: str
    change: Change | None
    before: ModelFile | None
    after: ModelFile | None


def sha256_of(file: ModelFile, workers: Workers, phase: str) -> str:
    """Read a file to its end, and return its hex sha256.

    Raises:
        IntegrityError: its format promises another one.
    """
    task = Task(phase, file.path, file.size)
    with reported(workers.progress, task):
        return LayerStream(Layer((file,), Encoding.RAW), workers.watch(task)).finish().diff_id.removeprefix("sha256:")


def compare_files(
    before: Iterable[ModelFile], after: Iterable[ModelFile], workers: Workers, phase: str = "comparing"
) -> list[FilePair]:
    """Compare the files of two models.

    Args:
        before: Those of the first.
        after: Those of the second.
        workers: Read files whose sha256 is not known, where their sizes are the same.
        phase: What progress calls it.

    Returns:
        A pair for every path, by path.
    """
    first, second = _by_path(before), _by_path(after)
    both = [(first[path], second[path]) for path in first.keys() & second.keys()]
    unknown = [file for pair in both if pair[0].size == pair[1].size for file in pair if file.sha256 is None]
    workers.progress.plan(phase, len(unknown), sum(file.size for file in unknown))
    found = dict(zip(map(id, unknown), workers.map(lambda file: sha256_of(file, workers, phase), unknown), strict=True))

    def change(path: str) -> Change | None:
        old, new = first.get(path), second.get(path)
        if old is None or new is None:
            return "added" if old is None else "removed"
        same = old.size == new.size and (old.sha256 or found[id(old)]) == (new.sha256 or found[id(new)])
        return None if same else "changed"

    return [FilePair(path, change(path), first.get(path), second.get(path)) for path in sorted({**first, **second})]


def _by_path(files: Iterable[ModelFile]) -> Mapping[str, ModelFile]:
    return {file.path: file for file in files}
