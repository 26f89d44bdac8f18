# SPDX-License-Identifier: Apache-2.0
"""The part of `docs/benchmarks.md` about large transfers over TLS, and its bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from . import cases
from .bars import Bar, against, memory
from .cases import Model
from .floors import SYNC
from .page import bar_table, floor_table, left_out, misses, row_table, table
from .tls import ORAS_CLI, Encrypted

FACTOR = 1.3
"""Of the time of the ORAS command line, a pull may take at most."""


def tls_bars(found: Encrypted, cores: int) -> list[Bar]:
    """The bars in their order.

    Args:
        found: The measurements.
        cores: Processors of the machine.
    """
    return [_pull(found, found.one, cores), _pull(found, found.eight, cores), memory(found.rows)]


def _pull(found: Encrypted, model: Model, cores: int) -> Bar:
    ours, theirs = found.run(model.pull, cases.FOLDER), found.run(model.pull, ORAS_CLI)
    least = found.seconds()
    # The ORAS command line leaves its files to the page cache.
    flushing = {SYNC: least.pop(SYNC)} if SYNC in least else {}
    bar = against(
        f"{model.pull}, to a folder",
        f"≤ {FACTOR} × {ORAS_CLI}'s time",
        ours.wall if ours else None,
        theirs.wall if theirs else None,
        FACTOR,
        flushing,
        least,
    )
    if ours is None or theirs is None:
        return bar
    busy, other = ((run.cpu + run.server) / (run.wall * cores) for run in (ours, theirs))
    load = (
        f"Processor time: ocibridge {ours.cpu:.2f} s and the registry {ours.server:.2f} s, {busy:.0%} of the {cores} "
        f"processors; {ORAS_CLI} {theirs.cpu:.2f} s and the registry {theirs.server:.2f} s, {other:.0%}."
    )
    return replace(bar, load=load)


def tls_page(found: Encrypted, machine: Mapping[str, str], cores: int, how: str, missing: Sequence[str]) -> str:
    """The part of the page; see `benchmarks.page.transfers` for the arguments."""
    bars = tls_bars(found, cores)
    return f"""## Push and pull over TLS

{how}

{table(("", ""), machine.items())}{left_out(missing)}

### Bars

{bar_table(bars)}

{misses(bars, " (seconds of steps are those of the table below)")}

### Measurements

The registries speak HTTPS, each with an ECDSA certificate (P-256) for 127.0.0.1 that a private authority has signed;
every tool verifies it: ocibridge and the ORAS command line by `--ca-file`, curl by `--cacert`, skopeo by
`--src-cert-dir` and `--dest-cert-dir`. Everything else is as in "Push and pull": seconds are medians, memory and disk
the largest of all runs, the ratio is to the first tool of the same measure. "Read" counts sockets, too, where a TLS
library uses read(2) on them: all but curl.

curl is told the digests and verifies nothing. skopeo pushes an OCI layout that ocibridge has prepared, and pulls to
one. The ORAS command line pushes each weight as a file, and pulls the files of the same artifact that curl, skopeo and
"raw-files" pull; it verifies digests, too, and does not flush files to the disk. "ocibridge to a folder" unpacks the
tar layers that its own push makes by default.

{row_table(found.rows)}

Steps of pulling {found.one.label} alone, in one process, on the same bytes, medians:

{floor_table(found.steps)}
"""
