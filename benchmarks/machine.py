# SPDX-License-Identifier: Apache-2.0
"""What the benchmark ran on, and with what."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import ssl
import subprocess
from pathlib import Path

from .server import Server


def description(folder: Path, server: Server) -> dict[str, str]:
    """The machine and the versions of everything that took part.

    Args:
        folder: Where the models, the outputs and the registry's storage were.
        server: A registry.
    """
    return {
        "processor": f"{_processor()}, {cores()} cores{', virtual machine' if _virtual() else ''}",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1024**3:.1f} GiB",
        "kernel": f"{platform.system()} {_number(platform.release())}, {platform.machine()}",
        "file system": f"{_file_system(folder)}, {shutil.disk_usage(folder).free / 1024**3:.0f} GiB free",
        "Python": f"{platform.python_version()}, {ssl.OPENSSL_VERSION}",
        "ocibridge": importlib.metadata.version("ocibridge"),
        "curl": _version("curl", "--version"),
        "skopeo": _version("skopeo", "--version"),
        "oras CLI": _version("oras", "version"),
        "regsync": _version("regsync", "version"),
        "oras package": importlib.metadata.version("oras"),
        "Dask": importlib.metadata.version("distributed"),
        "httpx": importlib.metadata.version("httpx"),
        "urllib3": importlib.metadata.version("urllib3"),
        "registry": f"{server.version()}, a process of the same machine",
    }


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    found = re.search(r"^model name\s*: (.*)$", _text("/proc/cpuinfo"), re.MULTILINE)
    return found[1] if found else platform.processor() or platform.machine()


def _virtual() -> bool:
    return re.search(r"^flags\s*:.*\bhypervisor\b", _text("/proc/cpuinfo"), re.MULTILINE) is not None


def _file_system(folder: Path) -> str:
    mounts = [line.split()[1:3] for line in _text("/proc/mounts").splitlines()]
    above = [(len(place), kind) for place, kind in mounts if folder.resolve().is_relative_to(place)]
    return max(above)[1] if above else "unknown"


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _version(*command: str) -> str:
    if not shutil.which(command[0]):
        return "not installed"
    return _number(subprocess.run(command, capture_output=True, text=True).stdout)


def _number(said: str) -> str:
    """The first version number of a text."""
    found = re.search(r"\d+(\.\d+)+", said)
    return found[0] if found else "unknown"
