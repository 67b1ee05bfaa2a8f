"""Bursts: against filters compared one by one on every link, and publications followed broker by broker."""

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import networkx as nx
import numpy as np
import pyarrow as pa
import pytest

from overstory.errors import UsageError
from overstory.filters import parse_filter
from overstory.model.plan import Header, Plan
from overstory.model.scenario import Scenario, read_scenario, write_scenario
from overstory.model.settings import Settings
from overstory.model.tables import BROKERS, CLIENTS, LINKS, SUBSCRIPTIONS
from overstory.pipeline.bursts import POLICIES, Burst
from overstory.pipeline.pipeline import Pipeline
from overstory.planners import defaults

BROKERS_MADE = 9


class World(NamedTuple):
    scenario: Scenario
    tree: nx.Graph
    home: dict[int, int]  # by subscription: its broker
    text: dict[int, str]
    events: list[tuple[int, int]]  # publishing broker, price


def world(folder: Path, seed: int) -> World:
    """A random tree, nested intervals at random brokers, and events anywhere."""
    draw = np.random.default_rng(seed)
    ends = [(int(draw.integers(0, node)), node) for node in range(1, BROKERS_MADE)]
    links = [{"source": a, "target": b, "price": 1.0, "delay": 1.0} for one in ends for a, b in (one, one[::-1])]
    home = {number: int(draw.integers(BROKERS_MADE)) for number in range(30)}
    text = {}
    for number in home:
        low = int(draw.integers(0, 60))
        text[number] = f"price >= {low} AND price <= {low + int(draw.choice([3, 8, 25]))}"
    text[29] = text[3]  # two that are equal
    events = [(int(draw.integers(BROKERS_MADE)), int(draw.integers(90))) for _ in range(300)]
    tables = {
        "brokers": pa.Table.from_pylist([{"id": number} for number in range(BROKERS_MADE)], BROKERS.schema),
        "links": pa.Table.from_pylist(links, LINKS.schema),
        "clients": pa.Table.from_pylist(
            [{"id": 100 + number, "broker": number} for number in range(BROKERS_MADE)], CLIENTS.schema
        ),
        "subscriptions": pa.Table.from_pylist(
            [{"id": n, "client": 100 + home[n], "filter": text[n], "no_local": False} for n in home],
            SUBSCRIPTIONS.schema,
        ),
    }
    log = pa.table(
        {
            "$id": list(range(len(events))),
            "$time": [float(at) for at in range(len(events))],
            "$publisher": [100 + broker for broker, _ in events],
            "$bytes": [1] * len(events),
            "price": [price for _, price in events],
        }
    )
    write_scenario(folder, Settings(), tables, log)
    return World(read_scenario(folder), nx.Graph(ends), home, text, events)


def roots_behind(made: World, far: int, near: int, without: set[int]) -> set[str]:
    """Filters that must be forwarded over a link: of the brokers on the near side, those that none other covers."""
    cut = made.tree.copy()
    cut.remove_edge(near, far)
    side = nx.node_connected_component(cut, near)
    texts = {made.text[n] for n, broker in made.home.items() if broker in side and n not in without}
    parsed = {text: parse_filter(text) for text in texts}
    return {
        text
        for text in texts
        if not any(parsed[other].covers(parsed[text]) and not parsed[text].covers(parsed[other]) for other in texts)
    }


def checked(made: World, found: Burst) -> None:
    gone, home = found.subscription, made.home[found.subscription]
    wanted = parse_filter(made.text[gone])
    mine = [(broker, price) for broker, price in made.events if wanted.matches({"price": price})]
    assert found.events == len(mine)
    others = {n: parse_filter(text) for n, text in made.text.items() if text != made.text[gone]}
    links = {
        link for broker, _ in mine for way in [nx.shortest_path(made.tree, home, broker)] for link in pairwise(way)
    }
    assert found.links == len(links)
    new = {
        (near, far): len(roots_behind(made, far, near, {gone}) - roots_behind(made, far, near, set()))
        for near, far in links
    }
    assert found.new_roots == max(new.values(), default=0)
    assert found.messages["none"] == len(links)
    assert found.messages["active"] == sum(1 + count for count in new.values())
    assert found.messages["packing"] == sum(1 + (count > 0) for count in new.values())
    alone = sum(not any(each.matches({"price": price}) for each in others.values()) for _, price in mine)
    assert found.similarity == pytest.approx(1 - alone / len(mine))
    assert found.messages["lazy"] <= found.messages["active"]
    cost = found.messages["cost"] + found.false_positives["cost"]
    assert cost <= min(found.messages["active"], found.messages["selective"] + found.false_positives["selective"])


def selective(made: World, found: Burst, threshold: float) -> tuple[int, int]:
    """Messages and vain crossings, from what stands behind each link."""
    gone, home = found.subscription, made.home[found.subscription]
    wanted = parse_filter(made.text[gone])
    others = {n: parse_filter(text) for n, text in made.text.items() if text != made.text[gone]}

    def alone(near: int, far: int, price: int) -> bool:
        cut = made.tree.copy()
        cut.remove_edge(near, far)
        side = nx.node_connected_component(cut, near)
        return not any(each.matches({"price": price}) for n, each in others.items() if made.home[n] in side)

    told, vain = set(), 0
    for broker in range(BROKERS_MADE):
        prices = [price for at, price in made.events if at == broker and wanted.matches({"price": price})]
        way = list(pairwise(nx.shortest_path(made.tree, home, broker))) if prices else []
        lonely = [sum(alone(near, far, price) for price in prices) for near, far in way]
        enough = [hop for hop, count in enumerate(lonely) if len(prices) - count >= threshold * len(prices)]
        hop = enough[0] if enough else len(way)
        told |= set(way[:hop])
        vain += sum(lonely[hop:])
    new = (roots_behind(made, far, near, {gone}) - roots_behind(made, far, near, set()) for near, far in told)
    return sum(1 + len(each) for each in new), vain


@pytest.mark.parametrize("seed", range(4))
def test_against_every_link_and_every_event(pipeline: Pipeline, tmp_path: Path, seed: int) -> None:
    made = world(tmp_path / "net", seed)
    plan = Plan.of(Header("defaults", made.scenario.fingerprint), defaults.tables(made.scenario))
    found = pipeline.bursts(made.scenario, plan, 100, 0.9)
    assert len(found) > 3
    for each in found:
        checked(made, each)
        assert (each.messages["selective"], each.false_positives["selective"]) == selective(made, each, 0.9)
    assert [each.messages["active"] for each in found] == sorted(
        (each.messages["active"] for each in found), reverse=True
    )
    everything = pipeline.bursts(made.scenario, plan, 100, 1.0)
    assert all(each.false_positives["selective"] == 0 for each in everything)
    nothing = pipeline.bursts(made.scenario, plan, 100, 0.0)
    assert all(each.messages["selective"] == 0 for each in nothing)
    assert set(found[0].as_json()["messages_per_link"]) == set(POLICIES)


def test_wrong_numbers(pipeline: Pipeline, tmp_path: Path) -> None:
    made = world(tmp_path / "net", 1)
    plan = Plan.of(Header("defaults", made.scenario.fingerprint), defaults.tables(made.scenario))
    with pytest.raises(UsageError, match="threshold=2"):
        pipeline.bursts(made.scenario, plan, 10, 2.0)
    with pytest.raises(UsageError, match="top=0"):
        pipeline.bursts(made.scenario, plan, 0, 0.9)
