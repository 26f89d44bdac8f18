# SPDX-License-Identifier: Apache-2.0
"""The benchmark counts right, and its page says what the figures say."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ocibridge
from benchmarks import cases, floors
from benchmarks.bars import Bar, all_bars, evidence
from benchmarks.cases import Model
from benchmarks.floors import Floor
from benchmarks.hotpath import bound, sample_of
from benchmarks.inputs import SMALL, blobs_of, make_carton, make_files, small_file
from benchmarks.measure import Row, Run, allocated, run, summary
from benchmarks.page import PARTS, assembled, misses, parts_of, row_table, sample_table, table, transfers
from benchmarks.place import Case, Place
from benchmarks.results import Results, Sample
from benchmarks.server import Server, put_away

MiB = 1024 * 1024
RUN = Run(wall=1.0, user=0.5, system=0.25, server=0.25, rss=50 * MiB, disk=100 * MiB, read=7 * MiB)


def model(label: str) -> Model:
    return Model(label, Path("model.carton"), Path("layout"), (), "bench/model")


def results() -> Results:
    one, eight, many, tiny = map(model, ("large", "eight", "many", "tiny"))
    large = (cases.CURL, cases.TAR, cases.RAW, cases.FOLDER, cases.RAW_FOLDER, cases.CARTON, cases.SKOPEO, cases.ORAS)
    starts = (cases.PASS, cases.PYDANTIC, cases.IMPORT, cases.HELP, cases.INSPECT, cases.REMOTE)
    rows = [
        *(Row(measure, tool, RUN, 0.9, 1.1) for each in (one, eight, many) for measure in (each.push, each.pull)
          for tool in large),
        *(Row(each.again, cases.AGAIN, RUN, 0.9, 1.1) for each in (one, tiny)),
        *(Row(cases.START, tool, RUN, 0.9, 1.1) for tool in starts),
    ]  # fmt: skip
    step = Floor(0.5, 0.25, 0.1)
    names = (floors.READ, floors.HASH, floors.CRC, floors.SEND, floors.PUT, floors.COMMIT, floors.GET, floors.WRITE)
    return Results(
        one,
        2 * 1024 * MiB,
        100 * MiB,
        eight,
        many,
        tiny,
        rows,
        dict.fromkeys((*names, floors.SYNC), step),
        {floors.READ_FILES: step, floors.CREATE_FILES: step},
        *(Sample(title, ((0.5, "sock.send(buffer)"),)) for title in ("push", "pull", "pull to a carton")),
    )


def changed(found: Results, measure: str, tool: str, figures: dict[str, Any]) -> Results:
    """The same with other figures of one row."""
    rows = [
        replace(row, run=replace(row.run, **figures)) if (row.measure, row.tool) == (measure, tool) else row
        for row in found.rows
    ]
    return replace(found, rows=rows)


def held(found: Results) -> dict[tuple[str, str], bool | None]:
    return {(bar.measure, bar.limit): bar.holds for bar in all_bars(found)}


def test_a_row_has_medians_of_times_and_the_largest_of_everything_else() -> None:
    runs = [replace(RUN, wall=wall, rss=rss, read=read) for wall, rss, read in ((3, 1, None), (1, 9, 5), (2, 4, 8))]
    row = summary("push", "curl", runs)
    assert (row.run.wall, row.low, row.high) == (2, 1, 3)
    assert (row.run.rss, row.run.read) == (9, 8)
    assert row.run.cpu == 0.75


@pytest.mark.parametrize(
    ("measure", "tool", "figures", "missed"),
    [
        ("push, large", cases.TAR, {"wall": 1.06}, ("push, large, wall", "≤ 1.05 × curl's PUT")),
        ("push, large", cases.TAR, {"user": 0.6}, ("push, large, client CPU", "≤ skopeo's")),
        ("pull, large", cases.CURL, {"wall": 0.71}, ("pull, large, to a folder", "≤ 1.4 × curl -o FILE")),
        ("pull, large", cases.CARTON, {"wall": 1.2}, ("pull, large, to .carton", "≤ 1.1 × pull to a folder")),
        (
            "pull, large",
            cases.CARTON,
            {"disk": 103 * MiB},
            ("pull, large, to .carton, disk peak", "≤ 1.02 × the carton"),
        ),
        ("push again, unchanged, large", cases.AGAIN, {"wall": 1.1}, ("push again, unchanged, large", "≤ 1 s")),
        (
            "push again, unchanged, large",
            cases.AGAIN,
            {"read": 9 * MiB},
            ("push again, unchanged, large, bytes read", "no weight byte"),
        ),
        ("pull, eight", cases.FOLDER, {"rss": 101 * MiB}, ("peak RSS, all of ocibridge", "≤ 100 MiB")),
        (cases.START, cases.HELP, {"wall": 10.1}, (cases.HELP, "≤ 10 × python -c pass")),
        (
            cases.START,
            cases.REMOTE,
            {"wall": 20.1},
            (cases.REMOTE, "≤ 20 × python -c pass, and 0.00 s for the import of oras"),
        ),
    ],
)
def test_a_bar_fails_just_beyond_its_limit(
    measure: str, tool: str, figures: dict[str, float], missed: tuple[str, str]
) -> None:
    before, after = held(results()), held(changed(results(), measure, tool, figures))
    assert before[missed] is True
    assert {bar for bar in after if after[bar] is not before[bar]} == {missed}


def test_a_command_that_asks_a_registry_may_start_later_by_the_import_of_oras() -> None:
    found = changed(results(), cases.START, cases.IMPORT, {"wall": 3.0})
    bar = (cases.REMOTE, "≤ 20 × python -c pass, and 2.00 s for the import of oras")
    for wall, holds in ((22.0, True), (22.1, False)):
        assert held(changed(found, cases.START, cases.REMOTE, {"wall": wall}))[bar] is holds


def test_two_bars_need_the_others_to_be_slower() -> None:
    slow = changed(results(), "pull, large", cases.SKOPEO, {"wall": 1.5})
    slow = changed(slow, "push, many", cases.ORAS, {"wall": 5.5})
    faster = ("pull, large, to a folder", "≤ 0.7 × skopeo copy to a layout")
    small = ("push and pull, many", "≥ 3 × as fast as the oras package")
    assert (held(results())[faster], held(results())[small]) == (False, False)
    assert (held(slow)[faster], held(slow)[small]) == (True, True)


def test_without_a_tool_its_bars_are_not_measured() -> None:
    found = replace(results(), rows=[row for row in results().rows if row.tool != cases.SKOPEO])
    assert sum(holds is None for holds in held(found).values()) == 3
    assert "not measured" in transfers(found, {"memory": "1 GiB"}, 2, "Once.", ["skopeo"])


def test_evidence_compares_the_gap_with_the_steps() -> None:
    bar = Bar("pull", "≤ 1 s", "3 s", 3.0, 1.0)
    assert "2.00 s above the bar" in evidence(bar)
    assert "more than the gap" in evidence(replace(bar, extra={"sha256": 1.5, "fsync": 1.0}))
    assert "do not explain" in evidence(replace(bar, extra={"sha256": 1.5}))
    assert "fsync alone is above" in evidence(replace(bar, least={"sha256": 0.5, "fsync": 1.1}))
    assert "one after the other" in evidence(replace(bar, least={"sha256": 0.6, "fsync": 0.6}))
    assert "do not explain" in evidence(replace(bar, least={"sha256": 0.1}))
    assert misses([replace(bar, value=0.5)]) == "All bars that were measured hold."


def test_the_bound_follows_from_the_figures() -> None:
    assert bound(RUN, {"fsync": 0.9, "sha256": 0.5}, 2).startswith("Bound by one step: the longest step alone (fsync")
    assert bound(RUN, {"sha256": 0.5}, 1).startswith("Bound by the processors: client and registry together keep 100%")
    assert bound(RUN, {"sha256": 0.5}, 2).startswith("No single bound")


def test_the_page_has_every_row_and_says_what_holds() -> None:
    text = transfers(results(), {"memory": "1 GiB"}, 2, "Once.", [])
    assert "**does not hold**" in text
    assert "| memory | 1 GiB |" in text
    for row in results().rows:
        assert f"| {row.measure} | {row.tool} |" in text


def test_ratios_are_to_the_first_tool_of_a_measure() -> None:
    rows = [Row("push", tool, replace(RUN, wall=wall), wall, wall) for tool, wall in (("curl", 2.0), ("skopeo", 3.0))]
    assert "| push | skopeo | 3.00 | 3.00 – 3.00 | 1.50 |" in row_table(rows)


def test_a_bar_in_a_cell_does_not_end_it() -> None:
    assert table(("a",), [("x | y",)]).splitlines() == ["| a |", "|---|", "| x \\| y |"]


def test_rare_lines_are_left_out_and_no_line_becomes_a_link() -> None:
    text = sample_table(Sample("push", ((0.5, "a[`b`](c)"), (0.004, "rare"))))
    assert text.splitlines()[2:] == ["| 50% | `a['b'] (c)` |"]


def test_a_sample_becomes_shares(tmp_path: Path) -> None:
    (tmp_path / "sample").write_text(json.dumps({"looks": 4, "lines": {"b": 1, "os.fsync(3)": 4}}))
    sample = sample_of("push", tmp_path / "sample")
    assert sample.lines == ((1.0, "os.fsync(3)"), (0.25, "b"))
    assert sample.syncs


def test_a_command_is_measured(tmp_path: Path) -> None:
    code = f"import pathlib; pathlib.Path({str(tmp_path / 'out')!r}).write_bytes(bytes({MiB})); bytearray({64 * MiB})"
    found = run([sys.executable, "-c", code], env=dict(os.environ), watch=[tmp_path])
    assert found.wall > 0
    assert found.cpu > 0
    assert found.rss > 64 * MiB
    assert found.disk >= MiB


def test_bytes_that_a_command_reads_from_files_are_counted(tmp_path: Path) -> None:
    (tmp_path / "weight").write_bytes(bytes(4 * MiB))
    command = ["cat", str(tmp_path / "weight")]
    found = run(["sh", "-c", '"$@" >/dev/null', "sh", *command], env=dict(os.environ))
    if Path("/proc/self/io").exists():
        assert found.read is not None
        assert 4 * MiB <= found.read < 5 * MiB
    else:
        assert found.read is None


def test_a_command_that_fails_ends_the_benchmark() -> None:
    with pytest.raises(SystemExit, match="no such thing"):
        run(["sh", "-c", "echo no such thing >&2; exit 3"], env=dict(os.environ))


def test_disk_use_counts_folders_in_folders(tmp_path: Path) -> None:
    assert allocated(tmp_path / "nothing") == 0
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c").write_bytes(bytes(MiB))
    assert MiB <= allocated(tmp_path) < 2 * MiB


def test_the_carton_is_one_and_its_weights_are_the_largest_layers(tmp_path: Path) -> None:
    make_carton(tmp_path / "model.carton", [MiB, MiB])
    assert ocibridge.verify(tmp_path / "model.carton").identity
    ocibridge.push(
        tmp_path / "model.carton", f"oci:{tmp_path / 'layout'}:v1", ocibridge.PushOptions(layers="raw-files")
    )
    blobs = blobs_of(tmp_path / "layout", 2)
    assert [blob.path.stat().st_size for blob in blobs] == [MiB, MiB]
    assert blobs[0].digest != blobs[1].digest


def test_small_files_differ_and_share_a_layer(tmp_path: Path) -> None:
    make_files(tmp_path / "model", 101)
    written = [path.read_bytes() for path in sorted((tmp_path / "model").glob("*/*"))]
    assert written == [small_file(number) for number in range(101)]
    assert len(set(written)) == 101
    assert all(len(data) == SMALL and json.loads(data) for data in written)
    ocibridge.push(tmp_path / "model", f"oci:{tmp_path / 'layout'}:v1")
    assert len(blobs_of(tmp_path / "layout", 9)) == 1


def place(folder: Path) -> Place:
    (folder / "work").mkdir()
    return Place(
        folder / "work", *(Server("127.0.0.1:1", folder / name, None) for name in ("pushes", "pulls")), fsync_all=False
    )


def test_a_run_begins_with_nothing_unless_it_follows_another(tmp_path: Path) -> None:
    where = place(tmp_path)
    there, home = where.out / "there", '"$HOME/cache"'
    write = Case("measure", "tool", ("sh", "-ec", f"touch {there} {home}"))
    look = Case("measure", "tool", ("sh", "-ec", f"test -e {there} && test -e {home} || {{ echo gone >&2; exit 1; }}"))
    where.measured(write)
    where.again(look)
    with pytest.raises(SystemExit, match="gone"):
        where.measured(look)


def test_a_folder_with_many_files_is_removed_at_the_end_only(tmp_path: Path) -> None:
    old = tmp_path / "old"
    for name, count in (("few", 3), ("many", 1001)):
        (tmp_path / name).mkdir()
        for number in range(count):
            (tmp_path / name / str(number)).touch()
        put_away(tmp_path / name, old)
        assert not (tmp_path / name).exists()
    assert [len(list(folder.iterdir())) for folder in old.iterdir()] == [1001]
    put_away(tmp_path / "nothing", old)


def test_a_part_of_the_page_can_be_measured_anew() -> None:
    text = transfers(results(), {"memory": "1 GiB"}, 2, "Once.", [])
    first = assembled({"mirror": "## Mirror jobs\n\nold", "transfers": text})
    kept = parts_of(first)
    assert kept == {"transfers": text.strip(), "mirror": "## Mirror jobs\n\nold"}
    again = assembled(kept | {"mirror": "## Mirror jobs\n\nnew"})
    assert again == first.replace("## Mirror jobs\n\nold", "## Mirror jobs\n\nnew")
    assert again.index("## Push and pull") < again.index("## Mirror jobs")
    assert parts_of(assembled({"mirror": "x"})) == {"mirror": "x"}
    more = assembled(kept | {"requests": "r", "tls": "t", "files": "f"})
    assert list(parts_of(more)) == list(PARTS)
    assert parts_of("# Speed and memory\n") == {}
