"""The one cost is each paper's own objective, under its price list.

Every formula stands here as the paper has it, over sets and dictionaries of the paper's own nouns; the meter sees the
same instance as a scenario and a plan. Prices and sizes are sums of quarters, so that both sums are exact.
"""

import random
from collections import defaultdict
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from overstory.model.plan import EVERYTHING, Plan
from overstory.model.scenario import Scenario
from overstory.model.scorecard import Scorecard
from overstory.model.settings import Prices, Settings
from overstory.model.tables import PATHS, TREE
from overstory.pipeline.validate import problems_of_plan

from ..plans import events_of
from ..tables import Row, events_table, plan_of, scenario_of, scenario_tables
from .meter import meter

Link = tuple[int, int]

seeds = pytest.mark.parametrize("seed", range(25))
INSTANCES = 3  # for each seed


def measured(scenario: Scenario, plan: Plan) -> Scorecard:
    """Of a plan that is found to be lawful."""
    publishers = np.unique([event.publisher for event in events_of(scenario)])
    assert problems_of_plan(scenario, plan, publishers) == []
    return meter(scenario, plan)[0]


def random_tree(dice: random.Random, nodes: Iterable[int], links: Iterable[Link] | None = None) -> list[Link]:
    """That spans the nodes, of any pairs or of these links."""
    left = list(nodes)
    pairs = list(combinations(left, 2)) if links is None else list(links)
    dice.shuffle(pairs)
    piece = {each: {each} for each in left}
    tree = []
    for u, v in pairs:
        if piece[u] is not piece[v]:
            tree.append((u, v))
            joined = piece[u] | piece[v]
            piece.update(dict.fromkeys(joined, joined))
    return tree


def quarters(dice: random.Random, low: int, high: int) -> float:
    return dice.randint(low, high) / 4


# Routing trees: cost(R) = Σ_i Σ_{d_j in D_i} |T_i^{N_ij}|, where N_ij is host(d_j) and the hosts of the subscriptions
# in cluster i that d_j matches, and T^N the smallest part of the tree that joins N


def minimal_subtree(tree: list[Link], joined: set[int]) -> list[Link]:
    left = list(tree)
    while True:
        ends = [end for link in left for end in link]
        idle = {end for end in ends if ends.count(end) == 1 and end not in joined}
        if not idle:
            return left
        left = [link for link in left if not idle & set(link)]


def away_from(host: int, tree: list[Link]) -> list[Link]:
    """Its links, in the direction in which a document leaves its host."""
    reached = {host}
    turned: list[Link] = []
    while len(turned) < len(tree):
        for u, v in tree:
            for source, target in ((u, v), (v, u)):
                if source in reached and target not in reached:
                    reached.add(target)
                    turned.append((source, target))
    return turned


@seeds
@pytest.mark.parametrize("priced", [False, True])
def test_routing_trees(seed: int, priced: bool, tmp_path: Path) -> None:
    dice = random.Random(f"{seed} {priced}")
    for number in range(INSTANCES):
        brokers = dice.sample(range(50), dice.randint(2, 9))
        graph = random_tree(dice, brokers)
        graph += [pair for pair in combinations(brokers, 2) if pair not in graph and dice.random() < 0.2]
        price = {link: quarters(dice, 0, 12) if priced else 1.0 for u, v in graph for link in ((u, v), (v, u))}
        keywords = "abcdefgh"
        subscriptions = {  # host, keywords
            100 + i: (dice.choice(brokers), set(dice.sample(keywords, dice.randint(1, 3))))
            for i in range(dice.randint(1, 12))
        }
        documents = [  # host, keywords, size
            (dice.choice(brokers), set(dice.sample(keywords, dice.randint(0, 4))), dice.randint(1, 9) if priced else 1)
            for _ in range(dice.randint(1, 15))
        ]
        clusters: list[set[int]] = [set() for _ in range(dice.randint(1, 4))]
        for each in subscriptions:
            dice.choice(clusters).add(each)
        trees = [random_tree(dice, brokers, graph) for _ in clusters]

        cost = 0.0
        for cluster, tree in zip(clusters, trees, strict=True):
            for host, words, size in documents:
                hosts = {subscriptions[each][0] for each in cluster if subscriptions[each][1] & words}
                if hosts:
                    links = away_from(host, minimal_subtree(tree, hosts | {host}))
                    cost += size * sum(price[link] for link in links)

        scenario = scenario_of(
            tmp_path / str(number),
            Settings(coalesce=False),
            scenario_tables(
                brokers,
                [(*link, each) for link, each in price.items()],
                [1000 + each for each in brokers],
                [
                    (each, 1000 + host, f"tags HAS ANY ({', '.join(map(repr, sorted(words)))})", False)
                    for each, (host, words) in subscriptions.items()
                ],
            ),
            events_table(
                [(1000 + host, size, sorted(words)) for host, words, size in documents],
                {"tags": pa.list_(pa.string())},
            ),
        )
        plan = plan_of(
            scenario,
            {1000 + each: each for each in brokers},
            [(i, TREE, EVERYTHING, 0) for i in range(len(clusters))],
            [(i, each, None) for i, cluster in enumerate(clusters) for each in cluster],
            [(i, *link) for i, tree in enumerate(trees) for link in tree],
        )
        card = measured(scenario, plan)
        assert card.core == card.cost == cost
        if not priced:
            flooded = plan_of(  # one tree, and no filters: n - 1 links for each document
                scenario,
                {1000 + each: each for each in brokers},
                [(0, TREE, EVERYTHING, 0)],
                [(0, each, None) for each in subscriptions],
                [(0, *link) for link in trees[0]],
                [(0, *link, EVERYTHING) for u, v in trees[0] for link in ((u, v), (v, u))],
            )
            flood = measured(scenario, flooded)
            assert flood.core == flood.flood == (len(brokers) - 1) * len(documents)


# The overlay: C1 = Σ_i Σ_j x_ij (b_i(out) + b_i(in)) c_ij, with b_i(out) = Σ_c g_ic and
# b_i(in) = Σ_c s_ic Σ_{j≠i} g_jc; C2 = Σ_c Σ_p G_pc tree(R_c ∪ {p}), with G_pc what the users of broker p publish into
# channel c, and R_c the brokers with a subscriber of c


class Overlay:
    """An instance: users on brokers, who publish into channels of a content space from 0 to 8, and subscribe to some.
    No two core links together are as cheap as any one. ``apart``: nobody does both, and subscriptions are intervals
    that need not end where channels do; s_ic is then their smallest cover by channels."""

    def __init__(self, dice: random.Random, folder: Path, apart: bool = False) -> None:
        self.dice = dice
        self.brokers = dice.sample(range(50), dice.randint(1, 5))
        self.channels = [(low, low + 2) for low in range(0, 8, 2)]
        self.users = [100 + i for i in range(dice.randint(2, 8))]
        self.at = {user: dice.choice(self.brokers) for user in self.users}
        self.core = {}
        for u, v in combinations(self.brokers, 2):
            self.core[u, v] = self.core[v, u] = quarters(dice, 4, 7)
        self.access = {(user, each): quarters(dice, 0, 9) for user in self.users for each in self.brokers}
        publishing = [user for user in self.users if not apart or user % 2]
        log: list[tuple[int, int, float]] = [
            (dice.choice(publishing), dice.randint(1, 9), dice.randint(0, 15) / 2) for _ in range(dice.randint(1, 25))
        ]
        self.g: dict[tuple[int, int], int] = defaultdict(int)
        for user, size, content in log:
            self.g[user, int(content) // 2] += size
        wanted: dict[int, list[tuple[float, float]]] = {}
        for user in self.users:
            if not apart:
                wanted[user] = [each for each in self.channels if dice.random() < 0.4]
            elif user not in publishing:
                low = dice.randint(0, 13) / 2
                wanted[user] = [(low, min(low + dice.choice([0.5, 1, 3]), 8))]
        self.s = {
            (user, c)
            for user, intervals in wanted.items()
            for c, (low, high) in enumerate(self.channels)
            if any(start < high and low < end for start, end in intervals)
        }
        self.subscribers = sorted({user for user, _ in self.s})
        self.scenario = scenario_of(
            folder,
            Settings(coalesce=dice.random() < 0.5, prices=Prices(core=1.0, access=1.0)),
            scenario_tables(
                self.brokers,
                [
                    *((*link, price) for link, price in self.core.items()),
                    *((*link, price) for (u, b), price in self.access.items() for link in ((u, b), (b, u))),
                ],
                self.users,
                [(user, user, " OR ".join(map(inside, wanted[user])), True) for user in self.subscribers],
            ),
            events_table(log, {"content": pa.float64()}),
        )

    def publishing(self, broker: int, channel: int) -> int:
        """G_pc."""
        return sum(self.g[user, channel] for user in self.users if self.at[user] == broker)

    def receiving(self, channel: int) -> set[int]:
        """R_c."""
        return {self.at[user] for user, c in self.s if c == channel}

    def c1(self) -> float:
        total = 0.0
        for i in self.users:
            out = sum(self.g[i, c] for c in range(len(self.channels)))
            into = sum(
                self.g[j, c] for c in range(len(self.channels)) if (i, c) in self.s for j in self.users if j != i
            )
            total += (out + into) * self.access[i, self.at[i]]
        return total

    def subscribed(self, channel: int, broker: int | None = None) -> list[int]:
        return [user for user in self.subscribers if (user, channel) in self.s and broker in (None, self.at[user])]


def inside(interval: tuple[float, float]) -> str:
    return f"content >= {interval[0]} AND content < {interval[1]}"


@seeds
@pytest.mark.parametrize("way", ["exact", "rows", "smallest cover"])
def test_the_overlay_with_multicast(seed: int, way: str, tmp_path: Path) -> None:
    """With rows a tree may go farther than it has to, and all of it carries the channel."""
    dice = random.Random(f"{seed} {way}")
    wasted = 0
    for number in range(INSTANCES):
        given = Overlay(dice, tmp_path / str(number), apart=way == "smallest cover")
        flows: list[Row] = []
        members, trees, rows, c2 = [], [], [], 0.0
        for c, channel in enumerate(given.channels):
            for p in given.brokers:
                joined = given.receiving(c) | {p}
                if way != "exact":
                    joined |= {each for each in given.brokers if dice.random() < 0.3}
                tree = random_tree(dice, sorted(joined)) if given.receiving(c) else []
                c2 += given.publishing(p, c) * sum(given.core[link] for link in tree)
                flow = len(flows)
                flows.append((flow, TREE, f"$broker = {p} AND {inside(channel)}", 0))
                members += [(flow, user, None) for user in given.subscribed(c)]
                trees += [(flow, *link) for link in tree]
                if way != "exact":
                    rows += [(flow, *link, inside(channel)) for u, v in tree for link in ((u, v), (v, u))]
                if way == "smallest cover":
                    rows += [(flow, given.at[user], user, inside(channel)) for user in given.subscribed(c)]
        card = measured(given.scenario, plan_of(given.scenario, given.at, flows, members, trees, rows))
        wasted += card.discards
        assert card.access == given.c1()
        assert card.core == c2
        assert card.cost == given.c1() + c2
    assert wasted == 0 or way == "smallest cover"


@seeds
@pytest.mark.parametrize("way", ["a flow for each receiving broker", "steered"])
def test_the_overlay_with_unicast(seed: int, way: str, tmp_path: Path) -> None:
    """C2 = Σ_c Σ_p G_pc Σ_{q in R_c} c'_pq."""
    dice = random.Random(f"{seed} {way}")
    for number in range(INSTANCES):
        given = Overlay(dice, tmp_path / str(number))
        flows: list[Row] = []
        members: list[Row] = []
        trees: list[Row] = []
        c2 = 0.0
        for c, channel in enumerate(given.channels):
            for p in given.brokers:
                c2 += given.publishing(p, c) * sum(given.core[p, q] for q in given.receiving(c) if q != p)
                for q in given.receiving(c) if way != "steered" else ():
                    members += [(len(flows), user, None) for user in given.subscribed(c, q)]
                    trees += [(len(flows), p, q)] if p != q else []
                    flows.append((len(flows), TREE, f"$broker = {p} AND {inside(channel)}", 0))
            if way == "steered":
                members += [(len(flows), user, None) for user in given.subscribed(c)]
                flows.append((len(flows), PATHS, inside(channel), 0))
        card = measured(with_copies(given.scenario), plan_of(given.scenario, given.at, flows, members, trees))
        assert card.access == given.c1()
        assert card.core == c2


def with_copies(scenario: Scenario) -> Scenario:
    """The same with a copy for each flow."""
    names = ("brokers", "links", "clients", "subscriptions", "changes")
    settings = Settings(coalesce=False, prices=scenario.settings.prices)
    return Scenario(scenario.folder, settings, **{name: getattr(scenario, name) for name in names})


# Assignment: Q(T) = Σ_i Vol(f_i) over the brokers of a tree whose root publishes, f_i a union of at most α rectangles
# that holds those of the broker's children and of its subscribers

Rectangle = tuple[int, int, int, int]  # x from, to, y from, to
GRID, ALPHA = 6, 3


def volume(rectangles: list[Rectangle]) -> float:
    """As a share of the grid, by inclusion and exclusion."""
    total = 0
    for size in range(1, len(rectangles) + 1):
        for some in combinations(rectangles, size):
            width = min(each[1] for each in some) - max(each[0] for each in some)
            height = min(each[3] for each in some) - max(each[2] for each in some)
            total += (-1) ** (size + 1) * max(width, 0) * max(height, 0)
    return total / GRID**2


def enclosing(rectangles: list[Rectangle]) -> Rectangle:
    sides = list(zip(*rectangles, strict=True))
    return min(sides[0]), max(sides[1]), min(sides[2]), max(sides[3])


def within(rectangle: Rectangle) -> str:
    left, right, low, high = rectangle
    return f"(x >= {left} AND x < {right} AND y >= {low} AND y < {high})"


def random_rectangle(dice: random.Random) -> Rectangle:
    left, low = dice.randrange(GRID), dice.randrange(GRID)
    return left, dice.randint(left + 1, GRID), low, dice.randint(low + 1, GRID)


@seeds
def test_assignment(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    for number in range(INSTANCES):
        brokers = dice.sample(range(50), dice.randint(2, 9))
        root, parent = brokers[0], {brokers[i]: brokers[dice.randrange(i)] for i in range(1, len(brokers))}
        leaves = [each for each in parent if each not in parent.values()]
        subscribers = {100 + i: (dice.choice(leaves), random_rectangle(dice)) for i in range(dice.randint(1, 12))}
        filters: dict[int, list[Rectangle]] = {}
        for broker in brokers[:0:-1]:  # children come before their parents
            held = [rectangle for leaf, rectangle in subscribers.values() if leaf == broker]
            held += [each for child, above in parent.items() if above == broker for each in filters[child]]
            groups: dict[int, list[Rectangle]] = defaultdict(list)
            for each in held:
                groups[dice.randrange(ALPHA)].append(each)
            filters[broker] = [enclosing(some) for some in groups.values()]
            if held and len(groups) < ALPHA and dice.random() < 0.3:
                filters[broker].append(random_rectangle(dice))  # wider than it has to be; the parent takes it in
        assert all(len(each) <= ALPHA for each in filters.values())
        quality = sum(volume(each) for each in filters.values())

        repeated = dice.randint(1, 3)
        cells = [(x, y) for x in range(GRID) for y in range(GRID)] * repeated
        links = [link for broker, above in parent.items() for link in ((above, broker), (broker, above))]
        scenario = scenario_of(
            tmp_path / str(number),
            Settings(coalesce=dice.random() < 0.5),
            scenario_tables(
                brokers,
                [(*link, 1.0) for link in links],
                [99, *subscribers],
                [(each, each, within(rectangle), False) for each, (_, rectangle) in subscribers.items()],
            ),
            events_table([(99, 1, x + 0.5, y + 0.5) for x, y in cells], {"x": pa.float64(), "y": pa.float64()}),
        )
        plan = plan_of(
            scenario,
            {99: root} | {each: leaf for each, (leaf, _) in subscribers.items()},
            [(0, TREE, EVERYTHING, 0)],
            [(0, each, None) for each in subscribers],
            [(0, above, broker) for broker, above in parent.items()],
            [
                (0, parent[broker], broker, " OR ".join(map(within, held)) or "FALSE")
                for broker, held in filters.items()
            ],
        )
        assert measured(scenario, plan).core == pytest.approx(quality * len(cells), rel=1e-12)


# Topics: OC = MC + DC, MC = Σ_t cost_m(size t) + Σ_c (cost_m(size c) + cost_a(|c|)),
# DC = Σ_t freq(t) [cost_n + cost_d(size t) + Σ_{c ∋ t} (cost_n + cost_d(size c))]


@seeds
def test_topics(seed: int, tmp_path: Path) -> None:
    """Clusters overlap, and users have more subscriptions than they need. Linear functions."""
    dice = random.Random(seed)
    for number in range(INSTANCES):
        topics = [f"t{i}" for i in range(dice.randint(1, 6))]
        frequency = {t: dice.randint(0, 5) for t in topics} | {topics[0]: 1}
        clusters = [dice.sample(topics, dice.randint(1, len(topics))) for _ in range(dice.randint(0, 4))]
        interests = {100 + i: dice.sample(topics, dice.randint(1, len(topics))) for i in range(dice.randint(1, 8))}
        in_clusters = {user: {i for i in range(len(clusters)) if dice.random() < 0.4} for user in interests}
        directly = {}
        for user, wanted in interests.items():
            served = {t for i in in_clusters[user] for t in clusters[i]}
            directly[user] = {t for t in topics if (t in wanted and t not in served) or dice.random() < 0.2}
        n, d, m, a = (quarters(dice, 0, 12) for _ in "ndma")

        size_of_topic = {t: sum(t in directly[user] for user in interests) for t in topics}
        size_of_cluster = [sum(i in in_clusters[user] for user in interests) for i in range(len(clusters))]
        mc = sum(m * size for size in size_of_topic.values())
        mc += sum(m * size + a * len(c) for size, c in zip(size_of_cluster, clusters, strict=True))
        dc = 0.0
        for t in topics:
            dc += frequency[t] * (n + d * size_of_topic[t])
            dc += frequency[t] * sum(n + d * size_of_cluster[i] for i, c in enumerate(clusters) if t in c)

        hub, publishers = 0, {t: 1 + i for i, t in enumerate(topics)}  # a broker for each publisher
        channels = [(f"topic = '{t}'", {t}, 0) for t in topics]
        channels += [(f"topic IN ({', '.join(map(repr, c))})", set(c), len(c)) for c in clusters]
        held = {user: [topics.index(t) for t in sorted(directly[user])] for user in interests}
        for user in interests:
            held[user] += [len(topics) + i for i in sorted(in_clusters[user])]
        scenario = scenario_of(
            tmp_path / str(number),
            Settings(
                coalesce=False,
                prices=Prices(core=1.0, access=1.0, upkeep_access=m, upkeep_association=a, upkeep_core=0.0),
            ),
            scenario_tables(
                [hub, *publishers.values()],
                [
                    *((*link, n) for each in publishers.values() for link in ((each, hub), (hub, each))),
                    *((hub, user, d) for user in interests),
                ],
                [*interests, *(1000 + each for each in publishers.values())],
                [
                    (user, user, f"topic IN ({', '.join(map(repr, wanted))})", False)
                    for user, wanted in interests.items()
                ],
            ),
            events_table(
                [(1000 + publishers[t], 1, t) for t in topics for _ in range(frequency[t])], {"topic": pa.string()}
            ),
        )
        members = []
        for user, wanted in interests.items():
            left = set(wanted)
            for flow in dice.sample(held[user], len(held[user])):
                part = left & channels[flow][1]
                left -= part
                if part:
                    members.append((flow, user, f"topic IN ({', '.join(map(repr, sorted(part)))})"))
            assert not left
        plan = plan_of(
            scenario,
            dict.fromkeys(interests, hub) | {1000 + each: each for each in publishers.values()},
            [(flow, TREE, events, associations) for flow, (events, _, associations) in enumerate(channels)],
            members,
            [(flow, each, hub) for flow in range(len(channels)) for each in publishers.values()],
            [
                *(
                    (flow, each, hub, channels[flow][0])
                    for flow in range(len(channels))
                    for each in publishers.values()
                ),
                *((flow, hub, user, channels[flow][0]) for user in interests for flow in held[user]),
            ],
        )
        card = measured(scenario, plan)
        assert card.upkeep == mc
        assert card.core + card.access == dc
        assert card.cost == mc + dc
