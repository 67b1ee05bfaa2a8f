"""The workload has the statistics that the paper describes, and is a scenario."""

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pyarrow.parquet as pq
import pytest

from overstory import parse_filter
from overstory.errors import UsageError
from overstory.lab.distances import closest
from overstory.lab.localized import Localized, Pools, draw_keywords, draw_subscriptions, make_localized
from overstory.lab.topologies import Topology, topology
from overstory.model.scenario import read_scenario

from .test_topologies import graph_of

NETWORK = topology("transit-stub", 300, seed=1)
SMALL = Localized(keywords=200, events=3000)


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("network", [NETWORK, topology("random-regular", 120, 1), topology("zoo:Geant2012")])
@pytest.mark.parametrize("count", [1, 5, 37])
def test_the_closest_are_as_networkx_finds_them(network: Topology, count: int) -> None:
    found = closest(network.adjacency(), np.arange(network.brokers), count, np.random.default_rng(1))
    hops = dict(nx.all_pairs_shortest_path_length(graph_of(network)))
    for root, near in enumerate(found.tolist()):
        assert root in near
        assert len(set(near)) == count
        assert sorted(hops[root][each] for each in near) == sorted(hops[root].values())[:count]


def test_ties_at_the_border_are_left_to_chance() -> None:
    star = Topology(21, np.zeros(20, np.int64), np.arange(1, 21))
    found = closest(star.adjacency(), np.zeros(4000, np.int64), 6, np.random.default_rng(1))
    times = np.bincount(found.ravel(), minlength=21)
    assert times[0] == 4000
    assert times[1:].tolist() == pytest.approx([1000] * 20, rel=0.15)


@pytest.mark.parametrize(("locality", "around"), [(0.02, 6), (0.15, 45), (1.0, 300)])
def test_subscribers_of_a_keyword_are_close_to_some_broker(locality: float, around: int) -> None:
    parameters = Localized(keywords=150, locality=locality)
    keyword, broker = draw_subscriptions(NETWORK, parameters, np.random.default_rng(1))
    hops = dict(nx.all_pairs_shortest_path_length(graph_of(NETWORK)))
    border = {root: sorted(far.values())[around - 1] for root, far in hops.items()}
    for each in range(150):
        subscribers = broker[keyword == each].tolist()
        assert len(set(subscribers)) == len(subscribers) == min(10, around)
        assert any(all(hops[root][one] <= border[root] for one in subscribers) for root in hops)


def test_uniform_subscribers_are_anywhere() -> None:
    _, broker = draw_subscriptions(NETWORK, Localized(keywords=3000, locality=1.0), np.random.default_rng(1))
    times = np.bincount(broker, minlength=300)
    assert times.mean() == 100
    assert times.std() == pytest.approx(10, rel=0.2)  # as chance has it


def test_keywords_of_an_event_are_a_random_subset() -> None:
    pools = Pools(np.array([0, 4, 5]), np.array([10, 11, 12, 13, 20]))
    starts, keyword = draw_keywords(pools, 60_000, 2, np.random.default_rng(1))
    events = Counter(tuple(sorted(keyword[start:stop].tolist())) for start, stop in pairwise(starts))
    assert events.pop((20,)) == pytest.approx(30_000, rel=0.03)
    assert len(events) == 6  # every pair of the four
    assert list(events.values()) == pytest.approx([5000] * 6, rel=0.06)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("localized") / "scenario"
    make_localized(folder, NETWORK, SMALL, seed=3)
    return folder


def test_it_is_a_scenario(folder: Path) -> None:
    scenario = read_scenario(folder)
    assert scenario.clients["id"].to_pylist() == list(range(300, 600))
    assert scenario.clients["broker"].to_pylist() == list(range(300))
    assert len(scenario.subscriptions) == 200 * 6  # no more than 2% of 300 brokers are around
    assert scenario.subscriptions["filter"][0].as_py().startswith("keywords HAS ANY ('k")
    pairs = zip(*(scenario.subscriptions[name].to_pylist() for name in ("client", "filter")), strict=True)
    assert len(set(pairs)) == len(scenario.subscriptions)
    assert list(scenario.attributes) == ["keywords"]


def test_how_it_was_made_is_written_down(folder: Path) -> None:
    made_by = read_scenario(folder).settings.made_by
    assert made_by["kind"] == "localized"
    assert made_by["seed"] == 3
    assert made_by["locality"] == 0.02
    assert made_by["topology"] == "transit-stub"
    assert made_by["topology_seed"] == 1
    assert set(Localized.__struct_fields__) <= made_by.keys()


def test_events_are_wanted_by_neighbours(folder: Path) -> None:
    scenario = read_scenario(folder)
    events = pq.read_table(scenario.events)
    assert events["$id"].to_pylist() == list(range(3000))
    assert events["$time"].to_pylist() == list(range(3000))
    assert set(events["$bytes"].to_pylist()) == {1}
    assert len(set(events["$publisher"].to_pylist())) > 250
    assert set(events["$publisher"].to_pylist()) <= set(range(300, 600))
    brokers_of: dict[str, set[int]] = {}
    for client, text in zip(*(scenario.subscriptions[name].to_pylist() for name in ("client", "filter")), strict=True):
        brokers_of.setdefault(text.split("'")[1], set()).add(client - 300)
    hops = dict(nx.all_pairs_shortest_path_length(graph_of(NETWORK)))
    border = {root: sorted(far.values())[4] for root, far in hops.items()}
    near = {root: {one for one, far in hops[root].items() if far <= border[root]} for root in hops}
    for keywords in events["keywords"].to_pylist()[:500]:
        assert 1 <= len(set(keywords)) == len(keywords) <= 2
        assert any(all(brokers_of[word] & near[root] for word in keywords) for root in near)


def test_every_event_is_matched_by_some_filter(folder: Path) -> None:
    scenario = read_scenario(folder)
    filters = [parse_filter(text) for text in set(scenario.subscriptions["filter"].to_pylist())]
    for keywords in pq.read_table(scenario.events)["keywords"].to_pylist()[:50]:
        assert sum(each.matches({"keywords": keywords}) for each in filters) == len(keywords)


def test_the_same_seed_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    make_localized(tmp_path / "same", NETWORK, SMALL, seed=3)
    make_localized(tmp_path / "other", NETWORK, SMALL, seed=4)
    assert files_of(tmp_path / "same") == files_of(folder)
    assert files_of(tmp_path / "other")["events.parquet"] != files_of(folder)["events.parquet"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "same"]  # nothing is left beside


def test_about_ten_subscribers_a_keyword_at_the_papers_size(tmp_path: Path) -> None:
    make_localized(tmp_path / "paper", topology("transit-stub", 500, 1), Localized(events=300_000), seed=1)
    scenario = read_scenario(tmp_path / "paper")
    assert set(Counter(scenario.subscriptions["filter"].to_pylist()).values()) == {10}
    metadata = pq.read_metadata(scenario.events)
    assert metadata.num_rows == 300_000
    assert metadata.num_row_groups == 3


@pytest.mark.parametrize("name", ["transit-stub", "waxman", "random-regular"])
@pytest.mark.parametrize("brokers", [1, 2, 5])
def test_the_smallest_networks_do(tmp_path: Path, name: str, brokers: int) -> None:
    make_localized(tmp_path / "tiny", topology(name, brokers, 1), Localized(keywords=3, events=4), seed=1)
    assert len(read_scenario(tmp_path / "tiny").subscriptions) == 3


def test_there_may_be_no_events(tmp_path: Path) -> None:
    make_localized(tmp_path / "quiet", NETWORK, Localized(events=0), seed=1)
    assert pq.read_metadata(read_scenario(tmp_path / "quiet").events).num_rows == 0


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"keywords": 0}, "keywords must be 1 or more, not 0"),
        ({"events": -1}, "events must be 0 or more, not -1"),
        ({"locality": 0.0}, "locality must be more than 0"),
        ({"locality": 2.0}, "at most 1, a share of all brokers, not 2.0"),
        ({"event_neighbourhood": 0}, "event_neighbourhood must be 1 or more"),
    ],
)
def test_wrong_parameters_are_refused(wrong: dict[str, Any], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        Localized(**wrong)


def test_a_folder_that_is_there_is_left_alone(folder: Path) -> None:
    before = files_of(folder)
    with pytest.raises(UsageError, match="exists already"):
        make_localized(folder, NETWORK, SMALL, seed=9)
    assert files_of(folder) == before
    with pytest.raises(UsageError, match="cannot write"):
        make_localized(folder / "scenario.toml" / "inside", NETWORK, SMALL, seed=9)
