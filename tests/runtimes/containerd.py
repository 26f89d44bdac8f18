# SPDX-License-Identifier: Apache-2.0
"""Daemons of containerd beside the system's own: one asked as the kubelet asks, one through `ctr`."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from .engines import BIN, PATH, Engine, KubeletEngine, Seen, daemon, look, on_overlay, run, version_of

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())

# AppArmor and a lower OOM score are the host's to allow. Plain HTTP to 127.0.0.1 needs its word in the folder `hosts`.
_CONFIG_OF_2 = """
version = 3
root = "{folder}/root"
state = "{folder}/state"
disabled_plugins = ["io.containerd.nri.v1.nri"]
[grpc]
address = "{folder}/socket"
[plugins."io.containerd.cri.v1.images"]
snapshotter = "{snapshotter}"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{pause}"
[plugins."io.containerd.cri.v1.images".registry]
config_path = "{folder}/hosts"
[plugins."io.containerd.cri.v1.runtime"]
disable_apparmor = true
restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{folder}"]
conf_dir = "{folder}"
[plugins."io.containerd.grpc.v1.cri"]
disable_tcp_service = true
"""
_CONFIG_OF_1 = """
version = 2
root = "{folder}/root"
state = "{folder}/state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
address = "{folder}/socket"
"""


class KubeletContainerd(KubeletEngine):
    """containerd 2.x."""

    @classmethod
    @contextmanager
    def started(cls, folder: Path, host: str, look_image: str) -> Iterator[KubeletContainerd]:
        """A daemon that knows the registry at `host`."""
        hosts = folder / "hosts" / host
        hosts.mkdir(parents=True)
        (hosts / "hosts.toml").write_text(f'server = "http://{host}"\n')
        config = _CONFIG_OF_2.format(folder=folder, pause=look_image, snapshotter=_snapshotter(folder))
        engine = cls(BIN / "containerd", folder, look_image)
        with _daemon(BIN / "containerd", folder, config):
            engine.wait_until_ready()
            yield engine


class CtrContainerd(Engine):
    """The containerd of the system's packages: `ctr images mount`."""

    def __init__(self, folder: Path) -> None:
        self.version = version_of("containerd")
        self._folder = folder
        self._snapshotter = _snapshotter(folder)

    @contextmanager
    def mounted(self, reference: str) -> Iterator[Path]:
        """An image as a folder of this machine."""
        target = self._folder / "mount"
        target.mkdir(exist_ok=True)
        chosen = ("--snapshotter", self._snapshotter, "--platform", f"linux/{ARCHITECTURE}")
        self._ctr("pull", "--plain-http", *chosen, reference)
        self._ctr("mount", *chosen, reference, str(target))
        try:
            yield target
        finally:
            self._ctr("unmount", "--rm", "--snapshotter", self._snapshotter, str(target))

    def see(self, reference: str) -> Seen:
        with self.mounted(reference) as folder:
            return look(folder)

    def _ctr(self, *arguments: str) -> str:
        return run("ctr", "--address", self._folder / "socket", "--namespace", "test", "images", *arguments)

    @classmethod
    @contextmanager
    def started(cls, folder: Path) -> Iterator[CtrContainerd]:
        """A daemon of the program `containerd` on PATH."""
        engine = cls(folder)
        program = shutil.which("containerd")
        assert program
        with _daemon(Path(program), folder, _CONFIG_OF_1.format(folder=folder)):
            yield engine


def _snapshotter(folder: Path) -> str:
    return "native" if on_overlay(folder) else "overlayfs"


def _daemon(program: Path, folder: Path, config: str) -> AbstractContextManager[None]:
    (folder / "config.toml").write_text(config)
    # The shim is looked for on PATH: that of the same build has to come first.
    environment = {"PATH": f"{program.parent}:{PATH}"}
    return daemon(program, "--config", folder / "config.toml", folder=folder, env=environment)
