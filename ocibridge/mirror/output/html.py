# SPDX-License-Identifier: Apache-2.0
"""The report of a run as one page that needs nothing but a browser.

Words, tiles, failures and the timeline are HTML of the template `report.html`; the list of all tags is drawn by
`report.js` from the JSON that the page contains, some at a time. Nothing is fetched, and nothing of the report becomes
code: the template escapes what it writes, the script knows text alone, and the page's own policy (Content Security
Policy Level 3) lets no other script or style run.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from typing import NamedTuple
from urllib.parse import quote

from jinja2 import Environment, StrictUndefined

from ...errors import human_size
from ...report import Moves
from ..reports import IN_SYNC, OUTCOMES, Failure, MirrorItem, MirrorReport
from .timeline import NARROW, WIDE, human_seconds, moment, timeline

_MOST_FAILURES = 100
"""Different failures that are shown in full."""
_MOST_NAMES = 10
"""Tags that are named with a failure before one has to ask for more."""
_ALL_NAMES = 200
"""Tags that are named with a failure at all."""

_COLOURS = {"failed": "#c8232c", "copied": "#1a7f4e", "idle": "#66728a"}
_MARKS = {
    "failed": "M5 5L11 11M11 5L5 11",
    "copied": "M4 8.5L7 11.5L12 5",
    "idle": "M4.5 8H11.5",
}
_COLUMNS = (
    ("outcome", "Outcome", ""),
    ("target", "Tag", ""),
    ("moved", "Transferred", "number"),
    ("saved", "Saved", "number"),
    ("started", "Began", "number"),
    ("seconds", "Took", "number"),
)


def report_page(report: MirrorReport) -> str:
    """The report as HTML; the same report always gives the same page."""
    return "".join(page_pieces(report))


def page_pieces(report: MirrorReport) -> Iterator[str]:
    """The report as HTML, piece by piece.

    Args:
        report: Of a run.
    """
    pages = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    pages.filters.update(size=human_size, seconds=human_seconds, sentence=_sentence, begun=_begun)
    style, script, mood, began = _asset("report.css"), _asset("report.js"), _mood(report), moment(report.started)
    totals = report.totals
    begin = began.timestamp() if began else min((i.started.timestamp() for i in report.items if i.started), default=0.0)
    page = pages.from_string(_asset("report.html")).stream(
        report=report,
        headline=headline(report),
        mood=mood,
        shape=_MARKS[mood],
        icon=_icon(mood),
        began=began,
        counts=Counter(report.counts),
        skipped=_skipped(report),
        saved=totals.mounted_bytes + totals.present_bytes,
        rate=totals.copied_bytes / report.seconds if report.seconds > 0 else 0.0,
        tag_rate=len(report.items) / report.seconds if report.seconds > 0 else 0.0,
        shares=_shares(totals),
        failures=_failures(report.items),
        most_failures=_MOST_FAILURES,
        most_names=_MOST_NAMES,
        all_names=_ALL_NAMES,
        listings=_listings(report),
        timeline=timeline(report.items, begin, report.seconds),
        narrow=NARROW,
        wide=WIDE,
        outcomes=OUTCOMES,
        present={item.outcome for item in report.items},
        columns=_COLUMNS,
        style=style,
        script=script,
        policy=_policy(style, script),
        json=map(_harmless, report.json_pieces(None)),
    )
    page.enable_buffering(100)
    return page


def headline(report: MirrorReport) -> str:
    """Summarise a run in one sentence.

    Example: `3 of 512 tags failed; 498 were copied and 11 were in sync already.`
    """
    if not report.interrupted:
        return _outcome(report)
    if report.remaining is None:
        return "The run was interrupted before all tags were listed."
    left = f"The run was interrupted with {_tags(report.remaining)} left to do"
    return f"{left}. {_outcome(report)}" if report.items else f"{left}."


def _outcome(report: MirrorReport) -> str:
    count = report.counts.get
    listings = _listings(report)
    if listings:
        repositories = f"{listings:,} {'repository' if listings == 1 else 'repositories'} could not be listed"
        if len(report.items) == listings:
            return f"{repositories}."
        others = {**report.counts, "failed": count("failed", 0) - listings}
        tags = report.model_copy(update={"counts": others, "items": [i for i in report.items if not i.listing]})
        return f"{repositories}. {_outcome(tags)}"
    total, failed, skipped = len(report.items), count("failed", 0), count("skipped", 0)
    if not total:
        return "The job selected no tags."
    if failed == total:
        return "The only tag failed." if total == 1 else f"All {total:,} tags failed."
    if skipped == total:
        which = "the only tag was" if total == 1 else f"all {total:,} tags were"
        return f"Nothing was new: {which} {_skipped(report)}."
    words = (("copied", "copied"), ("skipped", _skipped(report)), ("pruned", "pruned"), ("kept", "kept"))
    rest = [(count(outcome, 0), text) for outcome, text in words if count(outcome, 0)]
    if not rest:
        return f"{failed:,} of {total:,} tags failed."
    number, text = rest[0]
    be = "was" if number == 1 else "were"
    if failed:
        parts = [f"{number:,} {be} {text}", *_parts(rest[1:])]
        return f"{failed:,} of {total:,} tags failed; {_and(parts)}."
    return f"{_and([f'{_tags(number)} {be} {text}', *_parts(rest[1:])])}."


def _listings(report: MirrorReport) -> int:
    """The failures that are no tags: repositories and registries whose tags could not be listed."""
    return sum(item.listing for item in report.items)


def _parts(rest: Iterable[tuple[int, str]]) -> list[str]:
    return [f"{number:,} {'was' if number == 1 else 'were'} {text}" for number, text in rest]


def _and(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _tags(number: int) -> str:
    return f"{number:,} {'tag' if number == 1 else 'tags'}"


def _mood(report: MirrorReport) -> str:
    if report.counts.get("failed") or report.interrupted:
        return "failed"
    return "copied" if report.counts.get("copied") or report.counts.get("pruned") else "idle"


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; style-src {_source(style)}; script-src {_source(script)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _harmless(json: str) -> str:
    """JSON that a parser of HTML sees no tag or comment in (HTML, "Restrictions for contents of script elements")."""
    return json.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _icon(mood: str) -> str:
    picture = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><circle cx="8" cy="8" r="8" '
        f'fill="{_COLOURS[mood]}"/><path d="{_MARKS[mood]}" stroke="#fff" stroke-width="2" fill="none"/></svg>'
    )
    return f"data:image/svg+xml,{quote(picture)}"


def _skipped(report: MirrorReport) -> str:
    """Describe the tags that needed no copy."""
    left_out = any(item.outcome == "skipped" and item.reason not in ("", IN_SYNC) for item in report.items)
    return "in sync already, or left out" if left_out else "in sync already"


class _Share(NamedTuple):
    """A part of the bytes of a run; `left` and `width` are per cent of the whole, `percent` is that for people."""

    key: str
    text: str
    blobs: int
    size: int
    left: float
    width: float
    percent: str


def _shares(totals: Moves) -> list[_Share]:
    parts = (
        ("copied", "copied", totals.copied, totals.copied_bytes),
        ("mounted", "mounted", totals.mounted, totals.mounted_bytes),
        ("present", "there already", totals.present, totals.present_bytes),
    )
    whole = sum(size for *_, size in parts)
    found: list[_Share] = []
    for key, text, blobs, size in parts if whole else ():
        left = found[-1].left + found[-1].width if found else 0.0
        width = size / whole * 100
        found.append(_Share(key, text, blobs, size, left, width, "<1 %" if 0 < width < 1 else f"{width:.0f} %"))
    return found


def _failures(items: Iterable[MirrorItem]) -> list[tuple[Failure, list[MirrorItem]]]:
    """The items that failed, by reason."""
    groups: dict[tuple[str, str, str | None], tuple[Failure, list[MirrorItem]]] = {}
    for item in items:
        if item.outcome == "failed":
            why = item.error or Failure(type="", message="No reason is known")
            groups.setdefault((why.type, why.message, why.hint), (why, []))[1].append(item)
    return list(groups.values())


def _sentence(text: str) -> str:
    return _begun(text) + ("" if text.endswith((".", "!", "?")) else ".")


def _begun(text: str) -> str:
    """With a capital letter, unless the first word is a name."""
    first = text.partition(" ")[0]
    return (first.capitalize() if first.isalpha() and first.islower() else first) + text[len(first) :]
