# SPDX-License-Identifier: Apache-2.0
"""Reports to make pages and metrics of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ocibridge.mirror.reports import Failure, MirrorItem, MirrorReport
from ocibridge.report import Moves

REPORT = Path(__file__).parents[1] / "fixtures" / "mirror" / "report.json"
BEGAN = 1795312800.0
"""2026-11-22 02:00:00 UTC."""

HOSTILE = (
    "</script><script>window.owned = 1</script>",
    "<!--<script>",
    '"><img src=x onerror="window.owned = 1">',
    "' onmouseover='window.owned = 1",
    "</title></style></textarea><svg onload=window.owned=1>",
    "javascript:window.owned=1",
    "${window.owned = 1} {{7*7}} \\u003c/script> \\",
    "&lt;b&gt; &amp; \u2028\u2029 \u202eevil\u202c \x00\x1b[31m",
    "x" * 4000,
    "界" * 300,
)


def night() -> MirrorReport:
    """A run of some size, with everything in it that can happen."""
    return MirrorReport.model_validate_json(REPORT.read_bytes())


def item(outcome: str = "copied", **more: Any) -> MirrorItem:
    """An item; times and sizes are those given, or none."""
    fields: dict[str, Any] = {"entry": 0, "source": "a.example/m:1", "target": "b.example/m:1", "outcome": outcome}
    return MirrorItem.model_validate(fields | more)


def report(items: Sequence[MirrorItem], **more: Any) -> MirrorReport:
    """A report of these items."""
    fields: dict[str, Any] = {
        "job": "jobs/mirror.yaml",
        "job_digest": "sha256:" + "0" * 64,
        "started": "2026-11-22T02:00:00Z",
        "seconds": 10.0,
        "executor": "threads",
        "workers": 4,
        "items": items,
        "totals": Moves.sum(each.moves for each in items),
        "counts": dict(Counter(each.outcome for each in items)),
    }
    return MirrorReport.model_validate(fields | more)


def many(count: int) -> MirrorReport:
    """A report of so many items, of which each tenth was copied."""
    items = [
        item(
            "skipped" if number % 10 else "copied",
            target=f"b.example/models/m{number % 50}:{number}",
            moves=Moves(copied=0 if number % 10 else 1, copied_bytes=0 if number % 10 else number),
            started=BEGAN + number / 100,
            seconds=0.03,
        )
        for number in range(count)
    ]
    return report(items, seconds=count / 100 + 1)


def hostile() -> MirrorReport:
    """A report in which every text that others have a say in is an attack."""
    items = []
    for number, text in enumerate(HOSTILE):
        error = Failure(type=text, message=text, hint=text) if number % 2 else None
        items.append(
            item(
                "failed" if error else "copied",
                source=text,
                target=f"{text}/{number}",
                digest=text,
                source_digest=text,
                replaced=text,
                reason=text,
                also=[text],
                error=error,
                started=BEGAN + number,
                seconds=1.0,
            )
        )
    texts = dict.fromkeys(("job", "job_digest", "started", "executor", "shard"), HOSTILE[0])
    return report(items, warnings=list(HOSTILE), **texts)
