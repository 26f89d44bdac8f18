# SPDX-License-Identifier: Apache-2.0
"""Large transfers over TLS: what is measured, and the commands of each tool for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ocibridge.settings import MiB

from . import cases, tools
from .cases import Model
from .floors import Floor, tls_floors
from .measure import Row, Run
from .mirror_results import size_of
from .place import Case, Place

ORAS_CLI = "oras CLI"


@dataclass(frozen=True)
class Amount:
    """How much is measured, and how often.

    Attributes:
        size: Bytes of the weights of a model.
        pushes: Runs of each push.
        pulls: Runs of each pull.
    """

    size: int
    pushes: int
    pulls: int


@dataclass(frozen=True)
class Encrypted:
    """Everything that was measured over TLS.

    Attributes:
        amount: How much of it.
        one: The model with one weight.
        eight: The model with eight weights.
        rows: The measurements.
        steps: Steps of pulling one weight, seconds per GiB.
    """

    amount: Amount
    one: Model
    eight: Model
    rows: Sequence[Row]
    steps: Mapping[str, Floor]

    def run(self, measure: str, tool: str) -> Run | None:
        """What a tool needed; None where it is not installed."""
        return next((row.run for row in self.rows if (row.measure, row.tool) == (measure, tool)), None)

    def seconds(self) -> dict[str, float]:
        """Seconds of the steps on the weights of a model."""
        return {name: step.wall * self.amount.size / (1024 * MiB) for name, step in self.steps.items()}


def measure(place: Place, amount: Amount) -> Encrypted:
    """Measure one model after the other, so that each fits into the page cache."""
    rows: list[Row] = []
    one = cases.weights(place, "one", f"a weight of {size_of(amount.size)}", [amount.size])
    rows += place.rounds(pushes(place, one), amount.pushes)
    rows += place.rounds(pulls(place, one), amount.pulls)
    steps = tls_floors(place, one.blobs[0], one.repository, amount.pulls)
    place.forget()

    shard = amount.size // cases.SHARDS
    eight = cases.weights(place, "eight", f"{cases.SHARDS} weights of {size_of(shard)}", [shard] * cases.SHARDS)
    rows += place.rounds(pushes(place, eight), amount.pushes)
    rows += place.rounds(pulls(place, eight), amount.pulls)
    place.forget()
    return Encrypted(amount, one, eight, rows, steps)


def pushes(place: Place, model: Model) -> list[Case]:
    """Every tool's push of a carton's weights into an empty registry."""
    server, trust, target = place.pushes, place.trust, f"{place.pushes.host}/bench/new:v1"
    assert trust is not None
    https = tools.https(trust)
    commands = {
        cases.CURL: tools.curl_push(server.host, "bench/new", model.blobs, trust),
        cases.TAR: tools.ocibridge_push(model.source, target, *https),
        cases.RAW: tools.ocibridge_push(model.source, target, "--layers", "raw-files", *https),
        cases.SKOPEO: tools.skopeo_push(model.layout, server.host, "bench/new", trust),
        ORAS_CLI: tools.oras_cli_push(server.host, "bench/new", [blob.path for blob in model.blobs], trust),
    }
    return [Case(model.push, tool, command, server) for tool, command in commands.items()]


def pulls(place: Place, model: Model) -> list[Case]:
    """Every tool's pull of them; all but the first of ocibridge pull the same blobs, which are the files themselves."""
    server, trust, out = place.pulls, place.trust, place.out
    assert trust is not None
    https, raw = tools.https(trust), model.repository
    several = {cases.CURL_PARALLEL: ("-Z",)} if len(model.blobs) > 1 else {}
    curls: dict[str, tuple[str, ...]] = {cases.CURL: (), **several}
    commands = {
        **{tool: tools.curl_pull(server.host, raw, model.blobs, out, *how, trust=trust) for tool, how in curls.items()},
        cases.FOLDER: tools.ocibridge_pull(f"{server.host}/{raw.removesuffix('-raw')}:v1", out / "model", *https),
        cases.RAW_FOLDER: tools.ocibridge_pull(f"{server.host}/{raw}:v1", out / "model", *https),
        cases.SKOPEO: tools.skopeo_pull(server.host, raw, out / "layout", trust),
        ORAS_CLI: tools.oras_cli_pull(server.host, raw, out / "model", trust),
    }
    return [Case(model.pull, tool, command, server) for tool, command in commands.items()]
