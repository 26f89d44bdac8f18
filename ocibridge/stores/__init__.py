# SPDX-License-Identifier: Apache-2.0
"""Stores of artifacts: registry, image-layout folder, archive in a tar file or volumes, memory.

`Store` is what all of them can do, in small protocols; `open_store` opens the one that a reference names.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .archive import ArchiveStore as ArchiveStore
    from .base import BlobFetcher as BlobFetcher
    from .base import BlobStream as BlobStream
    from .base import Capabilities as Capabilities
    from .base import Deleter as Deleter
    from .base import ManifestFetcher as ManifestFetcher
    from .base import Mounter as Mounter
    from .base import Pusher as Pusher
    from .base import ReferrerLister as ReferrerLister
    from .base import Store as Store
    from .base import StreamPusher as StreamPusher
    from .base import TagLister as TagLister
    from .layout import LayoutStore as LayoutStore
    from .memory import MemoryStore as MemoryStore
    from .opening import StoreReference as StoreReference
    from .opening import open_store as open_store
    from .registry import RegistryStore as RegistryStore
    from .verified import VerifiedStore as VerifiedStore

_MODULES = {
    "archive": "ArchiveStore",
    "base": "BlobFetcher BlobStream Capabilities Deleter ManifestFetcher Mounter Pusher ReferrerLister Store "
    "StreamPusher TagLister",
    "layout": "LayoutStore",
    "memory": "MemoryStore",
    "opening": "StoreReference open_store",
    "registry": "RegistryStore",
    "verified": "VerifiedStore",
}
"""Public names by the module that has them, which is imported on first use: a command needs one or two stores."""
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
