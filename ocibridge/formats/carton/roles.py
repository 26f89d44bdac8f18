# SPDX-License-Identifier: Apache-2.0
"""Roles of the files of a carton."""

from __future__ import annotations

from pathlib import PurePosixPath

from ...model import Role
from ...settings import SMALL_FILE
from .names import UNLISTED

# fmt: off
_WEIGHTS = frozenset((
    ".pt", ".pth", ".bin", ".safetensors", ".onnx", ".gguf", ".ggml", ".h5", ".hdf5", ".keras", ".pb", ".tflite",
    ".ckpt", ".npz", ".npy", ".pkl", ".pickle", ".joblib", ".xgboost", ".ubj", ".cbm", ".lgb", ".mlmodel", ".pmml",
    ".engine", ".plan", ".params", ".pdparams", ".pdiparams", ".msgpack", ".mar", ".ot",
))
# fmt: on
_CODE = frozenset((".py", ".whl", ".so", ".wasm", ".js"))
_CONFIG = frozenset((".json", ".toml", ".txt", ".yaml", ".yml"))


def role_of(path: str, size: int) -> tuple[Role, bool]:
    """The role of the file `path` of `size` bytes, and whether it is a guess.

    The folders of the specification decide (seed 000, "model", "tensor_data", "misc"), then the name.
    """
    if path in UNLISTED or path == "carton.toml":
        return Role.WEIGHT_CONFIG, False
    if path.startswith("tensor_data/"):
        return Role.DATASET, False
    if path.startswith("misc/"):
        return Role.DOC, False
    if path.startswith("model/"):
        return _in_model(path, size)
    return Role.DOC, not _is_doc(PurePosixPath(path))


def _in_model(path: str, size: int) -> tuple[Role, bool]:
    name = PurePosixPath(path)
    suffix = name.suffix.lower()
    if suffix in _WEIGHTS:
        return Role.WEIGHT, False
    if suffix in _CODE:
        return Role.CODE, False
    if _is_doc(name):
        return Role.DOC, False
    if suffix in _CONFIG or name.name.startswith("tokenizer") or path.startswith("model/.carton/"):
        return Role.WEIGHT_CONFIG, False
    return (Role.WEIGHT, False) if size >= SMALL_FILE else (Role.WEIGHT_CONFIG, True)


def _is_doc(name: PurePosixPath) -> bool:
    return name.suffix.lower() == ".md" or name.stem.upper() in ("README", "LICENSE", "LICENCE", "NOTICE")
