# SPDX-License-Identifier: Apache-2.0
"""The lossless two-way bridge between model archives and OCI registries.

Example:
    >>> import ocibridge
    >>> ocibridge.push("digits.carton", "oci:layout:v1").identity  # doctest: +SKIP
    'carton:09b744842c693b5c529bece22e17ec602403a2ed8dc786b4fa7e57e038062471'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .about import __version__

if TYPE_CHECKING:
    from .errors import (
        AuthenticationError,
        DestinationError,
        FormatError,
        IntegrityError,
        InvalidReference,
        LimitError,
        NetworkError,
        NotFound,
        OcibridgeError,
        SourceError,
        StoreError,
        UsageError,
    )
    from .formats.carton.options import CartonReadOptions, CartonWriteOptions
    from .formats.folder.options import FolderReadOptions
    from .formats.mlsteam.options import MlsteamWriteOptions
    from .formats.ollama.options import OllamaReadOptions
    from .mirror.plan import mirror_plan
    from .mirror.reports import MirrorPlan, MirrorReport
    from .mirror.run import RunOptions, mirror_run
    from .operations.convert import convert
    from .operations.copy import copy
    from .operations.inspect import inspect
    from .operations.inspected import InspectReport
    from .operations.login import login, logout
    from .operations.options import (
        ConvertOptions,
        CopyOptions,
        InspectOptions,
        PullOptions,
        PushOptions,
        VerifyOptions,
    )
    from .operations.pull import pull
    from .operations.push import push
    from .operations.reports import (
        ConvertReport,
        CopyReport,
        PrepareReport,
        PullReport,
        PushReport,
        RewriteReport,
        VerifyReport,
    )
    from .operations.verify import verify
    from .stores.registry import RegistryOptions
    from .transfer import Progress, Task
    from .volume.check import volume_check
    from .volume.manifests import volume_manifest
    from .volume.prepare import volume_prepare
    from .volume.reports import VolumeCheckReport, VolumeManifestReport

_ERRORS = (
    "AuthenticationError",
    "DestinationError",
    "FormatError",
    "IntegrityError",
    "InvalidReference",
    "LimitError",
    "NetworkError",
    "NotFound",
    "OcibridgeError",
    "SourceError",
    "StoreError",
    "UsageError",
)
_HOMES = {
    **dict.fromkeys(_ERRORS, "errors"),
    "RegistryOptions": "stores.registry",
    "Progress": "transfer",
    "Task": "transfer",
    **dict.fromkeys(
        ("ConvertOptions", "CopyOptions", "InspectOptions", "PullOptions", "PushOptions", "VerifyOptions"),
        "operations.options",
    ),
    "convert": "operations.convert",
    "copy": "operations.copy",
    "inspect": "operations.inspect",
    "login": "operations.login",
    "logout": "operations.login",
    "mirror_plan": "mirror.plan",
    "mirror_run": "mirror.run",
    "pull": "operations.pull",
    "push": "operations.push",
    "ConvertReport": "operations.reports",
    "CopyReport": "operations.reports",
    "InspectReport": "operations.inspected",
    "MirrorPlan": "mirror.reports",
    "MirrorReport": "mirror.reports",
    "PrepareReport": "operations.reports",
    "PullReport": "operations.reports",
    "PushReport": "operations.reports",
    "RewriteReport": "operations.reports",
    "RunOptions": "mirror.run",
    "CartonReadOptions": "formats.carton.options",
    "CartonWriteOptions": "formats.carton.options",
    "FolderReadOptions": "formats.folder.options",
    "MlsteamWriteOptions": "formats.mlsteam.options",
    "OllamaReadOptions": "formats.ollama.options",
    "VerifyReport": "operations.reports",
    "verify": "operations.verify",
    "VolumeCheckReport": "volume.reports",
    "VolumeManifestReport": "volume.reports",
    "volume_check": "volume.check",
    "volume_manifest": "volume.manifests",
    "volume_prepare": "volume.prepare",
}

__all__ = [
    "AuthenticationError",
    "CartonReadOptions",
    "CartonWriteOptions",
    "ConvertOptions",
    "ConvertReport",
    "CopyOptions",
    "CopyReport",
    "DestinationError",
    "FolderReadOptions",
    "FormatError",
    "InspectOptions",
    "InspectReport",
    "IntegrityError",
    "InvalidReference",
    "LimitError",
    "MirrorPlan",
    "MirrorReport",
    "MlsteamWriteOptions",
    "NetworkError",
    "NotFound",
    "OcibridgeError",
    "OllamaReadOptions",
    "PrepareReport",
    "Progress",
    "PullOptions",
    "PullReport",
    "PushOptions",
    "PushReport",
    "RegistryOptions",
    "RewriteReport",
    "RunOptions",
    "SourceError",
    "StoreError",
    "Task",
    "UsageError",
    "VerifyOptions",
    "VerifyReport",
    "VolumeCheckReport",
    "VolumeManifestReport",
    "__version__",
    "convert",
    "copy",
    "inspect",
    "login",
    "logout",
    "mirror_plan",
    "mirror_run",
    "pull",
    "push",
    "verify",
    "volume_check",
    "volume_manifest",
    "volume_prepare",
]


def __getattr__(name: str) -> Any:
    # Imported on first use: the command line must not pay for what a command does not need.
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
