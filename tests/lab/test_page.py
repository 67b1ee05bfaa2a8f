"""The page of the lab in a browser: what counts is seen on a phone without scrolling sideways, light and dark."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

from overstory.lab.claims import CLAIMS, Kind, Verdict
from overstory.lab.measuring import Estimate
from overstory.lab.report import KINDS, write_report

CHROMIUM = shutil.which("chromium")
COLOUR = "e => getComputedStyle(e).backgroundColor"


def verdict(at: int, kind: Kind, quick: bool) -> Verdict:
    measured = None if kind in ("not yet run", "not built") else Estimate(12.3456, 0.5, 3)
    return Verdict(CLAIMS[at], kind, measured, "measured so and so: within what is claimed.", {}, quick)


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium; run as root: apt-get install chromium")
def test_verdicts_and_numbers_are_seen(tmp_path: Path) -> None:
    every: Any = [(kind, quick) for kind in KINDS for quick in (False, True)]
    path = tmp_path / "lab.html"
    write_report(path, tmp_path, [], [verdict(at, *each) for at, each in enumerate(every)])
    schemes: tuple[Any, Any] = ("light", "dark")
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for width in (1400, 390):
            for scheme in schemes:
                page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
                page.goto(path.as_uri())
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
                for place in page.locator(".claims [data-head=verdict], .claims [data-head=measured]").all():
                    box = place.bounding_box()
                    assert box is not None
                    assert 0 <= box["x"] <= box["x"] + box["width"] <= width
                colours = {
                    (kind, quick): page.locator(f".claims .{kind.replace(' ', '-')}").nth(int(quick)).evaluate(COLOUR)
                    for kind, quick in every
                }
                grey = colours["not yet run", False]
                assert {colours[kind, True] for kind in KINDS[:3]} == {grey}
                assert grey not in {colours[kind, False] for kind in KINDS[:3]}
                assert colours["not built", False] != grey
                page.close()
        browser.close()
