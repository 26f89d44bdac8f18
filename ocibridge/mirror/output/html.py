# SPDX-License-Identifier: Apache-2.0
"""The report of a run as one page that needs nothing but a browser.

Words, tiles, failures and the time line are plain HTML; the list of all tags is drawn by `report.js` from the JSON that
the page carries, some at a time. Nothing is fetched, and nothing of the report can become code: what is written here is
escaped (`markup`), the script knows text alone, and the page's own policy (Content Security Policy Level 3) lets no
other script or style run.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import get_args
from urllib.parse import quote

from ...errors import human_size
from ...operations.moves import Moves
from ..reports import IN_STEP, Failure, MirrorItem, MirrorReport, Outcome
from .markup import Markup, element, joined
from .timeline import human_seconds, moment, timeline

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

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


def report_page(report: MirrorReport) -> str:
    """The report as HTML; the same report always gives the same page.

    Args:
        report: Of a run.
    """
    style, script = _asset("report.css"), _asset("report.js")
    mood = _mood(report)
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", f"{_plain(headline(report))} {report.job}"),
        element("link", rel="icon", href=_icon(mood)),
        element("style", Markup(style)),
    )
    main = element(
        "main",
        _tiles(report),
        _flow(report.totals),
        _failures(report),
        _warnings(report.warnings),
        _timeline(report),
        _listing(report),
    )
    body = element(
        "body",
        _header(report, mood),
        main,
        _about(report),
        element("script", Markup(_harmless(report.model_dump_json())), type="application/json", id="report"),
        element("script", Markup(script)),
        class_=mood,
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def headline(report: MirrorReport) -> str:
    """What happened, in one sentence.

    Example: `3 of 512 tags failed; 498 were copied and 11 were in sync already.`
    """
    count = report.counts.get
    total, failed, skipped = len(report.items), count("failed", 0), count("skipped", 0)
    if not total:
        return "The job selected no tags."
    if failed == total:
        return "The only tag failed." if total == 1 else f"All {total:,} tags failed."
    if skipped == total:
        which = "the only tag was" if total == 1 else f"all {total:,} tags were"
        return f"Nothing was new: {which} {_skipped(report)}."
    words = (("copied", "copied"), ("skipped", _skipped(report)), ("pruned", "pruned"), ("kept", "kept"))
    rest = [(count(outcome, 0), said) for outcome, said in words if count(outcome, 0)]
    if not rest:
        return f"{failed:,} of {total:,} tags failed."
    number, said = rest[0]
    be = "was" if number == 1 else "were"
    if failed:
        parts = [f"{number:,} {be} {said}", *_parts(rest[1:])]
        return f"{failed:,} of {total:,} tags failed; {_and(parts)}."
    return f"{_and([f'{_tags(number)} {be} {said}', *_parts(rest[1:])])}."


def _parts(rest: Iterable[tuple[int, str]]) -> list[str]:
    return [f"{number:,} {'was' if number == 1 else 'were'} {said}" for number, said in rest]


def _and(parts: Sequence[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _tags(number: int) -> str:
    return f"{number:,} {'tag' if number == 1 else 'tags'}"


def _plain(sentence: str) -> str:
    return sentence.removesuffix(".") + " ·"


def _mood(report: MirrorReport) -> str:
    if report.counts.get("failed"):
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


def _header(report: MirrorReport, mood: str) -> Markup:
    mark = element(
        "svg",
        element("circle", cx=8, cy=8, r=8),
        element("path", d=_MARKS[mood]),
        viewBox="0 0 16 16",
        width=40,
        height=40,
        aria_hidden="true",
    )
    facts = [element("bdi", report.job), _when(report.started), f"took {human_seconds(report.seconds)}"]
    workers = "1 worker" if report.workers == 1 else f"{report.workers} workers"
    facts.append(joined(f"{workers} (", element("bdi", report.executor), ")"))
    if report.shard:
        facts.append(joined("shard ", element("bdi", report.shard)))
    if report.resumed:
        facts.append(f"{_tags(report.resumed)} done by an interrupted run before")
    return element(
        "header",
        mark,
        element(
            "div",
            element("p", "Mirror report", class_="eyebrow"),
            element("h1", headline(report)),
            element("ul", *(element("li", fact) for fact in facts), class_="facts"),
        ),
    )


def _when(started: str) -> Markup:
    found = moment(started)
    return element("time", f"{found:%Y-%m-%d %H:%M:%S} UTC" if found else started, datetime=started)


def _tiles(report: MirrorReport) -> Markup:
    totals, counts = report.totals, report.counts
    saved = totals.mounted_bytes + totals.present_bytes
    rate = totals.copied_bytes / report.seconds if report.seconds > 0 else 0.0
    tags = len(report.items) / report.seconds if report.seconds > 0 else 0.0
    tiles = [
        _tile("copied", "Copied", "tags", f"{counts.get('copied', 0):,}", counts.get("copied", 0), _pushed(totals)),
        _tile(
            "skipped", "Skipped", "tags", f"{counts.get('skipped', 0):,}", counts.get("skipped", 0), _skipped(report)
        ),
        _tile("mounted", "Mounted", "blobs", f"{totals.mounted:,}", totals.mounted, "taken over within a registry"),
        _tile("pruned", "Pruned", "tags", f"{counts.get('pruned', 0):,}", counts.get("pruned", 0), _kept(counts)),
        _tile("failed", "Failed", "tags", f"{counts.get('failed', 0):,}", counts.get("failed", 0), _failed(report)),
        _tile("moved", "Moved", "", human_size(totals.copied_bytes), totals.copied_bytes, "from source to target"),
        _tile("saved", "Saved", "", human_size(saved), saved, "did not have to move"),
        _tile("rate", "Rate", "/s", human_size(rate), round(rate), f"{tags:,.1f} tags/s over the whole run"),
    ]
    return element("section", element("h2", "In numbers"), element("dl", *tiles, class_="tiles"))


def _tile(key: str, label: str, unit: str, shown: str, value: int, note: str) -> Markup:
    number = element("data", shown, value=value, id=f"tile-{key}")
    return element(
        "div",
        element("dt", label),
        element("dd", number, element("small", unit if unit.startswith("/") else f" {unit}") if unit else ""),
        element("dd", note, class_="note"),
        class_=f"tile {key}{'' if value else ' none'}",
    )


def _pushed(totals: Moves) -> str:
    blobs = "1 blob" if totals.copied == 1 else f"{totals.copied:,} blobs"
    return f"{blobs}, " + ("1 manifest" if totals.manifests == 1 else f"{totals.manifests:,} manifests")


def _skipped(report: MirrorReport) -> str:
    """What the tags are with which nothing had to be done."""
    left_out = any(item.outcome == "skipped" and item.reason not in ("", IN_STEP) for item in report.items)
    return "in sync already, or left out" if left_out else "in sync already"


def _kept(counts: dict[str, int]) -> str:
    return f"{counts['kept']:,} kept" if counts.get("kept") else "deleted at the target"


def _failed(report: MirrorReport) -> str:
    if not report.counts.get("failed"):
        return "nothing went wrong"
    return f"{report.counts['failed'] / len(report.items):.1%} of all tags" if report.items else ""


def _flow(totals: Moves) -> Markup:
    parts = (
        ("copied", "moved", totals.copied, totals.copied_bytes),
        ("mounted", "mounted", totals.mounted, totals.mounted_bytes),
        ("present", "there already", totals.present, totals.present_bytes),
    )
    whole = sum(size for *_, size in parts)
    if not whole:
        return Markup()
    drawn, legend, at = [], [], 0.0
    for key, said, blobs, size in parts:
        share = size / whole * 100
        drawn.append(element("rect", x=f"{at:.3f}%", width=f"{share:.3f}%", height=12, class_=key))
        at += share
        legend.append(
            element(
                "li",
                element("span", class_=f"dot {key}"),
                element("data", human_size(size), value=size, id=f"bytes-{key}"),
                f" {said} ",
                element("small", f"{'1 blob' if blobs == 1 else f'{blobs:,} blobs'}, {share:.0f} %"),
            )
        )
    picture = element("svg", *drawn, width="100%", height=12, role="img", aria_label="Share of bytes, as listed below")
    return element(
        "section",
        element("h2", "Bytes of what was worked on"),
        picture,
        element("ul", *legend, class_="legend"),
        class_="flow",
    )


def _failures(report: MirrorReport) -> Markup:
    groups: dict[tuple[str, str, str | None], list[MirrorItem]] = {}
    nothing = Failure(type="", message="No reason is known")
    for item in report.items:
        if item.outcome == "failed":
            why = item.error or nothing
            groups.setdefault((why.type, why.message, why.hint), []).append(item)
    if not groups:
        return Markup()
    shown = [_failure(*why, items) for why, items in list(groups.items())[:_MOST_FAILURES]]
    left = len(groups) - len(shown)
    more = f"{left:,} more: choose “Failed” in the list below." if left else ""
    return element(
        "section",
        element("h2", "What failed, and what to do", id="failures"),
        *shown,
        element("p", more) if more else "",
        class_="failures",
    )


def _failure(kind: str, message: str, hint: str | None, items: Sequence[MirrorItem]) -> Markup:
    names = [_direction(item) for item in items[:_ALL_NAMES]]
    rest = names[_MOST_NAMES:]
    left = len(items) - len(names)
    hidden = element(
        "details",
        element("summary", f"{len(items) - _MOST_NAMES:,} more tags"),
        element("ul", *rest),
        element("p", f"{left:,} more are in the list below.") if left else "",
    )
    return element(
        "article",
        element("h3", _sentence(message)),
        element("p", element("strong", "Next step: "), _begun(hint), class_="hint") if hint else "",
        element("ul", *names[:_MOST_NAMES], class_="names"),
        hidden if rest else "",
        element("p", f"{_tags(len(items))}{f' · {kind}' if kind else ''}", class_="kind"),
    )


def _sentence(text: str) -> str:
    return _begun(text) + ("" if text.endswith((".", "!", "?")) else ".")


def _begun(text: str) -> str:
    """With a capital letter, unless the first word is a name."""
    first = text.partition(" ")[0]
    return (first.capitalize() if first.isalpha() and first.islower() else first) + text[len(first) :]


def _direction(item: MirrorItem) -> Markup:
    source = element("small", "from ", element("bdi", item.source)) if item.source else ""
    return element("li", element("bdi", item.target), " ", source)


def _warnings(warnings: Sequence[str]) -> Markup:
    if not warnings:
        return Markup()
    said = [element("li", _sentence(warning)) for warning in warnings]
    return element("section", element("h2", "Warnings"), element("ul", *said), class_="warnings")


def _timeline(report: MirrorReport) -> Markup:
    started = moment(report.started)
    begin = started.timestamp() if started else min((i.started for i in report.items if i.started > 0), default=0.0)
    drawn = timeline(report.items, begin, report.seconds)
    if not drawn:
        return Markup()
    there = {item.outcome for item in report.items}
    legend = [element("li", element("span", class_=f"dot {each}"), each) for each in OUTCOMES if each in there]
    return element(
        "section",
        element("h2", "Time line"),
        element("p", "A bar for each tag, by target host; choose one to find it in the list.", class_="note"),
        drawn,
        element("ul", *legend, class_="legend"),
        class_="timeline",
    )


def _listing(report: MirrorReport) -> Markup:
    counts = [("all", "All", len(report.items))]
    counts += [(each, each.capitalize(), report.counts.get(each, 0)) for each in OUTCOMES]
    chips = [
        element(
            "button",
            f"{label} ",
            element("data", f"{number:,}", value=number),
            type="button",
            data_outcome=key,
            aria_pressed="true" if key == "all" else "false",
        )
        for key, label, number in counts
        if number or key == "all"
    ]
    columns = (
        ("outcome", "Outcome", ""),
        ("target", "Tag", ""),
        ("moved", "Moved", "number"),
        ("saved", "Saved", "number"),
        ("started", "Began", "number"),
        ("seconds", "Took", "number"),
    )
    heads = [
        element(
            "th", element("button", label, type="button", data_sort=key), scope="col", class_=kind, aria_sort="none"
        )
        for key, label, kind in columns
    ]
    table = element(
        "table",
        element("caption", "All tags of the job, in its order unless you sort them"),
        element("thead", element("tr", *heads, element("th", element("span", "Details"), scope="col"))),
        element("tbody", id="rows"),
    )
    search = element(
        "label",
        element("span", "Search"),
        element("input", type="search", id="search", placeholder="tag, digest, reason …", autocomplete="off"),
    )
    more = element(
        "p",
        element("button", "Show more", type="button", id="more", hidden=True),
        element("button", "Show all", type="button", id="every", hidden=True),
        class_="tools",
    )
    return element(
        "section",
        element("h2", "All tags", id="list"),
        element("p", "The list needs JavaScript; everything above does not.", id="scriptless"),
        element(
            "div",
            element("div", search, element("div", *chips, role="group", aria_label="Outcome"), class_="tools"),
            element("p", id="found", role="status"),
            table,
            more,
            id="browse",
            hidden=True,
        ),
        class_="listing",
    )


def _about(report: MirrorReport) -> Markup:
    return element(
        "footer",
        element("button", "Download the JSON", type="button", id="download"),
        element("p", "Job ", element("bdi", report.job), ", ", element("code", report.job_digest)),
    )
