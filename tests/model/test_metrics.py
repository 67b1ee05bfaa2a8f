"""What client links cost that no table lists: by coordinates, by places of any number of dimensions, or by chance."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from overstory.model.access import Toll, access_of
from overstory.model.scenario import Scenario
from overstory.model.settings import Access, Settings
from overstory.model.tables import BROKERS, CLIENTS, LINKS, SUBSCRIPTIONS

from ..tables import events_table, scenario_of, table_of

BROKER_IDS, CLIENT_IDS = np.arange(1, 31), np.arange(100, 400)
DICE = np.random.default_rng(5)
PLACES = {each: DICE.normal(size=5).tolist() for each in [*BROKER_IDS.tolist(), *CLIENT_IDS.tolist()]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("metrics")


def scenario(folder: Path, access: Access) -> Scenario:
    def placed(table: pa.Table) -> pa.Table:
        return table.append_column("place", pa.array([PLACES[each] for each in table["id"].to_pylist()]))

    line = [(u, u + 1) for u in BROKER_IDS[:-1].tolist()]
    tables = {
        "brokers": placed(table_of(BROKERS, [(each, None, 0.0, float(each)) for each in BROKER_IDS.tolist()])),
        "links": table_of(LINKS, [(*ends, 1.0, 0.0) for u, v in line for ends in ((u, v), (v, u))]),
        "clients": placed(table_of(CLIENTS, [(each, None, 0.0, 0.0) for each in CLIENT_IDS.tolist()])),
        "subscriptions": table_of(SUBSCRIPTIONS, []),
    }
    path = folder / f"{access.metric}-{access.seed}"
    return scenario_of(path, Settings(access=access), tables, events_table([], {"topic": pa.string()}))


def every_pair(there: Scenario) -> tuple[Toll, Toll]:
    links = access_of(there)
    return links.up(CLIENT_IDS[:, None], BROKER_IDS), links.down(CLIENT_IDS[:, None], BROKER_IDS)


def test_places_are_as_far_apart_as_their_coordinates_say(folder: Path) -> None:
    up, down = every_pair(scenario(folder, Access("places", price=2.0, delay=3.0)))
    ours, theirs = (np.array([PLACES[each] for each in ids.tolist()]) for ids in (CLIENT_IDS, BROKER_IDS))
    far = np.linalg.norm(ours[:, None] - theirs[None], axis=2)
    for toll in (up, down):
        np.testing.assert_allclose(toll.prices, 2 * far, rtol=1e-12)
        np.testing.assert_allclose(toll.delays, 3 * far, rtol=1e-12)


def test_independent_prices_are_spread_evenly_and_have_no_pattern(folder: Path) -> None:
    up, down = every_pair(scenario(folder, Access("independent", price=10.0, seed=1)))
    assert (up.prices == down.prices).all()
    drawn = up.prices / 10
    assert ((drawn >= 0) & (drawn < 1)).all()
    assert len(np.unique(drawn)) == drawn.size
    assert np.histogram(drawn, 10, (0, 1))[0] / drawn.size == pytest.approx(np.full(10, 0.1), abs=0.015)
    for axis in (0, 1):  # neither clients nor brokers are dear as such
        assert np.abs(drawn.mean(axis=axis) - 0.5).max() < 0.25
    other, _ = every_pair(scenario(folder, Access("independent", price=10.0, seed=2)))
    assert abs(np.corrcoef(up.prices.ravel(), other.prices.ravel())[0, 1]) < 0.05
    again = access_of(scenario(folder / "again", Access("independent", price=10.0, seed=1)))
    assert again.up(CLIENT_IDS[7:8], BROKER_IDS[3:4]).prices[0] == up.prices[7, 3]
