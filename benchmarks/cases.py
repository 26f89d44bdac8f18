# SPDX-License-Identifier: Apache-2.0
"""What is measured: the models, as they are prepared, and the commands of each tool for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ocibridge.settings import MiB

from . import tools
from .inputs import Blob, blobs_of, make_carton, make_files
from .place import Case, Place

CURL, CURL_PARALLEL, SKOPEO, ORAS = "curl", "curl -Z", "skopeo", "oras package"
CURL_THEN, CURL_BESIDE = "curl, then openssl and sync", "curl, tee and openssl, then sync"
TAR, RAW = "ocibridge", "ocibridge, raw-files"
FOLDER, RAW_FOLDER, CARTON = "ocibridge to a folder", "ocibridge to a folder, raw-files", "ocibridge to .carton"
AGAIN = "ocibridge"
PASS, PYDANTIC = "python -c pass", "python -c 'import pydantic'"
IMPORT = "python -c 'import oras.provider'"
HELP, INSPECT = "ocibridge --help", "ocibridge inspect, carton of 1 MiB"
REMOTE = "ocibridge inspect, 1 MiB in a registry"
START = "start-up"
SHARDS = 8
"""Weights of the model that has several."""


@dataclass(frozen=True)
class Model:
    """A model, ready to be pushed by each tool, and pushed to the registry that is pulled from.

    Attributes:
        label: What the page calls it.
        source: The carton or folder.
        layout: OCI layout with its artifact, for skopeo.
        blobs: Its large layers, for curl.
        repository: Repository with the artifact of the layout.
    """

    label: str
    source: Path
    layout: Path
    blobs: tuple[Blob, ...]
    repository: str

    @property
    def push(self) -> str:
        """The measure of pushing it."""
        return f"push, {self.label}"

    @property
    def again(self) -> str:
        """The measure of pushing it when the registry has it."""
        return f"push again, unchanged, {self.label}"

    @property
    def pull(self) -> str:
        """The measure of pulling it."""
        return f"pull, {self.label}"


def weights(place: Place, name: str, label: str, sizes: Sequence[int]) -> Model:
    """A carton with weights of `sizes` bytes; its layout has the files as they are, so that all send the same blobs."""
    source, layout = place.models / f"{name}.carton", place.models / f"{name}-layout"
    make_carton(source, sizes)
    raw, https = ("--layers", "raw-files"), tools.https(place.trust)
    place.prepare(tools.ocibridge_push(source, f"oci:{layout}:v1", *raw))
    place.prepare(tools.ocibridge_push(source, f"{place.pulls.host}/bench/{name}-raw:v1", *raw, *https))
    place.prepare(tools.ocibridge_push(source, f"{place.pulls.host}/bench/{name}:v1", *https))
    return Model(label, source, layout, blobs_of(layout, len(sizes)), f"bench/{name}-raw")


def files(place: Place, name: str, label: str, count: int) -> Model:
    """A folder of small files; its layout has them in one tar layer."""
    source, layout = place.models / name, place.models / f"{name}-layout"
    make_files(source, count)
    place.prepare(tools.ocibridge_push(source, f"oci:{layout}:v1"))
    place.prepare(tools.ocibridge_push(source, f"{place.pulls.host}/bench/{name}:v1"))
    place.prepare(tools.oras_push(place.pulls.host, f"bench/{name}-oras", [source]))
    return Model(label, source, layout, blobs_of(layout, 1), f"bench/{name}")


def push_weights(place: Place, model: Model) -> list[Case]:
    """Every tool's push of a carton's weights into an empty registry."""
    server, target = place.pushes, f"{place.pushes.host}/bench/new:v1"
    commands = {
        CURL: tools.curl_push(server.host, "bench/new", model.blobs),
        TAR: tools.ocibridge_push(model.source, target),
        RAW: tools.ocibridge_push(model.source, target, "--layers", "raw-files"),
        SKOPEO: tools.skopeo_push(model.layout, server.host, "bench/new"),
        ORAS: tools.oras_push(server.host, "bench/new", [blob.path for blob in model.blobs]),
    }
    return [Case(model.push, tool, command, server) for tool, command in commands.items()]


def pull_weights(place: Place, model: Model) -> list[Case]:
    """Every tool's pull of them."""
    server, out = place.pulls, place.out
    raw = f"{server.host}/{model.repository}:v1"
    tar = f"{server.host}/{model.repository.removesuffix('-raw')}:v1"
    several = len(model.blobs) > 1
    curls = {CURL: (), CURL_PARALLEL: ("-Z",)} if several else {CURL: ()}
    verified = {} if several else {CURL_THEN: tools.CURL_THEN, CURL_BESIDE: tools.CURL_BESIDE}
    commands = {
        **{tool: tools.curl_pull(server.host, model.repository, model.blobs, out, *how) for tool, how in curls.items()},
        **{
            tool: tools.curl_verified(script, server.host, model.repository, model.blobs[0], out)
            for tool, script in verified.items()
        },
        FOLDER: tools.ocibridge_pull(tar, out / "model"),
        RAW_FOLDER: tools.ocibridge_pull(raw, out / "model"),
        CARTON: tools.ocibridge_pull(tar, out / "model.carton"),
        SKOPEO: tools.skopeo_pull(server.host, model.repository, out / "layout"),
        ORAS: tools.oras_pull(server.host, model.repository, out),
    }
    return [Case(model.pull, tool, command, server) for tool, command in commands.items()]


def push_files(place: Place, model: Model) -> list[Case]:
    """Every tool's push of the folder; curl sends a tar file that somebody else has made."""
    server = place.pushes
    commands = {
        CURL: tools.curl_push(server.host, "bench/new", model.blobs),
        TAR: tools.ocibridge_push(model.source, f"{server.host}/bench/new:v1"),
        SKOPEO: tools.skopeo_push(model.layout, server.host, "bench/new"),
        ORAS: tools.oras_push(server.host, "bench/new", [model.source]),
    }
    return [Case(model.push, tool, command, server) for tool, command in commands.items()]


def pull_files(place: Place, model: Model) -> list[Case]:
    """Every tool's pull of the folder; curl and skopeo fetch the tar file and leave it packed."""
    server, out = place.pulls, place.out
    commands = {
        CURL: tools.curl_pull(server.host, model.repository, model.blobs, out),
        FOLDER: tools.ocibridge_pull(f"{server.host}/{model.repository}:v1", out / "model"),
        SKOPEO: tools.skopeo_pull(server.host, model.repository, out / "layout"),
        ORAS: tools.oras_pull(server.host, f"{model.repository}-oras", out),
    }
    return [Case(model.pull, tool, command, server) for tool, command in commands.items()]


def push_again(place: Place, models: Sequence[Model]) -> list[Case]:
    """A push of what the registry has already, by the user who pushed it the first time."""
    server = place.pulls
    return [
        Case(
            model.again,
            AGAIN,
            tools.ocibridge_push(model.source, f"{server.host}/{model.repository.removesuffix('-raw')}:v1"),
            server,
            kept=True,
        )
        for model in models
    ]


def start_up(place: Place) -> list[Case]:
    """Commands that have next to nothing to do."""
    carton, target = place.models / "start.carton", f"{place.pulls.host}/bench/start:v1"
    make_carton(carton, [MiB])
    place.prepare(tools.ocibridge_push(carton, target))
    commands = {
        PASS: tools.python("pass"),
        PYDANTIC: tools.python("import pydantic"),
        IMPORT: tools.python("import oras.provider"),
        HELP: tools.ocibridge("--help"),
        INSPECT: tools.ocibridge("inspect", "--json", str(carton)),
        REMOTE: tools.ocibridge("inspect", "--json", target),
    }
    return [Case(START, tool, command, place.pulls if tool == REMOTE else None) for tool, command in commands.items()]
