"""The page in a browser, at 12, 100, 500 and 5,000 brokers, wide and narrow, light and dark: nothing lies on another
thing, everything that can be clicked answers, and it is small and ready soon."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from overstory.studio.report import write_report
from overstory.studio.subject import Subject
from overstory.studio.trees import MOST_TREES
from overstory.studio.views import PlanView

from .pages import PLANNERS, QUICK, page_of
from .test_report import SCORE, flow, grid, traffic

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium; run as root: apt-get install chromium")
SIZES, WIDTHS, SCHEMES = (12, 100, 500, 5000), (1400, 390), ("light", "dark")
MOST_BYTES, MOST_SECONDS = 3e6, 2.0

# Pairs of words or circles of one picture whose boxes lie on each other, and words that leave their picture
COLLISIONS = """() => [...document.querySelectorAll("svg[role=img]")].flatMap((svg) => {
  const frame = svg.getBoundingClientRect();
  if (!frame.width) return [];
  const box = (e) => { const b = e.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; };
  const words = [...svg.querySelectorAll(".labels text, #labels text, .space text")];
  const all = [...words, ...svg.querySelectorAll("circle")]
    .map((e) => [e.textContent, box(e)]).filter(([, b]) => b[2] > b[0]);
  const meet = (a, b) => a[0] + 1 < b[2] && b[0] + 1 < a[2] && a[1] + 1 < b[3] && b[1] + 1 < a[3];
  const found = [];
  all.forEach(([one, a], i) => all.slice(i + 1).forEach(([other, b]) => {
    if (meet(a, b)) found.push(`${one} on ${other}`);
  }));
  for (const e of words) {
    const b = box(e);
    const inside = b[0] > frame.left - 1 && b[2] < frame.right + 1 && b[1] > frame.top - 1 && b[3] < frame.bottom + 1;
    if (!inside) found.push(`${e.textContent} outside`);
  }
  return found;
})"""
# Blocks of the page that lie on each other, and what is wider than the window
LAYOUT = """() => {
  const asked = "header, section, footer, section > *, .card > *, .controls > *, .both > figure";
  const blocks = [...document.querySelectorAll(asked)]
    .filter((e) => e.offsetParent !== null && !e.matches(".tip"));
  const found = document.documentElement.scrollWidth > innerWidth ? ["the page is wider than the window"] : [];
  for (const one of blocks) for (const other of blocks) {
    if (one === other || one.parentElement !== other.parentElement) continue;
    const [a, b] = [one, other].map((e) => e.getBoundingClientRect());
    const beside = a.left + 1 >= b.right || b.left + 1 >= a.right || a.top + 1 >= b.bottom || b.top + 1 >= a.bottom;
    if (a.width && b.width && !beside)
      found.push(`${one.tagName}.${one.className}#${one.id} on ${other.tagName}.${other.className}#${other.id}`);
  }
  return found;
}"""
# A place on the screen in the middle of the widest line of a picture
ON_A_LINE = """(name) => {
  const svg = document.querySelector(name);
  const lines = [...svg.querySelectorAll(".lines path, #traffic path")].filter((e) => e.getAttribute("d"));
  const [, a, b, c, d] = lines.at(-1).getAttribute("d").match(/M(\\S+) (\\S+)L([\\d.]+) ([\\d.]+)/).map(Number);
  const at = new DOMPoint((a + c) / 2, (b + d) / 2).matrixTransform(svg.getScreenCTM());
  return [at.x, at.y];
}"""
PICTURE = (
    "() => [...document.querySelectorAll('svg[role=img]')].map((svg) => svg.outerHTML).join() + document.body.innerText"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as started:
        running = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Real plans of every size; those of the largest network are of planners that are quick there."""
    folder = tmp_path_factory.mktemp("pages")
    return {size: page_of(folder, size, QUICK if size == max(SIZES) else PLANNERS) for size in SIZES}


@pytest.fixture(scope="module")
def largest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with as much on it as may be: traffic everywhere, four plans, as many trees as are shown."""
    network = grid(100, 50)
    trees = (flow(0, list(range(0, len(network.targets), 4)), list(range(5000))),) * MOST_TREES
    plans = [PlanView(f"plan {at}", 1.0, SCORE, traffic(network, at), trees) for at in range(4)]
    path = tmp_path_factory.mktemp("largest") / "page.html"
    write_report(path, Subject("Five thousand", network, {"brokers": "5,000"}), plans, "overstory compare x")
    return path


def opened(browser: Browser, path: Path, width: int, scheme: Any) -> tuple[Page, list[str]]:
    """The page, and what goes wrong on it."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page, wrong = context.new_page(), []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text))
    page.goto(path.as_uri())
    return page, wrong


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("size", SIZES)
def test_nothing_overlaps(browser: Browser, pages: dict[int, Path], size: int, width: int, scheme: str) -> None:
    page, wrong = opened(browser, pages[size], width, scheme)
    assert page.evaluate(COLLISIONS) == []
    assert page.evaluate(LAYOUT) == []
    assert page.locator("svg.side .labels text").count() > 0
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, light[4:-1].split(","))) > 384) == (scheme == "light")
    if width == 390:
        cost = page.locator("#costs thead th").nth(1)
        assert cost.inner_text() == "Cost"
        place = cost.bounding_box()
        assert place is not None
        assert place["x"] + place["width"] <= 390  # seen without scrolling
    assert wrong == []
    page.context.close()


@pytest.mark.parametrize("size", [*SIZES, None])
def test_it_is_small_and_ready_soon(browser: Browser, pages: dict[int, Path], largest: Path, size: int | None) -> None:
    """Ready: what the browser's main thread has worked when the script has run, which no other process makes longer."""
    path = largest if size is None else pages[size]
    assert path.stat().st_size < MOST_BYTES
    page, _ = opened(browser, path, 1400, "light")
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.reload()
    measured = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    assert 0 < measured["TaskDuration"] < MOST_SECONDS
    page.context.close()


def choices_answer(page: Page) -> None:
    """Whatever is chosen changes what is seen, and nothing lies on another thing afterwards."""
    for chooser in ("#before", "#after", "#plan", "#chosen"):
        values = page.eval_on_selector(chooser, "e => [...e.options].map((option) => option.value)")
        now, shown = page.input_value(chooser), page.evaluate(PICTURE)
        others = [each for each in values if each != now]
        for value in dict.fromkeys([*others[:2], *(each for each in others[-1:] if "event" in each)]):
            page.select_option(chooser, value)
            after = page.evaluate(PICTURE)
            assert after != shown, (chooser, value)
            assert page.evaluate(COLLISIONS) == [], (chooser, value)
            assert page.evaluate(LAYOUT) == [], (chooser, value)
            shown = after


@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (390, "dark")])
@pytest.mark.parametrize("size", SIZES)
def test_everything_answers(browser: Browser, pages: dict[int, Path], size: int, width: int, scheme: str) -> None:
    page, wrong = opened(browser, pages[size], width, scheme)
    choices_answer(page)
    for button in ("#nearer", "#farther", "#nearer", "#fit"):
        shown = page.evaluate(PICTURE)
        page.click(button)
        assert page.evaluate(PICTURE) != shown, button
    page.focus("#stage")
    page.keyboard.press("ArrowDown")
    assert page.locator("#tip").is_visible()
    page.keyboard.press("Escape")
    assert page.locator("#tip").is_hidden()
    assert wrong == []
    page.context.close()


@pytest.mark.parametrize("size", SIZES)
def test_what_is_pointed_at_is_told(browser: Browser, pages: dict[int, Path], size: int) -> None:
    """On both sides and on the map, and within the window: a broker or region, which its links leave from."""
    page, wrong = opened(browser, pages[size], 390, "light")
    for picture, tip in (("#side-before", "#side-tip"), ("#side-after", "#side-tip"), ("#map", "#tip")):
        shown = page.locator(picture)
        shown.scroll_into_view_if_needed()
        place = page.evaluate(ON_A_LINE, picture)
        page.mouse.move(*place)
        assert page.locator(tip).is_visible(), picture
        told, box = page.inner_text(tip), page.locator(tip).bounding_box()
        assert re.search(r"\d (B|kB|frames?)", told), told
        assert box is not None
        assert 0 <= box["x"] <= box["x"] + box["width"] <= 390
    assert wrong == []
    page.context.close()


def test_an_event_is_followed_hop_by_hop(browser: Browser, pages: dict[int, Path]) -> None:
    page, wrong = opened(browser, pages[100], 390, "dark")
    page.select_option("#chosen", "event 5")
    hops = page.locator("#hops li button").count() - 1
    assert hops > 1
    assert page.inner_text("#step") == f"hop {hops} of {hops}"
    page.click("#back")
    assert page.inner_text("#step") == f"hop {hops - 1} of {hops}"
    page.locator("#hops li button").first.click()
    assert page.inner_text("#step") == f"hop 0 of {hops}"
    page.click("#on")
    assert page.locator("#hop").get_attribute("d")
    crossed = [line for line in page.locator("#hops li").all_inner_texts() if "→" in line]
    assert len(crossed) == hops
    page.select_option("#plan", "0")
    assert page.input_value("#chosen") == "event 5"  # the same event through another plan
    assert wrong == []
    page.context.close()


@pytest.mark.parametrize("size", [12, 5000])
def test_pictures_are_saved(browser: Browser, pages: dict[int, Path], tmp_path: Path, size: int) -> None:
    page, wrong = opened(browser, pages[size], 1400, "light")
    kinds = {"SVG": b"<svg", "PNG": b"\x89PNG"}
    for card in page.locator("[data-save]").all():
        for name, begins in kinds.items():
            with page.expect_download() as download:
                card.locator(".save button", has_text=name).click()
            download.value.save_as(tmp_path / "saved")
            content = (tmp_path / "saved").read_bytes()
            assert content.startswith(begins)
            assert len(content) > 2000
            assert download.value.suggested_filename == f"{card.get_attribute('data-save')}.{name.lower()}"
    assert wrong == []
    page.context.close()


def test_regions_come_first_where_there_are_many_brokers(browser: Browser, pages: dict[int, Path]) -> None:
    page, _ = opened(browser, pages[5000], 1400, "light")
    assert page.input_value("#chosen") == "regions"
    assert 2 <= page.locator("#regions circle").count() <= 24
    inside = sum(int(text.replace(",", "")) for text in page.locator("#regions text").all_text_contents())
    assert inside == 5000
    page.select_option("#chosen", "")
    assert page.locator("#regions circle").count() == 0
    assert len(page.locator("#brokers").get_attribute("d") or "") > 5000
    page.context.close()
    small, _ = opened(browser, pages[100], 1400, "light")
    assert small.input_value("#chosen") == ""
    small.context.close()


def test_without_a_plan_the_page_stands(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write_report(path, Subject("Nothing", grid(3, 1)), [], "")
    page, wrong = opened(browser, path, 390, "light")
    assert page.evaluate(LAYOUT) == []
    assert wrong == []
    page.context.close()
    idle = PlanView("idle", 0.0, SCORE, traffic(grid(2, 1)))
    write_report(path, Subject("One", grid(2, 1), x=np.zeros(2), y=np.zeros(2)), [idle], "")
    page, wrong = opened(browser, path, 1400, "dark")
    assert page.locator("#sides-controls").is_hidden()
    assert wrong == []
    page.context.close()
