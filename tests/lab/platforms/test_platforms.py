"""Platforms: routes end where they should, trees reach exactly their subscribers, also after churn; and Tamara over
each of them gives everyone what it wants."""

import numpy as np
import pytest

from overstory.errors import UsageError
from overstory.lab.experiments.topics_platforms import run as run_platform
from overstory.lab.measuring import number
from overstory.lab.platforms.layer import Layered
from overstory.lab.platforms.pastry import Pastry, distance, hashed
from overstory.lab.platforms.platform import Platform, fail
from overstory.lab.platforms.routers import Routers
from overstory.lab.platforms.scribe import Scribe
from overstory.planners.topics.core.formulas import tables_of
from overstory.planners.topics.costs import SCRIBE_AVERAGE, SCRIBE_WORST, linear
from overstory.planners.topics.replaying import Rules


def test_routes_end_at_the_closest_node() -> None:
    pastry = Pastry(400)
    for each in range(60):
        key = hashed(each, 3)
        closest = min(pastry.id_of, key=lambda node, key=key: distance(pastry.id_of[node], key))  # type: ignore[misc]
        path = pastry.route(each, key)
        assert path[-1] == pastry.root(key) == closest
        assert len(set(path)) == len(path) <= 6
    hops = [len(pastry.route(node, hashed(node, 5))) - 1 for node in range(200)]
    assert 1.5 < np.mean(hops) < 3.0  # about the logarithm of 400 to the base 16


@pytest.mark.parametrize("platform", [Scribe(120), Routers(60)], ids=["scribe", "routers"])
def test_every_subscriber_gets_an_event_and_nobody_else(platform: Platform) -> None:
    draw = np.random.default_rng(3)
    wanted: dict[int, set[int]] = {channel: set() for channel in range(4)}
    for channel in wanted:
        platform.create(channel)
    for _ in range(160):
        node, channel = int(draw.integers(60)), int(draw.integers(4))
        if node in wanted[channel]:
            wanted[channel].discard(node)
            platform.unsubscribe(node, channel)
        else:
            wanted[channel].add(node)
            assert platform.subscribe(node, channel) > 0 or isinstance(platform, Scribe)
    for channel, nodes in wanted.items():
        published = platform.publish(channel)
        assert published.nodes == nodes
        assert published.messages >= len(nodes)
    gone = {int(each) for each in draw.choice(60, 15, replace=False)}
    fail(platform, gone)
    for channel, nodes in wanted.items():
        assert platform.publish(channel).nodes == nodes - gone
    with pytest.raises(UsageError, match="there is no channel 99"):
        platform.publish(99)


def test_what_is_below_a_crashed_node_waits_for_the_repair() -> None:
    scribe, draw = Scribe(200), np.random.default_rng(2)
    scribe.create(0)
    members = {int(each) for each in draw.choice(200, 80, replace=False)}
    for node in members:
        scribe.subscribe(node, 0)
    tree = scribe.trees[0]
    inner = max((node for node in tree.children if node != tree.root), key=lambda node: len(tree.children[node]))
    below = {node for node in members if _is_under(tree.parent, node, inner)}
    assert below - {inner}
    scribe.crash({inner})
    assert scribe.publish(0).nodes == members - below - {inner}
    assert scribe.repair() > 0
    assert scribe.publish(0).nodes == members - {inner}
    root = tree.root
    scribe.crash({root})
    assert scribe.publish(0).nodes == set()
    scribe.repair()
    assert scribe.publish(0).nodes == members - {inner, root}
    for node in (inner, root):
        scribe.come_back(node)
        scribe.subscribe(node, 0)
    assert scribe.publish(0).nodes == members | {inner, root}
    assert tree.root == root


def _is_under(parent: dict[int, int], node: int, above: int) -> bool:
    while node in parent:
        node = parent[node]
        if node == above:
            return True
    return False


@pytest.mark.parametrize("name", ["scribe", "routers"])
def test_clusters_save_on_a_platform_with_churn(name: str) -> None:
    rows = run_platform({"platform": name, "users": 60, "topics": 12, "natural_clusters": 2, "noise": 0.1, "seed": 1})
    alone, tamara = ({key: number(row, key) for key in ("keep_alives", "messages", "lost")} for row in rows)
    assert tamara["keep_alives"] < alone["keep_alives"]
    assert tamara["messages"] < alone["messages"]
    assert 0 <= tamara["lost"] < 0.5
    assert (alone["lost"] > 0) == (name == "scribe")


def test_trees_of_small_groups_need_helpers() -> None:
    """Tree edges for each subscriber fall with the size of the group: cost_m is concave."""
    scribe = Scribe(1000)
    draw = np.random.default_rng(1)
    share = {}
    for channel, size in enumerate((5, 25, 100, 500)):
        scribe.create(channel)
        for node in draw.choice(1000, size, replace=False).tolist():
            scribe.subscribe(node, channel)
        share[size] = scribe.edges(channel) / size
    assert share[5] > share[25] > share[100] > share[500] > 0.99
    assert share[5] == pytest.approx(1.9, abs=0.7)
    assert share[100] == pytest.approx(1.45, abs=0.3)
    assert share[500] == pytest.approx(1.06, abs=0.15)
    assert scribe.keep_alives() == sum(scribe.edges(channel) for channel in range(4))
    for node in range(1000):
        scribe.unsubscribe(node, 0)
    assert scribe.edges(0) == 0


def test_the_curves_of_costs_are_those_of_the_simulator() -> None:
    """Of groups of 5, 25 and 100 among 3,000 nodes, drawn anew: the mean, and nearly all below the worst case."""
    scribe, draw, channel = Scribe(3000), np.random.default_rng(9), 0
    for (size, mean), (_, worst), groups in zip(SCRIBE_AVERAGE, SCRIBE_WORST, (12, 6, 3), strict=False):
        edges = []
        for _ in range(groups):
            scribe.create(channel)
            for node in draw.choice(3000, int(size), replace=False).tolist():
                scribe.subscribe(node, channel)
            edges.append(scribe.edges(channel))
            channel += 1
        assert np.mean(edges) == pytest.approx(mean, rel=0.08)
        assert max(edges) <= 1.07 * worst


@pytest.mark.parametrize("make", [lambda: Scribe(40), lambda: Routers(40)], ids=["scribe", "routers"])
def test_tamara_over_a_platform_gives_everyone_what_it_wants(make) -> None:  # type: ignore[no-untyped-def]
    draw = np.random.default_rng(5)
    rates = draw.uniform(0.01, 0.2, 12).tolist()
    system = Layered(40, rates, tables_of(linear(40, 12)), Rules(seed=2), 40).over(make())
    wants: list[set[int]] = [set() for _ in range(40)]
    for _ in range(350):
        user, topic = int(draw.integers(40)), int(draw.integers(6) + 6 * draw.integers(2))
        if topic in wants[user]:
            wants[user].discard(topic)
            system.lose_interest(user, topic)
        else:
            wants[user].add(topic)
            system.gain_interest(user, topic)
    assert system.clusters
    assert system.carried > 350
    for topic in range(12):
        shown, messages = system.delivered(topic)
        assert shown == {user for user in range(40) if topic in wants[user]}
        assert messages >= len(shown)
    maintained = system.platform.keep_alives()
    alone = make()
    for topic in range(12):
        alone.create(topic)
        for user in range(40):
            if topic in wants[user]:
                alone.subscribe(user, topic)
    assert maintained < alone.keep_alives()
