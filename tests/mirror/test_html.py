# SPDX-License-Identifier: Apache-2.0
"""The page of a report, as far as it can be judged without a browser."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from ocibridge.mirror.output.html import headline, report_page
from ocibridge.mirror.reports import OUTCOMES, Failure, MirrorReport
from ocibridge.report import Moves

from .pages import HOSTILE, hostile, item, many, night, report


class Page(HTMLParser):
    """What a parser sees in a page: elements with their attributes, and the text of some."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.comments: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs)
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "input"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def handle_data(self, data: str) -> None:
        self.texts.append((self._open[-1] if self._open else "", data))

    def close(self) -> None:
        super().close()
        assert self._open == []

    def text(self, tag: str) -> str:
        return "".join(data for name, data in self.texts if name == tag)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def reports() -> list[MirrorReport]:
    return [night(), hostile(), many(500), report([])]


@pytest.mark.parametrize("made", reports(), ids=["night", "hostile", "many", "empty"])
def test_nothing_comes_from_elsewhere_and_nothing_is_inline_that_the_policy_would_stop(made: MirrorReport) -> None:
    page = Page(report_page(made))
    assert not {"img", "iframe", "object", "embed", "base", "form", "a"} & {name for name, _ in page.elements}
    for _, attributes in page.elements:
        assert not [key for key in attributes if key.startswith("on") or key in ("style", "src", "srcset", "action")]
        assert (attributes.get("href") or "data:image/svg+xml,").startswith("data:image/svg+xml,")
    assert page.comments == []
    assert len(page.named("script")) == 2


def test_the_policy_names_the_hashes_of_our_style_and_script_alone() -> None:
    page = Page(report_page(night()))
    policy = next(each["content"] for each in page.named("meta") if each.get("http-equiv"))
    scripts = [text for name, text in page.texts if name == "script"]
    assert policy is not None
    words = dict(part.strip().split(" ", 1) for part in policy.split(";"))

    def source(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    assert words["default-src"] == "'none'"
    assert words["script-src"] == source(scripts[-1])
    assert words["style-src"] == source(page.text("style"))
    assert "unsafe" not in policy


@pytest.mark.parametrize("made", reports(), ids=["night", "hostile", "many", "empty"])
def test_the_page_carries_the_report(made: MirrorReport) -> None:
    page = Page(report_page(made))
    carried = next(text for name, text in page.texts if name == "script")
    assert MirrorReport.model_validate_json(carried) == made


def test_the_carried_report_cannot_end_its_element_or_begin_a_comment() -> None:
    carried = report_page(hostile()).split('type="application/json" id="report">')[1].split("</script>")[0]
    assert "<" not in carried
    assert ">" not in carried
    assert [each["target"] for each in json.loads(carried)["items"]] == [f"{t}/{n}" for n, t in enumerate(HOSTILE)]


def test_hostile_texts_are_shown_as_they_are() -> None:
    page = Page(report_page(hostile()))
    shown = [text for name, text in page.texts if name in ("bdi", "li")]
    for text in HOSTILE:
        assert any(text in each for each in shown)


def test_the_same_report_gives_the_same_page() -> None:
    assert report_page(night()) == report_page(night())


def test_style_and_script_hold_nothing_that_ends_them() -> None:
    page = report_page(night())
    assert page.count("</script>") == 2
    assert page.count("</style>") == 1


@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        ([], "The job selected no tags."),
        (["failed"], "The only tag failed."),
        (["failed"] * 3, "All 3 tags failed."),
        (["skipped"], "Nothing was new: the only tag was in sync already."),
        (["skipped"] * 1200, "Nothing was new: all 1,200 tags were in sync already."),
        (["copied"], "1 tag was copied."),
        (["copied"] * 2 + ["skipped"], "2 tags were copied and 1 was in sync already."),
        (
            ["copied"] * 2 + ["skipped"] * 3 + ["pruned", "kept"],
            "2 tags were copied, 3 were in sync already, 1 was pruned and 1 was kept.",
        ),
        (["failed"] + ["copied"] * 2, "1 of 3 tags failed; 2 were copied."),
        (["failed"] * 2 + ["skipped"] * 2 + ["copied"], "2 of 5 tags failed; 1 was copied and 2 were in sync already."),
    ],
)
def test_the_headline_says_what_happened(outcomes: list[str], said: str) -> None:
    assert headline(report([item(each) for each in outcomes])) == said


def test_the_tiles_show_the_numbers_of_the_report() -> None:
    made = night()
    page = Page(report_page(made))
    shown = {each["id"]: each["value"] for each in page.named("data") if "id" in each}
    totals = made.totals
    assert shown == {
        "tile-copied": str(made.counts["copied"]),
        "tile-skipped": str(made.counts["skipped"]),
        "tile-pruned": str(made.counts["pruned"]),
        "tile-failed": str(made.counts["failed"]),
        "tile-mounted": str(totals.mounted),
        "tile-moved": str(totals.copied_bytes),
        "tile-saved": str(totals.mounted_bytes + totals.present_bytes),
        "tile-rate": str(round(totals.copied_bytes / made.seconds)),
        "bytes-copied": str(totals.copied_bytes),
        "bytes-mounted": str(totals.mounted_bytes),
        "bytes-present": str(totals.present_bytes),
    }


def test_failures_come_first_with_their_next_step_and_one_reason_is_told_once() -> None:
    down = Failure(type="NetworkError", message="b.example cannot be reached", hint="see whether it is up")
    odd = Failure(type="StoreError", message="no luck", hint=None)
    items = [item("failed", target=f"b.example/m:{number}", error=down) for number in range(12)]
    text = report_page(report([item(), *items, item("failed", error=odd), item("failed")]))
    assert text.index("What failed") < text.index("Timeline" if "Timeline" in text else "All tags")
    assert text.count("<h3>b.example cannot be reached.</h3>") == 1
    assert "<strong>Next step: </strong>See whether it is up</p>" in text
    assert "12 tags · NetworkError" in text
    assert "<summary>2 more</summary>" in text
    assert "<h3>No luck.</h3>" in text
    assert "<h3>No reason is known.</h3>" in text


def test_a_night_in_which_all_fails_in_its_own_way_stays_readable() -> None:
    items = [
        item("failed", error=Failure(type="StoreError", message=f"{number} is a bad number")) for number in range(3000)
    ]
    text = report_page(report(items))
    assert text.count("<article>") == 100
    assert "2,900 more: choose" in text


def test_names_of_hosts_keep_their_letters_at_the_start_of_a_sentence() -> None:
    text = report_page(report([item()], warnings=["b.example/x has no referrers API", "one thing is odd"]))
    assert "<li>b.example/x has no referrers API.</li>" in text
    assert "<li>One thing is odd.</li>" in text


def test_without_failures_warnings_or_times_their_sections_are_left_out() -> None:
    text = report_page(report([item()]))
    assert "What failed" not in text
    assert "Warnings" not in text.split("</style>")[1].split("<script")[0]
    assert "Timeline" not in text


def test_a_report_of_no_time_and_no_bytes_divides_by_nothing() -> None:
    text = report_page(report([item("skipped", moves=Moves())], seconds=0.0))
    assert '<data value="0" id="tile-rate">0 B</data>' in text


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2)."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * each for each in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_words_stand_out_from_what_is_behind_them(theme: int) -> None:
    style = Page(report_page(report([]))).text("style")
    block = re.findall(r":root \{(.*?)\}", style, re.DOTALL)[theme]
    colours = dict(re.findall(r"--([a-z]+): (#[0-9a-f]{3,6});", block))

    def contrast(one: str, other: str) -> float:
        low, high = sorted((luminance(colours[one]), luminance(colours[other])))
        return (high + 0.05) / (low + 0.05)

    for words in ("text", "soft", "accent", "failed"):
        for behind in ("page", "card", "alarm"):
            assert contrast(words, behind) >= 4.5, (words, behind)
    for mark in (*OUTCOMES, "mounted"):
        assert contrast(mark, "card") >= 2.9, mark


def test_a_repository_that_cannot_be_listed_is_no_tag() -> None:
    gone = Failure(type="NotFound", message="no such repository", hint=None)
    lost = item("failed", source="a.example/gone", target="b.example/gone", error=gone, listing=True)
    made = report([lost, item("copied")], host="mirror-01")
    assert headline(made) == "1 repository could not be listed. 1 tag was copied."
    assert headline(report([lost])) == "1 repository could not be listed."
    text = report_page(made)
    assert "and 1 repository not listed" in text
    assert "1 repository · NotFound" in text
    assert f"{made.generator.replace('/', ' ')} on <bdi>mirror-01</bdi>" in text
    assert not re.search(r">1 ?</data><small> tags<|\b1 tags\b", text)


def test_an_interrupted_run_says_what_is_left() -> None:
    made = report([item("copied")], interrupted=True, remaining=2)
    assert headline(made) == "The run was interrupted with 2 tags left to do. 1 tag was copied."
    assert "Run the same command again to resume." in report_page(made)
    unknown = report([], interrupted=True, remaining=None)
    assert headline(unknown) == "The run was interrupted before all tags were listed."


def test_a_share_below_one_per_cent_is_not_none() -> None:
    text = report_page(report([item(moves=Moves(copied=1, copied_bytes=1, present=1, present_bytes=10_000))]))
    assert "1 blob, &lt;1 %" in text
    assert "100 %" in text
