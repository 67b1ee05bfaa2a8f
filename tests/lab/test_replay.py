"""Replay counts what routers send: the same as a central recomputation, and on traffic the same as the meter."""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from overstory.filters import Filter, parse_filter
from overstory.lab.replay import Stage, replay
from overstory.model.network import Ints
from overstory.model.plan import LATE, Header, Plan
from overstory.model.scenario import Scenario
from overstory.model.spanning import minimum_spanning_tree
from overstory.pipeline.history import timeline_of
from overstory.planners.defaults import one_flow
from overstory.routing.policies import SUMMARIES, make_policy

from ..pipeline.meter import meter
from ..plans import events_of, random_plan, random_scenario
from ..routing.network import FEWER
from .central import CentralFlow, CentralSteered, flows_of
from .changes import churned, with_boxes, with_history

SUBSCRIBING = "subscribe subscribe subscribe unsubscribe unsubscribe"
PLACING = f"{SUBSCRIBING} move move leave join"
EVERYTHING = f"{PLACING} announce announce announce"


class Central:
    """All flows of a plan, central ones, and the clients that change what is in them."""

    def __init__(self, scenario: Scenario, plan: Plan | None, announced: dict[int, Filter], at: dict[int, int]) -> None:
        """Without a plan there is only the late flow. ``at`` has the brokers of the clients that are there."""
        self.at = dict(at)
        self.members: dict[int, list[tuple[int, int, Filter]]] = {}  # of a subscription: flow, version, filter
        self.versions: Counter[int] = Counter()
        self.client: dict[int, int] = {}
        network = scenario.network
        brokers = network.ids.tolist()
        narrowed = {
            broker: bool(here) and here <= announced.keys()
            for broker in brokers
            for here in [{client for client, place in at.items() if place == broker}]
        }

        def may_come(text: str) -> Callable[[int, Filter], bool]:
            """At a broker that is not narrowed anything may be published, else what its clients announced."""
            events = parse_filter(text)

            def answer(broker: int, wanted: Filter) -> bool:
                own = [text for client, text in announced.items() if at[client] == broker]
                return not narrowed[broker] or any(each.intersects(wanted) for each in own if events.intersects(each))

            return answer

        ends = [network.ids[side].tolist() for side in minimum_spanning_tree(network)]
        late = list(zip(*ends, strict=True))
        self.flows: dict[int, CentralFlow | CentralSteered] = {LATE: CentralFlow(late, brokers, may_come("TRUE"))}
        if plan is not None:
            self.flows |= flows_of(plan, late, brokers, may_come)
            self._add_members(scenario, plan)

    def _add_members(self, scenario: Scenario, plan: Plan) -> None:
        texts = {row["id"]: row for row in scenario.subscriptions.to_pylist()}
        for row in plan.members.to_pylist():
            known = texts[row["subscription"]]
            part = known["filter"] if row["part"] is None else f"({known['filter']}) AND ({row['part']})"
            self._join(row["flow"], known["id"], known["client"], parse_filter(part))

    def has_equals(self) -> bool:
        """Whether two members of a flow want the same of it: then it is open which one is told."""
        return any(
            one[2].covers(other[2]) and other[2].covers(one[2])
            for flow in self.flows
            for mine in self.members.values()
            for theirs in self.members.values()
            for one in mine
            for other in theirs
            if one[0] == other[0] == flow and mine is not theirs
        )

    def _join(self, flow: int, id_: int, client: int, wanted: Filter) -> None:
        self.client[id_] = client
        self.members.setdefault(id_, []).append((flow, self.versions[id_], wanted))
        self.flows[flow].subscribe(self.at[client], (id_, self.versions[id_]), wanted)

    def subscribe(self, client: int, id_: int, wanted: Filter) -> None:
        self.versions[id_] += 1
        self._join(LATE, id_, client, wanted)

    def unsubscribe(self, id_: int, broker: int) -> None:
        for flow, version, _ in sorted(self.members.pop(id_), key=lambda member: member[0]):
            self.flows[flow].unsubscribe(broker, (id_, version))

    def follow(self, scenario: Scenario, history: bool = False) -> None:
        timeline = timeline_of(scenario)
        wanted = {row["id"]: parse_filter(row["filter"]) for row in scenario.subscriptions.to_pylist()}
        for change in timeline.history if history else timeline.churn:
            mine = sorted(id_ for id_ in self.members if self.client[id_] == change.client)
            if change.operation == "subscribe":
                assert change.subscription is not None
                assert change.filter is not None
                wanted[change.subscription] = change.filter
                self.subscribe(change.client, change.subscription, change.filter)
            elif change.operation == "unsubscribe":
                assert change.subscription is not None
                self.unsubscribe(change.subscription, self.at[change.client])
            elif change.operation == "leave":
                for id_ in mine:
                    self.unsubscribe(id_, self.at[change.client])
                del self.at[change.client]
            elif change.broker is not None and change.broker != self.at.get(change.client):
                old = self.at.get(change.client)
                self.at[change.client] = change.broker
                for id_ in mine:
                    older = self.members.pop(id_)
                    self.subscribe(change.client, id_, wanted[id_])
                    for flow, version, _ in sorted(older, key=lambda member: member[0]):
                        assert old is not None
                        self.flows[flow].unsubscribe(old, (id_, version))

    def counted(self, scenario: Scenario) -> tuple[list[int], list[int]]:
        """Subscriptions and unsubscriptions on each link, in the order of the network."""
        network = scenario.network
        ends = list(zip(network.ids[network.sources].tolist(), network.ids[network.targets].tolist(), strict=True))
        total = sum((flow.messages for flow in self.flows.values()), Counter[tuple[str, int, int]]())
        subscribed, unsubscribed = ([total[kind, *link] for link in ends] for kind in ("subscribe", "unsubscribe"))
        return subscribed, unsubscribed

    def forget(self) -> None:
        for flow in self.flows.values():
            flow.forget()


def lists(*counts: Ints) -> tuple[list[int], ...]:
    return tuple(count.tolist() for count in counts)


def drawn(dice: random.Random, folder: str) -> Scenario:
    """With boxes for subscriptions, and with events: without any there is no history."""
    for number in range(100):
        scenario = random_scenario(dice, Path(folder) / str(number))
        if events_of(scenario):
            return with_boxes(dice, scenario)
    raise AssertionError("no scenario with events was drawn")


def attached(plan: Plan, away: frozenset[int]) -> dict[int, int]:
    return {row["client"]: row["broker"] for row in plan.attachments.to_pylist() if row["client"] not in away}


@FEWER
@given(seed=st.integers(0, 10**9), announcing=st.booleans())
def test_churn_sends_what_a_central_recomputation_says(seed: int, announcing: bool) -> None:
    """Link by link. Where clients have announced something before, entries go only towards them."""
    dice = random.Random(seed)
    with TemporaryDirectory() as folder:
        scenario = drawn(dice, folder)
        if announcing:
            scenario = with_history(dice, scenario, "announce")
        scenario = churned(dice, scenario, SUBSCRIBING if announcing else PLACING)
        plan = random_plan(dice, scenario)
        timeline = timeline_of(scenario)
        central = Central(scenario, plan, timeline.announced, attached(plan, timeline.away))
        assume(not central.has_equals())
        found = replay(scenario, plan, make_policy("active"))
        central.forget()
        central.follow(scenario)
        assert lists(*found.churn[:2]) == central.counted(scenario)
        assert not found.churn.announcements.any()


@FEWER
@given(seed=st.integers(0, 10**9))
def test_history_sends_what_a_central_recomputation_says(seed: int) -> None:
    """On the late tree alone: there is no plan yet. Equal filters are among those that were there before."""
    dice = random.Random(seed)
    with TemporaryDirectory() as folder:
        scenario = with_history(dice, drawn(dice, folder), PLACING)
        plan = late_alone(scenario, random_plan(dice, scenario))
        timeline = timeline_of(scenario)
        made = {change.subscription for change in timeline.history if change.operation == "subscribe"}
        central = Central(scenario, None, {}, attached(plan, timeline.away_before))
        for row in sorted(scenario.subscriptions.to_pylist(), key=lambda row: (row["client"], row["id"])):
            if row["id"] not in made:
                central.subscribe(row["client"], row["id"], parse_filter(row["filter"]))
        central.forget()
        central.follow(scenario, history=True)
        found = replay(scenario, plan, make_policy("active"), history=True)
        assert lists(*found.history[:2]) == central.counted(scenario)


def late_alone(scenario: Scenario, plan: Plan) -> Plan:
    """A plan without flows, with clients where the scenario has them: there its history ends."""
    given = {row["id"]: row["broker"] for row in scenario.clients.to_pylist()}
    rows = [
        {**row, "broker": row["broker"] if given[row["client"]] is None else given[row["client"]]}
        for row in plan.attachments.to_pylist()
    ]
    return Plan.of(plan.header, {"attachments": pa.Table.from_pylist(rows, schema=plan.attachments.schema)})


@FEWER
@given(seed=st.integers(0, 10**9), policy=st.sampled_from(["none", "active", "lazy", "packing"]))
def test_churn_is_the_same_whether_the_history_is_replayed_or_not(seed: int, policy: str) -> None:
    dice = random.Random(seed)
    with TemporaryDirectory() as folder:
        scenario = churned(dice, with_history(dice, drawn(dice, folder), EVERYTHING), EVERYTHING)
        plan = random_plan(dice, scenario, regions=0.4)
        with_it, without = (replay(scenario, plan, make_policy(policy), history=each) for each in (True, False))
    assert lists(*with_it.churn) == lists(*without.churn)
    assert with_it.entries.tolist() == without.entries.tolist()
    assert not without.history.total


@FEWER
@given(seed=st.integers(0, 10**9), policy=st.sampled_from(sorted(SUMMARIES)))
def test_without_churn_traffic_is_the_meters(seed: int, policy: str) -> None:
    """Link by link, frame for frame and byte for byte."""
    dice = random.Random(seed)
    with TemporaryDirectory() as folder:
        scenario = random_scenario(dice, Path(folder) / "scenario")
        plan = random_plan(dice, scenario, regions=0.4)
        assume(events_of(scenario))
        found = replay(scenario, plan, make_policy(policy), traffic=True)
        _, traffic = meter(scenario, plan)
    assert lists(found.frames, found.bytes) == lists(traffic.frames, traffic.bytes)
    assert not found.churn.total


@FEWER
@given(seed=st.integers(0, 10**9), policy=st.sampled_from(sorted(SUMMARIES)))
def test_a_history_leads_to_the_meters_traffic(seed: int, policy: str) -> None:
    """Whatever came before, at the first event the plan serves just what the tables say."""
    dice = random.Random(seed)
    with TemporaryDirectory() as folder:
        scenario = with_history(dice, drawn(dice, folder), PLACING)
        plan = random_plan(dice, scenario, regions=0.4)
        found = replay(scenario, plan, make_policy(policy), history=True, traffic=True)
        _, traffic = meter(scenario, plan)
    assert lists(found.frames, found.bytes) == lists(traffic.frames, traffic.bytes)


@FEWER
@given(seed=st.integers(0, 10**9))
def test_packing_counts_entries_not_packets(seed: int) -> None:
    dice = random.Random(seed)
    with TemporaryDirectory() as folder:
        scenario = churned(dice, drawn(dice, folder), PLACING)
        plan = random_plan(dice, scenario)
        one, other = (replay(scenario, plan, make_policy(name)) for name in ("active", "packing"))
    assert lists(*one.churn) == lists(*other.churn)


@FEWER
@given(seed=st.integers(0, 10**9), policy=st.sampled_from(sorted(SUMMARIES)))
def test_every_policy_serves_what_is_wanted_in_the_end(seed: int, policy: str) -> None:
    """An event after all changes comes to those who want it then, whatever was announced, moved or paced before."""
    dice = random.Random(seed)
    with TemporaryDirectory() as folder:
        scenario = churned(dice, drawn(dice, folder), EVERYTHING)
        spanning = one_flow(scenario, *minimum_spanning_tree(scenario.network))  # anyone may publish
        plan = Plan.of(Header("test", ""), {"attachments": random_plan(dice, scenario).attachments, **spanning})
        stage = Stage(scenario, plan, make_policy(policy), timeline_of(scenario))
        stage.install(after_history=False)
        stage.run(stage.timeline.churn, [])
        got: set[int] = set()
        stage.wiring.on_delivery = lambda broker, delivery: got.update(delivery.subscriptions)  # type: ignore[method-assign]
        for client, broker in stage.clients.at.items():
            event = {"price": dice.randint(0, 8), "volume": dice.randint(0, 8), "topic": dice.choice("ab")}
            announced = stage.announcements.get(client) if client in stage.clients.announced else None
            if announced is not None and not announced.matches(event):
                continue
            got.clear()
            stage.wiring.publish(broker, client, client, event, client if announced is not None else -1)
            stage.wiring.settle()
            wanted = {id_ for id_ in stage.clients.filters if stage.clients.filter(id_).matches(event)}
            assert got == wanted


@pytest.mark.parametrize("operation", ["announce", "join", "leave", "move"])
def test_every_operation_is_drawn_and_counts(operation: str, tmp_path: Path) -> None:
    """The random changes above have all operations among them, and their replays messages."""
    dice = random.Random(1)
    scenarios = [churned(dice, drawn(dice, str(tmp_path / str(n))), EVERYTHING) for n in range(10)]
    found = [replay(each, random_plan(dice, each), make_policy("active")) for each in scenarios]
    drawn_ = Counter(name for each in scenarios for name in each.changes["operation"].to_pylist())
    assert drawn_[operation] >= 5
    assert all(sum(int(np.sum(each.churn[kind])) for each in found) > 50 for kind in range(3))
