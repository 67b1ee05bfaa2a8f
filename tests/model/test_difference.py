"""Differences of plans in arrays, against plain sets and dictionaries on random plans."""

import random
from collections import Counter, defaultdict
from pathlib import Path

from overstory.model.difference import difference, paired
from overstory.model.plan import Header, Plan
from overstory.model.tables import FLOWS, MEMBERS, TREE

from ..plans import random_plan, random_scenario
from ..tables import table_of

Partners = dict[int, tuple[int, int]]


def members(plan: Plan) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {flow: set() for flow in plan.flows["flow"].to_pylist()}
    for row in plan.members.to_pylist():
        found[row["flow"]].add(row["subscription"])
    return found


def plain_partners(one: Plan, other: Plan) -> Partners:
    """One pair after the other."""
    mine, theirs = members(one), members(other)
    every = sorted((-len(mine[u] & theirs[v]), u, v) for u in mine for v in theirs if mine[u] & theirs[v])
    found: Partners = {}
    for shared, u, v in every:
        if u not in found and v not in {each for each, _ in found.values()}:
            found[u] = v, -shared
    return found | {u: (u, 0) for u in mine if not mine[u] and u in theirs and not theirs[u]}


def links(plan: Plan) -> dict[int, set[tuple[int, int]]]:
    found = defaultdict(set)
    for row in plan.trees.to_pylist():
        found[row["flow"]].add((min(row["source"], row["target"]), max(row["source"], row["target"])))
    return found


def filters(plan: Plan) -> dict[tuple[int, int, int], str]:
    return {(row["flow"], row["source"], row["target"]): row["filter"] for row in plan.filters.to_pylist()}


def attached(plan: Plan) -> dict[int, int]:
    return {row["client"]: row["broker"] for row in plan.attachments.to_pylist()}


def assert_as_plain(one: Plan, other: Plan) -> None:
    partners, found = plain_partners(one, other), difference(one, other)
    pairs = paired(one, other)
    assert (
        dict(zip(pairs.first.tolist(), zip(pairs.second.tolist(), pairs.shared.tolist(), strict=True), strict=True))
        == partners
    )
    mine, theirs, before, after = members(one), members(other), links(one), links(other)
    expected: set[tuple[int | None, int | None]] = {(u, v) for u, (v, _) in partners.items()}
    expected |= {(u, None) for u in mine.keys() - partners.keys()}
    expected |= {(None, v) for v in theirs.keys() - {v for v, _ in partners.values()}}
    assert {(tree.first, tree.second) for tree in found.trees} <= expected
    assert len(found.trees) + found.same_trees == len(expected)
    trees = {(tree.first, tree.second): tree for tree in found.trees}
    for u, v in expected:
        old, new = (set() if flow is None else some[flow] for flow, some in ((u, before), (v, after)))
        same = u is not None and v is not None and old == new and mine[u] == theirs[v]
        assert same == ((u, v) not in trees)
        if not same:
            assert set(trees[u, v].added) == new - old
            assert set(trees[u, v].removed) == old - new
            assert trees[u, v].subscriptions == tuple(
                0 if flow is None else len(some[flow]) for flow, some in ((u, mine), (v, theirs))
            )
    used = [set().union(*some.values()) for some in (before, after)]
    assert found.links == (len(used[0]), len(used[1]))
    assert found.common_links == len(used[0] & used[1])
    brokers = attached(one), attached(other)
    moved = {c for c in brokers[0].keys() | brokers[1].keys() if brokers[0].get(c) != brokers[1].get(c)}
    assert {(m.client, m.before, m.after) for m in found.clients} == {
        (c, brokers[0].get(c), brokers[1].get(c)) for c in moved
    }
    loads = Counter(brokers[0].values()), Counter(brokers[1].values())
    assert {tuple(load) for load in found.loads} == {
        (b, loads[0][b], loads[1][b]) for b in loads[0] | loads[1] if loads[0][b] != loads[1][b]
    }
    assert_filters_as_plain(one, other, {u: v for u, (v, _) in partners.items()})


def assert_filters_as_plain(one: Plan, other: Plan, partner: dict[int, int]) -> None:
    """Rows go by the second plan's flow where there is one, else by the first's."""
    old = {(partner.get(f), None if f in partner else f, u, v): text for (f, u, v), text in filters(one).items()}
    new: dict[tuple[int | None, int | None, int, int], str] = {
        (f, None, u, v): text for (f, u, v), text in filters(other).items()
    }
    expected = {(*key, old.get(key), new.get(key)) for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
    found = {
        (c.second, None if c.second is not None else c.first, c.source, c.target, c.before, c.after)
        for c in difference(one, other).filters
    }
    assert found == expected


def test_random_plans(tmp_path: Path) -> None:
    dice, seen = random.Random(5), Counter[str]()
    for number in range(60):
        scenario = random_scenario(dice, tmp_path / str(number))
        one, other = (random_plan(dice, scenario, regions=0.5) for _ in range(2))
        assert_as_plain(one, other)
        found = difference(one, other)
        seen.update(new=any(tree.first is None for tree in found.trees), filters=bool(found.filters))
        seen.update(pairs=any(None not in tree[:2] for tree in found.trees), moves=bool(found.clients))
        nothing = difference(one, one)
        assert [*nothing.trees, *nothing.clients, *nothing.filters, *nothing.loads, *nothing.regions] == []
        seen.update(regions=any(change.before is not None for change in found.regions))
        for change in found.regions:
            sides = ((one, change.first, change.before), (other, change.second, change.after))
            assert change.before != change.after
            for plan, flow, gateway in sides:
                rows = plan.regions.to_pylist()
                mine = [row["gateway"] for row in rows if (row["flow"], row["broker"]) == (flow, change.broker)]
                assert mine == [] if gateway is None else mine == [gateway]
    assert min(seen[name] for name in ("new", "filters", "pairs", "moves", "regions")) > 5


def test_partners_are_taken_best_first() -> None:
    """On many flows that share many subscriptions, as one by one would."""
    dice = random.Random(6)

    def plan() -> Plan:
        rows = {(dice.randrange(15), dice.randrange(40)) for _ in range(100)}
        flows = [(flow, TREE, "TRUE", 0) for flow in range(16)]
        tables = {"flows": table_of(FLOWS, flows), "members": table_of(MEMBERS, [(*row, None) for row in rows])}
        return Plan.of(Header("test", "x"), tables)

    for _ in range(30):
        assert_as_plain(plan(), plan())
    assert_as_plain(Plan.of(Header("test", "x"), {}), plan())
    assert_as_plain(Plan.of(Header("test", "x"), {}), Plan.of(Header("test", "x"), {}))
