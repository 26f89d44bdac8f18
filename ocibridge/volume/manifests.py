# SPDX-License-Identifier: Apache-2.0
"""`volume manifest`: Kubernetes manifests that mount a published model."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ..dialects.reading import is_model
from ..errors import FormatError, NotFound, UsageError
from ..oci import Reference, RegistryReference
from ..operations.artifacts import fetch_artifact
from ..operations.sources import stored_reference
from ..paths import show
from ..stores.opening import open_store
from ..stores.registry.options import is_loopback
from .check import platforms_of, prepare_command
from .companions import find_image
from .documents import Documents, ManifestOrIndex
from .emit import to_yaml
from .kinds import KSERVE_FOLDER, ManifestValues, document, model_format
from .kubernetes import parse_cluster
from .options import CONTAINERD, CRIO, PLATFORM, VolumeManifestOptions
from .predict import predict
from .reports import Prediction, VolumeManifestReport
from .runtimes import parse_runtime
from .servers import Container, serving

if TYPE_CHECKING:
    from ..stores.registry import RegistryOptions

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_MOUNT = "/models"


def volume_manifest(
    reference: str | Reference,
    options: VolumeManifestOptions = VolumeManifestOptions(),
    *,
    registry: RegistryOptions | None = None,
) -> VolumeManifestReport:
    """Generate the YAML of an object that mounts a published model, pinned by digest.

    Args:
        reference: An artifact with a companion image, or an image.
        options: Values of the object. `sub_path` is a folder of the image, or of the model.
        registry: Credentials and TLS.

    Raises:
        UsageError: the arguments do not fit together, or the version of Kubernetes does not support them.
        NotFound: there is no such artifact, or it has no image.
        FormatError: its image would not mount.

    Example:
        >>> print(volume_manifest("localhost:5000/models/digits:v1").yaml)  # doctest: +SKIP
    """
    named = stored_reference(reference)
    if not isinstance(named, RegistryReference):
        raise UsageError(f"pods cannot pull from {named.name}", hint="push the model to a registry first")
    _check(options)
    cluster = parse_cluster(options.kubernetes_version)
    served, pulls = options.kind == "InferenceService", options.kind == "InitContainer"
    partly = served or options.sub_path is not None
    if not pulls:
        cluster.require_image_volumes(partly)
    with open_store(named, registry) as store:
        model = _model(Documents(store), named, options)
    if served:
        _check_prefix(named, model)
    if options.sub_path is not None and not model.has(options.sub_path):
        raise UsageError(
            f"the model has no folder {show(options.sub_path)}", hint="look at it with 'ocibridge volume check'"
        )
    values = _values(options, named, model)
    found, comments = document(options.kind, values)
    notes = [] if pulls else [*cluster.notes(partly, model.direct), *model.notes]
    if served:
        notes.append("KServe has to know oci+native://")
    if options.image and not (pulls or options.server or options.command or options.args):
        mounted = options.mount_path or _MOUNT
        notes.append(
            f"{options.image} gets no arguments; if it does not look in {mounted} itself, add --args or --server"
        )
    if is_loopback(urlsplit(f"//{named.host}").hostname or ""):
        notes.append(
            f"{named.host} is this machine, which no node can pull from: push the model to a registry for them"
        )
    head = "".join(f"# {line}\n" for line in (f"the model {model.artifact}", *notes))
    return VolumeManifestReport(
        source=model.artifact,
        image=model.image,
        kind=options.kind,
        documents=[found],
        yaml=head + to_yaml(found, comments),
        notes=notes,
    )


def _values(options: VolumeManifestOptions, named: RegistryReference, model: _PublishedModel) -> ManifestValues:
    name, mount_path = options.name or _name(named), options.mount_path or _MOUNT
    return ManifestValues(
        name=name,
        artifact=model.artifact,
        image=model.image,
        container=_container(options, model, mount_path, name),
        mount_path=mount_path,
        sub_path=options.sub_path,
        pull_secret=options.pull_secret,
        pull_policy=options.pull_policy or "IfNotPresent",
        space=model.space,
        direct=model.direct,
        ocibridge_image=options.ocibridge_image or "",
        model_format=_format(options.model_format, model) if options.kind == "InferenceService" else "",
    )


def _container(options: VolumeManifestOptions, model: _PublishedModel, mount_path: str, name: str) -> Container | None:
    args = tuple(options.args or ())
    if options.server is not None:
        below = f"{options.sub_path.rstrip('/')}/" if options.sub_path else ""
        paths = [path.removeprefix(below) for path in model.paths if path.startswith(below)]
        found = serving(options.server, paths, mount_path, name, options.gpu)
        return replace(found, image=options.image or found.image, args=(*found.args, *args))
    if options.image is None:
        return None
    return Container(options.image, tuple(options.command or ()), args, options.gpu or 0)


_POD_ONLY = ("server", "image", "command", "args", "gpu")
_USELESS: dict[str, tuple[str, ...]] = {
    "Pod": ("ocibridge_image", "model_format"),
    "Deployment": ("ocibridge_image", "model_format"),
    "DaemonSet": ("server", "command", "args", "gpu", "ocibridge_image", "model_format"),
    "InferenceService": (*_POD_ONLY, "mount_path", "sub_path", "ocibridge_image"),
    "InitContainer": ("pull_policy", "runtime", "model_format"),
}
"""Options that have no effect for a kind."""


def _check_use(options: VolumeManifestOptions) -> None:
    """Refuse options that have no effect, and images that nobody can pull.

    Raises:
        UsageError: there is one.
    """
    given = {name for name, value in vars(options).items() if value is not None}
    useless = next((name for name in _USELESS[options.kind] if name in given), None)
    if useless is not None:
        flag = "--" + useless.replace("_", "-")
        raise UsageError(f"{options.kind} has no use for {flag}", hint=f"leave out {flag}")
    for name in ("command", "args", "gpu"):
        if name in given and not given & ({"image"} if name == "command" else {"image", "server"}):
            raise UsageError(f"--{name} is for a container that is not named", hint="name it with --image")
    if options.server is not None and options.command is not None:
        raise UsageError(
            "--server has a command of its own", hint="give --image with --command, or --server with --args"
        )
    if options.gpu is not None and options.gpu < 0:
        raise UsageError(f"there are no {options.gpu} GPUs", hint="give a number, such as 1")
    for flag, image in (("--image", options.image), ("--ocibridge-image", options.ocibridge_image)):
        if image is not None and not re.search(r"[:@][^/]+$", image):
            raise UsageError(f"{flag} {show(image)} has no tag", hint=f"give one, or a digest, such as {image}:v1")
    if options.kind == "InitContainer" and options.ocibridge_image is None:
        raise UsageError(
            "an InitContainer runs ocibridge, of which no image is published",
            hint="build one from the sources of ocibridge with 'docker build --tag HOST/ocibridge:v1 .', push it where "
            "the nodes pull from, and give --ocibridge-image HOST/ocibridge:v1",
        )


def _check(options: VolumeManifestOptions) -> None:
    _check_use(options)
    name, mount_path, sub_path = options.name, options.mount_path, options.sub_path
    if name is not None and not _NAME.fullmatch(name):
        raise UsageError(f"{show(name)} is no name for an object", hint="use lower-case letters, digits and '-'")
    if mount_path is not None and (not re.fullmatch(r"/[!-9;-~]+", mount_path) or ".." in mount_path.split("/")):
        raise UsageError(f"{show(mount_path)} is no path to mount at", hint="give an absolute one, such as /models")
    if sub_path is not None and (
        not re.fullmatch(r"[!-~]+", sub_path) or sub_path.startswith("/") or ".." in sub_path.split("/")
    ):
        raise UsageError(f"{show(sub_path)} is no path in a volume", hint="give a relative one, such as models")


def _name(named: RegistryReference) -> str:
    text = re.sub(r"[^a-z0-9]+", "-", named.repository.rpartition("/")[2])[:63].strip("-")
    return text or "model"


@dataclass(frozen=True, slots=True)
class _PublishedModel:
    """A published model.

    Attributes:
        artifact: Pinned reference of the artifact.
        image: Pinned reference of what pods mount.
        space: Size of what a node keeps, in bytes.
        paths: Paths of the files; empty if they are not known.
        direct: `image` is an artifact, which only CRI-O mounts.
        notes: Requirements of the nodes.
    """

    artifact: str
    image: str
    space: int
    paths: tuple[str, ...]
    direct: bool = False
    notes: tuple[str, ...] = ()

    def has(self, folder: str) -> bool:
        """Return whether there is such a folder; True if the files are not known."""
        return not self.paths or any(path.startswith(folder.rstrip("/") + "/") for path in self.paths)


def _model(documents: Documents, named: RegistryReference, options: VolumeManifestOptions) -> _PublishedModel:
    top = documents.named(named.version)
    if options.kind == "InitContainer":
        return _pulled(documents, named, top)
    own = _prediction(documents, top, options.runtime or CONTAINERD)
    if own.verdict == "mounts":
        return _published(documents, named, top, (top.subject or top.descriptor).digest, own)
    related = find_image(documents, named, top)
    if related.image is None:
        stale = f" (the tag {related.stale} is the image of another version of it)" if related.stale else ""
        raise NotFound(
            f"{named} is nothing that a pod can mount, and has no image{stale}", hint=_hint(documents, named, top)
        )
    seen = _prediction(documents, related.image, options.runtime or CONTAINERD)
    if seen.verdict != "mounts":
        raise FormatError(
            f"the image of {named} would not mount: {seen.reason}", hint=f"see 'ocibridge volume check {named}'"
        )
    return _published(documents, named, related.image, top.descriptor.digest, seen)


def _pulled(documents: Documents, named: RegistryReference, top: ManifestOrIndex) -> _PublishedModel:
    """The model of a pod that pulls it."""
    artifact = documents.load(top.subject.digest) if top.subject is not None else top
    manifest = artifact.manifest
    if manifest is None or not is_model(manifest.artifact_type, manifest.config.media_type):
        raise UsageError(f"{named} is no model artifact, so that ocibridge cannot pull it", hint="give one")
    pinned = named.pinned(artifact.descriptor.digest)
    layers = fetch_artifact(documents.store, pinned).artifact.layers
    listed = all(layer.files for layer in layers)
    return _PublishedModel(
        artifact=str(pinned),
        image=str(pinned),
        space=sum(each.size for each in manifest.layers),
        paths=tuple(file.path for layer in layers for file in layer.files) if listed else (),
    )


def _hint(documents: Documents, named: RegistryReference, top: ManifestOrIndex) -> str:
    manifest = top.manifest
    if manifest is None or not is_model(manifest.artifact_type, manifest.config.media_type):
        return f"see 'ocibridge volume check {named}'"
    hint = f"run '{prepare_command(named)}' first"
    if _prediction(documents, top, CRIO).verdict == "mounts":
        hint += f", or add --runtime {CRIO} if the nodes have CRI-O 1.33 or later, which mounts it as it is"
    return hint


def _prediction(documents: Documents, found: ManifestOrIndex, runtime: str) -> Prediction:
    platforms = platforms_of(found)
    platform = PLATFORM if PLATFORM in platforms or not platforms else platforms[0]
    return predict(documents, found, parse_runtime(runtime), platform, read=False)


def _published(
    documents: Documents, named: RegistryReference, image: ManifestOrIndex, artifact: str, seen: Prediction
) -> _PublishedModel:
    assert seen.manifest is not None
    manifest = documents.load(seen.manifest).manifest
    assert manifest is not None
    stored = sum(each.size for each in manifest.layers)
    known = not seen.unread
    direct = seen.mounted_as == "artifact"
    unpacked = sum(each.size for each in seen.files) if known else stored
    platforms = platforms_of(image)
    return _PublishedModel(
        artifact=str(named.pinned(artifact)),
        image=str(named.pinned(image.descriptor.digest)),
        space=stored if direct else stored + unpacked,
        paths=tuple(each.path for each in seen.files) if known else (),
        direct=direct,
        notes=(f"the nodes have to be {' or '.join(platforms)}",) if platforms else (),
    )


def _check_prefix(named: RegistryReference, model: _PublishedModel) -> None:
    if not model.has(KSERVE_FOLDER):
        raise UsageError(
            f"KServe mounts the folder {KSERVE_FOLDER}/ of an image, and the one of {named} has none",
            hint=f"push the model again with --prefix {KSERVE_FOLDER}/ --also image",
        )


def _format(given: str | None, model: _PublishedModel) -> str:
    found = given or model_format(model.paths)
    if found is None:
        raise UsageError(
            "the files do not tell what KServe calls the format of the model",
            hint="give it with --model-format, such as huggingface",
        )
    return found
