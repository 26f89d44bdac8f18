# SPDX-License-Identifier: Apache-2.0
"""`convert`: any box or artifact becomes any other; between artifacts, in the words of another dialect."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import settings
from ..dialects import annotations as keys
from ..dialects.choices import Dialect
from ..dialects.config import dropped_keys
from ..dialects.dialect import dialect_of
from ..dialects.reading import StoredArtifact
from ..dialects.vocabulary import ManifestDialect
from ..dialects.writing import repack, reword
from ..errors import InvalidReference, UsageError
from ..formats.registry import address_of, format_for
from ..layers import BuiltManifest, Encoding, Layer, ManifestPlan, StoredLayer
from ..model import ModelFile, Role
from ..oci import LayoutReference, Reference, RegistryReference, has_scheme, parse_reference
from ..oci.reference import web_address
from ..options import shared
from ..stores.base import Store
from ..stores.content import BlobContent
from ..stores.opening import open_store
from ..stores.registry.hosts import Hosts
from ..transfer import DigestCache, LayerBytes, Progress, describe_all, publish, publish_sealed
from .artifacts import Fetched, fetch_artifact
from .options import ConvertOptions, PullOptions, PushOptions
from .pull import pull
from .push import push
from .reports import ConvertReport, PullReport, PushReport, RewriteReport, pushed_layers
from .rewrite import rewrite
from .sources import other_side, path_or_reference, subject_of

if TYPE_CHECKING:
    from ..stores.registry import RegistryOptions


def convert(
    source: str | os.PathLike[str] | Reference,
    target: str | os.PathLike[str] | Reference,
    options: ConvertOptions = ConvertOptions(),
    *,
    on_losses: Callable[[Sequence[str]], None] | None = None,
    registry: RegistryOptions | None = None,
    progress: Progress | None = None,
) -> ConvertReport | PullReport | RewriteReport:
    """Make another box or artifact of a model, where that can hold it.

    A box to a reference is a `push`, a reference to a box is a `pull`; from box to box no store is between. From
    reference to reference, where the other dialect has a name for every layer as it is, no layer changes, and none
    moves that the target has already: within one repository only config and manifest are new, within one registry
    blobs are mounted. Raw layers become tar layers for the draft, which has no others; they stream from store to store,
    once to be hashed and once to be sent.

    Args:
        source: A path, `ollama:NAME[:TAG]`, `ollama://HOST/NAMESPACE/NAME[:TAG]` or a reference.
        target: A path, `ollama:NAME[:TAG]` or a reference, whose tag defaults to `latest`.
        options: How the source is read, and what is written.
        on_losses: Told what a box cannot express, before anything is written; the report has it too.
        registry: Credentials and TLS, for the target; for the source where it is on the same host, or alone.
        progress: Told what happens.

    Raises:
        UsageError: the arguments do not fit together, or the dialect has no name for a layer.
        NotFound: there is nothing of that name.
        FormatError: the source is no model, or the target cannot hold it.
        IntegrityError: a byte is not what was promised.
        DestinationError: the target cannot be written.
        StoreError: one of the stores refused something.

    Example:
        >>> options = ConvertOptions(dialect="modelpack")
        >>> convert("localhost:5000/digits:v1", "localhost:5000/digits:cncf", options)  # doctest: +SKIP
    """
    origin, goal = subject_of(source), _target_of(target)
    if not isinstance(goal, RegistryReference | LayoutReference):
        if options.dialect:
            raise UsageError("--dialect is for artifacts", hint="leave it out, or give a reference as the target")
        if isinstance(origin, RegistryReference | LayoutReference):
            writing = shared(PullOptions, options)
            return pull(origin, goal, writing, on_losses=on_losses, registry=registry, progress=progress)
        return rewrite(_as_given(source), goal, options, on_losses=on_losses, registry=registry, progress=progress)
    if not isinstance(origin, RegistryReference | LayoutReference):
        packing = shared(PushOptions, options, dialect=options.dialect or Dialect.CNAI)
        return _published(source, push(_as_given(source), goal, packing, registry=registry, progress=progress), packing)
    if options.dialect is None:
        raise UsageError(
            "it is not said which dialect the artifact shall be converted to",
            hint="add --dialect cnai, draft or modelpack",
        )
    return _reworded(origin, goal, options.dialect, options, registry, progress)


def _target_of(target: str | os.PathLike[str] | Reference) -> str | Path | Reference:
    """A reference, a path, or a text with the scheme of a format."""
    if isinstance(target, str) and address_of(target):
        return target
    if isinstance(target, RegistryReference | LayoutReference):
        return target
    text = os.fspath(target)
    if isinstance(target, str) and (has_scheme(text) or web_address(text)):
        return parse_reference(text)
    if format_for(Path(text)):
        return Path(text)
    try:
        return path_or_reference(text)
    except InvalidReference:
        return Path(text)


def _as_given(source: str | os.PathLike[str] | Reference) -> str | os.PathLike[str]:
    assert not isinstance(source, RegistryReference | LayoutReference)
    return source


def _published(source: str | os.PathLike[str] | Reference, done: PushReport, options: PushOptions) -> ConvertReport:
    return ConvertReport(
        source=str(source),
        source_dialect=None,
        reference=done.reference,
        digest=done.digest,
        tag=done.tag,
        dialect=Dialect(options.dialect).value,
        identity=done.identity,
        format=done.format,
        layers=done.layers,
        warnings=done.warnings,
    )


def _reworded(
    reference: Reference,
    goal: Reference,
    dialect: Dialect | str,
    options: ConvertOptions,
    registry: RegistryOptions | None,
    progress: Progress | None,
) -> ConvertReport:
    if goal.digest:
        raise UsageError("the target of a conversion has a tag, not a digest", hint="leave out the part from '@' on")
    dialect_of(dialect)
    with ExitStack() as stack:
        same = goal.name == reference.name
        hosts = stack.enter_context(Hosts())
        notes = settings.cache_dir() if options.cache else None
        store = stack.enter_context(
            open_store(reference, other_side(reference, goal, registry), hosts=hosts, write=same, notes=notes)
        )
        fetched = fetch_artifact(store, reference)
        plan = plan_rewording(fetched, store, dialect, options.concurrency, progress)
        place = store
        if not same:
            place = stack.enter_context(open_store(goal, registry, hosts=hosts, create=True, notes=notes))
        digests = stack.enter_context(DigestCache(notes))
        return reword_into(
            plan, fetched, store, reference, place, goal, dialect, digests, options.concurrency, progress
        )


Rewording = ManifestPlan | tuple[BuiltManifest, list[LayerBytes]]
"""An artifact in other words, ready to be published."""


def reword_into(
    plan: Rewording,
    fetched: Fetched,
    store: Store,
    reference: Reference,
    place: Store,
    goal: Reference,
    dialect: Dialect | str,
    cache: DigestCache,
    concurrency: int = settings.CONCURRENCY,
    progress: Progress | None = None,
) -> ConvertReport:
    """Publish an artifact of one open store in another dialect, in another or the same one.

    Args:
        plan: From `plan_rewording`.
        fetched: The artifact.
        store: Where it is.
        reference: What it is called there.
        place: Where it goes; may be `store`.
        goal: What it is called there, by tag.
        dialect: The dialect of the new manifest.
        cache: Digests found in earlier runs.
        concurrency: Layers that move at the same time.
        progress: Told what happens.

    Raises:
        OcibridgeError: see `convert`.
    """
    wanted = dialect_of(dialect).name
    common: dict[str, Any] = {
        "concurrency": concurrency,
        "progress": progress,
        "mount_from": () if place is store else (store,),
    }
    if isinstance(plan, ManifestPlan):
        done = publish(plan, place, goal.version, cache=cache, **common)
    else:
        done = publish_sealed(*plan, place, goal.version, **common)
    artifact = fetched.artifact
    return ConvertReport(
        source=str(reference.pinned(fetched.descriptor.digest)),
        source_dialect=artifact.dialect,
        reference=str(goal.pinned(done.manifest.digest)),
        digest=done.manifest.digest,
        tag=goal.version,
        dialect=wanted,
        identity=artifact.model.identity,
        format=artifact.model.format,
        layers=pushed_layers(done),
        warnings=([] if artifact.dialect == wanted else _losses(fetched))
        + list(dict.fromkeys([*store.warnings, *place.warnings])),
    )


def plan_rewording(
    fetched: Fetched,
    store: Store,
    dialect: Dialect | str,
    concurrency: int = settings.CONCURRENCY,
    progress: Progress | None = None,
) -> Rewording:
    """An artifact in the words of another dialect; nothing is written yet.

    Raises:
        OcibridgeError: see `convert`.
    """
    artifact, dialect = fetched.artifact, dialect_of(dialect).name
    if artifact.dialect == dialect:
        return _as_it_is(fetched), _sources(artifact.layers, store)
    raw = [each for each in artifact.layers if each.encoding is Encoding.RAW]
    # The bare type of seed 001 belongs to weights beside tar layers, as `push --layers raw` writes them.
    bare = len(raw) < len(artifact.layers) and all(each.role is Role.WEIGHT for each in raw)
    vocabulary = dialect_of(dialect, bare_raw=bare)
    if not raw or _knows(vocabulary, raw):
        _check(vocabulary, artifact.layers)
        return reword(artifact, vocabulary, store.limits), _sources(artifact.layers, store)
    _check(vocabulary, [each for each in artifact.layers if each not in raw])
    if len(raw) == len(artifact.layers):
        return repack(artifact, _files(artifact, store), vocabulary, store.limits)
    return _wrapped(artifact, store, vocabulary, concurrency, progress)


def _as_it_is(fetched: Fetched) -> BuiltManifest:
    descriptor, manifest = fetched.descriptor, fetched.artifact.manifest
    return BuiltManifest(fetched.data, descriptor.media_type, fetched.config, manifest.config, tuple(manifest.layers))


def _knows(vocabulary: ManifestDialect, layers: Sequence[StoredLayer]) -> bool:
    try:
        vocabulary.check([each.encoding for each in layers])
    except UsageError:
        return False
    return True


def _check(vocabulary: ManifestDialect, layers: Sequence[StoredLayer]) -> None:
    try:
        vocabulary.check([each.encoding for each in layers])
    except UsageError as exc:
        raise UsageError(
            exc.message, hint=f"pull the model, and push it with --dialect {vocabulary.name} --layers tar"
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


def _wrapped(
    artifact: StoredArtifact, store: Store, vocabulary: ManifestDialect, concurrency: int, progress: Progress | None
) -> tuple[BuiltManifest, list[LayerBytes]]:
    """Raw layers wrapped in tar one by one, beside tar layers that stay as they are."""
    layers = list(artifact.layers)
    sources = _sources(layers, store)
    raw = {
        number: Layer(
            (ModelFile(each.members[0].path, each.role, sources[number].content, each.files[0].sha256),), Encoding.TAR
        )
        for number, each in enumerate(layers)
        if each.encoding is Encoding.RAW
    }
    found = describe_all(list(raw.values()), concurrency=concurrency, progress=progress)
    for (number, layer), digests in zip(raw.items(), found, strict=True):
        old = layers[number]
        blob = old.descriptor.model_copy(update={"digest": digests.digest, "size": digests.size})
        layers[number] = old._replace(descriptor=blob, encoding=Encoding.TAR, diff_id=digests.diff_id)
        sources[number] = LayerBytes(layer.label, layer.content(digests.size))
    return reword(artifact._replace(layers=tuple(layers)), vocabulary, store.limits), sources


def _sources(layers: Sequence[StoredLayer], store: Store) -> list[LayerBytes]:
    return [
        LayerBytes(
            each.files[0].path if len(each.files) == 1 else each.descriptor.digest, BlobContent(store, each.descriptor)
        )
        for each in layers
    ]


def _losses(fetched: Fetched) -> list[str]:
    artifact = fetched.artifact
    if artifact.config is None:
        return []
    return [
        f"the key {key} of the config is not carried: not every dialect has a word for it"
        for key in dropped_keys(fetched.config, artifact.config)
    ]
