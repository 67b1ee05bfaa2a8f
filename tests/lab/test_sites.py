"""The demo's workload: what the log says of itself is what the filters mean."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from overstory.errors import UsageError
from overstory.filters import parse_filter
from overstory.lab.known_networks import topohub_network
from overstory.lab.sites import ATTRIBUTES, NETWORK, REGIONS, make_sites, wanted
from overstory.model.scenario import read_scenario


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sites") / "scenario"
    make_sites(folder, 60_000, 1)
    return folder


def test_there_are_fifty_subscriptions_and_each_matches_something(folder: Path) -> None:
    rows = wanted()
    assert len(rows) == 50
    events = pq.read_table(folder / "events.parquet", columns=list(ATTRIBUTES)).to_pylist()
    present = [{name: value for name, value in event.items() if value is not None} for event in events]
    for _, country, text in rows:
        parsed = parse_filter(text)
        assert any(parsed.matches(event) for event in present), text
        assert country in (topohub_network(NETWORK).names or ())


def test_clients_and_subscriptions_keep_their_names(folder: Path) -> None:
    scenario = read_scenario(folder)
    called = [f"{country}: {name}" for name, country, _ in wanted()]
    assert list(scenario.subscription_names.values()) == called
    assert list(scenario.client_names.values())[-len(called) :] == called
    assert len(scenario.client_names) == scenario.clients.num_rows


def test_regions_share_out_all_countries() -> None:
    codes = [code for codes in REGIONS.values() for code in codes.split()]
    assert sorted(codes) == sorted(topohub_network(NETWORK).names or ())


def test_every_kind_has_its_own_attributes_and_the_site_is_the_publishers_broker(folder: Path) -> None:
    scenario = read_scenario(folder)
    events = pq.read_table(folder / "events.parquet")
    kinds = events["kind"].to_numpy()
    for kind, names in {
        "telemetry": ["sensor", "value"],
        "order": ["amount", "to_region"],
        "alert": ["severity"],
    }.items():
        for name in names:
            assert (events[name].is_valid().to_numpy() == (kinds == kind)).all()
    brokers = dict(zip(scenario.clients["id"].to_pylist(), scenario.clients["broker"].to_pylist(), strict=True))
    called = dict(zip(scenario.brokers["id"].to_pylist(), scenario.brokers["name"].to_pylist(), strict=True))
    at = [called[brokers[publisher]] for publisher in events["$publisher"].to_pylist()]
    assert at == events["site"].to_pylist()
    assert np.all(np.diff(events["$time"].to_numpy()) > 0)


def test_the_same_seed_gives_the_same_scenario(tmp_path: Path) -> None:
    for name in ("one", "other"):
        make_sites(tmp_path / name, 500, 7)
    assert read_scenario(tmp_path / "one").fingerprint == read_scenario(tmp_path / "other").fingerprint
    with pytest.raises(UsageError, match="0 or more"):
        make_sites(tmp_path / "none", -1, 7)
