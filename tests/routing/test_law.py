"""The law by examples that can be followed by hand, and against an oracle that knows filters and nothing of plans."""

import math
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import networkx as nx
import numpy as np
import pyarrow as pa
import pytest

from overstory.filters import parse_filter
from overstory.model.access import access_of
from overstory.model.plan import EVERYTHING, Header, Plan
from overstory.model.scenario import Scenario
from overstory.model.settings import Access, Settings
from overstory.model.tables import PATHS, PLAN_TABLES, SCENARIO_TABLES, STEINER, TREE
from overstory.routing.law import Copy, Crossing, Event, Journey, Law, steered_tree

from ..plans import events_of, random_plan, random_scenario

Link = tuple[int, int]
LINE = [(0, 1), (1, 2), (2, 3)]  # four brokers in a row
FIRST, LAST = 100, 103  # the clients of the brokers 0 and 3 in these examples


class Wish(NamedTuple):
    """A subscription, whose id is its place in the list."""

    client: int
    filter: str = EVERYTHING
    no_local: bool = False


class Way(NamedTuple):
    """A flow, whose number is its place in the list."""

    members: Iterable[int] | Mapping[int, str | None]
    tree: Iterable[Link] = ()
    events: str = EVERYTHING
    kind: str = TREE
    rows: Mapping[Link, str] = {}
    gateway_of: Mapping[int, int] = {}  # if it has regions


def law_of(
    links: list[Link],
    wishes: list[Wish],
    ways: list[Way],
    coalesce: bool = True,
    prices: Mapping[Link, float] | None = None,
    access: Access | None = None,
    client_links: Iterable[tuple[int, int, float, float]] = (),
) -> Law:
    """Broker b stands at (b, 0) and has the client 100 + b, at (b, 4). Crossing a link between brokers takes 1 ms."""
    brokers = sorted({end for link in links for end in link})
    directed = [link for u, v in links for link in ((u, v), (v, u))]
    scenario = Scenario(
        Path("nowhere"),
        Settings(coalesce=coalesce, access=access or Access()),
        brokers=rows_of("brokers", [(b, None, b, 0) for b in brokers]),
        links=rows_of("links", [*[(*each, (prices or {}).get(each, 1), 1) for each in directed], *client_links]),
        clients=rows_of("clients", [(100 + b, b, b, 4) for b in brokers]),
        subscriptions=rows_of("subscriptions", [(number, *wish) for number, wish in enumerate(wishes)]),
        changes=rows_of("changes", []),
    )
    flows = list(enumerate(ways))
    parts = [(f, way.members if isinstance(way.members, Mapping) else dict.fromkeys(way.members)) for f, way in flows]
    tables: dict[str, list[tuple[Any, ...]]] = {
        "attachments": [(100 + b, b) for b in brokers],
        "flows": [(f, way.kind, way.events, 0) for f, way in flows],
        "members": [(f, subscription, part) for f, some in parts for subscription, part in some.items()],
        "trees": [(f, *link) for f, way in flows for link in way.tree],
        "filters": [(f, *link, text) for f, way in flows for link, text in way.rows.items()],
        "regions": [(f, *pair) for f, way in flows for pair in way.gateway_of.items()],
    }
    return Law(scenario, Plan.of(Header("hand", ""), {name: rows_of(name, rows) for name, rows in tables.items()}))


def rows_of(table: str, rows: Iterable[tuple[Any, ...]]) -> pa.Table:
    schema = (SCENARIO_TABLES | PLAN_TABLES)[table].schema
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)


def publish(law: Law, publisher: int = FIRST, **attributes: object) -> Journey:
    return law.travel(Event(1, publisher, 1, attributes))


def links_of(journey: Journey) -> list[Link]:
    return [(each.source, each.target) for each in journey.crossings]


def test_an_event_goes_as_far_as_it_is_wanted() -> None:
    law = law_of(LINE, [Wish(101, "x > 0"), Wish(LAST, "x > 5")], [Way([0, 1], LINE)])
    far, near, nowhere = publish(law, x=9), publish(law, x=1), publish(law, x=0)
    assert far.uplink == near.uplink == nowhere.uplink == (FIRST, 0)
    assert (links_of(far), far.deliveries) == (LINE, [0, 1])
    assert (links_of(near), near.deliveries) == ([(0, 1)], [0])
    assert (nowhere.crossings, nowhere.copies) == ([], [])


def test_it_goes_both_ways_from_the_middle_and_not_back() -> None:
    law = law_of(LINE, [Wish(FIRST), Wish(LAST)], [Way([0, 1], LINE)])
    journey = publish(law, publisher=101)
    assert sorted(links_of(journey)) == [(1, 0), (1, 2), (2, 3)]
    assert journey.duplicates == journey.false_positives == journey.discards == 0


@pytest.mark.parametrize("n", [4, 8, 20])
def test_two_trees_on_a_circle_of_n_brokers_carry_n_copies_and_one_tree_carries_half_as_many_more(n: int) -> None:
    """Brokers 1 to n/2 want one event and n/2 to n = 0 the other, both published at 0 (routing trees, example I.3)."""
    circle = [(b, (b + 1) % n) for b in range(n)]
    wishes = [Wish(100 + b, "x = 1") for b in range(1, n // 2 + 1)]
    first = len(wishes)
    wishes += [Wish(100 + b % n, "x = 2") for b in range(n // 2, n + 1)]
    halves = [Way(range(first), circle[: n // 2]), Way(range(first, len(wishes)), circle[n // 2 :])]
    trees = [[Way(range(len(wishes)), [link for link in circle if link != cut])] for cut in circle]

    def copies(ways: list[Way]) -> int:
        law = law_of(circle, wishes, ways)
        return len(publish(law, x=1).crossings) + len(publish(law, x=2).crossings)

    assert copies(halves) == n
    assert {copies(tree) for tree in trees} == {3 * n // 2 - 1}


def test_flows_share_a_copy_until_they_part() -> None:
    fork = [(0, 1), (1, 2), (1, 3)]
    wishes, ways = [Wish(102), Wish(103), Wish(103)], [Way([0], fork), Way([1], fork), Way([2], fork)]
    together = publish(law_of(fork, wishes, ways))
    assert [(each.target, set(each.flows)) for each in together.crossings] == [(1, {0, 1, 2}), (2, {0}), (3, {1, 2})]
    assert [set(each.subscriptions) for each in together.copies] == [{0}, {1, 2}]
    assert together.duplicates == 0

    apart = publish(law_of(fork, wishes, ways, coalesce=False))
    assert Counter(links_of(apart)) == {(0, 1): 3, (1, 2): 1, (1, 3): 2}
    assert [set(each.subscriptions) for each in apart.copies] == [{0}, {1}, {2}]
    assert apart.duplicates == 3  # two at broker 1, one at broker 3


def test_frames_that_parted_do_not_merge_again() -> None:
    square = [(0, 1), (1, 3), (0, 2), (2, 3), (3, 4)]
    ways = [Way([0], [(0, 1), (1, 3), (3, 4)]), Way([1], [(0, 2), (2, 3), (3, 4)])]
    journey = publish(law_of(square, [Wish(104), Wish(104)], ways))
    assert Counter(links_of(journey)) == {(0, 1): 1, (0, 2): 1, (1, 3): 1, (2, 3): 1, (3, 4): 2}
    assert journey.duplicates == 2  # at brokers 3 and 4
    assert [set(each.subscriptions) for each in journey.copies] == [{0}, {1}]


def test_a_frame_that_comes_back_to_the_publishing_broker_is_a_duplicate() -> None:
    crossings = [Crossing(u, v, frozenset({0}), wanted=True, delay=0) for u, v in [(0, 1), (1, 2), (2, 0)]]
    assert Journey((FIRST, 0), crossings, []).duplicates == 1


def test_a_row_decides_in_place_of_what_is_wanted() -> None:
    flood = {link: EVERYTHING for u, v in LINE for link in ((u, v), (v, u))}
    journey = publish(law_of(LINE, [Wish(101, "x = 1")], [Way([0], LINE, rows=flood)]), x=1)
    assert [each.wanted for each in journey.crossings] == [True, False, False]
    assert (journey.false_positives, journey.deliveries) == (2, [0])

    blocked = publish(law_of(LINE, [Wish(LAST)], [Way([0], LINE, rows={(1, 2): "x > 5"})]), x=1)
    assert (links_of(blocked), blocked.deliveries) == ([(0, 1)], [])  # the row does not cover: a broken plan
    assert blocked.false_positives == 0  # a copy is judged by who wants it, not by whether they get it


def test_a_copy_is_wanted_if_one_of_its_flows_is() -> None:
    ways = [Way([0], LINE), Way([], LINE, rows=dict.fromkeys(LINE, EVERYTHING))]
    journey = publish(law_of(LINE, [Wish(101)], ways))
    assert [(set(each.flows), each.wanted) for each in journey.crossings] == [
        ({0, 1}, True),
        ({1}, False),
        ({1}, False),
    ]


def test_a_client_discards_what_a_row_lets_through() -> None:
    ways = [Way([0], LINE, rows={(3, LAST): "topic IN ('a', 'b')", (0, FIRST): EVERYTHING})]
    law = law_of(LINE, [Wish(LAST, "topic = 'a'")], ways)
    wanted = publish(law, topic="a")
    assert [(each.client, set(each.subscriptions)) for each in wanted.copies] == [(FIRST, set()), (LAST, {0})]
    assert wanted.discards == 1  # FIRST has no subscription at all, and its row is TRUE
    assert [each.client for each in publish(law, topic="b").copies] == [FIRST]  # exact on the way, it never came near

    flood = dict.fromkeys(LINE, EVERYTHING) | {(3, LAST): "topic IN ('a', 'b')"}
    flooded = publish(law_of(LINE, [Wish(LAST, "topic = 'a'")], [Way([0], LINE, rows=flood)]), topic="b")
    assert (flooded.discards, flooded.false_positives, flooded.deliveries) == (1, 3, [])


def test_a_client_gets_one_copy_however_many_of_its_subscriptions_match() -> None:
    law = law_of(LINE, [Wish(LAST, "x > 0"), Wish(LAST, "x > 1"), Wish(LAST, "x > 9")], [Way([0, 1, 2], LINE)])
    assert [set(each.subscriptions) for each in publish(law, x=5).copies] == [{0, 1}]


def test_no_local_leaves_out_what_its_own_client_published() -> None:
    law = law_of(LINE, [Wish(FIRST, no_local=True), Wish(FIRST)], [Way([0, 1], LINE)])
    assert publish(law).deliveries == [1]
    assert publish(law, publisher=LAST).deliveries == [0, 1]

    alone = publish(law_of(LINE, [Wish(FIRST, no_local=True)], [Way([0], LINE)]))
    assert alone.copies == []
    row = publish(law_of(LINE, [Wish(FIRST, no_local=True)], [Way([0], LINE, rows={(0, FIRST): EVERYTHING})]))
    assert (row.discards, row.deliveries) == (1, [])


def test_a_predicate_may_ask_for_the_publishing_broker() -> None:
    ways = [Way([0], LINE, "$broker = 0"), Way([0], LINE, "$broker <> 0 AND x = 1")]
    law = law_of(LINE, [Wish(102)], ways)
    entered = [{f for each in publish(law, 100 + b, x=1).copies for f in each.flows} for b in range(4)]
    assert entered == [{0}, {1}, {1}, {1}]
    assert publish(law, LAST, x=2).deliveries == []


def test_rows_and_parts_may_ask_for_it_too_and_subscriptions_may_not() -> None:
    law = law_of(LINE, [Wish(102)], [Way({0: "$broker = 0"}, LINE, rows={(3, 2): "$broker = 3"})])
    assert publish(law).deliveries == [0]
    from_the_end = publish(law, publisher=LAST)
    assert (links_of(from_the_end), from_the_end.deliveries) == ([(3, 2)], [])
    assert publish(law_of(LINE, [Wish(102, "$broker = 0")], [Way([0], LINE)])).deliveries == []


def test_a_part_is_all_that_a_flow_serves_of_a_subscription() -> None:
    parts = [Way({0: "x < 5", 1: None}, LINE), Way({0: "x >= 5"}, LINE)]
    law = law_of(LINE, [Wish(LAST), Wish(101)], parts)
    low, high = publish(law, x=1), publish(law, x=7)
    assert [(each.client, set(each.flows)) for each in low.copies] == [(101, {0}), (LAST, {0})]
    assert [(each.client, set(each.flows)) for each in high.copies] == [(101, {0}), (LAST, {1})]
    assert [set(each.flows) for each in high.crossings] == [{0, 1}, {1}, {1}]


def test_parts_that_overlap_deliver_twice() -> None:
    twice = [Way({0: "x < 5"}, LINE), Way({0: "x < 9"}, LINE)]
    assert publish(law_of(LINE, [Wish(LAST)], twice, coalesce=False), x=1).deliveries == [0, 0]
    assert publish(law_of(LINE, [Wish(LAST)], twice), x=1).deliveries == [0]  # one copy, which delivers once


def test_a_tree_without_links_is_one_broker() -> None:
    law = law_of(LINE, [Wish(FIRST)], [Way([0], events="$broker = 0")])
    assert publish(law).deliveries == [0]
    assert publish(law, publisher=LAST).copies == []


def test_a_steered_flow_takes_the_cheapest_paths_to_those_who_want_the_event() -> None:
    ring = [(0, 1), (1, 2), (2, 3), (3, 0)]
    wishes, way = [Wish(102, "x > 0"), Wish(103, "x > 5"), Wish(FIRST)], Way([0, 1, 2], kind=PATHS)
    dear = law_of(ring, wishes, [way], prices={(0, 1): 5})
    assert sorted(links_of(publish(dear, x=9))) == [(0, 3), (3, 2)]
    assert sorted(links_of(publish(dear, x=1))) == [(0, 3), (3, 2)]  # through 3, where nobody wants it
    assert publish(dear, x=1).deliveries == [2, 0]
    assert publish(dear, x=0).crossings == []
    even = law_of(ring, wishes, [way])
    assert sorted(links_of(publish(even, x=1))) == [(0, 1), (1, 2)]  # of equal paths that over the lowest broker
    assert publish(even, x=1).false_positives == 0


def test_rows_of_a_steered_flow_apply_to_clients_where_the_event_stays() -> None:
    """Broker 1 is only on the way: it does not match the event at all."""
    rows = {(0, 1): "FALSE", (1, 101): EVERYTHING, (2, 102): EVERYTHING}
    journey = publish(law_of(LINE, [Wish(102)], [Way([0], kind=PATHS, rows=rows)]))
    assert (links_of(journey), journey.deliveries, journey.discards) == ([(0, 1), (1, 2)], [0], 0)


def test_a_summary_makes_a_broker_an_end_whoever_is_there() -> None:
    """What nobody there wants is a false positive; a summary that matches nothing keeps the event away."""
    wide = publish(law_of(LINE, [Wish(102, "x > 5")], [Way([0], kind=STEINER, rows={(2, 2): EVERYTHING})]), x=1)
    assert (links_of(wide), wide.deliveries, wide.false_positives) == ([(0, 1), (1, 2)], [], 2)
    narrow = publish(law_of(LINE, [Wish(102)], [Way([0], kind=STEINER, rows={(2, 2): "x > 5"})]), x=1)
    assert (links_of(narrow), narrow.deliveries) == ([], [])


def test_steered_and_tree_flows_share_copies() -> None:
    ways = [Way([0], LINE), Way([1], kind=PATHS)]
    journey = publish(law_of(LINE, [Wish(102), Wish(LAST)], ways))
    assert [set(each.flows) for each in journey.crossings] == [{0, 1}, {0, 1}, {1}]


TWO = {0: 0, 1: 0, 2: 3, 3: 3}  # regions of a line: the gateway of each broker


def test_an_event_goes_to_another_region_by_its_gateway() -> None:
    """It passes broker 2 on its way to the gateway, which sends it back there: it is delivered once."""
    law = law_of(LINE, [Wish(102, "x > 0"), Wish(101)], [Way([0, 1], kind=STEINER, gateway_of=TWO)])
    far, near = publish(law, x=1), publish(law, x=0)
    assert (links_of(far), far.deliveries) == ([(0, 1), (1, 2), (2, 3), (3, 2)], [1, 0])
    assert (far.duplicates, far.false_positives) == (1, 0)
    assert (links_of(near), near.deliveries) == ([(0, 1)], [1])  # in its own region an event needs no gateway
    assert links_of(publish(law, publisher=102, x=1)) == [(2, 1), (1, 0), (0, 1)]


def test_the_summary_of_a_region_says_whether_an_event_goes_there() -> None:
    def journey(text: str) -> Journey:
        ways = [Way([0], kind=PATHS, gateway_of=TWO, rows={(3, 3): text, (3, LAST): EVERYTHING})]
        return publish(law_of(LINE, [Wish(102, "x > 5")], ways), x=1)

    wide, narrow = journey(EVERYTHING), journey("x > 5")
    assert (links_of(wide), wide.false_positives, wide.deliveries) == ([(0, 1), (1, 2), (2, 3)], 3, [])
    assert wide.discards == 1  # at the gateway, which is an end, rows for clients apply
    assert narrow.crossings == []


def test_legs_share_a_copy_where_they_go_the_same_way() -> None:
    line = [*LINE, (3, 4)]
    regions = {0: 0, 1: 0, 2: 2, 3: 2, 4: 4}
    for coalesce in (True, False):
        law = law_of(line, [Wish(103), Wish(104)], [Way([0, 1], kind=STEINER, gateway_of=regions)], coalesce)
        journey = publish(law)
        assert (links_of(journey), journey.duplicates) == (line, 0)
        assert journey.crossings[2].header == 2 * journey.crossings[3].header  # both legs have a header there
        assert journey.deliveries == [0, 1]


def test_a_frame_that_passes_its_publishing_broker_again_does_not_stay_there() -> None:
    """From the gateway 0 of the other region, the way to broker 3 leads back through 1 and 2."""
    regions = {0: 0, 3: 0, 1: 1, 2: 1}
    law = law_of(LINE, [Wish(101), Wish(LAST)], [Way([0, 1], kind=STEINER, gateway_of=regions)])
    journey = publish(law, publisher=101)
    assert (links_of(journey), journey.deliveries) == ([(1, 0), (0, 1), (1, 2), (2, 3)], [0, 1])


def test_links_that_cost_nothing_make_no_circle() -> None:
    free = {link: 0.0 for u, v in [(5, 1), (1, 2), (2, 3), (3, 1)] for link in ((u, v), (v, u))}
    assert steered_tree(free, 5, {2, 3}) == {5: {1}, 1: {5, 2, 3}, 2: {1}, 3: {1}}


def test_delays_add_up_from_the_start_of_the_uplink() -> None:
    metric, wishes, ways = Access("euclidean", delay=0.5), [Wish(LAST), Wish(FIRST)], [Way([0, 1], LINE)]
    own = publish(law_of(LINE, wishes, ways))
    assert [each.delay for each in own.crossings] == [1, 2, 3]
    assert [each.delay for each in own.copies] == [0, 3]
    far = publish(law_of(LINE, wishes, ways, access=metric))
    assert [each.delay for each in far.crossings] == [3, 4, 5]
    assert [each.delay for each in far.copies] == [4, 7]
    row = publish(law_of(LINE, wishes, ways, access=metric, client_links=[(FIRST, 0, 1, 10), (3, LAST, 1, 20)]))
    assert [each.delay for each in row.crossings] == [11, 12, 13]
    assert [each.delay for each in row.copies] == [12, 33]  # back to FIRST there is no row


SCENARIOS, PLANS = 60, 5


class Drawn(NamedTuple):
    scenario: Scenario
    events: list[Event]
    plans: list[Plan]
    journeys: list[list[Journey]]  # for each plan, of each event


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> list[Drawn]:
    folder = tmp_path_factory.mktemp("drawn")
    found = []
    for seed in range(SCENARIOS):
        dice = random.Random(seed)
        scenario = random_scenario(dice, folder / str(seed))
        events, plans = events_of(scenario), [random_plan(dice, scenario) for _ in range(PLANS)]
        found.append(Drawn(scenario, events, plans, [journeys(scenario, plan, events) for plan in plans]))
    return found


def journeys(scenario: Scenario, plan: Plan, events: list[Event]) -> list[Journey]:
    law = Law(scenario, plan)
    return [law.travel(event) for event in events]


def test_access_is_a_row_or_the_metric_or_nothing(drawn: list[Drawn]) -> None:
    for scenario, *_ in drawn:
        clients, brokers = scenario.clients["id"].to_numpy(), scenario.brokers["id"].to_numpy()
        access = access_of(scenario)
        up, down = access.up(clients[:, None], brokers), access.down(clients[:, None], brokers)
        tolls = [[(toll(scenario, c, b), toll(scenario, b, c)) for b in brokers] for c in clients]
        assert np.stack([np.stack(up, -1), np.stack(down, -1)], -2).tolist() == np.array(tolls).tolist()


def toll(scenario: Scenario, u: int, v: int) -> tuple[float, float]:
    for row in scenario.links.to_pylist():
        if (row["source"], row["target"]) == (u, v):
            return row["price"], row["delay"]
    setting, rows = scenario.settings.access, [*scenario.brokers.to_pylist(), *scenario.clients.to_pylist()]
    places = {row["id"]: (row["x"], row["y"]) for row in rows}
    distance = math.dist(places[u], places[v]) if setting.metric == "euclidean" else 0.0
    return distance * setting.price, distance * setting.delay


def test_of_several_rows_between_the_same_ends_the_cheapest_counts_and_no_coordinate_is_infinitely_far() -> None:
    scenario = Scenario(
        Path("nowhere"),
        Settings(access=Access("euclidean")),
        brokers=rows_of("brokers", [(7, None, 0, 0), (2, None, None, None)]),
        links=rows_of("links", [(7, 2, 9, 9), (5, 7, 2, 3), (5, 7, 1, 8), (5, 7, 1, 4), (7, 5, 6, 0)]),
        clients=rows_of("clients", [(5, None, 3, 4)]),
        subscriptions=rows_of("subscriptions", []),
        changes=rows_of("changes", []),
    )
    access = access_of(scenario)
    clients, brokers = np.array([5, 5]), np.array([7, 2])
    assert [each.tolist() for each in access.up(clients, brokers)] == [[1, np.inf], [4, 0]]
    assert [each.tolist() for each in access.down(clients, brokers)] == [[6, np.inf], [0, 0]]


def test_every_subscription_gets_what_it_wants_exactly_once(drawn: list[Drawn]) -> None:
    for scenario, events, _, travelled in drawn:
        wishes = [(row, parse_filter(row["filter"])) for row in scenario.subscriptions.to_pylist()]
        wanted = [
            sorted(
                row["id"]
                for row, wish in wishes
                if wish.matches(event.attributes) and not (row["no_local"] and row["client"] == event.publisher)
            )
            for event in events
        ]
        for under_a_plan in travelled:
            assert [sorted(each.deliveries) for each in under_a_plan] == wanted


def test_coalescing_changes_copies_and_not_where_flows_go(drawn: list[Drawn]) -> None:
    for scenario, events, plans, travelled in drawn:
        flipped = msgspec.structs.replace(scenario.settings, coalesce=not scenario.settings.coalesce)
        for plan, under_a_plan in zip(plans, travelled, strict=True):
            other = journeys(replace(scenario, settings=flipped), plan, events)
            assert list(map(where_flows_go, under_a_plan)) == list(map(where_flows_go, other))
            for journey in other if scenario.settings.coalesce else under_a_plan:
                assert {len(each.flows) for each in journey.crossings} <= {1}
                assert {len(each.flows) for each in journey.copies} <= {1}


def where_flows_go(journey: Journey) -> Counter[tuple[int, int, int, float]]:
    copies: list[Crossing | Copy] = [*journey.crossings, *journey.copies]
    return Counter((each[0], each[1], flow, each.delay) for each in copies for flow in each.flows)


def test_without_rows_nothing_travels_in_vain(drawn: list[Drawn]) -> None:
    for scenario, events, plans, _ in drawn:
        for plan in plans:
            for journey in journeys(scenario, replace(plan, filters=plan.filters.slice(0, 0)), events):
                assert journey.false_positives == journey.discards == 0


def test_steered_paths_are_as_cheap_as_networkx_finds_them(drawn: list[Drawn]) -> None:
    for scenario, _, plans, _ in drawn:
        prices = Law(scenario, plans[0]).prices
        graph = nx.DiGraph()
        graph.add_weighted_edges_from((u, v, price) for (u, v), price in prices.items())
        for entry in graph:
            tree = nx.Graph((u, v) for u, some in steered_tree(prices, entry, set(graph)).items() for v in some)
            assert nx.is_tree(tree)
            for broker, price in nx.single_source_dijkstra_path_length(graph, entry).items():
                assert sum(prices[link] for link in pairwise(nx.shortest_path(tree, entry, broker))) == price


def test_the_plans_drawn_show_everything_that_plans_can_do(drawn: list[Drawn]) -> None:
    seen = Counter[str]()
    for _, _, plans, travelled in drawn:
        for plan in plans:
            seen.update(plan.flows["kind"].to_pylist())
            seen["$broker"] += sum("$broker" in text for text in plan.flows["events"].to_pylist())
            seen["summaries"] += int((plan.filters["source"].to_numpy() == plan.filters["target"].to_numpy()).sum())
            seen["parts"] += len(plan.members) - plan.members["part"].null_count
        for journey in (each for under_a_plan in travelled for each in under_a_plan):
            for what in ("duplicates", "false_positives", "discards"):
                seen[what] += getattr(journey, what)
            seen["deliveries"] += len(journey.deliveries)
            seen["nothing"] += not journey.deliveries
            seen["coalesced"] += any(len(each.flows) > 1 for each in journey.crossings)
            seen["headers"] += any(each.header for each in journey.crossings)
    assert len(seen) == 13
    assert min(seen.values()) > 100
