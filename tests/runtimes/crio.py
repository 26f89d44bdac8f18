# SPDX-License-Identifier: Apache-2.0
"""A daemon of CRI-O, asked as the kubelet asks."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .engines import BIN, PATH, KubeletEngine, daemon, on_overlay

_CONFIG = """
[crio]
root = "{folder}/root"
runroot = "{folder}/run"
storage_driver = "{driver}"
log_dir = "{folder}/logs"
version_file = "{folder}/version"
version_file_persist = "{folder}/version-persist"
clean_shutdown_file = "{folder}/clean"
[crio.api]
listen = "{folder}/socket"
stream_address = "127.0.0.1"
stream_port = "0"
[crio.runtime]
cgroup_manager = "cgroupfs"
default_runtime = "runc"
pinns_path = "{bin}/pinns"
container_exits_dir = "{folder}/exits"
container_attach_socket_dir = "{folder}/attach"
namespaces_dir = "{folder}/namespaces"
hooks_dir = []
apparmor_profile = "unconfined"
[crio.runtime.runtimes.runc]
runtime_path = "{runc}"
runtime_root = "{folder}/runc"
monitor_path = "{conmon}"
monitor_cgroup = "pod"
[crio.image]
pause_image = "{pause}"
pause_command = ""
signature_policy = "{folder}/policy.json"
short_name_mode = "disabled"
[crio.network]
network_dir = "{folder}/network"
plugin_dirs = ["{folder}"]
[crio.nri]
enable_nri = false
"""
_REGISTRIES = """
unqualified-search-registries = []
[[registry]]
location = "{host}"
insecure = true
"""


class KubeletCrio(KubeletEngine):
    """CRI-O."""

    @classmethod
    @contextmanager
    def started(cls, folder: Path, host: str, look_image: str) -> Iterator[KubeletCrio]:
        """A daemon that knows the registry at `host`."""
        containers = folder / ".config" / "containers"
        containers.mkdir(parents=True)
        (containers / "registries.conf").write_text(_REGISTRIES.format(host=host))
        (folder / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
        places = {"bin": BIN, "runc": shutil.which("runc"), "conmon": shutil.which("conmon"), "folder": folder}
        driver = "vfs" if on_overlay(folder) else "overlay"
        config = folder / "crio.conf"
        config.write_text(_CONFIG.format(**places, driver=driver, pause=look_image))
        engine = cls(BIN / "crio", folder, look_image)
        environment = {"PATH": PATH, "HOME": str(folder)}
        with daemon(BIN / "crio", "--config", config, "--config-dir", "", folder=folder, env=environment):
            engine.wait_until_ready()
            yield engine
