"""Chromium, to look at pages with. Without it these tests are skipped with a reason; where CI=true they have to run."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

_PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_QUIET = ("no-sandbox", "disable-gpu", "disable-background-networking", "disable-component-update", "disable-sync")


@pytest.fixture(scope="module")  # Playwright's event loop would be in the way of other modules' own
def chromium() -> Iterator[Any]:
    there = {
        "apt-get install chromium": _PROGRAM,
        "pip install playwright": importlib.util.find_spec("playwright"),
    }
    if missing := [how for how, found in there.items() if not found]:
        sentence = f"no browser to look with: {' and '.join(missing)}"
        if os.environ.get("CI") == "true":
            pytest.fail(sentence)
        pytest.skip(sentence)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=_PROGRAM, args=[f"--{flag}" for flag in _QUIET])
        yield running
        running.close()
