"""The router does what the law says, on random plans: every copy, on every link, for every flow."""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.errors import DataError
from overstory.routing.law import Law
from overstory.routing.policies import SUMMARIES, make_policy
from overstory.routing.share import shares_of

from ..plans import events_of, random_plan, random_scenario
from .network import FEWER, Network


@FEWER
@given(seed=st.integers(0, 10**9), policy=st.sampled_from(sorted(SUMMARIES)))
def test_every_copy_is_the_laws(seed: int, policy: str) -> None:
    dice = random.Random(seed)
    with TemporaryDirectory() as folder:
        scenario = random_scenario(dice, Path(folder) / "scenario")
        plan = random_plan(dice, scenario, regions=dice.choice([0.0, 0.9]))
        law = Law(scenario, plan)
        network = Network(shares_of(scenario, plan, epoch=1), make_policy(policy))
        events = events_of(scenario)
        for event in events:
            network.publish(law.broker_of[event.publisher], event.publisher, event.id, event.attributes)
        network.settle(dice)
        journeys = {event.id: law.travel(event) for event in events}
    assert Counter(network.crossings) == Counter(
        (event, each.source, each.target, each.flows, each.header)
        for event, way in journeys.items()
        for each in way.crossings
    )
    assert Counter(network.copies) == Counter(
        (each.broker, (event, each.client, each.flows, each.subscriptions))
        for event, way in journeys.items()
        for each in way.copies
    )


def test_a_plan_with_a_cycle_is_refused(tmp_path: Path) -> None:
    dice = random.Random(3)
    scenario = random_scenario(dice, tmp_path / "scenario")
    plan = random_plan(dice, scenario)
    while not len(plan.trees):
        plan = random_plan(dice, scenario)
    row = plan.trees.slice(0, 1)
    doubled = replace(plan, trees=pa.concat_tables([plan.trees, row]))
    with pytest.raises(DataError, match="closes a cycle in flow"):
        shares_of(scenario, doubled, 1)
