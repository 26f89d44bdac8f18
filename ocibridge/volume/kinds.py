# SPDX-License-Identifier: Apache-2.0
"""Kubernetes objects that mount a model: Pod, Deployment, DaemonSet and others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..settings import MiB
from .emit import Comments
from .servers import Container

KSERVE_FOLDER = "models"
"""Folder of an image that KServe mounts."""

_LOOK_IMAGE = "docker.io/library/busybox:1.37"
_PAUSE_IMAGE = "registry.k8s.io/pause:3.10"
_PROBE_SECONDS = 10
_LOADING_SECONDS = 3600  # a server of many shards takes long to load them
_APP_LABEL = "app.kubernetes.io/name"
_PLACEHOLDER = "lists the files of the model; put your server here, or let --server do it"
_VOLUME = "model"
_SHARED = "shared-memory"
_WORK = "/work"
_FOLDER = "model"

Comment = dict[tuple[str | int, ...], str]


@dataclass(frozen=True, slots=True)
class ManifestValues:
    """Values of a Kubernetes manifest.

    Attributes:
        name: Name of the object.
        artifact: Pinned reference of the model.
        image: Pinned reference of its image.
        container: What uses the model; None lists its files.
        mount_path: Path of the model in the container.
        sub_path: Folder of the image to mount; None mounts the whole image.
        pull_secret: Name of a secret of the type `kubernetes.io/dockerconfigjson`.
        pull_policy: See `VolumeManifestOptions`.
        space: Size of what a node keeps, in bytes.
        direct: The volume is an artifact, whose blobs are mounted as they are.
        ocibridge_image: Image with ocibridge.
        model_format: Name of the format in KServe.
    """

    name: str
    artifact: str
    image: str
    container: Container | None
    mount_path: str
    sub_path: str | None
    pull_secret: str | None
    pull_policy: str
    space: int
    direct: bool
    ocibridge_image: str
    model_format: str


def document(kind: str, wanted: ManifestValues) -> tuple[dict[str, Any], Comments]:
    """Return the object of a kind, and its comments."""
    if kind == "InferenceService":
        return _inference_service(wanted)
    if kind == "InitContainer":
        return _wrapped("Pod", wanted, *_init_container(wanted))
    if kind == "DaemonSet":
        return _wrapped(kind, wanted, *_pre_pull(wanted))
    return _wrapped(kind, wanted, *_pod(wanted))


def _wrapped(
    kind: str, wanted: ManifestValues, spec: dict[str, Any], comments: Comment
) -> tuple[dict[str, Any], Comments]:
    labels = {_APP_LABEL: wanted.name}
    metadata = {"name": wanted.name, "labels": labels}
    if kind == "Pod":
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, _below(comments, "spec")
    outer = {
        **({"replicas": 1} if kind == "Deployment" else {}),
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": spec},
    }
    found = {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": outer}
    return found, _below(comments, "spec", "template", "spec")


def _below(comments: Comment, *place: str) -> Comment:
    return {(*place, *path): text for path, text in comments.items()}


def _secrets(wanted: ManifestValues) -> dict[str, Any]:
    return {"imagePullSecrets": [{"name": wanted.pull_secret}]} if wanted.pull_secret else {}


def _volume(wanted: ManifestValues) -> dict[str, Any]:
    return {"name": _VOLUME, "image": {"reference": wanted.image, "pullPolicy": wanted.pull_policy}}


def _mount(wanted: ManifestValues) -> dict[str, Any]:
    sub_path = {"subPath": wanted.sub_path} if wanted.sub_path else {}
    return {"name": _VOLUME, "mountPath": wanted.mount_path, "readOnly": True, **sub_path}


def _look(folder: str) -> Container:
    """A small container that lists the files."""
    script = 'find "$0" -type f -exec ls -l {} +; exec sleep 2147483647'
    return Container(_LOOK_IMAGE, command=("sh", "-c", script, folder), args=(), gpus=0)


def _container(wanted: ManifestValues, mounts: list[dict[str, Any]], requests: dict[str, str]) -> dict[str, Any]:
    found = wanted.container or _look(wanted.mount_path)
    container: dict[str, Any] = {"name": "main", "image": found.image}
    if found.command:
        container["command"] = list(found.command)
    if found.args:
        container["args"] = list(found.args)
    if found.env:
        container["env"] = [{"name": name, "value": value} for name, value in found.env]
    if found.port is not None:
        probe = {"httpGet": {"path": found.health, "port": "http"}, "periodSeconds": _PROBE_SECONDS}
        container["ports"] = [{"name": "http", "containerPort": found.port}]
        container["startupProbe"] = {**probe, "failureThreshold": _LOADING_SECONDS // _PROBE_SECONDS}
        container["readinessProbe"] = probe
    if resources := _resources(requests, found.gpus):
        container["resources"] = resources
    shared = [{"name": _SHARED, "mountPath": "/dev/shm"}] if found.shared_memory else []  # noqa: S108
    return {**container, "volumeMounts": [*mounts, *shared]}


def _shared_memory(wanted: ManifestValues) -> list[dict[str, Any]]:
    if wanted.container is None or not wanted.container.shared_memory:
        return []
    return [{"name": _SHARED, "emptyDir": {"medium": "Memory"}}]


def _resources(requests: dict[str, str], gpus: int) -> dict[str, Any]:
    limits = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    return {**({"requests": requests} if requests else {}), **limits}


def _mebibytes(count: int) -> str:
    return f"{max(1, -(-count // MiB))}Mi"


def _pod(wanted: ManifestValues) -> tuple[dict[str, Any], Comment]:
    spec = {
        **_secrets(wanted),
        "containers": [_container(wanted, [_mount(wanted)], {"ephemeral-storage": _mebibytes(wanted.space)})],
        "volumes": [_volume(wanted), *_shared_memory(wanted)],
    }
    comments: Comment = {
        ("volumes", 0, "image", "reference"): "pinned: the same bytes on every node",
        ("containers", 0, "resources"): _space(wanted),
    }
    if wanted.container is None:
        comments["containers", 0, "image"] = _PLACEHOLDER
    if wanted.sub_path and not wanted.direct:
        comments["containers", 0, "volumeMounts", 0, "subPath"] = "Kubernetes 1.33; containerd 2.2 or CRI-O 1.33"
    return spec, comments


def _space(wanted: ManifestValues) -> str:
    if wanted.direct:
        return "CRI-O mounts the blobs of the artifact as they are: the model once"
    return "containerd keeps the layers and the unpacked files: twice the model"


def _pre_pull(wanted: ManifestValues) -> tuple[dict[str, Any], Comment]:
    image = wanted.container.image if wanted.container else _PAUSE_IMAGE
    resources = {"requests": {"cpu": "1m", "memory": "8Mi"}}
    spec = {
        **_secrets(wanted),
        "containers": [{"name": "hold", "image": image, "resources": resources, "volumeMounts": [_mount(wanted)]}],
        "volumes": [_volume(wanted)],
    }
    comments: Comment = {
        ("containers", 0, "image"): "sleeps, so that the node keeps the model that it has pulled for the volume",
        ("volumes", 0, "image", "reference"): "pinned: pods that name the same digest start without a pull",
    }
    return spec, comments


def _init_container(wanted: ManifestValues) -> tuple[dict[str, Any], Comment]:
    work = {"name": _VOLUME, "mountPath": _WORK}
    env = [{"name": "HOME", "value": _WORK}]
    mounts: list[dict[str, Any]] = [work]
    volumes: list[dict[str, Any]] = [{"name": _VOLUME, "emptyDir": {}}]
    if wanted.pull_secret:
        env.append({"name": "DOCKER_CONFIG", "value": "/credentials"})
        mounts.append({"name": "credentials", "mountPath": "/credentials", "readOnly": True})
        items = [{"key": ".dockerconfigjson", "path": "config.json"}]
        volumes.append({"name": "credentials", "secret": {"secretName": wanted.pull_secret, "items": items}})
    init = {
        "name": "pull",
        "image": wanted.ocibridge_image,
        "command": ["ocibridge"],
        "args": ["pull", wanted.artifact, f"{_WORK}/{_FOLDER}", "--progress", "plain"],
        "env": env,
        "resources": {"requests": {"ephemeral-storage": _mebibytes(wanted.space)}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
        },
        "volumeMounts": mounts,
    }
    sub_path = f"{_FOLDER}/{wanted.sub_path}" if wanted.sub_path else _FOLDER
    mount = {"name": _VOLUME, "mountPath": wanted.mount_path, "readOnly": True, "subPath": sub_path}
    spec = {
        **_secrets(wanted),
        "initContainers": [init],
        "containers": [_container(wanted, [mount], {})],
        "volumes": [*volumes, *_shared_memory(wanted)],
    }
    comments: Comment = {
        ("initContainers", 0, "image"): "built with the Dockerfile of ocibridge",
        ("initContainers", 0, "resources"): "the model is on the node once, for each pod",
        ("initContainers", 0, "args", 2): "an init container may run again: what it has pulled is kept",
    }
    if wanted.container is None:
        comments["containers", 0, "image"] = _PLACEHOLDER
    return spec, comments


def _inference_service(wanted: ManifestValues) -> tuple[dict[str, Any], Comments]:
    predictor = {
        **_secrets(wanted),
        "model": {
            "modelFormat": {"name": wanted.model_format},
            "storageUri": f"oci+native://{wanted.image}",
            "resources": {"requests": {"ephemeral-storage": _mebibytes(wanted.space)}},
        },
    }
    found = {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": wanted.name, "labels": {_APP_LABEL: wanted.name}},
        "spec": {"predictor": predictor},
    }
    place = ("spec", "predictor", "model")
    return found, {
        (*place, "storageUri"): "an image volume: KServe mounts the folder models/ of it at /mnt/models",
        (*place, "resources"): _space(wanted),
    }


_FORMATS = (
    (".safetensors", "huggingface"),
    (".onnx", "onnx"),
    (".mar", "pytorch"),
    (".pt", "pytorch"),
    (".pth", "pytorch"),
    ("saved_model.pb", "tensorflow"),
    (".joblib", "sklearn"),
    (".bst", "xgboost"),
    (".ubj", "xgboost"),
    (".pmml", "pmml"),
)


def model_format(paths: Sequence[str]) -> str | None:
    """Return the name that KServe gives to the format of these files, or None."""
    found = (name for ending, name in _FORMATS if any(path.endswith(ending) for path in paths))
    return next(found, None)
