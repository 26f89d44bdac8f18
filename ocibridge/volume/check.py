# SPDX-License-Identifier: Apache-2.0
"""`volume check`: predict the files that a pod sees of an artifact, and the command that repairs it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .. import settings
from ..dialects.image import parse_platforms
from ..dialects.reading import is_model
from ..errors import UsageError
from ..oci import MEDIA_TYPE_DOCKER_MANIFEST, Manifest, Reference, RegistryReference
from ..operations.sources import stored_reference
from ..stores.opening import open_store
from .companions import FoundImage, find_image
from .documents import Documents, ManifestOrIndex
from .options import RUNTIMES, VolumeCheckOptions
from .predict import predict
from .reports import CompanionImage, Prediction, VolumeCheckReport
from .runtimes import IMAGE_CONFIG, Runtime, parse_runtime

if TYPE_CHECKING:
    from ..stores.registry import RegistryOptions

_KINDS = (
    (r"application/vnd\.cnai\.model\.(manifest|config)\.v1\+json", "a CNAI model artifact"),
    (r"application/vnd\.cncf\.model\.(manifest|config)\.v1\+json", "a ModelPack model artifact"),
    (r"application/vnd\.kitops\.modelkit\..*", "a KitOps ModelKit"),
    (r"application/vnd\.docker\.ai\.model\..*", "a Docker model"),
)
_NEW = "NEW-TAG"


def volume_check(
    reference: str | Reference,
    options: VolumeCheckOptions = VolumeCheckOptions(),
    *,
    registry: RegistryOptions | None = None,
) -> VolumeCheckReport:
    """Predict the files that pods see of an artifact that they mount as an image volume; any tool may have made it.

    Manifest, index and config are read as the runtime reads them. The files of a layer are read from our annotations,
    else from tar headers, with a few small requests per layer; compressed layers of 64 MiB or more are left out.

    Args:
        reference: The artifact.
        options: Runtime and platform of the nodes, and how much is read.
        registry: Credentials and TLS.

    Returns:
        A prediction for each runtime, and the same for the companion image if there is one.

    Raises:
        UsageError: there is no such runtime, or a version is given for both.
        NotFound: there is no such artifact.
        FormatError: it is neither a manifest nor an index.
        StoreError: the store cannot be read.

    Example:
        >>> volume_check("localhost:5000/models/digits:v1-image").ok  # doctest: +SKIP
        True
    """
    if options.version is not None and options.runtime is None:
        raise UsageError("a version is that of one runtime", hint=f"add --runtime {' or --runtime '.join(RUNTIMES)}")
    names = [options.runtime] if options.runtime else RUNTIMES
    runtimes = [parse_runtime(name, options.version) for name in names]
    nodes = (options.platform, options.read)
    parse_platforms([options.platform])
    named = stored_reference(reference)
    with open_store(named, registry) as store:
        documents = Documents(store)
        top = documents.named(named.version)
        related = FoundImage(None) if top.subject is not None else find_image(documents, named, top)
        companion = _companion(documents, named, related, runtimes, *nodes) if related.image else None
        predictions = [
            _repaired(predict(documents, top, each, *nodes), each, named, top, companion) for each in runtimes
        ]
        warnings = list(store.warnings)
        kind = kind_of(top)
    if related.stale:
        warnings.append(f"{named.name}:{related.stale} is the image of another version of this artifact")
    return VolumeCheckReport(
        source=str(named.pinned(top.descriptor.digest)),
        kind=kind,
        ok=all(each.ok for each in predictions),
        runtimes=predictions,
        companion=companion,
        warnings=warnings,
    )


def kind_of(found: ManifestOrIndex) -> str:
    """Describe the kind of an artifact in a few words."""
    if found.index is not None:
        return "an image index"
    manifest = found.manifest
    assert manifest is not None
    for pattern, kind in _KINDS:
        if any(re.fullmatch(pattern, each or "") for each in (manifest.config.media_type, manifest.artifact_type)):
            draft = manifest.config.media_type == IMAGE_CONFIG
            return "a CNAI model artifact of OCI layers (the draft dialect)" if draft else kind
    if any(each.media_type.startswith("application/vnd.ollama.") for each in manifest.layers):
        return "a model of Ollama"
    if manifest.artifact_type:
        return f"an artifact of the type {manifest.artifact_type}"
    if manifest.config.media_type == IMAGE_CONFIG or found.descriptor.media_type == MEDIA_TYPE_DOCKER_MANIFEST:
        return "an image"
    return f"an artifact with a config of the type {manifest.config.media_type}"


def is_artifact(manifest: Manifest) -> bool:
    """Return whether a manifest is a model artifact and not also an image."""
    kind = manifest.config.media_type
    return kind != IMAGE_CONFIG and is_model(manifest.artifact_type, kind)


def _companion(
    documents: Documents, named: Reference, related: FoundImage, runtimes: Sequence[Runtime], platform: str, read: bool
) -> CompanionImage:
    image = related.image
    assert image is not None
    return CompanionImage(
        reference=str(named.pinned(image.descriptor.digest)),
        tag=related.tag,
        platforms=platforms_of(image),
        runtimes=[
            _repaired(predict(documents, image, each, platform, read), each, named, image, None) for each in runtimes
        ],
    )


def platforms_of(found: ManifestOrIndex) -> list[str]:
    """The platforms that an index names."""
    entries = found.index.manifests if found.index else []
    platforms = (each.platform for each in entries if each.platform)
    return [
        "/".join(str(each[key]) for key in ("os", "architecture", "variant") if each.get(key)) for each in platforms
    ]


def _repaired(
    found: Prediction, runtime: Runtime, named: Reference, top: ManifestOrIndex, companion: CompanionImage | None
) -> Prediction:
    """Add the command that repairs the artifact, if there is one; the verdict is that for pods."""
    if not runtime.image_volumes:
        return found.model_copy(
            update={
                "verdict": "refused",
                "reason": f"it has no image volumes, {runtime.first} is the first version that has them",
                "repair": _pulling(named, top),
                "mounted_as": None,
                "files": [],
                "hazards": [],
            }
        )
    if found.verdict == "mounts":
        return found
    if companion is not None and any(each.ok for each in companion.runtimes if each.runtime == found.runtime):
        return found.model_copy(update={"repair": f"ocibridge volume manifest {_quoted(named)} --kind Pod"})
    return found.model_copy(update={"repair": _repair(named, top, found.platform)})


def _pulling(named: Reference, top: ManifestOrIndex) -> str | None:
    """The command for pods that pull a model themselves; None if ocibridge cannot pull it."""
    manifest = top.manifest
    if not isinstance(named, RegistryReference) or (top.subject is None and not (manifest and is_artifact(manifest))):
        return None
    return f"ocibridge volume manifest {_quoted(named)} --kind InitContainer --ocibridge-image IMAGE"


def _repair(named: Reference, top: ManifestOrIndex, platform: str) -> str:
    manifest, subject = top.manifest, top.subject
    if manifest is not None and is_artifact(manifest):
        return prepare_command(named)
    there = platforms_of(top)
    if top.index is not None and subject is not None and platform not in there:
        tag = (named.tag or _NEW).removesuffix(settings.IMAGE_SUFFIX)
        artifact = f"{named.name}:{tag}@{subject.digest}"
        return f"ocibridge volume prepare {_quoted(artifact)} --platform {','.join([*there, platform])}"
    return f"ocibridge push FOLDER {_quoted(f'{named.name}:{_NEW}')} --also image"


def prepare_command(named: Reference) -> str:
    """The command that publishes the image of an artifact; its tag is that of the artifact with a suffix."""
    if named.digest is not None and named.tag is None:
        return f"ocibridge volume prepare {_quoted(f'{named.name}:{_NEW}@{named.digest}')}"
    return f"ocibridge volume prepare {_quoted(named)}"


def _quoted(named: Reference | str) -> str:
    return shlex.quote(str(named))
