"""Scenarios for planners, and whether their plans keep the law."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from overstory.filters import parse_filter
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario
from overstory.model.settings import Settings
from overstory.model.tables import CLIENTS
from overstory.routing.law import Law

from ..plans import events_of, random_scenario
from ..tables import events_table, scenario_of, scenario_tables, table_of


def random_scenarios(folder: Path, count: int) -> list[Scenario]:
    """Those in which every client can be attached."""
    drawn = [random_scenario(random.Random(seed), folder / str(seed)) for seed in range(count)]
    return [scenario for scenario in drawn if not _stranded(scenario)]


def _stranded(scenario: Scenario) -> bool:
    linked = {*scenario.links["source"].to_pylist(), *scenario.links["target"].to_pylist()}
    clients = [row["id"] for row in scenario.clients.to_pylist() if row["broker"] is None]
    return scenario.settings.access.metric == "none" and not linked.issuperset(clients)


def line_of_brokers(
    folder: Path,
    brokers: int,
    wanted: Mapping[str, Sequence[int]],
    published: Sequence[tuple[int, str]],
    coalesce: bool = False,
) -> Scenario:
    """Topics, or filters if they are longer, with the brokers that want them; and the topics of events, with the
    brokers where they are published. Brokers are numbered along a line, and each has a client."""
    links = [link for at in range(brokers - 1) for link in ((at, at + 1, 1.0), (at + 1, at, 1.0))]
    subscriptions = [
        (number, 100 + at, text if len(text) > 1 else f"topic = '{text}'", False)
        for number, (text, at) in enumerate((text, at) for text, places in wanted.items() for at in places)
    ]
    tables = scenario_tables(range(brokers), links, [], subscriptions)
    tables["clients"] = table_of(CLIENTS, [(100 + at, at, None, None) for at in range(brokers)])
    events = events_table([(100 + at, 1, list(topic), topic) for at, topic in published], ATTRIBUTES)
    return scenario_of(folder, Settings(coalesce=coalesce), tables, events)


ATTRIBUTES = {"words": pa.list_(pa.string()), "topic": pa.string()}


def law_is_kept(scenario: Scenario, plan: Plan) -> bool:
    """Every subscription gets what it matches, once."""
    law = Law(scenario, plan)
    rows = scenario.subscriptions.to_pylist()
    filters = {row["id"]: parse_filter(row["filter"]) for row in rows}
    for event in events_of(scenario):
        wanted = [
            row["id"]
            for row in rows
            if filters[row["id"]].matches(event.attributes)
            and not (row["no_local"] and row["client"] == event.publisher)
        ]
        if Counter(law.travel(event).deliveries) != Counter(wanted):
            return False
    return True
