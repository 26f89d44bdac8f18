# SPDX-License-Identifier: Apache-2.0
"""Environment variables, limits and defaults."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

KiB = 1024
MiB = 1024 * KiB

READ_SIZE = MiB
"""Bytes per read of a file, a socket or a decoder."""

PIECE_SIZE = 512 * KiB
"""Bytes that are received, hashed and written in one go: what stays in the cache of a processor core meanwhile."""

SMALL_FILE = 8 * MiB
"""Files of this many bytes or more are weights when nothing else says what they are, and never share a layer."""

THIN_FILE = 64 * KiB
"""Files of this many bytes or more are left out of a thin carton, and linked."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for input from archives, registries and links.

    All sizes are bytes. Give another instance to a reader to raise or lower a limit.
    """

    manifest: int = 4 * MiB
    """OCI manifest or index (distribution-spec, "Pushing Manifests")."""
    config: int = 4 * MiB
    """OCI config object."""
    metadata: int = 16 * MiB
    """carton.toml, MANIFEST, LINKS, tensor_data/index.toml and the like."""
    entries: int = 500_000
    """Members of one archive, or entries of one tar layer."""
    directory: int = 256 * MiB
    """Central directory of a zip archive."""
    tar_header: int = MiB
    """pax or GNU extension header of one tar entry."""
    zstd_window: int = 1 << 27
    """Window a zstd frame may ask for (RFC 8878, section 3.1.1.1.2)."""
    ratio: int = 1000
    """Expansion ratio of one member above which a warning is given."""
    link: int = 1 << 40
    """One linked file, after decoding."""


DEFAULT_LIMITS = Limits()

CONCURRENCY = 4
"""Blobs that move at the same time unless the user says otherwise."""


def _path(name: str) -> Path | None:
    value = os.environ.get(name)
    return Path(value).expanduser() if value else None


def docker_config() -> Path:
    """The docker client's config.json: `$DOCKER_CONFIG/config.json`, else `~/.docker/config.json`."""
    return (_path("DOCKER_CONFIG") or Path.home() / ".docker") / "config.json"


def podman_auth_files() -> list[Path]:
    """Credential files of podman, skopeo and buildah, in their order (containers-auth.json(5))."""
    explicit = _path("REGISTRY_AUTH_FILE")
    if explicit:
        return [explicit]
    runtime = _path("XDG_RUNTIME_DIR")
    config = _path("XDG_CONFIG_HOME") or Path.home() / ".config"
    found = [runtime / "containers" / "auth.json"] if runtime else []
    return [*found, config / "containers" / "auth.json"]


def cache_dir() -> Path | None:
    """The cache folder: `$XDG_CACHE_HOME/ocibridge`, else `~/.cache/ocibridge`; None without a home folder."""
    try:
        return (_path("XDG_CACHE_HOME") or Path.home() / ".cache") / "ocibridge"
    except RuntimeError:
        return None


def source_date_epoch() -> int | None:
    """`SOURCE_DATE_EPOCH` in seconds since 1970, or None (reproducible-builds.org specification)."""
    value = os.environ.get("SOURCE_DATE_EPOCH", "")
    return int(value) if value.isascii() and value.isdigit() else None


CONFIG_NAME = "ocibridge.toml"
"""Name of a configuration file."""


def config_variable() -> str | None:
    """`OCIBRIDGE_CONFIG`: the only configuration file to read, the empty text for none; None where it is not set."""
    return os.environ.get("OCIBRIDGE_CONFIG")


def config_file() -> Path | None:
    """The user's configuration file: `$XDG_CONFIG_HOME/ocibridge/ocibridge.toml`; None without a home folder."""
    try:
        return (_path("XDG_CONFIG_HOME") or Path.home() / ".config") / "ocibridge" / CONFIG_NAME
    except RuntimeError:
        return None


def config_paths() -> list[tuple[Path, bool]]:
    """The configuration files that there are, each with whether it is the user's own; a later one wins.

    The file of a project is in this folder or in one above it, up to the repository, and below the home folder.
    """
    only = config_variable()
    if only is not None:
        return [(Path(only), True)] if only else []
    user = config_file()
    found = [(user, True)] if user and user.is_file() else []
    with suppress(RuntimeError, OSError):
        home, here = Path.home(), Path.cwd()
        for folder in (here, *here.parents):
            if folder in (home, Path(folder.anchor)):
                break
            project = folder / CONFIG_NAME
            if project.is_file():
                return found if found and project.samefile(found[0][0]) else [*found, (project, False)]
            if (folder / ".git").exists():
                break
    return found


PLATFORMS = ("linux/amd64", "linux/arm64")
"""Platforms of the nodes that an image companion is for unless the user says otherwise."""

IMAGE_SUFFIX = "-image"
"""What the tag of an image companion has after that of its artifact."""

MAX_LAYERS = 120
"""Layers of an artifact that container runtimes shall mount, unless the user says otherwise. An overlay mount names one
folder a layer: docker's graph driver ends at 128, and some are left for the layers that a runtime adds."""


def debug() -> bool:
    """Return whether `OCIBRIDGE_DEBUG` asks for what `--debug` does."""
    return os.environ.get("OCIBRIDGE_DEBUG", "0") not in ("", "0")


def ollama_models() -> Path | None:
    """`OLLAMA_MODELS`: the folder in which Ollama keeps its models, or None."""
    return _path("OLLAMA_MODELS")


def job_completion_index() -> str | None:
    """`JOB_COMPLETION_INDEX`: the index of this pod in an Indexed Job of Kubernetes, from 0, or None."""
    return os.environ.get("JOB_COMPLETION_INDEX")


def proxy_variable(scheme: str) -> str:
    """The name of the environment variable that holds the proxy for a URL scheme, as it is spelled there."""
    names = (f"{scheme}_proxy", f"{scheme.upper()}_PROXY", "all_proxy", "ALL_PROXY")
    return next((name for name in names if os.environ.get(name)), "the system's settings")
