# SPDX-License-Identifier: Apache-2.0
"""The image that the Dockerfile makes: the same from every checkout, and content with an init container's rights."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import ocibridge
from ocibridge.io.marker import MARKER
from ocibridge.volume.manifests import volume_manifest
from ocibridge.volume.options import VolumeManifestOptions

from ..registry import RegistryServer
from .engines import BIN, Refused, run, tree
from .podman import Podman
from .test_mounts import unpacked

pytestmark = pytest.mark.runtimes
ROOT = Path(__file__).parents[2]
USER = 65532
BASE = "localhost/python:base"
FEW_RIGHTS = ("--read-only", "--read-only-tmpfs=false", "--cap-drop=ALL", "--security-opt=no-new-privileges")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of this repository as they are now; one state for all builds, whatever is edited meanwhile."""
    folder = tmp_path_factory.mktemp("sources")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    return folder


def checkout(sources: Path, folder: Path, *, shared: bool) -> Path:
    """These files with times of their own; `shared` as git makes them where a group may write."""
    for source in sources.rglob("*"):
        if source.is_file():
            target = folder / source.relative_to(sources)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            os.utime(target, (1, 1) if shared else None)
            target.chmod(0o664 if shared else 0o644)
    return folder


class Builder:
    """Builds the image of a checkout, as the Dockerfile says, upon a base and with wheels that are there already."""

    def __init__(self, podman: Podman, host: str) -> None:
        self._env = podman.env
        self._name = f"{host}/ocibridge"
        run("podman", "import", "--quiet", BIN.parent / "base.tar", BASE, env=self._env)

    def build(self, checkout: Path, tag: str, **arguments: str) -> str:
        """Build an image; gives its name."""
        arguments = {"PYTHON": BASE, "PIP_OPTIONS": "--no-index --find-links /wheels", **arguments}
        options = [f"--build-arg={name}={value}" for name, value in arguments.items()]
        wheels = f"--volume={BIN.parent}/wheels:/wheels:ro"
        command = ("buildah", "bud", "--isolation=chroot", "--no-cache", "--timestamp=0", wheels)
        run(*command, *options, "--tag", f"{self._name}:{tag}", checkout, env=self._env)
        return f"{self._name}:{tag}"

    def push(self, image: str, digest: Path) -> str:
        """Push an image; gives the digest of its manifest, which goes through a file."""
        run("buildah", "push", "--tls-verify=false", f"--digestfile={digest}", image, env=self._env)
        return digest.read_text()


@pytest.fixture(scope="module")
def builder(podman: Podman, registry: RegistryServer) -> Builder:
    return Builder(podman, registry.host)


@pytest.fixture(scope="module")
def image(builder: Builder, sources: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The image, from a checkout as most people have it."""
    folder = tmp_path_factory.mktemp("checkout")
    built = builder.build(checkout(sources, folder, shared=False), "1")
    return f"{built.rpartition(':')[0]}@{builder.push(built, folder / 'digest')}"


def test_it_is_the_same_from_another_checkout(image: str, builder: Builder, sources: Path, tmp_path: Path) -> None:
    built = builder.build(checkout(sources, tmp_path, shared=True), "2")
    assert image.endswith(f"@{builder.push(built, tmp_path / 'digest')}")


def test_it_holds_what_dask_needs_where_that_is_asked_for(
    builder: Builder, podman: Podman, sources: Path, tmp_path: Path
) -> None:
    image = builder.build(checkout(sources, tmp_path, shared=False), "dask", EXTRAS="dask")
    options = (*FEW_RIGHTS, "--env=HOME=/nonexistent", "--entrypoint=/opt/ocibridge/bin/python3")
    podman.run(*options, image, "-c", "import distributed, ocibridge.mirror.executors")


def test_it_says_who_runs_what(image: str, podman: Podman) -> None:
    podman.pull(image)
    config = json.loads(run("podman", "image", "inspect", image, env=podman.env))[0]["Config"]
    assert config["User"] == f"{USER}:{USER}", "a number, or else runAsNonRoot cannot be checked"
    assert config["Entrypoint"] == ["/opt/ocibridge/bin/ocibridge"]
    assert podman.run(*FEW_RIGHTS, image, "version").startswith("ocibridge ")


def test_the_root_file_system_is_read_only(image: str, podman: Podman) -> None:
    podman.pull(image)
    code = f"import os; assert os.getuid() == {USER}; open('/tmp/x', 'w')"
    with pytest.raises(Refused, match="Read-only file system"):
        podman.run(*FEW_RIGHTS, "--entrypoint=/opt/ocibridge/bin/python3", image, "-c", code)


def test_the_init_container_pulls_a_model(
    image: str, podman: Podman, registry: RegistryServer, repository: str, tmp_path: Path
) -> None:
    """As `volume manifest` asks for it; twice, as an init container may run again."""
    model = unpacked("hf-digits", tmp_path)
    pushed = ocibridge.push(model, f"{registry.host}/{repository}:v1")
    manifest = volume_manifest(pushed.reference, VolumeManifestOptions(kind="InitContainer", ocibridge_image=image))
    init = manifest.documents[0]["spec"]["initContainers"][0]
    assert init["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
    }
    volume = tmp_path / "volume"
    volume.mkdir()
    volume.chmod(0o777)  # as the kubelet makes an emptyDir
    command, *first = init["command"]
    (mount,) = init["volumeMounts"]
    env = [f"--env={each['name']}={each['value']}" for each in init["env"]]
    options = [*FEW_RIGHTS, f"--entrypoint={command}", *env, f"--volume={volume}:{mount['mountPath']}"]
    podman.pull(init["image"])
    for _ in range(2):
        podman.run(*options, init["image"], *first, *init["args"])
        pulled = volume / init["args"][2].removeprefix(f"{mount['mountPath']}/")
        assert {path: sha256 for path, sha256 in tree(pulled).items() if path != MARKER} == tree(model)
        assert (pulled / "config.json").stat().st_uid == USER
