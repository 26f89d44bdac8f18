# SPDX-License-Identifier: Apache-2.0
"""The options of the operations; `ocibridge.options` says how they are used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..dialects.choices import Compress, Layers
from ..dialects.registry import dialect_names
from ..errors import UsageError
from ..formats.options import ReadOptions, WriteOptions
from ..formats.registry import path_formats
from ..io.existing import Existing
from ..options import Options, count, option
from ..settings import CONCURRENCY, DEFAULT_LIMITS, Limits
from .companions import companion_names
from .values import annotation, annotations_of, moment, names

if TYPE_CHECKING:
    import os

    from ..oci import Reference

_DIALECT = (
    "dialect of the manifest: cnai (the model specification's first names), draft (OCI layers that a container "
    "runtime mounts) or modelpack (its current names)"
)
STANDARD_OUTPUT = "-"
"""The target that is standard output."""
_SEVERAL = "(may be given several times)"


def platform_option(help: str) -> Any:
    """`--platform`: `OS/ARCHITECTURE[/VARIANT]`, with commas between several; None where there are none."""
    return option(None, help=help, flag="--platform", metavar="OS/ARCH,…", parse=names, repeat=True)


def max_layers_option() -> Any:
    """`--max-layers`; None is `ocibridge.settings.MAX_LAYERS`."""
    return option(
        None,
        help="tar layers that there may be; beyond them neighbouring weights share one (default: 120)",
        metavar="N",
        parse=count,
    )


@dataclass(frozen=True, kw_only=True)
class TransferOptions(Options):
    """Options of a transfer."""

    concurrency: int = option(
        CONCURRENCY,
        help="layers that move at the same time (default: %(default)s)",
        metavar="N",
        parse=count,
        group="transfer",
    )


@dataclass(frozen=True, kw_only=True)
class CacheOptions(Options):
    """Return whether digests of unchanged files, and notes on unfinished uploads, are kept in `settings.cache_dir`."""

    cache: bool = option(
        True,
        help="read every file: neither use nor keep digests of unchanged files, nor notes on unfinished uploads",
    )


@dataclass(frozen=True, kw_only=True)
class LimitOptions(Options):
    """Limits for a source; see `ocibridge.settings.Limits`."""

    limits: Limits = DEFAULT_LIMITS


@dataclass(frozen=True, kw_only=True)
class SourceOptions(LimitOptions):
    """Options for reading a source on disk.

    Attributes:
        reading: Options of the format that the source has, such as `CartonReadOptions`, or by name.
    """

    reading: ReadOptions | Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ExistingOptions(Options):
    """Options for what exists at a target on disk; one of them at most.

    Raises:
        UsageError: several are given.
    """

    overwrite: bool = option(False, help="replace files of DEST that are in the way; others in a folder are kept")
    force: bool = option(False, help="replace DEST if ocibridge wrote all of it, and nobody has changed it since")
    delete_existing: bool = option(False, help="replace DEST whatever it holds: a folder with all that is in it")

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [flag for flag, value in self._flags() if value]
        if len(given) > 1:
            raise UsageError(f"{' and '.join(given)} cannot be combined", hint=f"leave out {given[0]}")

    def _flags(self) -> tuple[tuple[str, bool], ...]:
        return ("--overwrite", self.overwrite), ("--force", self.force), ("--delete-existing", self.delete_existing)

    @property
    def existing(self) -> Existing:
        """The choice that was made."""
        chosen = zip((Existing.OVERWRITE, Existing.FORCE, Existing.DELETE), self._flags(), strict=True)
        return next((each for each, (_, value) in chosen if value), Existing.KEEP)


@dataclass(frozen=True, kw_only=True)
class TargetOptions(ExistingOptions, LimitOptions):
    """Options for writing a target on disk.

    Attributes:
        writing: Options of the format that is written, such as `CartonWriteOptions`, or by name.
    """

    as_format: str | None = option(
        None,
        help="what to write, whatever the name of the target says",
        flag="--as",
        choices=path_formats,
    )
    writing: WriteOptions | Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class DryRunOptions(Options):
    """Options of what can be planned without doing it."""

    dry_run: bool = option(False, help="say what would be written, and write nothing")


@dataclass(frozen=True, kw_only=True)
class SelectOptions(Options):
    """Globs of gitignore(5), which select files of a model."""

    include: Sequence[str] = option(
        (),
        help=f"only files that match, or are in a folder that does, such as '*.safetensors' {_SEVERAL}",
        metavar="GLOB",
        repeat=True,
    )
    exclude: Sequence[str] = option((), help=f"no files that match {_SEVERAL}", metavar="GLOB", repeat=True)


@dataclass(frozen=True, kw_only=True)
class FolderOptions(Options):
    """Options for publishing a folder."""

    allow_sensitive: bool = option(
        False, help="publish files of a folder that look like private keys, credentials or tokens"
    )


@dataclass(frozen=True, kw_only=True)
class PushOptions(SelectOptions, FolderOptions, SourceOptions, CacheOptions, TransferOptions):
    """Options of `push`."""

    layers: Layers | str | None = option(
        None,
        help="tar layers, weights as they are, or every file as it is (default: tar; for a model of Ollama raw-files, "
        "so that its blobs keep their digests, unless --compress or --dialect draft is given)",
        choices=Layers,
    )
    compress: Compress | str = option(Compress.NONE, help="compress tar layers (default: none)", choices=Compress)
    dialect: str = option("cnai", help=f"{_DIALECT}; default: cnai", choices=dialect_names)
    exact: bool = option(
        False,
        help="store the archive as it is, as one raw layer; a pull gives back its very bytes",
        flag=("--exact", "--keep-archive"),
    )
    annotations: Mapping[str, str] | None = option(
        None,
        help=f"annotation of the manifest {_SEVERAL}",
        metavar="KEY=VALUE",
        flag="--annotation",
        short="-a",
        parse=annotation,
        repeat=annotations_of,
    )
    created: datetime | None = option(
        None,
        help="creation time to record, RFC 3339 or seconds since 1970 (default: SOURCE_DATE_EPOCH, else none)",
        metavar="TIME",
        parse=moment,
    )
    also: Sequence[str] = option(
        (),
        help="also publish the model's own Ollama manifest, under the tag TAG-ollama (needs raw-files layers), or an "
        "OCI image of the same layers, which pods can mount, under TAG-image",
        choices=companion_names,
        repeat=True,
    )
    platforms: Sequence[str] | None = platform_option(
        "platforms of the image, with commas between them (default: linux/amd64,linux/arm64)"
    )
    prefix: str = option(
        "",
        help="put all files into this folder inside the layers, such as models/; a pull takes it off again",
        metavar="FOLDER",
    )
    max_layers: int | None = max_layers_option()
    mount_from: Sequence[str] = option(
        (),
        help=f"repository of the same registry that may hold the blobs already {_SEVERAL}",
        metavar="REPOSITORY",
        repeat=True,
    )


@dataclass(frozen=True, kw_only=True)
class PullOptions(TargetOptions, DryRunOptions, SelectOptions, TransferOptions):
    """Options of `pull`."""

    thin: bool = option(
        False, help="link the large files of a carton to the registry, instead of fetching them (raw-files layers)"
    )


@dataclass(frozen=True, kw_only=True)
class ConvertOptions(
    TargetOptions, DryRunOptions, FolderOptions, SelectOptions, SourceOptions, CacheOptions, TransferOptions
):
    """Options of `convert`; `dialect` is for a target that is a reference."""

    dialect: str | None = option(None, help=_DIALECT, choices=dialect_names)


@dataclass(frozen=True, kw_only=True)
class InspectOptions(SourceOptions):
    """Options of `inspect`."""


@dataclass(frozen=True, kw_only=True)
class DiffOptions(SourceOptions, TransferOptions):
    """Options of `diff`."""


@dataclass(frozen=True, kw_only=True)
class FileOptions(SourceOptions):
    """Options of `open_file`."""


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(SourceOptions, TransferOptions):
    """Options of `verify`."""

    against: str | os.PathLike[str] | Reference | None = option(
        None,
        help="compare every file with this model: a reference, of which only the manifest is read where it lists the "
        "files, or a path",
        metavar="REF",
    )
    manifest_only: bool = option(
        False, help="prove the identity of a carton in raw-files layers from its manifest alone, reading no file"
    )


@dataclass(frozen=True, kw_only=True)
class BelongingOptions(Options):
    """Options for what is copied with an artifact."""

    platforms: Sequence[str] | None = platform_option(
        "of an index, copy these platforms only, with commas between them; the index keeps its bytes"
    )
    referrers: bool = option(True, help="leave out signatures, SBOMs and the like that refer to it")
    digest_tags: bool = option(True, help="leave out tags such as sha256-….sig")
    companions: bool = option(True, help="leave out the companions TAG-image and TAG-ollama")


@dataclass(frozen=True, kw_only=True)
class CopyOptions(BelongingOptions, TransferOptions):
    """Options of `copy`."""

    full: bool = option(False, help="look for every blob, even below what the target has, and repair what is broken")
    dry_run: bool = option(False, help="say what would be copied, mounted and skipped, and write nothing")


@dataclass(frozen=True, kw_only=True)
class RmOptions(Options):
    """Options of `rm`."""

    all_tags: bool = option(False, help="delete the manifest itself, and with it every tag that leads to it")
    companions: bool = option(
        False,
        help="delete the companions TAG-image and TAG-ollama, too, and with the manifest the signatures, SBOMs and the "
        "like that refer to it",
    )
    dry_run: bool = option(False, help="say what would be deleted, and delete nothing")
