# SPDX-License-Identifier: Apache-2.0
"""Names of targets: that of an archive, of a single file, or of a folder."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from .registry import formats

_FILE_SUFFIXES = (
    *(".bin", ".ckpt", ".engine", ".h5", ".hdf5", ".joblib", ".keras", ".mar", ".mlmodel", ".nemo", ".onnx", ".ort"),
    *(".pb", ".pdparams", ".pickle", ".pkl", ".plan", ".pmml", ".pt", ".pt2", ".pth", ".tflite", ".torchscript"),
    *(".npy", ".npz", ".parquet", ".csv", ".msgpack", ".json", ".jsonl", ".toml", ".yaml", ".yml", ".jinja"),
    *(".md", ".txt", ".py", ".whl", ".sif", ".7z", ".bz2", ".gz", ".tar", ".tgz", ".xz", ".zip", ".zst"),
)
"""Suffixes of files, in lower case. No folder of a model is called so, unlike `llama-3.1` or `model.v2`."""
_CUTOFF = 0.75
"""How similar a suffix has to be to one of ours, to be taken for a misspelt one."""


def named_as_file(target: Path) -> bool:
    """Return whether `target` has the suffix of a single file, or one that looks like a misspelt suffix of a format."""
    suffix = target.suffix.lower()
    return suffix in _FILE_SUFFIXES or suffix in _suffixes() or similar_name(target) is not None


def similar_name(target: Path) -> str | None:
    """`target` with the suffix of a format in place of one that is similar; None where it has no such suffix.

    Example:
        >>> similar_name(Path("digits.crton"))
        'digits.carton'
    """
    suffix = target.suffix.lower()
    known = _suffixes()
    if suffix in known or suffix in _FILE_SUFFIXES:
        return None
    found = get_close_matches(suffix, known, 1, _CUTOFF)
    return str(target.with_suffix(found[0])) if found else None


def _suffixes() -> list[str]:
    return [suffix for each in formats() for suffix in each.suffixes]
