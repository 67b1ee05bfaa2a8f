"""Shadow prices, where they are known by hand."""

from pathlib import Path

import pyarrow as pa
import pytest

from overstory.control.piloting import Planning
from overstory.control.shadow import saving_of_delay, savings_of, with_more_delay
from overstory.model.scenario import Scenario, read_scenario, write_scenario
from overstory.model.settings import Limits, Settings
from overstory.model.tables import BROKERS, CLIENTS, LINKS, SUBSCRIPTIONS
from overstory.pipeline.workbench import Workbench
from overstory.planners.chains import make_plan

PATH = 5  # brokers in a row


def row_of_brokers(folder: Path, settings: Settings) -> Scenario:
    """What is published at one end of a row of brokers is wanted at the other."""
    pairs = [(at, at + 1) for at in range(PATH - 1)] + [(at + 1, at) for at in range(PATH - 1)]
    links = {"source": [a for a, _ in pairs], "target": [b for _, b in pairs], "price": [1.0] * 8, "delay": [5.0] * 8}
    none = pa.nulls(PATH, pa.float64())
    brokers = {"id": range(PATH), "name": pa.nulls(PATH, pa.string()), "x": none, "y": none}
    clients = {"id": [10, 11], "broker": [0, PATH - 1], "x": none[:2], "y": none[:2]}
    subscriptions = {"id": [0], "client": [11], "filter": ["a = 1"], "no_local": [False]}
    tables = {
        "brokers": pa.table(brokers, schema=BROKERS.schema),
        "links": pa.table(links, schema=LINKS.schema),
        "clients": pa.table(clients, schema=CLIENTS.schema),
        "subscriptions": pa.table(subscriptions, schema=SUBSCRIPTIONS.schema),
    }
    size = 40
    events = {
        "$id": range(size),
        "$time": [0.0] * size,
        "$publisher": [10] * size,
        "$bytes": [1] * size,
        "a": [1] * size,
    }
    write_scenario(folder, settings, tables, pa.table({name: pa.array(values) for name, values in events.items()}))
    return read_scenario(folder)


def test_a_link_between_both_ends_of_a_row_saves_all_but_one_hop(tmp_path: Path) -> None:
    scenario = row_of_brokers(tmp_path / "row", Settings())
    plan = make_plan("mst", scenario, Workbench(scenario), {}, 0)
    found = savings_of(scenario, plan)
    assert found[f"a link 0–{PATH - 1}"] == pytest.approx(1 - 1 / (PATH - 1))
    (broker,) = [share for what, share in found.items() if what.startswith("a broker")]
    assert broker == pytest.approx(1 - 2 / (PATH - 1))


def test_delay_has_a_price_only_where_it_has_a_limit(tmp_path: Path) -> None:
    free = row_of_brokers(tmp_path / "free", Settings())
    assert with_more_delay(free, 10.0) is None
    assert saving_of_delay(free, Planning("mst")) == {}
    limited = row_of_brokers(tmp_path / "limited", Settings(limits=Limits(delay=100.0)))
    assert saving_of_delay(limited, Planning("mst")) == {"10 ms more": 0.0}
