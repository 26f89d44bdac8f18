# SPDX-License-Identifier: Apache-2.0
"""A run keeps little of each tag in memory, and its reports are the same as if it kept all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ocibridge.mirror.items import ItemList
from ocibridge.mirror.reports import MirrorItem, MirrorReport
from ocibridge.report import Moves

from ..faults.quirks import Registry, sha256

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
PER_TAG = 4 * 1024
"""Bytes of memory that a run may take for each tag."""
RUN = """
import sys
from ocibridge.cli.main import main
status = main(sys.argv[1:])
print(*(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
sys.exit(status)
"""


def item(number: int) -> MirrorItem:
    reasons = ("new", "in sync", 'a <"tag">\n&')
    return MirrorItem(
        entry=number, outcome="copied", source=f"a/b:{number}", target=f"c/d:{number}", reason=reasons[number % 3]
    )


def report(items: ItemList[MirrorItem] | list[MirrorItem]) -> MirrorReport:
    return MirrorReport(
        job='"items": []',
        job_digest="",
        started="",
        seconds=1,
        executor="",
        workers=1,
        items=items,
        totals=Moves(),
        counts={},
    )


@pytest.mark.parametrize("count", [0, 1, 7, 5000])
def test_items_in_a_file_are_those_that_were_added(count: int) -> None:
    items, expected = ItemList(MirrorItem), [item(number) for number in range(count)]
    for each in reversed(expected):
        items.add(each, each.entry)
    assert items == expected
    assert len(items) == count
    assert items[1:3] == expected[1:3]
    stored, plain = report(items), report(expected)
    assert stored.items is items
    for indent in (2, None):
        text = ("\n" if indent else "").join(stored.json_pieces(indent))
        assert text == plain.model_dump_json(by_alias=True, indent=indent)
    assert MirrorReport.model_validate_json(stored.to_json()) == plain


@pytest.mark.skipif(sys.platform != "linux", reason="the memory of a process is read from /proc")
def test_memory_grows_by_a_few_kibibytes_for_each_tag(tmp_path: Path) -> None:
    peaks = []
    for count in (100, 900):
        with Registry() as server:
            for number in range(count):
                blob = b"{}"
                part = {"mediaType": "application/octet-stream", "digest": sha256(blob), "size": len(blob)}
                notes = {"number": str(number)}
                document = {
                    "schemaVersion": 2,
                    "mediaType": MANIFEST,
                    "config": part,
                    "layers": [],
                    "annotations": notes,
                }
                data = json.dumps(document).encode()
                server.blobs["source", sha256(blob)] = blob
                server.manifests["source", sha256(data)] = data, MANIFEST
                server.tags["source", f"v{number}"] = sha256(data)
            entry = {"source": f"{server.host}/source", "target": f"{server.host}/target", "type": "repository"}
            job = tmp_path / "job.yaml"
            job.write_text(json.dumps({"version": 1, "sync": [entry]}))
            pages = [
                argument for suffix in ("json", "html") for argument in ("--report", str(tmp_path / f"report.{suffix}"))
            ]
            argv = [sys.executable, "-c", RUN, "mirror", "run", str(job), "--no-journal", "--progress", "none", *pages]
            done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=120)
            assert len(json.loads((tmp_path / "report.json").read_text())["items"]) == count
            assert len(server.tags) == 2 * count
            *lines, peak = done.stdout.splitlines()
            assert len(lines) == count
            peaks.append(int(peak) * 1024)
    assert (peaks[1] - peaks[0]) / 800 < PER_TAG
