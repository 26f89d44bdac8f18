# SPDX-License-Identifier: Apache-2.0
"""The page `docs/benchmarks.md`, and its part about pushing and pulling."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from ocibridge.settings import MiB

from . import cases, floors
from .bars import Bar, all_bars, evidence
from .floors import Floor
from .hotpath import LINES, bound
from .inputs import SMALL
from .measure import Row
from .results import Results, Sample

PARTS = ("transfers", "files", "tls", "requests", "mirror")
TITLE = """# Speed and memory

Written by `make bench`. Each part says when, where and how often it was measured, all of it in one run."""
STATES = {True: "holds", False: "**does not hold**", None: "not measured"}


def assembled(parts: Mapping[str, str]) -> str:
    """The whole page of its parts; one that was not measured is not there."""
    there = [f"<!-- {name} -->\n\n{parts[name].strip()}\n\n<!-- end of {name} -->" for name in PARTS if name in parts]
    return "\n\n".join([TITLE, *there]) + "\n"


def parts_of(text: str) -> dict[str, str]:
    """What `assembled` has made a page of."""
    found = {}
    for name in PARTS:
        part = re.search(f"<!-- {name} -->\n(.*)\n<!-- end of {name} -->", text, re.DOTALL)
        if part:
            found[name] = part[1].strip()
    return found


def left_out(missing: Sequence[str]) -> str:
    """A paragraph about programs that are not installed."""
    return f"\n\nNot installed, and left out: {', '.join(missing)}." if missing else ""


def transfers(found: Results, machine: Mapping[str, str], cores: int, how: str, missing: Sequence[str]) -> str:
    """The part of the page about pushing and pulling.

    Args:
        found: The measurements.
        machine: What took part.
        cores: Processors of the machine.
        how: When and how often was measured, in a sentence.
        missing: Programs that are not installed.
    """
    bars = all_bars(found)
    return f"""## Push and pull

{how}

{table(("", ""), machine.items())}{left_out(missing)}

### Bars

{bar_table(bars)}

{misses(bars)}

### Measurements

Seconds are medians, memory and disk the largest of all runs; the ratio is to the first tool of the same measure. Before
each run the tool's home (its caches), its output and what was pushed are removed, and the disk is given the time to
write what is left; tools take turns within a round. The registry's processor time is what its process used meanwhile.
Peak disk counts the output, the home and the folder for temporary files.

curl is the floor: it is told the digests, verifies nothing, and leaves a tar file packed; with openssl and sync it
does what a pull promises, but for the unpacking. skopeo pushes an OCI layout
that ocibridge has prepared, and pulls to one. The oras package pushes each weight as a file, and the folder as it packs
folders, one tar.gz; ocibridge pushes the folder as one tar layer, its default. A blob for each small file (some three
requests each) is not measured. A small file has {SMALL} bytes of text.

Commands that talk to a registry import the oras package. Their bar for start-up is that of other commands and the time
of this import, which is that of "{cases.IMPORT}" less that of "{cases.PASS}".

{row_table(found.rows)}

### Where the time of {found.one.label} goes

{costs(found, cores)}

Steps of it alone, in one process, on the same bytes, medians:

{floor_table(found.weight_floors)}

And of {found.many.label}, for all of them:

{files_table(found.file_floors)}

#### What the bound is

{bounds(found, cores)}

#### What the threads do

One run each, looked at every 5 ms: the share of the looks at which a thread was in that line, also while the line had
handed its work to C code. Several threads make more than 100 % together.

{sample_table(found.push)}

{sample_table(found.pull)}

{sample_table(found.pull_carton)}
"""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows as Markdown."""
    lines = [_line(head), "|" + "---|" * len(head), *map(_line, rows)]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def row_table(rows: Sequence[Row]) -> str:
    """All measurements; the ratio is to the first tool of the same measure."""
    head = (
        "measure",
        "tool",
        "wall s",
        "from – to",
        "ratio",
        "cpu s",
        "registry cpu s",
        "peak RSS MiB",
        "peak disk MiB",
        "read MiB",
    )
    first: dict[str, float] = {}
    lines = []
    for row in rows:
        run = row.run
        base = first.setdefault(row.measure, run.wall)
        lines.append(
            (
                row.measure,
                row.tool,
                f"{run.wall:.2f}",
                f"{row.low:.2f} – {row.high:.2f}",
                f"{run.wall / base:.2f}",
                f"{run.cpu:.2f}",
                f"{run.server:.2f}",
                f"{run.rss / MiB:.0f}",
                f"{run.disk / MiB:.0f}",
                "" if run.read is None else f"{run.read / MiB:.0f}",
            )
        )
    return table(head, lines)


def bar_table(bars: Sequence[Bar]) -> str:
    """The bars."""
    return table(
        ("measure", "bar", "measured", ""), [(bar.measure, bar.limit, bar.measured, STATES[bar.holds]) for bar in bars]
    )


def misses(bars: Sequence[Bar], steps: str = " (seconds of steps are those of the profile below)") -> str:
    """Evidence for each bar that does not hold.

    Args:
        bars: All bars.
        steps: Where the steps of the evidence are from.
    """
    missed = [bar for bar in bars if bar.holds is False]
    if not missed:
        return "All bars that were measured hold."
    lines = [f"- **{bar.measure}** ({bar.limit}): {evidence(bar)}" for bar in missed]
    return "\n".join([f"What stands behind those that do not hold{steps}:", "", *lines])


def costs(found: Results, cores: int) -> str:
    """Processor time beside wall time."""
    head = (
        "measure",
        "tool",
        "wall s/GiB",
        "client user s/GiB",
        "client system s/GiB",
        "registry cpu s/GiB",
        f"of {cores} processors",
    )
    lines = [
        (
            row.measure,
            row.tool,
            *(f"{seconds / found.gib:.2f}" for seconds in (row.run.wall, row.run.user, row.run.system, row.run.server)),
            f"{(row.run.cpu + row.run.server) / (row.run.wall * cores):.0%}",
        )
        for row in found.rows
        if row.measure in (found.one.push, found.one.pull)
    ]
    return table(head, lines)


def floor_table(steps: Mapping[str, Floor]) -> str:
    """Steps per GiB."""
    head = ("step", "wall s/GiB", "cpu s/GiB", "registry cpu s/GiB")
    return table(
        head, [(name, f"{step.wall:.2f}", f"{step.cpu:.2f}", f"{step.server:.2f}") for name, step in steps.items()]
    )


def files_table(steps: Mapping[str, Floor]) -> str:
    """Steps on small files."""
    return table(
        ("step", "wall s", "cpu s"), [(name, f"{step.wall:.2f}", f"{step.cpu:.2f}") for name, step in steps.items()]
    )


def bounds(found: Results, cores: int) -> str:
    """The bound of each of ocibridge's large transfers, as the figures say."""
    put = found.put
    sent = {floors.PLAIN_PUT: put.wall}
    pull = (floors.GET, floors.HASH, floors.WRITE)
    to_folder = (*pull, *((floors.SYNC,) if found.pull.syncs else ()))
    to_carton = (*pull, floors.CRC, *((floors.SYNC,) if found.pull_carton.syncs else ()))
    steps = (
        (found.one.push, cases.TAR, sent | found.seconds(floors.HASH)),
        (found.one.push, cases.RAW, sent),
        (found.one.pull, cases.FOLDER, found.seconds(*to_folder)),
        (found.one.pull, cases.CARTON, found.seconds(*to_carton)),
    )
    lines = []
    for measure, tool, stages in steps:
        run = found.run(measure, tool)
        if run:
            lines.append(f"- **{measure}, {tool}**. {bound(run, stages, cores)}")
    late = found.seconds(floors.COMMIT)[floors.COMMIT]
    lines.append(
        f"- **The registry's PUT** over a plain socket takes {put.wall:.2f} s for {found.one.label}; {late:.2f} s"
        f" of it pass after it has taken the last byte; its process uses {put.server:.2f} s of processor"
        f" time for it, {put.server / put.wall:.0%} of one processor."
    )
    return "\n".join(lines)


def sample_table(sample: Sample) -> str:
    """The most frequent lines of a sample, down to one in a hundred."""
    lines = [(share, line) for share, line in sample.lines[:LINES] if share >= 0.01]
    return table(("share", sample.title), [(f"{share:.0%}", _code(line)) for share, line in lines])


def _code(line: str) -> str:
    """A source line as inline code that is neither ended early nor taken for a link."""
    return "`" + line.replace("`", "'").replace("](", "] (") + "`"
