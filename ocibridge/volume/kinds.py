# SPDX-License-Identifier: Apache-2.0
"""Kubernetes objects that mount a model: Pod, Deployment, DaemonSet and others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..settings import MiB
from .emit import Comments

KSERVE_FOLDER = "models"
"""Folder of an image that KServe mounts."""

_LOOK_IMAGE = "docker.io/library/busybox:1.37"
_PAUSE_IMAGE = "registry.k8s.io/pause:3.10"
_APP_LABEL = "app.kubernetes.io/name"
_VOLUME = "model"
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
        container_image: Image of the container; None takes a small one that lists the files.
        mount_path: Path of the model in the container.
        sub_path: Folder of the image to mount; None mounts the whole image.
        pull_secret: Name of a secret of the type `kubernetes.io/dockerconfigjson`.
        pull_policy: See `VolumeManifestOptions`.
        stored: Size of the layers in bytes.
        unpacked: Size of the files in bytes.
        ocibridge_image: Image with ocibridge.
        model_format: Name of the format in KServe.
    """

    name: str
    artifact: str
    image: str
    container_image: str | None
    mount_path: str
    sub_path: str | None
    pull_secret: str | None
    pull_policy: str
    stored: int
    unpacked: int
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


def _container(wanted: ManifestValues) -> dict[str, Any]:
    if wanted.container_image is not None:
        return {"name": "main", "image": wanted.container_image}
    command = ["sh", "-c", 'find "$0" -type f -exec ls -l {} +; exec sleep 2147483647', wanted.mount_path]
    return {"name": "main", "image": _LOOK_IMAGE, "command": command}


def _mebibytes(count: int) -> str:
    return f"{max(1, -(-count // MiB))}Mi"


def _pod(wanted: ManifestValues) -> tuple[dict[str, Any], Comment]:
    resources = {"requests": {"ephemeral-storage": _mebibytes(wanted.stored + wanted.unpacked)}}
    spec = {
        **_secrets(wanted),
        "containers": [{**_container(wanted), "resources": resources, "volumeMounts": [_mount(wanted)]}],
        "volumes": [_volume(wanted)],
    }
    comments: Comment = {
        ("volumes", 0, "image", "reference"): "pinned: the same bytes on every node",
        ("containers", 0, "resources"): "containerd keeps the layers and the unpacked files: twice the model",
    }
    if wanted.container_image is None:
        comments["containers", 0, "image"] = "lists the files of the model; put your server here"
    if wanted.sub_path:
        comments["containers", 0, "volumeMounts", 0, "subPath"] = "Kubernetes 1.33; containerd 2.2 or CRI-O 1.33"
    return spec, comments


def _pre_pull(wanted: ManifestValues) -> tuple[dict[str, Any], Comment]:
    image = wanted.container_image or _PAUSE_IMAGE
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
        "args": ["pull", wanted.artifact, f"{_WORK}/{_FOLDER}", "--force", "--progress", "plain"],
        "env": env,
        "resources": {"requests": {"ephemeral-storage": _mebibytes(wanted.unpacked)}},
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
        "containers": [{**_container(wanted), "volumeMounts": [mount]}],
        "volumes": volumes,
    }
    comments: Comment = {
        (
            "initContainers",
            0,
            "image",
        ): "build it with the Dockerfile of ocibridge, and push it where the nodes pull from",
        ("initContainers", 0, "resources"): "the model is on the node once, for each pod",
        ("initContainers", 0, "args", 3): "an init container may run again, and finds its own target then",
    }
    if wanted.container_image is None:
        comments["containers", 0, "image"] = "lists the files of the model; put your server here"
    return spec, comments


def _inference_service(wanted: ManifestValues) -> tuple[dict[str, Any], Comments]:
    predictor = {
        **_secrets(wanted),
        "model": {
            "modelFormat": {"name": wanted.model_format},
            "storageUri": f"oci+native://{wanted.image}",
            "resources": {"requests": {"ephemeral-storage": _mebibytes(wanted.stored + wanted.unpacked)}},
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
        (*place, "resources"): "containerd keeps the layers and the unpacked files: twice the model",
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
