# SPDX-License-Identifier: Apache-2.0
"""Draws the page of a mirror report in a browser, and writes what it looks like.

usage: python -m tests.tools.screenshot [REPORT.json] [IMAGE.png] [--dark] [--width PIXELS] [--whole]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ocibridge.mirror.output.html import report_page
from ocibridge.mirror.reports import MirrorReport

from ..mirror.browser import browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ViewportSize

ROOT = Path(__file__).parents[2]
REPORT = ROOT / "tests" / "fixtures" / "mirror" / "report.json"
IMAGE = ROOT / "docs" / "images" / "mirror-report.png"


def screenshot(
    chromium: Browser, report: Path, image: Path, *, dark: bool = False, width: int = 1200, whole: bool = False
) -> None:
    """Write the picture `image` of the page of `report`; `whole` for all of it and not its first screen alone."""
    page = report_page(MirrorReport.model_validate_json(report.read_bytes()))
    size: ViewportSize = {"width": width, "height": width * 7 // 4}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        path.write_text(page, encoding="utf-8")
        view = chromium.new_page(viewport=size, color_scheme="dark" if dark else "light")
        view.goto(path.as_uri())
        view.screenshot(path=image, full_page=whole)
        view.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path, nargs="?", default=REPORT)
    parser.add_argument("image", type=Path, nargs="?", default=IMAGE)
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--width", type=int, default=1200)
    parser.add_argument("--whole", action="store_true")
    given = parser.parse_args()
    with browser() as running:
        screenshot(running, given.report, given.image, dark=given.dark, width=given.width, whole=given.whole)
