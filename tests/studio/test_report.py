"""The page of a comparison: whole, alone, safe with any name, and the same each time."""

import base64
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from overstory.errors import UsageError
from overstory.model.network import Network
from overstory.model.scorecard import Scorecard, Traffic
from overstory.studio.links import BUSIEST
from overstory.studio.report import write_report
from overstory.studio.saving import cheapest_of, sentence
from overstory.studio.subject import Subject
from overstory.studio.trees import MOST_TREES, FlowTree
from overstory.studio.views import PlanView

VOID = {"meta", "link"}
HOSTILE = ["</script><script>alert(1)</script>", '" onload="alert(1)', "<!--", "a & b\n\u202e\ud800", ""]
NOTHING: dict[str, Any] = dict.fromkeys(Scorecard.__struct_fields__, 0) | {"gap": None, "exceeded": ()}
NUMBERS: dict[str, Any] = {
    "cost": 1234567.0,
    "core": 1000000.0,
    "access": 200000.0,
    "upkeep": 34000.0,
    "control": 567.0,
    "cost_fit": 740740.0,
    "cost_held_out": 246913.0,
    "lower_bound": 800000.0,
    "lower_bound_held_out": 160001.0,
    "gap": 0.25,
    "flood": 4000000.0,
    "deliveries": 52345,
    "frames": 4321,
    "duplicates": 87,
    "false_positives": 654,
    "discards": 3210,
    "flows": 4,
    "mean_delay": 12.34,
    "max_delay": 98.76,
    "load": 1.5,
}
SCORE = Scorecard(**NOTHING | NUMBERS)


@dataclass
class Page(HTMLParser):
    """Tags that are closed in order, with their attributes; texts by the tag that they stand in."""

    open: list[str] = field(default_factory=list)
    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    texts: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs)
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)

    def data(self) -> Any:
        return json.loads(self.texts["script"][0])


def read(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text("utf-8"))
    page.close()
    assert page.open == []
    return page


def grid(wide: int, tall: int) -> Network:
    at = np.arange(wide * tall).reshape(tall, wide)
    one = np.concatenate([at[:, :-1].reshape(-1), at[:-1].reshape(-1)])
    other = np.concatenate([at[:, 1:].reshape(-1), at[1:].reshape(-1)])
    sources, targets = np.concatenate([one, other]), np.concatenate([other, one])
    return Network.between(np.arange(wide * tall) + 10, sources, targets, np.ones(len(sources)), np.ones(len(sources)))


def traffic(network: Network, seed: int = 0) -> Traffic:
    frames = np.random.default_rng(seed).integers(0, 1000, len(network.targets))
    return Traffic(frames, frames * 100)


def view(network: Network, name: str = "spt", **changed: Any) -> PlanView:
    return PlanView(name, 1.5, msgspec.structs.replace(SCORE, **changed), traffic(network))


def flow(number: int, links: list[int], brokers: list[int], **given: Any) -> FlowTree:
    return FlowTree(number, 3 * len(brokers), np.array(links, np.int64), np.array(brokers, np.int64), **given)


def numbers_in(encoded: str) -> list[int]:
    return np.flatnonzero(np.unpackbits(np.frombuffer(base64.b64decode(encoded), np.uint8), bitorder="little")).tolist()


def counts_in(text: str) -> list[int]:
    return [int(number, 36) if number else 0 for number in text.split(",")]


def written(folder: Path, network: Network, plans: list[PlanView], names: Sequence[str] = ()) -> Page:
    path = folder / "report.html"
    write_report(path, Subject("A title", network, {"Brokers": "12"}, names), plans, "overstory compare x")
    return read(path)


def test_the_page_asks_nothing_of_a_network(tmp_path: Path) -> None:
    page = written(tmp_path, grid(4, 3), [view(grid(4, 3))])
    assert page.tags[0][0] == "html"
    for tag, attributes in page.tags:
        assert tag not in {"img", "iframe", "object", "embed"}
        for name in ("src", "href", "xlink:href", "action"):
            assert attributes.get(name) in {None, "data:,"}
    whole = (tmp_path / "report.html").read_text()
    assert not re.search(r"https?://|@import|url\(", whole)
    assert "default-src 'none'" in whole


def test_numbers_are_there_for_people(tmp_path: Path) -> None:
    network = grid(4, 3)
    plans = [view(network, "dear"), view(network, "cheap", cost=1000.0), view(network, "barred", cost=1.0)]
    plans[2] = msgspec.structs.replace(
        plans[2], scorecard=msgspec.structs.replace(SCORE, cost=1.0, exceeded=("delay",))
    )
    page = written(tmp_path, network, plans)
    cells = page.texts["td"]
    for number in (
        "1,234,567",
        "567",
        "800,000",
        "25.0%",
        "740,740",
        "246,913",
        "160,001",
        "87",
        "3,210",
        "12.34",
        "98.76",
        "1.500",
    ):
        assert number in cells, number
    assert page.texts["span"].count("cheapest") == 2  # once in each table of plans
    assert page.texts["strong"][0] == "cheap"  # in the sentence that opens the page
    assert page.texts["strong"][2:5] == ["dear", "cheap", "cheap"]  # before, after, and what the map shows
    assert page.texts["code"] == ["overstory compare x"]
    assert "exceeds delay" in page.texts["span"]


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    network = grid(len(HOSTILE), 1)
    hostile = HOSTILE[0]
    plans = [view(network, name) for name in HOSTILE]
    path = tmp_path / "report.html"
    write_report(path, Subject(hostile, network, {hostile: hostile}, HOSTILE), plans, hostile)
    page = read(path)
    assert [tag for tag, _ in page.tags].count("script") == 2
    assert not any("onload" in attributes for _, attributes in page.tags)
    assert page.texts["title"] == page.texts["h1"] == page.texts["dt"] == page.texts["code"] == [hostile]
    assert page.data()["names"][:3] == HOSTILE[:3]
    assert page.data()["names"][4] == "broker 14"


def test_the_script_gets_traffic_by_pair(tmp_path: Path) -> None:
    network = Network.between(
        np.arange(3), np.array([0, 1, 2]), np.array([1, 0, 1]), np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])
    )
    carried = Traffic(np.array([1, 2, 3]), np.array([10, 20, 30]))
    data = written(tmp_path, network, [PlanView("spt", 0.1, SCORE, carried)]).data()
    assert data["ends"] == [0, 1, 1, 2]
    assert data["prices"] == [1, 2, None, 3]
    assert data["delays"] == [4, 5, None, 6]
    assert counts_in(data["plans"][0]["bytes"]) == [10, 20, 0, 30]
    assert counts_in(data["plans"][0]["frames"]) == [1, 2, 0, 3]
    assert data["plans"][0]["classes"] == "66"
    assert data["plans"][0]["trees"] == []


def test_the_script_gets_each_plan_s_trees(tmp_path: Path) -> None:
    network = grid(4, 1)  # links 0–1, 1–2 and 2–3, each there and back
    ways = network.link_between(np.array([0, 2, 3]), np.array([1, 1, 2])).tolist()
    steered = flow(4, [], [3], wants=(HOSTILE[1],), wanted=2, clients=HOSTILE[0], events=HOSTILE[0], steered=True)
    plans = [
        msgspec.structs.replace(view(network, "one"), trees=(flow(0, ways, [0, 1]),)),
        msgspec.structs.replace(view(network, "many", flows=40), trees=(flow(7, ways[1:], [1, 3]), steered)),
    ]
    page = written(tmp_path, network, plans)
    one, many = page.data()["plans"]
    (whole,), (part, own_way) = one["trees"], many["trees"]
    assert (one["flows"], many["flows"]) == (4, 40)
    assert (whole["flow"], whole["members"], whole["events"], whole["steered"]) == (0, 6, "TRUE", False)
    assert [numbers_in(whole[key]) for key in ("links", "joining", "brokers")] == [[0, 1, 2], [0], [0, 1]]
    assert [numbers_in(part[key]) for key in ("links", "joining", "brokers")] == [[1, 2], [1, 2], [1, 3]]
    assert [numbers_in(own_way[key]) for key in ("links", "joining", "brokers")] == [[], [], [3]]
    assert (own_way["steered"], own_way["events"]) == (True, HOSTILE[0])
    assert [(tree["wants"], tree["wanted"]) for tree in (part, own_way)] == [([], 0), ([HOSTILE[1]], 2)]
    assert [tree["clients"] for tree in (part, own_way)] == ["", HOSTILE[0]]
    assert [tag for tag, _ in page.tags].count("script") == 2


def test_a_long_predicate_is_cut(tmp_path: Path) -> None:
    network = grid(2, 1)
    plan = msgspec.structs.replace(view(network), trees=(flow(0, [0], [0], events="x" * 100_000),))
    (tree,) = written(tmp_path, network, [plan]).data()["plans"][0]["trees"]
    assert len(tree["events"]) == 200


@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no Chromium to run the script in")
def test_the_script_offers_the_trees(tmp_path: Path) -> None:
    network = grid(4, 3)
    trees = (flow(7, [0], [0, 1]), flow(2, [], [1]))
    plans = [msgspec.structs.replace(view(network, HOSTILE[0], cost=1.0, flows=40), trees=trees), view(network)]
    written(tmp_path, network, plans)
    browser = ["chromium", "--headless", "--no-sandbox", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    page = f"{(tmp_path / 'report.html').as_uri()}"
    shown = subprocess.run([*browser, page], capture_output=True, text=True, timeout=60, check=True).stdout
    chosen = shown[shown.index('<select id="chosen"') :]
    options = re.findall(r"<option[^>]*>([^<]*)</option>", chosen)
    assert options == ["the traffic of all 40 flows", "flow 7: 6 members", "flow 2: 3 members"]
    assert '<optgroup label="The 2 flows with most members">' in shown
    assert '<div id="controls" class="controls">' in shown


def test_the_busiest_links_come_first(tmp_path: Path) -> None:
    network = grid(6, 6)
    page = written(tmp_path, network, [view(network)])
    ranked = [int(attributes["data-link"] or "") for tag, attributes in page.tags if "data-link" in attributes]
    carried = np.array(counts_in(page.data()["plans"][0]["bytes"])).reshape(-1, 2).sum(axis=1)
    assert len(ranked) == BUSIEST
    assert carried[ranked].tolist() == sorted(carried.tolist(), reverse=True)[:BUSIEST]


def test_given_coordinates_are_kept_with_north_above(tmp_path: Path) -> None:
    network, path = grid(2, 2), tmp_path / "report.html"
    write_report(path, Subject("A title", network, x=[0, 2, 0, 2], y=[0, 0, 1, 1]), [view(network)], "")
    x, y = np.array(read(path).data()["points"]).reshape(-1, 2).T
    assert x[0] == x[2] < x[1] == x[3]
    assert y[0] == y[1] > y[2] == y[3]
    assert x[1] - x[0] == pytest.approx(2 * (y[0] - y[2]))


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    network = grid(8, 8)
    for folder in ("one", "two"):
        written(tmp_path / folder, network, [view(network)])
    assert (tmp_path / "one/report.html").read_bytes() == (tmp_path / "two/report.html").read_bytes()


def test_five_thousand_brokers_take_a_few_megabytes(tmp_path: Path) -> None:
    network = grid(100, 50)
    trees = (flow(0, list(range(0, len(network.targets), 4)), list(range(5000))),) * MOST_TREES
    plans = [PlanView(f"plan {at}", 1.0, SCORE, traffic(network, at), trees) for at in range(3)]
    page = written(tmp_path, network, plans)
    assert (tmp_path / "report.html").stat().st_size < 3e6
    assert len(page.tags) < 1500  # elements do not grow with brokers
    assert [len(plan["trees"]) for plan in page.data()["plans"]] == [MOST_TREES] * 3


@pytest.mark.parametrize("size", [0, 1, 2])
def test_small_networks(tmp_path: Path, size: int) -> None:
    network = grid(size, 1)
    points = np.array(written(tmp_path, network, [view(network)]).data()["points"])
    assert len(points) == 2 * size
    assert np.isfinite(points).all()


def test_one_broker_with_coordinates(tmp_path: Path) -> None:
    network, path = grid(1, 1), tmp_path / "report.html"
    write_report(path, Subject("A title", network, x=np.array([3.0]), y=np.array([np.nan])), [view(network)], "")
    write_report(path, Subject("A title", network, x=np.array([3.0]), y=np.array([4.0])), [view(network)], "")
    assert len(read(path).data()["points"]) == 2


def test_nothing_to_show_breaks_nothing(tmp_path: Path) -> None:
    network = grid(3, 1)
    idle = Traffic(np.zeros(4, np.int64), np.zeros(4, np.int64))
    reference = Traffic(np.zeros(0, np.int64), np.zeros(0, np.int64))
    free = Scorecard(**NOTHING)
    plans = [PlanView("idle", 0.0, free, idle), PlanView("reference", 0.0, free, reference)]
    page = written(tmp_path, network, plans)
    assert [plan["name"] for plan in page.data()["plans"]] == ["idle"]
    assert "No event crosses a link between brokers." in page.texts["td"]
    assert "no traffic on any link" in page.texts["span"]
    assert written(tmp_path, network, []).data()["plans"] == []
    endless = msgspec.structs.replace(SCORE, cost=float("inf"), core=float("inf"), max_delay=float("nan"))
    assert "–" in written(tmp_path, network, [PlanView("endless", 0.0, endless, idle)]).texts["td"]


def test_a_disconnected_network_is_drawn(tmp_path: Path) -> None:
    nothing = np.zeros(0, np.int64)
    network = Network.between(np.arange(5), nothing, nothing, np.zeros(0), np.zeros(0))
    points = np.array(written(tmp_path, network, []).data()["points"]).reshape(-1, 2)
    assert len(np.unique(points, axis=0)) == 5


def test_what_cannot_be_written_is_said_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "report.html").mkdir()
    with pytest.raises(UsageError, match=r"^cannot write .*report\.html: .+$") as caught:
        written(tmp_path, grid(2, 1), [])
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_costs_have_a_currency_if_the_scenario_has_one(tmp_path: Path) -> None:
    network, path = grid(4, 3), tmp_path / "report.html"
    plans = [view(network, "cheap", cost=1000.0)]
    write_report(path, Subject("A title", network, currency="<EUR>"), plans, "")
    assert "What the plans cost, in &lt;EUR&gt;" in path.read_text()
    assert "</strong> costs 1,000 &lt;EUR&gt;" in path.read_text()
    write_report(path, Subject("A title", network), plans, "")
    assert "<caption>What the plans cost</caption>" in path.read_text()


def test_columns_that_are_all_zero_are_left_out(tmp_path: Path) -> None:
    network = grid(4, 3)
    heads = written(tmp_path, network, [view(network, access=0.0, discards=0)]).texts["th"]
    assert not {"Access", "Discards"} & set(heads)
    assert {"Cost", "Upkeep", "Duplicates"} <= set(heads)
    heads = written(tmp_path, network, [view(network, access=0.0), view(network)]).texts["th"]
    assert "Access" in heads
    assert heads.index("Cost") == 1  # beside the plan's name, before all else
    assert "Core" not in written(tmp_path, network, [view(network, core=5.0, cost=5.0)]).texts["th"]


def test_references_stand_apart(tmp_path: Path) -> None:
    network, none = grid(4, 3), np.zeros(0, np.int64)
    opt = PlanView("opt (reference)", 1.0, msgspec.structs.replace(SCORE, flows=0, cost=1.0), Traffic(none, none))
    written(tmp_path, network, [opt, view(network)])
    costs = re.findall(r'<table id="costs">.*?</table>', (tmp_path / "report.html").read_text())[0]
    plans, references = re.findall(r"<tbody>(.*?)</tbody>", costs)
    assert "spt" in plans
    assert "opt" not in plans
    assert "References, which cannot be installed" in references
    assert "opt (reference)" in references


def saving(plans: list[PlanView]) -> str:
    return sentence(plans, cheapest_of(plans), "")


def test_the_page_opens_with_what_is_saved() -> None:
    network = grid(2, 1)
    cheap, dear = view(network, "cheap", cost=50.0), view(network, "dear", cost=200.0)
    flood, middle = view(network, "flood", cost=1000.0), view(network, "middle", cost=100.0)
    told = "<strong>cheap</strong> saves <strong>75.0%</strong> of the cost of dear"
    least = "; its core is at most 25.0% above the least possible."
    assert saving([dear, cheap]) == f"{told}{least}"
    assert saving([flood, middle, dear, cheap]) == (
        f"{told}, and saves <strong>50.0%</strong> of the cost of middle{least}"
    )
    assert saving([flood, cheap]) == f"<strong>cheap</strong> saves <strong>95.0%</strong> of the cost of flood{least}"
    assert saving([cheap]).startswith("<strong>cheap</strong> costs 50; its core")
    assert saving([view(network, HOSTILE[0], cost=1.0, core=1.0)]).endswith(
        "; it is at most 25.0% above the least possible."
    )
    assert saving([view(network, cost=1.0, core=1.0, gap=0.0)]).endswith("; it is the least possible.")
    assert saving([view(network, gap=0.0004)]).endswith("; its core is less than 0.1% above the least possible.")
    assert "<script" not in saving([view(network, HOSTILE[0], cost=1.0)])
    assert saving([view(network, exceeded=("delay",))]) == "No plan keeps the limits."
    assert saving([]) == "There is no plan."
    last = view(network, "last", cost=50.0)
    assert saving([dear, cheap, last]).startswith(
        "<strong>last</strong> saves <strong>75.0%</strong> of the cost of dear;"
    )


def test_the_two_sides_show_the_difference(tmp_path: Path) -> None:
    """Three links: one carries less after, one more, one the same."""
    network = grid(4, 1)
    loads = {"dear": [40, 10, 0], "cheap": [10, 40, 0]}
    plans = []
    for cost, (name, carried) in zip((9.0, 5.0), loads.items(), strict=True):
        there = network.link_between(np.arange(3), np.arange(1, 4))
        values = np.zeros(len(network.targets), np.int64)
        values[there] = carried
        plans.append(PlanView(name, 1.0, msgspec.structs.replace(SCORE, cost=cost), Traffic(values, values)))
    page = written(tmp_path, network, plans)
    given = [str(attributes.get("class")) for tag, attributes in page.tags if tag == "path"]
    classes = [each for each in given if re.fullmatch(r"c\d d\d", each)]
    assert classes[:6] == ["c0 d3", "c3 d6", "c6 d0", "c0 d3", "c3 d0", "c6 d6"]
    written(tmp_path, network, plans[:1])
    assert re.findall(r'<svg id="side-\w+"', (tmp_path / "report.html").read_text()) == ['<svg id="side-after"']


def test_many_brokers_are_brought_together(tmp_path: Path) -> None:
    network = grid(30, 20)
    data = written(tmp_path, network, [view(network)]).data()
    regions = data["regions"]
    of, pair_of = np.array(regions["of"]), np.array(regions["pairOf"])
    ends = np.array(data["ends"]).reshape(-1, 2)
    assert 2 <= len(regions["names"]) <= 24
    assert set(of.tolist()) == set(range(len(regions["names"])))
    assert ((pair_of < 0) == (of[ends[:, 0]] == of[ends[:, 1]])).all()
    linked = np.array(regions["ends"]).reshape(-1, 2)
    between = pair_of >= 0
    assert (np.sort(of[ends[between]], axis=1) == linked[pair_of[between]]).all()
    points, radii = np.array(regions["points"]).reshape(-1, 2), np.array(regions["radii"])
    far = np.hypot(*(points[:, None] - points).transpose(2, 0, 1)) + 1e9 * np.eye(len(points))
    assert (far > radii[:, None] + radii).all()  # none hides another
    assert written(tmp_path, grid(7, 7), [view(grid(7, 7))]).data()["regions"] is None


def test_parts_that_are_not_joined_are_no_more_regions_than_others(tmp_path: Path) -> None:
    nothing = np.zeros(0, np.int64)
    network = Network.between(np.arange(520), nothing, nothing, np.zeros(0), np.zeros(0))
    of = written(tmp_path, network, []).data()["regions"]["of"]
    assert (len(set(of)), max(of)) == (24, 23)


def test_events_are_divided_in_a_picture(tmp_path: Path) -> None:
    network = grid(4, 3)
    boxes = (flow(0, [0], [0, 1], events="x < 3 AND y > 1"), flow(1, [1], [2], events="x >= 3"))
    page = written(tmp_path, network, [msgspec.structs.replace(view(network), trees=boxes)])
    shapes = [attributes for tag, attributes in page.tags if tag == "rect" and "flow" in str(attributes.get("class"))]
    (left, right) = shapes
    assert float(left["x"] or 0) + float(left["width"] or 0) == pytest.approx(float(right["x"] or 0))
    assert float(left["height"] or 0) < float(right["height"] or 0)
    words = (flow(0, [0], [0, 1], events="topic IN ('a', 'b')"), flow(1, [1], [2], events="topic = 'c'"))
    page = written(tmp_path, network, [msgspec.structs.replace(view(network), trees=words)])
    assert "topic IN ('a', 'b')" in page.texts["text"]
    assert "6 members" in page.texts["text"]
    assert "What the plans divide" not in written(tmp_path, network, [view(network)]).texts["h2"]


def test_clients_are_counted_where_plans_attach_them_otherwise(tmp_path: Path) -> None:
    network = grid(2, 1)
    one, other = (
        msgspec.structs.replace(view(network, str(at), cost=9.0 - at), hosts=np.array([at, 5 - at])) for at in (0, 2)
    )
    page = written(tmp_path, network, [one, other])
    assert page.texts["h2"].count("What the plans divide") == 1
    assert [text for text in page.texts["text"] if text.isdigit()] == ["5", "0", "3", "2"]
    alike = msgspec.structs.replace(one, hosts=other.hosts)
    assert "What the plans divide" not in written(tmp_path, network, [alike, other]).texts["h2"]
