"""A plan meets a network that has changed since: what is rebased, and what is refused."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from overstory.broker.packages import portion_of
from overstory.broker.standing import Subscribed
from overstory.control.packing import check_network, packed
from overstory.errors import StalePlanError
from overstory.lab.moving_live import FILTER, FIRST, MAKES, OTHERS, WISHES, written
from overstory.model.plan import Plan, read_plan
from overstory.model.scenario import Scenario, read_scenario
from overstory.model.tables import FILTERS

CLIENTS = 4


@pytest.fixture
def subject(tmp_path: Path) -> tuple[Scenario, Plan]:
    """Clients with a subscription each, all of them at broker 1 by the plan."""
    scenario, plans = written(tmp_path, CLIENTS)
    return read_scenario(scenario), read_plan(plans[1])


def live(client: int, filter_: str = FILTER, version: int = 0, made: bool = True) -> Subscribed:
    return Subscribed(
        WISHES + FIRST + client, FIRST + client, str(FIRST + client), filter_, False, version, made, False
    )


def test_where_clients_are_as_planned_the_plan_is_packed_as_it_is(subject: tuple[Scenario, Plan]) -> None:
    package, rebased = packed(*subject, 2, {0: [], 1: [live(n) for n in range(CLIENTS)]}, {})
    assert (rebased.placed, rebased.elsewhere, rebased.late, rebased.changed) == (CLIENTS, 0, 0, 0)
    assert [len(portion_of(package, broker).members) for broker in (0, 1)] == [0, CLIENTS]
    assert portion_of(package, 1).expected == {}


def test_a_client_that_is_elsewhere_has_its_subscription_there_and_is_expected(subject: tuple[Scenario, Plan]) -> None:
    package, rebased = packed(*subject, 2, {0: [live(0, version=3)], 1: [live(1)]}, {})
    (member,) = portion_of(package, 0).members
    assert (member.subscription, member.version) == (WISHES + FIRST, 3)
    assert portion_of(package, 1).expected == {WISHES + FIRST: [0]}
    assert package.homes[str(FIRST)] == 1
    assert rebased.elsewhere == 1


def test_where_flows_have_filters_of_their_own_it_is_late_instead(subject: tuple[Scenario, Plan]) -> None:
    scenario, plan = subject
    rows = [{"flow": 0, "source": 0, "target": 1, "filter": FILTER}]
    narrow = replace(plan, filters=pa.Table.from_pylist(rows, FILTERS.schema))
    package, rebased = packed(scenario, narrow, 2, {0: [live(0)], 1: [live(1)]}, {})
    assert portion_of(package, 0).members == []
    assert WISHES + FIRST not in package.planned
    assert rebased.changed == 1


def test_what_has_changed_or_is_new_is_late_and_what_has_ended_is_left_out(subject: tuple[Scenario, Plan]) -> None:
    new = Subscribed(99, 98, "new", "x = 1", False, 0, True, True)
    package, rebased = packed(*subject, 2, {0: [], 1: [live(0), live(1, "n >= 5", version=1), new]}, {})
    assert package.planned == {WISHES + FIRST: 0}
    assert (rebased.placed, rebased.late, rebased.changed) == (1, 1, 1)
    assert rebased.ended == CLIENTS + OTHERS * len(MAKES) - 2
    assert rebased.differs


def test_a_subscription_that_nobody_has_made_stays_with_the_plan(subject: tuple[Scenario, Plan]) -> None:
    package, rebased = packed(*subject, 2, {0: [live(0, made=False)], 1: []}, {})
    assert [one.subscription for one in portion_of(package, 1).members] == [WISHES + FIRST]
    assert (rebased.absent, rebased.late) == (1, 0)


def test_who_is_not_to_move_has_its_home_where_it_is(subject: tuple[Scenario, Plan]) -> None:
    seen = {0: [live(0), live(1)], 1: []}
    package, _ = packed(*subject, 2, seen, {}, moving=frozenset({FIRST + 1}))
    assert (package.homes[str(FIRST)], package.homes[str(FIRST + 1)]) == (0, 1)


def test_a_plan_for_another_network_is_refused(subject: tuple[Scenario, Plan]) -> None:
    scenario, plan = subject
    check_network(scenario, plan, scenario.network_fingerprint)
    with pytest.raises(StalePlanError, match="other brokers or links"):
        check_network(scenario, plan, "another")
    fewer = replace(scenario, subscriptions=scenario.subscriptions.slice(1))
    with pytest.raises(StalePlanError, match=f"subscriptions that the network does not know, such as {WISHES + FIRST}"):
        check_network(fewer, plan, scenario.network_fingerprint)
