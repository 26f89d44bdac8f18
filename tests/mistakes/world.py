# SPDX-License-Identifier: Apache-2.0
"""Where mistakes are made: a folder with one of everything, registries, and hosts that are none."""

from __future__ import annotations

import http.server
import shutil
import socket
import tarfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import ocibridge

from ..quiet import QuietServer
from ..registry import PASSWORD, TLS, RegistryServer

FIXTURES = Path(__file__).parents[1] / "fixtures"
JOB = """\
version: 1
sync:
- {{source: "{open}/models/digits:v1", target: "{open}/mirrored/digits:v1", type: image}}
"""


def fill(folder: Path, registry: RegistryServer) -> dict[str, str]:
    """Write the files into a folder, publish the models, and return the names of the places."""
    for name in ("digits.carton", "digits.mlarchive", "digits-encrypted.mlarchive", "digits-links.carton"):
        shutil.copyfile(FIXTURES / name, folder / name)
    for name, target in (("hf-digits.tar", "hf"), ("ollama-store.tar", "ollama")):
        with tarfile.open(FIXTURES / name) as archive:
            archive.extractall(folder / target, filter="data")
    (folder / "password.txt").write_text(PASSWORD + "\n")
    shutil.copyfile(TLS / "ca.pem", folder / "ca.pem")
    places = {"open": registry.host}
    (folder / "job.yaml").write_text(JOB.format(**places))
    for target in ("oci:lay:v1", f"{registry.host}/models/digits:v1"):
        _push(folder / "digits.carton", target.replace("oci:", f"oci:{folder}/"), also=("image",))
    _push(folder / "hf", f"{registry.host}/models/hf:v1")
    return places


def _push(source: Path, target: str, also: tuple[str, ...] = ()) -> None:
    ocibridge.push(source, target, ocibridge.PushOptions(also=also))


class _Pages(http.server.SimpleHTTPRequestHandler):
    """As `python -m http.server`."""

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@contextmanager
def no_registries() -> Iterator[dict[str, str]]:
    """Hosts that are no registries: `dead`, where nobody listens, and `web`, a web server."""
    with ExitStack() as stack:
        server = QuietServer(("127.0.0.1", 0), _Pages)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        stack.callback(thread.join)
        stack.callback(server.server_close)
        stack.callback(server.shutdown)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            dead = probe.getsockname()[1]
        yield {"dead": f"127.0.0.1:{dead}", "web": f"127.0.0.1:{server.server_address[1]}"}


def snapshot(folder: Path) -> dict[str, object]:
    """Every name below a folder with its content, so that a change can be seen."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = path.readlink()
        else:
            found[name] = path.read_bytes() if path.is_file() else path.lstat().st_mode
    return found
