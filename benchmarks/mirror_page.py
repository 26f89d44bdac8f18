# SPDX-License-Identifier: Apache-2.0
"""The part of `docs/benchmarks.md` about mirror jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ocibridge.settings import KiB, MiB

from .mirror_bars import mirror_bars
from .mirror_inputs import LAYER, LAYERS, PARALLEL
from .mirror_results import ROUND_TRIP, Measured, Mirrored
from .page import bar_table, left_out, misses, table


def mirror_page(found: Mirrored, machine: Mapping[str, str], cores: int, how: str, missing: Sequence[str]) -> str:
    """The part of the page; see `benchmarks.page.transfers` for the arguments."""
    bars = mirror_bars(found, cores)
    return f"""## Mirror jobs

{how}

{table(("", ""), machine.items())}{left_out(missing)}

### Bars

{bar_table(bars)}

{misses(bars, "")}

### Measurements

Two registries, each a process, that log every request, which is where the numbers of requests are from. Before the
first command of a turn the target is emptied, and with it the tools' homes and journals; what follows finds what was
left: "nothing new" comes after "cold". Before each command the disk is given the time to write what is left. Seconds
are medians, memory, disk and requests the largest of all runs.

A small artifact has a config and {LAYERS} layers of {LAYER // KiB} KiB, which no other has, and one tag; all are in one
repository. `skopeo sync --all --preserve-digests` copies them tag by tag, and knows neither referrers nor tags like
`sha256-….sig`: the job says `referrers: false` and `digestTags: false`, so that ours does not look for them either, and
`fastCheck: true`. It has no other options: threads and connections are those that everybody gets. regsync gets the same
words in its configuration, and `parallel: {PARALLEL}`. "Digests pinned" is the same as ours with an entry for each tag,
with its digest, and the same journal. After each turn the target's tags are counted.

The pipe is `curl GET | curl -T - PUT` of the weight alone, with a digest that curl is told and does not verify. The
second curl does not know the size, so that it sends HTTP/1.1 chunks, each as much as one read of the pipe gives (64 KiB
at most). ocibridge verifies what it hands on, and copies the manifest and the small layers, too. Disk is what output
folder, home and folder for temporary files grow by.

The cluster is a scheduler and workers of one thread each, without Dask's profiler, all processes of this machine,
started anew for each run, which is not measured; nor is what they import. The start of `ocibridge` is. A process
between them and the registries passes everything on {ROUND_TRIP / 2:g} ms later in both directions, so that a request
takes {ROUND_TRIP} ms more, whatever its size.

{row_table(found.rows)}
"""


def row_table(rows: Sequence[Measured]) -> str:
    """All measurements; the ratio is to the first tool of the same measure."""
    head = (
        "measure",
        "tool",
        "wall s",
        "from – to",
        "ratio",
        "tags/s",
        "client cpu s",
        "registries cpu s",
        "cluster and proxy cpu s",
        "peak RSS MiB",
        "peak disk MiB",
        "requests source / target",
        "with bytes of blobs",
    )
    first: dict[str, float] = {}
    lines = []
    for each in sorted(rows, key=lambda found: [other.row.measure for other in rows].index(found.row.measure)):
        row, run = each.row, each.row.run
        base = first.setdefault(row.measure, run.wall)
        lines.append(
            (
                row.measure,
                row.tool,
                f"{run.wall:.2f}",
                f"{row.low:.2f} – {row.high:.2f}",
                f"{run.wall / base:.2f}",
                f"{each.rate:.0f}" if each.tags > 1 else "",
                f"{run.cpu:.2f}",
                f"{run.server:.2f}",
                f"{each.others:.2f}" if each.others else "",
                f"{run.rss / MiB:.0f}",
                f"{run.disk / MiB:.2f}",
                f"{each.source.requests} / {each.target.requests}",
                f"{each.source.moved} / {each.target.moved}",
            )
        )
    return table(head, lines)
