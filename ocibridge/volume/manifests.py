# SPDX-License-Identifier: Apache-2.0
"""`volume manifest`: Kubernetes manifests that mount a published model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

from ..dialects.reading import is_model
from ..errors import FormatError, NotFound, UsageError
from ..oci import Reference, RegistryReference, parse_reference
from ..paths import show
from ..stores.opening import open_store
from .check import platforms_of
from .companions import find_image
from .documents import Documents, ManifestOrIndex
from .emit import to_yaml
from .kinds import KSERVE_FOLDER, ManifestValues, document, model_format
from .kubernetes import parse_cluster
from .options import CONTAINERD, PLATFORM, VolumeManifestOptions
from .predict import predict
from .reports import Prediction, VolumeManifestReport
from .runtimes import parse_runtime

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
    named = parse_reference(reference) if isinstance(reference, str) else reference
    if not isinstance(named, RegistryReference):
        raise UsageError(f"pods cannot pull from {named.name}", hint="push the model to a registry first")
    kind, sub_path = options.kind, options.sub_path
    served, pulls = kind == "InferenceService", kind == "InitContainer"
    given = {
        "--mount-path": options.mount_path,
        "--sub-path": sub_path,
        "--image": options.image,
        "--pull-policy": options.pull_policy,
    }
    for option, value in given.items():
        if value is not None and (served or (pulls and option == "--pull-policy")):
            raise UsageError(f"{kind} has no use for {option}", hint=f"leave out {option}")
    _check(options)
    cluster = parse_cluster(options.kubernetes_version)
    partly = served or sub_path is not None
    if not pulls:
        cluster.require_image_volumes(partly)
    with open_store(named, registry) as store:
        documents = Documents(store)
        model = _model(documents, named, pulls)
    if served:
        _check_prefix(named, model)
    if sub_path is not None and not pulls and not model.has(sub_path):
        raise UsageError(f"the image has no folder {show(sub_path)}", hint="look at it with 'ocibridge volume check'")
    found, comments = document(
        kind,
        ManifestValues(
            name=options.name or _name(named),
            artifact=model.artifact,
            image=model.image,
            container_image=options.image,
            mount_path=options.mount_path or _MOUNT,
            sub_path=sub_path,
            pull_secret=options.pull_secret,
            pull_policy=options.pull_policy or "IfNotPresent",
            stored=model.stored,
            unpacked=model.unpacked,
            ocibridge_image=options.ocibridge_image or f"ocibridge:{version('ocibridge')}",
            model_format=_format(options.model_format, model) if served else "",
        ),
    )
    notes = [] if pulls else [*cluster.notes(partly), *model.notes]
    if served:
        notes.append("KServe has to know oci+native://")
    head = "".join(f"# {line}\n" for line in (f"the model {model.artifact}", *notes))
    return VolumeManifestReport(
        subject=model.artifact,
        image=model.image,
        kind=kind,
        documents=[found],
        yaml=head + to_yaml(found, comments),
        notes=notes,
    )


def _check(options: VolumeManifestOptions) -> None:
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
        image: Pinned reference of the image that pods mount.
        stored: Size of the layers in bytes.
        paths: Paths of the files; empty if they are not known.
        unpacked: Size of the files in bytes.
        notes: Requirements of the nodes.
    """

    artifact: str
    image: str
    stored: int
    paths: tuple[str, ...]
    unpacked: int
    notes: tuple[str, ...] = ()

    def has(self, folder: str) -> bool:
        """Return whether there is such a folder; True if the files are not known."""
        return not self.paths or any(path.startswith(folder.rstrip("/") + "/") for path in self.paths)


def _model(documents: Documents, named: RegistryReference, pulls: bool) -> _PublishedModel:
    top = documents.named(named.version)
    subject = top.subject
    if pulls:
        artifact = documents.load(subject.digest) if subject is not None else top
        manifest = artifact.manifest
        if manifest is None or not is_model(manifest.artifact_type, manifest.config.media_type):
            raise UsageError(f"{named} is no model artifact, so that ocibridge cannot pull it", hint="give one")
        pinned = str(named.pinned(artifact.descriptor.digest))
        size = sum(each.size for each in manifest.layers)
        return _PublishedModel(pinned, pinned, size, (), size)
    own = _prediction(documents, top)
    if own.verdict == "mounts":
        return _published(documents, named, top, subject.digest if subject else top.descriptor.digest, own)
    related = find_image(documents, named, top)
    if related.image is None:
        stale = f" (the tag {related.stale} is the image of another version of it)" if related.stale else ""
        raise NotFound(
            f"{named} is nothing that a pod can mount, and has no image{stale}",
            hint=_hint(named, top),
        )
    seen = _prediction(documents, related.image)
    if seen.verdict != "mounts":
        raise FormatError(
            f"the image of {named} would not mount: {seen.reason}", hint=f"see 'ocibridge volume check {named}'"
        )
    return _published(documents, named, related.image, top.descriptor.digest, seen)


def _hint(named: RegistryReference, top: ManifestOrIndex) -> str:
    manifest = top.manifest
    if manifest is not None and is_model(manifest.artifact_type, manifest.config.media_type):
        return f"run 'ocibridge volume prepare {named}' first"
    return f"see 'ocibridge volume check {named}'"


def _prediction(documents: Documents, found: ManifestOrIndex) -> Prediction:
    platforms = platforms_of(found)
    platform = PLATFORM if PLATFORM in platforms or not platforms else platforms[0]
    return predict(documents, found, parse_runtime(CONTAINERD), platform, read=False)


def _published(
    documents: Documents, named: RegistryReference, image: ManifestOrIndex, artifact: str, seen: Prediction
) -> _PublishedModel:
    assert seen.manifest is not None
    manifest = documents.load(seen.manifest).manifest
    assert manifest is not None
    stored = sum(each.size for each in manifest.layers)
    known = not seen.unread
    platforms = platforms_of(image)
    return _PublishedModel(
        artifact=str(named.pinned(artifact)),
        image=str(named.pinned(image.descriptor.digest)),
        stored=stored,
        paths=tuple(each.path for each in seen.files) if known else (),
        unpacked=sum(each.size for each in seen.files) if known else stored,
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
