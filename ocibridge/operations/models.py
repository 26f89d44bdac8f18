# SPDX-License-Identifier: Apache-2.0
"""The model that a reference leads to: the artifact itself, or that whose companion the reference names."""

from __future__ import annotations

from ..errors import NotFound, OcibridgeError
from ..formats.registry import formats
from ..oci import MEDIA_TYPE_INDEX, Descriptor, Index, Reference, parse_document
from ..stores.base import Store
from ..stores.missing import naming_tags
from .artifacts import Fetched, fetch_artifact, interpret
from .companions import companion_suffixes
from .original import stored_manifest


def fetch_model(store: Store, reference: Reference) -> tuple[Fetched, list[str]]:
    """Manifest and config of the model that a reference leads to.

    An image that was published with a model has it as its `subject`; the model's own manifest (TAG-ollama) is that of
    TAG if it is what that one would publish.

    Returns:
        The model, and a sentence where the reference names a companion of it.

    Raises:
        NotFound: there is nothing of that name, or the model of the companion is gone.
        FormatError: it is neither a model nor a companion of one.
        IntegrityError: manifest or config do not have their digests.
    """
    with naming_tags(store, reference.version):
        descriptor, data = store.fetch_manifest(reference.version)
    if descriptor.media_type == MEDIA_TYPE_INDEX:
        index = parse_document(Index, data, str(reference), store.limits.manifest)
        if index.subject and index.artifact_type is None and all(each.platform for each in index.manifests):
            return _of_image(store, reference, index.subject)
    found = _of_original(store, reference, descriptor)
    if found:
        return found
    return interpret(store, reference, descriptor, data), []


def _of_image(store: Store, reference: Reference, subject: Descriptor) -> tuple[Fetched, list[str]]:
    model = reference.pinned(subject.digest)
    try:
        fetched = fetch_artifact(store, model)
    except NotFound as exc:
        raise NotFound(
            f"{reference} is the image of the model {subject.digest}, which is not in {store.name}",
            hint=f"'ocibridge volume check {reference}' says what the image holds; copy the model there, too",
            status=exc.status,
        ) from exc
    return fetched, [f"{reference} is the image of the model {model}; the model itself is read"]


def _of_original(store: Store, reference: Reference, descriptor: Descriptor) -> tuple[Fetched, list[str]] | None:
    """The model whose own manifest has this descriptor, if its tag says so and its bytes are those."""
    suffixes = companion_suffixes()
    tag = reference.tag or reference.version
    for each in formats():
        suffix = suffixes.get(each.name)
        if not (suffix and each.companion == descriptor.media_type and tag.endswith(suffix)):
            continue
        model = reference.at(tag.removesuffix(suffix))
        try:
            fetched = fetch_artifact(store, model)
            same = stored_manifest(each.name, fetched, store, model).descriptor.digest == descriptor.digest
        except OcibridgeError:
            return None
        if same:
            pinned = reference.pinned(fetched.descriptor.digest)
            return fetched, [f"{reference} is the {each.name} manifest of the model {pinned}; the model itself is read"]
    return None
