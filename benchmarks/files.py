# SPDX-License-Identifier: Apache-2.0
"""Every command on very many small files: peak memory and time, and the part of `docs/benchmarks.md` about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ocibridge.settings import MiB

from .bars import Bar
from .inputs import SMALL, make_files
from .measure import Row, summary
from .mirror_inputs import whole_job
from .page import bar_table, misses, table
from .place import Case, Place
from .tools import Command, ocibridge

FILES = 20_000
PEAK = 120
"""MiB that a command may take at most."""
FACTOR = 3
"""Of the time of the push of the same, a verification may take at most."""
COMMANDS = """
convert folder made.carton --runner-name noop --framework-version *
convert folder made.mlarchive
inspect folder
inspect made.carton
inspect made.mlarchive
push folder oci:layout:folder
push made.carton oci:layout:carton
push made.mlarchive oci:layout:mlarchive
push folder oci-archive:pushed.tar:v1
push made.carton HOST/bench/files:v1
verify folder --against oci:layout:folder
verify made.carton
verify made.mlarchive
inspect oci:layout:carton
cat oci:layout:carton carton.toml
diff made.carton oci:layout:carton
inspect HOST/bench/files:v1
verify oci:layout:carton
verify oci:layout:mlarchive
verify oci-archive:pushed.tar:v1
verify HOST/bench/files:v1
pull oci:layout:folder pulled
pull oci:layout:carton pulled.carton
pull oci:layout:mlarchive pulled.mlarchive
pull HOST/bench/files:v1 pulled-again
convert made.carton unpacked
convert made.mlarchive members
convert oci:layout:carton oci:layout:draft --dialect draft
copy oci:layout:carton oci:other:v1
copy oci:layout:carton HOST/bench/copied:v1
copy HOST/bench/files:v1 OTHER/bench/copied:v1
copy HOST/bench/files:v1 --to oci-archive:airgap.tar
copy --from oci-archive:airgap.tar --to OTHER/restored
volume prepare HOST/bench/files:v1
volume check HOST/bench/files:v1-image
volume check HOST/bench/files:v1-image --read
volume manifest HOST/bench/files:v1
mirror plan job.yaml
mirror run job.yaml
mirror run job.yaml --full
""".strip().splitlines()
"""In an order in which each finds what it needs; HOST and OTHER are registries, all else is in one folder."""


def measure(place: Place, count: int) -> list[Row]:
    """One run of each command, in a folder that the others have left their results in."""
    place.clear()
    make_files(place.out / "folder", count)
    source = f"{place.pulls.host}/bench/files"
    whole_job(place.out / "job.yaml", source, f"{place.pushes.host}/bench/mirrored")
    rows = []
    for line in COMMANDS:
        case = Case(line, "ocibridge", _command(place, line), place.pulls)
        rows.append(summary(line, "ocibridge", [place.again(case)]))
    place.forget()
    return rows


def _command(place: Place, line: str) -> Command:
    for name, host in (("HOST", place.pulls.host), ("OTHER", place.pushes.host)):
        line = line.replace(name, host)
    words = [str(place.out / word) if _is_file(word) else _stored(place, word) for word in line.split()]
    fresh = ["--no-cache"] if words[0] == "push" else []
    return ocibridge(*words, *fresh)


def _is_file(word: str) -> bool:
    return word in ("folder", "pulled", "pulled-again", "unpacked", "members") or (
        word.endswith((".carton", ".mlarchive", ".yaml")) and ":" not in word
    )


def _stored(place: Place, word: str) -> str:
    scheme, found, rest = word.partition(":")
    return f"{scheme}:{place.out}/{rest}" if found and scheme in ("oci", "oci-archive") else word


def files_bars(rows: Sequence[Row]) -> list[Bar]:
    """The largest command, and each verification beside the push of the same."""
    largest = max(rows, key=lambda row: row.run.rss)
    peak = largest.run.rss / MiB
    bars = [
        Bar("peak RSS, all commands", f"≤ {PEAK} MiB", f"{peak:.0f} MiB ({largest.measure})", peak, PEAK, "MiB"),
    ]
    walls = {row.measure: row.run.wall for row in rows}
    for name in ("folder", "made.carton", "made.mlarchive"):
        push = next(wall for measure, wall in walls.items() if measure.startswith(f"push {name} oci:"))
        wall = next(wall for measure, wall in walls.items() if measure.startswith(f"verify {name}"))
        words = f"{wall / push:.2f} × ({wall:.2f} s to {push:.2f} s)"
        bars.append(Bar(f"verify {name}", f"≤ {FACTOR} × its push", words, wall, FACTOR * push))
    return bars


def files_page(rows: Sequence[Row], count: int, machine: Mapping[str, str], how: str) -> str:
    """The part of the page.

    Args:
        rows: The measurements.
        count: Small files.
        machine: What took part.
        how: When it was measured, in a sentence.
    """
    bars = files_bars(rows)
    lines = [
        (f"`{row.measure}`", f"{row.run.wall:.2f}", f"{row.run.cpu:.2f}", f"{row.run.rss / MiB:.0f}") for row in rows
    ]
    return f"""## Very many small files

{how}

{table(("", ""), machine.items())}

### Bars

{bar_table(bars)}

{misses(bars, "")}

### Measurements

{count:,} files of {SMALL // 1024} KiB in folders of a hundred; each command once, in the order of the table; `HOST` and
`OTHER` are registries on this machine.

{table(("command", "wall s", "cpu s", "peak RSS MiB"), lines)}
"""
