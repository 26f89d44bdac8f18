# SPDX-License-Identifier: Apache-2.0
"""An artifact of one store in another dialect, in the same store or another."""

from __future__ import annotations

from collections.abc import Sequence

from .. import settings
from ..dialects import annotations as keys
from ..dialects.base import ManifestDialect, StoredArtifact
from ..dialects.config import dropped_keys
from ..dialects.registry import dialect_named
from ..dialects.writing import repack, translate
from ..errors import UsageError
from ..layers import BuiltManifest, Encoding, Layer, LayerDigests, ManifestPlan, StoredLayer
from ..model import ModelFile, Role
from ..oci import Reference
from ..stores.base import Store
from ..stores.content import BlobContent
from ..transfer import DigestCache, Progress, publish
from ..transfer.session import CopySession
from .artifacts import Fetched
from .reports import ConvertReport, pushed_layers


def plan_translation(fetched: Fetched, source: Store, dialect: str) -> ManifestPlan:
    """An artifact as another dialect writes it; nothing moves yet.

    Args:
        fetched: The artifact.
        source: Where it is.
        dialect: The dialect of the new manifest.

    Raises:
        UsageError: the dialect has no name for a layer.
        FormatError: the artifact does not say what the other dialect has to say.
    """
    artifact, wanted = fetched.artifact, dialect_named(dialect)
    if artifact.dialect == wanted.name:
        return _planned(artifact.layers, _as_it_is(fetched))
    raw = [each for each in artifact.layers if each.encoding is Encoding.RAW]
    # The bare type of seed 001 belongs to weights among tar layers, as `push --layers raw` writes them.
    bare = len(raw) < len(artifact.layers) and all(each.role is Role.WEIGHT for each in raw)
    wanted = wanted.with_bare_raw() if bare else wanted
    if not raw or _knows(wanted, raw):
        _check(wanted, artifact.layers)
        return _planned(artifact.layers, translate(artifact, wanted, source.limits))
    _check(wanted, [each for each in artifact.layers if each not in raw])
    if len(raw) == len(artifact.layers):
        return repack(artifact, _files(artifact, source), wanted, source.limits)
    return _wrapped(artifact, source, wanted)


def publish_translation(
    plan: ManifestPlan,
    fetched: Fetched,
    source: Store,
    reference: Reference,
    target: Store,
    goal: Reference,
    dialect: str,
    *,
    session: CopySession | None = None,
    cache: DigestCache | None = None,
    concurrency: int = settings.CONCURRENCY,
    progress: Progress | None = None,
) -> ConvertReport:
    """Publish what `plan_translation` has planned.

    Args:
        plan: The plan.
        fetched: The artifact.
        source: Where it is.
        reference: What it is called there.
        target: Where it goes; may be `source`.
        goal: What it is called there, by tag.
        dialect: The dialect of the new manifest.
        session: What is known in this run.
        cache: Digests found in earlier runs.
        concurrency: Layers that move at the same time.
        progress: Receives progress events.

    Raises:
        OcibridgeError: see `convert`.
    """
    done = publish(
        plan,
        target,
        goal.version,
        source=source,
        session=session,
        cache=cache,
        concurrency=concurrency,
        progress=progress,
    )
    artifact, wanted = fetched.artifact, dialect_named(dialect).name
    return ConvertReport(
        source=str(reference.pinned(fetched.descriptor.digest)),
        source_format=artifact.model.format,
        source_dialect=artifact.dialect,
        source_identity=artifact.model.identity,
        target=str(goal.at(goal.version)),
        reference=str(goal.pinned(done.manifest.digest)),
        digest=done.manifest.digest,
        tag=goal.version,
        dialect=wanted,
        identity=artifact.model.identity,
        format=artifact.model.format,
        layers=pushed_layers(done),
        warnings=([] if artifact.dialect == wanted else _losses(fetched))
        + list(dict.fromkeys([*source.warnings, *target.warnings])),
    )


def _planned(layers: Sequence[StoredLayer], built: BuiltManifest) -> ManifestPlan:
    """The plan of a manifest whose layers are all stored."""
    return ManifestPlan(tuple(layers), lambda _: built)


def _as_it_is(fetched: Fetched) -> BuiltManifest:
    descriptor, manifest = fetched.descriptor, fetched.artifact.manifest
    return BuiltManifest(fetched.data, descriptor.media_type, fetched.config, manifest.config, tuple(manifest.layers))


def _knows(dialect: ManifestDialect, layers: Sequence[StoredLayer]) -> bool:
    try:
        dialect.check([each.encoding for each in layers])
    except UsageError:
        return False
    return True


def _check(dialect: ManifestDialect, layers: Sequence[StoredLayer]) -> None:
    try:
        dialect.check([each.encoding for each in layers])
    except UsageError as exc:
        raise UsageError(
            exc.message, hint=f"pull the model, and push it with --dialect {dialect.name} --layers tar"
        ) from None


def _files(artifact: StoredArtifact, store: Store) -> list[ModelFile]:
    """The files of raw layers, in their order."""
    return [
        ModelFile(
            path=entry.path,
            role=layer.role,
            content=BlobContent(store, layer.descriptor),
            sha256=entry.sha256,
            symlink=entry.symlink,
            guessed=keys.guessed(layer),
            origin=keys.file_origin(layer),
        )
        for layer, entry in zip(artifact.layers, artifact.model.files, strict=True)
    ]


def _wrapped(artifact: StoredArtifact, store: Store, dialect: ManifestDialect) -> ManifestPlan:
    """Raw layers wrapped in tar, and tar layers as they are."""

    def wrap(layer: StoredLayer) -> Layer:
        content = BlobContent(store, layer.descriptor)
        return Layer((ModelFile(layer.members[0].path, layer.role, content, layer.files[0].sha256),), Encoding.TAR)

    def build(digests: Sequence[LayerDigests]) -> BuiltManifest:
        found = iter(digests)
        layers = [_as_tar(each, next(found)) if each.encoding is Encoding.RAW else each for each in artifact.layers]
        return translate(artifact._replace(layers=tuple(layers)), dialect, store.limits)

    layers = (wrap(each) if each.encoding is Encoding.RAW else each for each in artifact.layers)
    return ManifestPlan(tuple(layers), build)


def _as_tar(layer: StoredLayer, digests: LayerDigests) -> StoredLayer:
    blob = layer.descriptor.model_copy(update={"digest": digests.digest, "size": digests.size})
    return layer._replace(descriptor=blob, encoding=Encoding.TAR, diff_id=digests.diff_id)


def _losses(fetched: Fetched) -> list[str]:
    artifact = fetched.artifact
    if artifact.config is None:
        return []
    return [
        f"the key {key} of the config is not stored: not every dialect has a word for it"
        for key in dropped_keys(fetched.config, artifact.config)
    ]
