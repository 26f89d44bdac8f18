# SPDX-License-Identifier: Apache-2.0
"""podman and buildah with a storage of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from .engines import Engine, Seen, on_overlay, run, spoken, version_of

_STORAGE = """
[storage]
driver = "{driver}"
graphroot = "{folder}/graph"
runroot = "{folder}/run"
"""
# The limits are below any hard limit: to raise them is the host's to allow. The process that cleans up after a
# container is told the root alone, and takes the rest from below it.
_ENGINE = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
lock_type = "file"
runtime = "runc"
static_dir = "{folder}/graph/libpod"
tmp_dir = "{folder}/tmp"
volume_path = "{folder}/volumes"
"""


class Podman(Engine):
    """Images pulled, mounted and run by podman."""

    def __init__(self, folder: Path, look_image: str) -> None:
        self.version = version_of("podman")
        self._look_image = look_image
        self.env = containers_env(folder)

    def see(self, reference: str) -> Seen:
        self.pull(reference)
        self.pull(self._look_image)
        mount = f"type=image,source={reference},destination=/m,rw=false"
        return spoken(self.run("--mount", mount, self._look_image, "/look", "/m"))

    def pull(self, reference: str) -> None:
        """Fetch an image."""
        run("podman", "pull", "--quiet", "--tls-verify=false", reference, env=self.env)

    def run(self, *arguments: str | Path) -> str:
        """What a container with these options, image and command writes; it has the network of this machine."""
        return run("podman", "run", "--rm", "--pull=never", "--network=host", *arguments, env=self.env)

    @contextmanager
    def mounted(self, reference: str) -> Iterator[Path]:
        """An image as a folder of this machine."""
        self.pull(reference)
        yield Path(run("podman", "image", "mount", reference, env=self.env).strip())
        run("podman", "image", "unmount", reference, env=self.env)


def containers_env(folder: Path) -> Mapping[str, str]:
    """The environment in which podman, buildah and skopeo keep everything below a folder."""
    driver = "vfs" if on_overlay(folder) else "overlay"
    (folder / "storage.conf").write_text(_STORAGE.format(driver=driver, folder=folder))
    (folder / "containers.conf").write_text(_ENGINE.format(folder=folder))
    return {
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "TMPDIR": str(folder),
        "HOME": str(folder),
    }
