"""Every benchmark runs, small; how fast it is says `make bench`."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks import routing
from benchmarks.registry import SUBJECTS

from overstory.lab.simulator.workload import make_publications
from overstory.matching import Batch

ROOT = Path(__file__).parents[2]
PARTS = 3  # so that they can run beside each other; each starts Spark once


@pytest.mark.parametrize("part", range(PARTS))
def test_every_subject_runs_quickly(part: int) -> None:
    subjects = list(SUBJECTS)[part::PARTS]
    command = [sys.executable, "-m", "benchmarks", "--quick", "--json", *subjects]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    measurements = json.loads(result.stdout)["measurements"]
    assert measurements
    for measured in measurements:
        assert measured["value"] > 0 or measured["unit"] == "moves", measured  # of which a small plan may need none
        assert measured["peer_value"] != 0, measured


def test_a_routed_publication_enters_its_flows_and_goes_to_all_peers() -> None:
    """What ``route-publish`` measures: each peer has its own batch of what the router decided, with all flows."""
    made, router = routing._router(310, flows=20, below=routing.BELOW)
    batch = Batch({"x": make_publications(made, 32, np.random.default_rng(2))})
    sent = routing._carry(router, batch)
    assert len(sent) == len(routing.BELOW)
    assert {origin for frames in sent for origin in frames.origins.tolist()} == {1}
    assert len({flow for frames in sent for flows in frames.flows for flow in flows}) == 20
    wanted = sum(len(router.state.epochs[0].table.index.match_batch(batch).of(row)) > 0 for row in range(32))
    assert len({int(id_) for frames in sent for id_ in frames.ids}) == wanted == 32
    sizes = [each.size for each in routing.publish(True)]
    assert [size.rpartition(", ")[2] for size in sizes] == ["1 flow"] * 3 + ["20 flows"] * 3


def test_an_unknown_subject_is_named() -> None:
    command = [sys.executable, "-m", "benchmarks", "nonsense"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 64
    assert "'nonsense'" in result.stderr
