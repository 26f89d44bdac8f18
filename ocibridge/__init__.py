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

if TYPE_CHECKING:  # what type checkers see of the table below; a test compares the two
    from .airgap.options import PackOptions as PackOptions
    from .airgap.options import UnpackOptions as UnpackOptions
    from .airgap.pack import pack as pack
    from .airgap.reports import PackReport as PackReport
    from .airgap.reports import UnpackReport as UnpackReport
    from .airgap.unpack import unpack as unpack
    from .errors import AuthenticationError as AuthenticationError
    from .errors import DestinationError as DestinationError
    from .errors import FormatError as FormatError
    from .errors import IntegrityError as IntegrityError
    from .errors import InvalidReference as InvalidReference
    from .errors import LimitError as LimitError
    from .errors import NetworkError as NetworkError
    from .errors import NotFound as NotFound
    from .errors import OcibridgeError as OcibridgeError
    from .errors import SourceError as SourceError
    from .errors import StoreError as StoreError
    from .errors import UsageError as UsageError
    from .formats.carton.options import CartonReadOptions as CartonReadOptions
    from .formats.carton.options import CartonWriteOptions as CartonWriteOptions
    from .formats.folder.options import FolderReadOptions as FolderReadOptions
    from .formats.mlsteam.options import MlsteamWriteOptions as MlsteamWriteOptions
    from .formats.ollama.options import OllamaReadOptions as OllamaReadOptions
    from .mirror.options import MirrorOptions as MirrorOptions
    from .mirror.options import RunOptions as RunOptions
    from .mirror.plan import mirror_plan as mirror_plan
    from .mirror.reports import MirrorPlan as MirrorPlan
    from .mirror.reports import MirrorReport as MirrorReport
    from .mirror.run import mirror_run as mirror_run
    from .operations.convert import convert as convert
    from .operations.copy import copy as copy
    from .operations.diff import diff as diff
    from .operations.files import OpenFile as OpenFile
    from .operations.files import open_file as open_file
    from .operations.inspect import inspect as inspect
    from .operations.inspect import raw_manifest as raw_manifest
    from .operations.login import login as login
    from .operations.login import logout as logout
    from .operations.naming import ls as ls
    from .operations.naming import tag as tag
    from .operations.naming import tags as tags
    from .operations.options import ConvertOptions as ConvertOptions
    from .operations.options import CopyOptions as CopyOptions
    from .operations.options import DiffOptions as DiffOptions
    from .operations.options import FileOptions as FileOptions
    from .operations.options import InspectOptions as InspectOptions
    from .operations.options import PullOptions as PullOptions
    from .operations.options import PushOptions as PushOptions
    from .operations.options import RmOptions as RmOptions
    from .operations.options import VerifyOptions as VerifyOptions
    from .operations.pull import pull as pull
    from .operations.push import plan_push as plan_push
    from .operations.push import push as push
    from .operations.pushplan import PushPlan as PushPlan
    from .operations.reports import ConvertReport as ConvertReport
    from .operations.reports import CopyReport as CopyReport
    from .operations.reports import DiffReport as DiffReport
    from .operations.reports import InspectReport as InspectReport
    from .operations.reports import LoginReport as LoginReport
    from .operations.reports import LogoutReport as LogoutReport
    from .operations.reports import LsReport as LsReport
    from .operations.reports import PrepareReport as PrepareReport
    from .operations.reports import PullReport as PullReport
    from .operations.reports import PushReport as PushReport
    from .operations.reports import RmReport as RmReport
    from .operations.reports import TagReport as TagReport
    from .operations.reports import TagsReport as TagsReport
    from .operations.reports import VerifyReport as VerifyReport
    from .operations.rm import rm as rm
    from .operations.verify import verify as verify
    from .settings import Limits as Limits
    from .stores.memory import MemoryStore as MemoryStore
    from .stores.opening import StoreReference as StoreReference
    from .stores.registry import RateLimits as RateLimits
    from .stores.registry import RegistryOptions as RegistryOptions
    from .stores.registry import Retry as Retry
    from .stores.registry import Timeouts as Timeouts
    from .transfer import Progress as Progress
    from .transfer import Task as Task
    from .volume.check import volume_check as volume_check
    from .volume.manifests import volume_manifest as volume_manifest
    from .volume.options import PrepareOptions as PrepareOptions
    from .volume.options import VolumeCheckOptions as VolumeCheckOptions
    from .volume.options import VolumeManifestOptions as VolumeManifestOptions
    from .volume.prepare import volume_prepare as volume_prepare
    from .volume.reports import VolumeCheckReport as VolumeCheckReport
    from .volume.reports import VolumeManifestReport as VolumeManifestReport

_MODULES = {
    "airgap.options": "PackOptions UnpackOptions",
    "airgap.pack": "pack",
    "airgap.reports": "PackReport UnpackReport",
    "airgap.unpack": "unpack",
    "errors": "AuthenticationError DestinationError FormatError IntegrityError InvalidReference LimitError "
    "NetworkError NotFound OcibridgeError SourceError StoreError UsageError",
    "formats.carton.options": "CartonReadOptions CartonWriteOptions",
    "formats.folder.options": "FolderReadOptions",
    "formats.mlsteam.options": "MlsteamWriteOptions",
    "formats.ollama.options": "OllamaReadOptions",
    "mirror.options": "MirrorOptions RunOptions",
    "mirror.plan": "mirror_plan",
    "mirror.reports": "MirrorPlan MirrorReport",
    "mirror.run": "mirror_run",
    "operations.convert": "convert",
    "operations.copy": "copy",
    "operations.diff": "diff",
    "operations.files": "OpenFile open_file",
    "operations.inspect": "inspect raw_manifest",
    "operations.login": "login logout",
    "operations.naming": "ls tag tags",
    "operations.options": "ConvertOptions CopyOptions DiffOptions FileOptions InspectOptions PullOptions "
    "PushOptions RmOptions VerifyOptions",
    "operations.pull": "pull",
    "operations.push": "plan_push push",
    "operations.pushplan": "PushPlan",
    "operations.reports": "ConvertReport CopyReport DiffReport InspectReport LoginReport LogoutReport LsReport "
    "PrepareReport PullReport PushReport RmReport TagReport TagsReport VerifyReport",
    "operations.rm": "rm",
    "operations.verify": "verify",
    "settings": "Limits",
    "stores.memory": "MemoryStore",
    "stores.opening": "StoreReference",
    "stores.registry": "RateLimits RegistryOptions Retry Timeouts",
    "transfer": "Progress Task",
    "volume.check": "volume_check",
    "volume.manifests": "volume_manifest",
    "volume.options": "PrepareOptions VolumeCheckOptions VolumeManifestOptions",
    "volume.prepare": "volume_prepare",
    "volume.reports": "VolumeCheckReport VolumeManifestReport",
}
"""Public names by the module that has them, which is imported on first use: a command loads what it needs."""
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
