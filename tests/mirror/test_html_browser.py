# SPDX-License-Identifier: Apache-2.0
"""The page of a report in a real browser."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ocibridge.errors import human_size
from ocibridge.mirror.output.html import headline, report_page
from ocibridge.mirror.reports import Failure, MirrorItem, MirrorReport

from ..tools.screenshot import screenshot
from .browser import browser
from .pages import BEGAN, HOSTILE, REPORT, hostile, item, many, night, report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.browser

Show = Callable[..., "Page"]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as found:
        yield found


@pytest.fixture
def complaints() -> list[str]:
    """What the browser has to say of a page: there must be nothing."""
    return []


@pytest.fixture
def show(chromium: Browser, tmp_path: Path, complaints: list[str]) -> Iterator[Show]:
    """Opens the page of a report; whatever it asks for, and whatever the browser complains of, fails the test."""
    contexts = []

    def open_page(made: MirrorReport, **options: Any) -> Page:
        path = tmp_path / "report.html"
        path.write_text(report_page(made), encoding="utf-8")
        context = chromium.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: complaints.append(request.url) if not is_own(request.url, path) else None)
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def is_own(url: str, path: Path) -> bool:
    return url == path.as_uri() or url.startswith(("data:", "blob:"))


def rows(page: Page) -> Locator:
    return page.locator("#rows > tr:not(.detail)")


def targets(page: Page) -> list[str]:
    found: list[str] = page.locator("#rows td.tag > bdi").all_text_contents()
    return found


def value(page: Page, selector: str) -> int:
    return int(page.locator(selector).get_attribute("value") or "")


def saved(each: MirrorItem) -> int:
    return each.moves.mounted_bytes + each.moves.present_bytes


def test_the_numbers_are_those_of_the_report(show: Show) -> None:
    made = night()
    page = show(made)
    assert page.locator("h1").inner_text() == headline(made)
    totals = made.totals
    for key in ("copied", "skipped", "pruned", "failed"):
        assert value(page, f"#tile-{key}") == made.counts[key]
        assert page.locator(f"#tile-{key}").inner_text() == f"{made.counts[key]:,}"
        assert value(page, f"[data-outcome={key}] data") == made.counts[key]
    for key, size in (
        ("moved", totals.copied_bytes),
        ("saved", totals.mounted_bytes + totals.present_bytes),
        ("rate", round(totals.copied_bytes / made.seconds)),
    ):
        assert value(page, f"#tile-{key}") == size
        assert page.locator(f"#tile-{key}").inner_text() == human_size(size)
    assert value(page, "#tile-mounted") == totals.mounted
    assert value(page, "[data-outcome=all] data") == len(made.items)


def failures_first(items: Sequence[MirrorItem]) -> list[MirrorItem]:
    """The order in which a page lists tags."""
    return sorted(items, key=lambda each: each.outcome != "failed")


def test_every_tag_is_listed_with_its_numbers(show: Show) -> None:
    made = night()
    page = show(made)
    page.locator("#every").click()
    lines = page.locator("#rows").evaluate(
        "body => [...body.rows].map(row => [...row.cells].slice(0, 4).map(cell => cell.textContent))"
    )
    assert [(line[0], line[2], line[3]) for line in lines] == [
        (
            each.outcome,
            human_size(each.moves.copied_bytes) if each.moves.copied_bytes else "",
            human_size(saved(each)) if saved(each) else "",
        )
        for each in failures_first(made.items)
    ]
    for line, each in zip(lines, failures_first(made.items), strict=True):
        assert line[1].startswith(each.target)
        # What failed, and why, stands above the list.
        assert (each.error.message not in line[1]) if each.error else (each.reason in line[1])


def test_choosing_an_outcome_shows_its_tags_alone(show: Show) -> None:
    made = night()
    page = show(made)
    for outcome in ("failed", "pruned", "skipped"):
        page.locator(f"[data-outcome={outcome}]").click()
        assert targets(page) == [each.target for each in made.items if each.outcome == outcome]
        assert page.locator("[data-outcome][aria-pressed=true]").get_attribute("data-outcome") == outcome
        assert page.locator("#found").inner_text() == f"{made.counts[outcome]} of {len(made.items)} tags."
    page.locator("[data-outcome=all]").click()
    assert page.locator("#found").inner_text() == f"{len(made.items)} tags; the first 100 are shown."


def test_searching_finds_every_word_in_names_digests_and_reasons(show: Show) -> None:
    made = night()
    page = show(made)
    search = page.get_by_role("searchbox", name="Search")
    search.fill("EDGE-07 whisper 1.1")
    assert targets(page) == [
        each.target for each in made.items if each.target.endswith(":5000/models/whisper/whisper-large-v3:1.1.0")
    ]
    digest = made.items[7].digest
    search.fill(digest or "")
    assert made.items[7].target in targets(page)
    search.fill("denied")
    assert page.locator("#rows tr.failed").count() == rows(page).count() == 1
    page.locator("[data-outcome=copied]").click()
    assert rows(page).count() == 0
    assert page.locator("#found").inner_text() == f"0 of {len(made.items)} tags."
    search.fill("")
    assert rows(page).count() == made.counts["copied"]


def test_sorting_goes_both_ways(show: Show) -> None:
    made = night()
    page = show(made)
    page.locator("#every").click()

    def sorted_by(name: str) -> str | None:
        page.get_by_role("button", name=name, exact=True).click()
        found: str | None = page.locator(f"th:has(button:text-is('{name}'))").get_attribute("aria-sort")
        return found

    by_size = sorted(made.items, key=lambda each: -each.moves.copied_bytes)
    assert sorted_by("Transferred") == "descending"
    assert targets(page) == [each.target for each in by_size]
    assert sorted_by("Transferred") == "ascending"
    assert targets(page) == [each.target for each in sorted(made.items, key=lambda each: each.moves.copied_bytes)]
    assert sorted_by("Took") == "descending"
    assert targets(page)[0] == max(made.items, key=lambda each: each.seconds).target
    assert sorted_by("Outcome") == "ascending"
    assert page.locator("#rows td.outcome").all_text_contents()[: made.counts["failed"]] == ["failed"] * 6
    assert sorted_by("Tag") == "ascending"
    assert targets(page)[0] == min(each.target for each in made.items)
    assert page.locator("th[aria-sort=ascending], th[aria-sort=descending]").count() == 1


def test_names_are_sorted_as_people_count(show: Show) -> None:
    page = show(report([item(target=f"b.example/m:v{number}") for number in (10, 9, 1, 100)]))
    page.get_by_role("button", name="Tag", exact=True).click()
    assert [target.rpartition(":")[2] for target in targets(page)] == ["v1", "v9", "v10", "v100"]


def test_details_of_a_tag_open_and_close(show: Show) -> None:
    made = night()
    page = show(made)
    failed = next(each for each in made.items if each.error)
    page.locator("[data-outcome=failed]").click()
    button = page.get_by_role("button", name=f"Details of {failed.target}")
    button.click()
    assert button.get_attribute("aria-expanded") == "true"
    said = page.locator("tr.detail").inner_text()
    assert failed.error is not None
    for text in (failed.source, failed.digest, failed.error.message, failed.error.hint, failed.error.type, "sync[0]"):
        assert text is not None
        assert text in said
    page.get_by_role("searchbox").fill("o")
    assert page.locator("tr.detail").count() == 1
    button.click()
    assert page.locator("tr.detail").count() == 0


def test_thousands_of_tags_are_drawn_some_at_a_time(show: Show) -> None:
    page = show(many(5000))
    assert rows(page).count() == 100
    assert page.locator("#found").inner_text() == "5,000 tags; the first 100 are shown."
    page.get_by_role("button", name="Show 100 more").click()
    assert rows(page).count() == 200
    assert len(set(targets(page))) == 200
    page.get_by_role("searchbox").fill("m49:")
    assert rows(page).count() == 100
    page.get_by_role("button", name="Show all 100").wait_for(state="hidden")
    page.get_by_role("searchbox").fill("")
    page.locator("[data-outcome=copied]").click()
    page.get_by_role("button", name="Show all 500").click()
    assert rows(page).count() == 500
    assert page.locator("#more").is_hidden()
    assert page.locator(".timeline rect").count() < 5000


def test_a_bar_of_the_time_line_leads_to_its_tag(show: Show) -> None:
    made = many(3000)
    page = show(report([*made.items, item("failed", target="b.example/last:1", started=BEGAN + 20, seconds=5.0)]))
    page.locator("[data-outcome=copied]").click()
    page.get_by_role("searchbox").fill("nothing like it")
    page.locator(".timeline rect.failed").click()
    assert page.get_by_role("searchbox").input_value() == "b.example/last:1"
    sought = page.locator("tr.sought")
    assert sought.locator("td.tag > bdi").inner_text() == "b.example/last:1"
    assert sought.evaluate(
        "row => { const {top, bottom} = row.getBoundingClientRect(); return top >= 0 && bottom <= innerHeight; }"
    )
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Details of b.example/last:1"


def test_hostile_texts_stay_texts(show: Show) -> None:
    made = hostile()
    page = show(made)
    assert page.evaluate("typeof window.owned") == "undefined"
    for button in page.locator("#rows td.do button").all():
        button.click()
    assert page.evaluate("typeof window.owned") == "undefined"
    assert targets(page) == [each.target for each in failures_first(made.items)]
    assert page.locator("tr.detail").count() == len(HOSTILE)
    assert page.locator("img, a, iframe, main script, main style").count() == 0
    page.get_by_role("searchbox").fill(HOSTILE[0].split()[0])
    assert page.locator("#rows td.tag > bdi").first.inner_text() == made.items[0].target


def test_what_gets_in_all_the_same_is_stopped_by_the_policy(show: Show, complaints: list[str]) -> None:
    page = show(night())
    with page.expect_event("requestfailed") as stopped:
        page.evaluate(
            """() => {
            const script = document.createElement("script");
            script.textContent = "window.owned = 1";
            document.body.append(script);
            const image = '<img src="https://outside.invalid/x.png" onerror="window.owned = 1">';
            document.body.insertAdjacentHTML("beforeend", image);
        }"""
        )
    assert (stopped.value.url, stopped.value.failure) == ("https://outside.invalid/x.png", "csp")
    assert page.evaluate("typeof window.owned") == "undefined"
    assert len([each for each in complaints if "Content Security Policy" in each]) >= 2
    complaints.clear()


def test_the_json_can_be_had_again(show: Show) -> None:
    for made in (night(), hostile()):
        page = show(made)
        with page.expect_download() as found:
            page.get_by_role("button", name="Download the JSON").click()
        assert found.value.suggested_filename == "mirror-report.json"
        assert MirrorReport.model_validate_json(Path(found.value.path()).read_bytes()) == made


@pytest.mark.parametrize("made", [night, hostile, lambda: report([])], ids=["night", "hostile", "empty"])
@pytest.mark.parametrize("width", [320, 768, 1280])
def test_nothing_sticks_out_at_the_side(show: Show, made: Callable[[], MirrorReport], width: int) -> None:
    page = show(made(), viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_it_follows_the_colours_of_the_system(show: Show) -> None:
    colours = {}
    for scheme in ("light", "dark"):
        page = show(night(), color_scheme=scheme)
        colours[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colours == {"light": "rgb(244, 246, 249)", "dark": "rgb(14, 19, 26)"}


def test_on_paper_there_are_no_controls_and_nothing_is_folded(show: Show) -> None:
    down = Failure(type="NetworkError", message="no answer")
    page = show(report([item("failed", target=f"b.example/m:{number}", error=down) for number in range(30)]))
    assert not page.get_by_text("b.example/m:29").first.is_visible()
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.get_by_text("b.example/m:29").first.is_visible()
    for control in page.locator("input, #download, [data-outcome], td.do button").all():
        assert not control.is_visible()


def test_without_scripts_all_but_the_list_is_there(show: Show) -> None:
    made = night()
    page = show(made, java_script_enabled=False)
    assert page.locator("h1").inner_text() == headline(made)
    assert page.locator(".failures article").count() == 3
    assert page.locator(".timeline rect").count() > 50
    assert page.get_by_text("The list needs JavaScript").is_visible()
    assert not page.get_by_role("searchbox").is_visible()


def test_what_a_screen_reader_needs_is_there(show: Show) -> None:
    page = show(night())
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3')].map(each => Number(each.tagName[1]))")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later - earlier <= 1 for earlier, later in pairwise(levels))
    assert page.evaluate("document.documentElement.lang") == "en"
    for role in ("banner", "main", "contentinfo", "status"):
        assert page.get_by_role(role).count() == 1
    assert page.get_by_role("table", name="All tags of the job").count() == 1
    assert page.get_by_role("columnheader").count() == 7
    for picture in page.locator("svg:not([aria-hidden])").all():
        assert picture.get_attribute("role") == "img"
        assert picture.get_attribute("aria-label")
    assert page.get_by_role("button", name="Details of").count() == 100
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(each => each.id)")
    assert len(ids) == len(set(ids))
    page.get_by_role("searchbox").focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.outcome") == "all"


def test_the_screenshot_of_the_documentation_can_be_made_again(chromium: Browser, tmp_path: Path) -> None:
    image = tmp_path / "report.png"
    screenshot(chromium, REPORT, image)
    head = image.read_bytes()[:24]
    assert head.startswith(b"\x89PNG")
    assert struct.unpack(">II", head[16:24])[0] == 1200
