# SPDX-License-Identifier: Apache-2.0
"""The options of the volume commands; `ocibridge.options` says how they are used."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from ..operations.options import CacheOptions, TransferOptions, max_layers_option, platform_option
from ..options import Options, count, option
from ..settings import IMAGE_SUFFIX

CONTAINERD, CRIO = "containerd", "cri-o"
RUNTIMES = (CONTAINERD, CRIO)
PLATFORM = "linux/amd64"
Kind = Literal["Pod", "Deployment", "InferenceService", "DaemonSet", "InitContainer"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Server = Literal["vllm", "llama.cpp", "triton"]
SERVERS: tuple[Server, ...] = get_args(Server)
_CONTAINER = "server"


def _words(text: str) -> tuple[str, ...]:
    return tuple(shlex.split(text))


def _gpus(text: str) -> int:
    return 0 if text == "0" else count(text)


@dataclass(frozen=True, kw_only=True)
class PrepareOptions(CacheOptions, TransferOptions):
    """Options of `volume_prepare`."""

    platforms: Sequence[str] | None = platform_option(
        "platforms of the image, with commas between them (default: linux/amd64,linux/arm64)"
    )
    suffix: str = option(
        IMAGE_SUFFIX,
        help="what the tag of the image has after the artifact's, written --suffix=%(default)s (the default)",
    )
    max_layers: int | None = max_layers_option()


@dataclass(frozen=True, kw_only=True)
class VolumeCheckOptions(Options):
    """Options of `volume_check`."""

    runtime: str | None = option(None, help="of the nodes (default: both)", choices=RUNTIMES)
    version: str | None = option(None, help="version of the runtime (default: the current one)", metavar="X.Y")
    platform: str = option(PLATFORM, help="of the nodes (default: %(default)s)", metavar="OS/ARCH")
    read: bool = option(False, help="read and verify every layer, not only what the manifest and tar headers say")


@dataclass(frozen=True, kw_only=True)
class VolumeManifestOptions(Options):
    """Options of `volume_manifest`."""

    kind: Kind = option(
        "Pod",
        help="InferenceService is KServe's; a DaemonSet makes every node pull the image beforehand; InitContainer is a "
        "pod that pulls the model with ocibridge, for clusters without image volumes (default: %(default)s)",
        choices=KINDS,
    )
    name: str | None = option(None, help="of the object (default: the end of the repository's name)", metavar="NAME")
    mount_path: str | None = option(None, help="where the model is in the container (default: /models)", metavar="PATH")
    sub_path: str | None = option(None, help="mount this folder of the image only", metavar="FOLDER")
    server: Server | None = option(
        None,
        help="serve the model: image, arguments, port and probes of this server (default: list the files)",
        choices=SERVERS,
        group=_CONTAINER,
    )
    image: str | None = option(
        None, help="what runs in the pod, with a tag or digest", metavar="IMAGE", group=_CONTAINER
    )
    command: Sequence[str] | None = option(
        None,
        help="run this instead of the entry point of --image, as in --command 'serve --verbose'",
        metavar="COMMAND",
        parse=_words,
        group=_CONTAINER,
    )
    args: Sequence[str] | None = option(
        None,
        help="arguments of --image, or more of them for --server, as in --args='--max-model-len 4096'",
        metavar="ARGUMENTS",
        parse=_words,
        group=_CONTAINER,
    )
    gpu: int | None = option(
        None,
        help="number of GPUs, a limit of nvidia.com/gpu (default: 1 for vllm, else 0)",
        metavar="N",
        parse=_gpus,
        group=_CONTAINER,
    )
    ocibridge_image: str | None = option(
        None,
        help="image of ocibridge that InitContainer runs; build it with the Dockerfile of ocibridge",
        metavar="IMAGE",
    )
    model_format: str | None = option(None, help="what KServe calls the format (default: by the files)", metavar="NAME")
    runtime: str | None = option(
        None,
        help="of the nodes; cri-o mounts artifacts of raw files without an image (default: any)",
        choices=RUNTIMES,
    )
    kubernetes_version: str = option("1.35", help="of the cluster (default: %(default)s)", metavar="X.Y")
    pull_secret: str | None = option(None, help="secret with the credentials of the registry", metavar="NAME")
    pull_policy: str | None = option(
        None, help="of the image volume (default: IfNotPresent)", choices=("IfNotPresent", "Always", "Never")
    )
