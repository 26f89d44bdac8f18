# SPDX-License-Identifier: Apache-2.0
"""Small models for tests."""

from __future__ import annotations

import hashlib

from ocibridge.io.content import BytesContent
from ocibridge.model import Model, ModelFile, ModelInfo, Role


def file(path: str, role: Role, data: bytes, *, promised: bool = False, **more: object) -> ModelFile:
    sha256 = hashlib.sha256(data).hexdigest() if promised else None
    return ModelFile(path, role, BytesContent(data), sha256, **more)  # type: ignore[arg-type]


SMALL = Model(
    format="folder",
    files=(
        file("model-1.safetensors", Role.WEIGHT, b"w" * 2000),
        file("model-2.safetensors", Role.WEIGHT, b"v" * 10),
        file("config.json", Role.WEIGHT_CONFIG, b"{}"),
        file("tokenizer.json", Role.WEIGHT_CONFIG, b"[]"),
        file("README.md", Role.DOC, b"# read me"),
        file("LICENSE", Role.DOC, b"MIT"),
        file("notes.txt", Role.DOC, b"note", guessed=True),
        file("run.py", Role.CODE, b"print()"),
        file("data/a.bin", Role.DATASET, b"\0\1"),
        file("data/alias.bin", Role.DATASET, b"\0\1", symlink="a.bin"),
    ),
    info=ModelInfo(
        name="small",
        description="a <small> model & more",
        licenses=("MIT",),
        authors=("A", "B"),
        family="llama",
        format="safetensors",
        param_size="2.1K",
        precision="bf16",
        doc_url="https://example.com/doc",
        source_url="https://example.com/src",
        version="1",
        vendor="v",
        revision="r",
        title="Small",
        architecture="transformer",
        quantization="q8",
    ),
    origin={"folder.kind": "huggingface"},
)
