# SPDX-License-Identifier: Apache-2.0
"""The runtimes, each with a home of its own that is gone at the end, and the image of the program that looks."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ..registry import RegistryServer
from .containerd import CtrContainerd, KubeletContainerd
from .crio import KubeletCrio
from .engines import BIN, Engine, unmount_below
from .podman import Podman
from .publishing import Publisher, image_config, tar

MakeFolder = Callable[[str], Path]


@pytest.fixture(scope="session")
def workshop() -> Iterator[MakeFolder]:
    """Makes empty folders, with short paths (a socket's has at most 107 characters); nothing of them stays."""
    with tempfile.TemporaryDirectory(prefix="runtimes-") as folder:

        def make(name: str) -> Path:
            path = Path(folder) / name
            path.mkdir()
            return path

        yield make
        unmount_below(Path(folder))


@pytest.fixture(scope="session")
def look_image(registry: RegistryServer) -> str:
    """An image that holds nothing but the program `look`, which waits unless it is told to look."""
    program = BIN / "look"
    if not program.exists():
        pytest.fail("the runtimes are not built; run 'make runtimes'")
    layer = tar({"look": program.read_bytes()}, 0o755)
    publisher = Publisher(registry.host, "look")
    config = publisher.config(image_config(layer, config={"Cmd": ["/look"]}))
    publisher.manifest("1", config, publisher.layers(layer))
    return f"{publisher.name}:1"


@pytest.fixture(scope="session")
def kubelet_containerd(workshop: MakeFolder, registry: RegistryServer, look_image: str) -> Iterator[KubeletContainerd]:
    """containerd 2.x, asked as the kubelet asks."""
    with KubeletContainerd.started(workshop("cri"), registry.host, look_image) as engine:
        yield engine


@pytest.fixture(scope="session")
def kubelet_crio(workshop: MakeFolder, registry: RegistryServer, look_image: str) -> Iterator[KubeletCrio]:
    """CRI-O, asked as the kubelet asks."""
    with KubeletCrio.started(workshop("crio"), registry.host, look_image) as engine:
        yield engine


@pytest.fixture(scope="session")
def ctr_containerd(workshop: MakeFolder) -> Iterator[CtrContainerd]:
    """The containerd of the system's packages."""
    with CtrContainerd.started(workshop("ctr")) as engine:
        yield engine


@pytest.fixture(scope="session")
def podman(workshop: MakeFolder, look_image: str) -> Podman:
    """podman."""
    return Podman(workshop("podman"), look_image)


@pytest.fixture(scope="session")
def engines(
    kubelet_containerd: KubeletContainerd, kubelet_crio: KubeletCrio, ctr_containerd: CtrContainerd, podman: Podman
) -> tuple[Engine, ...]:
    """All of them."""
    return kubelet_containerd, kubelet_crio, ctr_containerd, podman
