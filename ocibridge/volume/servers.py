# SPDX-License-Identifier: Apache-2.0
"""Model servers: the image, arguments, port and probe with which each of them serves a mounted model."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import UsageError
from .options import Server

# vLLM: https://docs.vllm.ai/en/stable/cli/serve, https://docs.vllm.ai/en/stable/deployment/k8s
_VLLM_IMAGE = "docker.io/vllm/vllm-openai:v0.18.0"
# llama.cpp: tools/server/README.md and docs/docker.md of its repository
_LLAMA_IMAGE = "ghcr.io/ggml-org/llama.cpp:server-b8840"
_LLAMA_CUDA_IMAGE = "ghcr.io/ggml-org/llama.cpp:server-cuda-b8840"
# Triton: docs/user_guide/model_repository.md and docs/protocol/extension_model_repository.md of its repository
_TRITON_IMAGE = "nvcr.io/nvidia/tritonserver:26.06-py3"

_LATER_SHARD = re.compile(r"-(?!00001-of-)\d{5}-of-\d{5}\.gguf$")
_ALL_LAYERS = "999"


@dataclass(frozen=True, slots=True)
class Container:
    """A container that uses a model.

    Attributes:
        image: Its image.
        command: Replaces the entry point of the image; empty to keep it.
        args: Its arguments; empty to keep those of the image.
        gpus: Number of GPUs.
        port: Port for HTTP requests; None if it is not known.
        health: Path of the request that succeeds once the model is loaded.
        env: Environment variables.
        shared_memory: Whether its processes need more shared memory than a container has by default.
    """

    image: str
    command: tuple[str, ...]
    args: tuple[str, ...]
    gpus: int
    port: int | None = None
    health: str = ""
    env: tuple[tuple[str, str], ...] = ()
    shared_memory: bool = False


def serving(server: Server, paths: Sequence[str], folder: str, name: str, gpus: int | None) -> Container:
    """Return the container of a server.

    Args:
        server: Name of the server.
        paths: Paths of the files of the model, below `folder`.
        folder: Path of the model in the container.
        name: Name of the model in requests.
        gpus: Number of GPUs; None is what the server needs.

    Raises:
        UsageError: the server cannot serve these files.
    """
    build = {"vllm": _vllm, "llama.cpp": _llama, "triton": _triton}[server]
    return build(paths, folder, name, gpus)


def _vllm(paths: Sequence[str], folder: str, name: str, gpus: int | None) -> Container:
    weights = {posixpath.dirname(path) for path in paths if path.endswith((".safetensors", ".bin"))}
    found = sorted(each for each in weights if posixpath.join(each, "config.json") in paths)
    if not found:
        raise UsageError(
            "vLLM serves a folder of Hugging Face, and the model has no folder with config.json and *.safetensors",
            hint="name a server for the format that it has, with --server or --image",
        )
    count = 1 if gpus is None else gpus
    parallel = ("--tensor-parallel-size", str(count)) if count > 1 else ()
    return Container(
        image=_VLLM_IMAGE,
        command=("vllm", "serve"),
        args=(posixpath.join(folder, found[0]).rstrip("/"), "--served-model-name", name, *parallel),
        port=8000,
        health="/health",
        gpus=count,
        env=(("HF_HUB_OFFLINE", "1"),),
        shared_memory=count > 1,
    )


def _llama(paths: Sequence[str], folder: str, name: str, gpus: int | None) -> Container:
    files = [path for path in paths if path.endswith(".gguf") and not _LATER_SHARD.search(path)]
    projectors = [path for path in files if posixpath.basename(path).startswith("mmproj")]
    models = [path for path in files if path not in projectors]
    if len(models) != 1:
        raise UsageError(
            f"llama.cpp serves one GGUF model, and this one has {len(models) or 'no'} GGUF files",
            hint="mount the folder of one with --sub-path, or publish them one by one"
            if models
            else "name a server for the format that it has, with --server or --image",
        )
    projector = ("--mmproj", posixpath.join(folder, projectors[0])) if projectors else ()
    offload = ("--n-gpu-layers", _ALL_LAYERS) if gpus else ()
    return Container(
        image=_LLAMA_CUDA_IMAGE if gpus else _LLAMA_IMAGE,
        command=(),
        args=(
            *("--model", posixpath.join(folder, models[0]), *projector),
            *("--alias", name, "--host", "0.0.0.0", "--port", "8080", *offload),  # noqa: S104
        ),
        port=8080,
        health="/health",
        gpus=gpus or 0,
    )


def _triton(paths: Sequence[str], folder: str, name: str, gpus: int | None) -> Container:
    found = {root for root in map(_repository, paths) if root is not None}
    if not found:
        raise UsageError(
            "Triton serves a folder of MODEL/VERSION/FILE, such as digits/1/model.onnx, and the model has none",
            hint=f"push it again with its files in such folders, or with --prefix {name}/1/",
        )
    roots = [posixpath.join(folder, each).rstrip("/") for each in sorted(found)]
    return Container(
        image=_TRITON_IMAGE,
        command=(),
        args=("tritonserver", *(f"--model-repository={root}" for root in roots)),
        port=8000,
        health="/v2/health/ready",
        gpus=gpus or 0,
    )


def _repository(path: str) -> str | None:
    """The folder of Triton's models that a file is in: what is before MODEL/VERSION/FILE."""
    parts = path.split("/")
    versions = (number for number in range(1, len(parts) - 1) if parts[number].isdecimal())
    first = next(versions, None)
    return None if first is None else "/".join(parts[: first - 1])
