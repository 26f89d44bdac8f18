# SPDX-License-Identifier: Apache-2.0
"""The system's Chromium, without a window."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def program() -> str:
    """Path of the browser.

    Raises:
        RuntimeError: there is none.
    """
    for name in PROGRAMS:
        if found := shutil.which(name):
            return found
    raise RuntimeError("no browser; install the package chromium of your distribution")


@contextmanager
def browser() -> Iterator[Browser]:
    """A running browser; it is gone at the end."""
    from playwright.sync_api import sync_playwright

    # Chromium refuses to build its sandbox as root; the page that it opens is our own.
    sandbox = getattr(os, "geteuid", lambda: 1)() != 0
    with sync_playwright() as tool:
        chromium = tool.chromium.launch(executable_path=program(), chromium_sandbox=sandbox)
        try:
            yield chromium
        finally:
            chromium.close()
