# SPDX-License-Identifier: Apache-2.0
"""Translations and companions: artifacts that the target gets instead of, or in addition to, those of the source.

What makes it is imported when a job asks for it, as few do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import settings
from ..errors import FormatError
from ..oci import MEDIA_TYPE_INDEX, Descriptor, Reference
from ..operations.companions import IMAGE, companion_reference, main_tag
from ..stores.base import Store
from ..transfer import Progress
from ..transfer.session import CopySession
from .storepool import StorePool

if TYPE_CHECKING:
    from ..operations.artifacts import Fetched
    from ..operations.reports import ConvertReport
    from .jobs.entry import SyncEntry

_CONCURRENCY = 2
"""Layers of one model that are wrapped at the same time; several models are processed at the same time."""


def translate(
    entry: SyncEntry, source: Reference, target: Reference, stores: StorePool, session: CopySession, progress: Progress
) -> ConvertReport:
    """Bring an artifact to the target in the dialect that the job asks for.

    Raises:
        OcibridgeError: see `ocibridge.convert`.
    """
    from ..operations.artifacts import fetch_artifact
    from ..operations.translate import plan_translation, publish_translation

    assert entry.sync.dialect is not None
    store = stores.store(source)
    fetched = fetch_artifact(store, source)
    plan = plan_translation(fetched, store, entry.sync.dialect)
    return publish_translation(
        plan,
        fetched,
        store,
        source,
        stores.store(target, create=True),
        target,
        entry.sync.dialect,
        session=session,
        concurrency=_CONCURRENCY,
        progress=progress,
    )


def publish_companions(
    entry: SyncEntry, target: Reference, stores: StorePool, session: CopySession, progress: Progress
) -> list[str]:
    """Publish the companions that the job names for an artifact that the target has received.

    One that is there and belongs to this artifact is left as it is, and what is no model has none.

    Returns:
        References of those that were made.

    Raises:
        OcibridgeError: the model cannot have such a companion, or the target refused it.
    """
    if not entry.sync.also or main_tag(target.version) != target.version:
        return []
    from ..operations.original import stored_manifest
    from ..volume.prepare import checked_artifact

    store = stores.store(target)
    fetched = _model(store, target)
    if fetched is None:
        return []
    made = []
    if IMAGE in entry.sync.also and not _has_image(store, target, fetched.descriptor):
        checked = checked_artifact(store, target, _CONCURRENCY, progress)
        made.append(_image(checked, store, target, session, progress))
    kind = fetched.artifact.model.format
    if kind in entry.sync.also:
        original = stored_manifest(kind, fetched, store, target)
        if store.head(original.reference.version) != original.descriptor:
            original.publish(store, session)
            made.append(str(original.reference))
    return made


def _image(fetched: Fetched, store: Store, target: Reference, session: CopySession, progress: Progress) -> str:
    from ..volume.prepare import prepare_into

    place = companion_reference(target, settings.IMAGE_SUFFIX)
    prepare_into(
        fetched,
        store,
        target,
        store,
        place,
        settings.PLATFORMS,
        session=session,
        concurrency=_CONCURRENCY,
        progress=progress,
    )
    return str(place)


def _model(store: Store, target: Reference) -> Fetched | None:
    from ..operations.artifacts import fetch_artifact

    try:
        return fetch_artifact(store, target)
    except FormatError:
        return None


def _has_image(store: Store, target: Reference, artifact: Descriptor) -> bool:
    there = store.head(companion_reference(target, settings.IMAGE_SUFFIX).version)
    if there is None or there.media_type != MEDIA_TYPE_INDEX:
        return False
    # Its subject says whose companion it is: the tag may be left from an earlier version.
    return any(each.digest == there.digest for each in store.referrers(artifact.digest))
