"""What a little more would save: filters are read back as they were, and each change is what it says."""

import json
from pathlib import Path

import numpy as np
import pytest

from overstory import cli
from overstory.lab.subscribers import Subscribers
from overstory.planners.assignment.outcome import bandwidth
from overstory.planners.assignment.savings import Savings, filters_of, leaves_of, savings_of, with_twin_of
from tests.planners.assignment.worlds import LEVELS, SMALL, planned, problem, world


@pytest.mark.parametrize("what", [SMALL, LEVELS], ids=lambda what: what.levels)
def test_filters_are_read_back_as_they_were(what: Subscribers) -> None:
    plan, card = planned("gr-star", what)
    found = filters_of(problem(what), plan.filters)
    assert bandwidth(problem(what), found) == card.core - card.cost_held_out
    assert (leaves_of(problem(what), plan.attachments) >= 0).all()


def test_one_more_leaf_is_where_its_twin_is() -> None:
    mine = problem(LEVELS)
    wider = with_twin_of(mine, 3)
    leaves = len(mine.fair)
    assert np.array_equal(wider.mask[:, leaves], mine.mask[:, 3])
    assert np.array_equal(wider.mask[:, :leaves], mine.mask)
    assert wider.fair.sum() == pytest.approx(mine.fair.sum())
    parents = wider.brokers.nodes[wider.brokers.parent[[3, leaves]]]
    assert (parents == mine.brokers.nodes[mine.brokers.parent[3]]).all()
    assert len(wider.brokers.nodes) == len(mine.brokers.nodes) + 1


def test_more_saves() -> None:
    scenario, bench = world(SMALL)
    plan, card = planned("gr-star", SMALL, {"residual": True})
    found = savings_of(scenario, bench, plan, effort=1)
    assert found.now <= card.core - card.cost_held_out
    assert min(found.shares().values()) > 0
    assert found.beside in scenario.network.ids


def test_nothing_is_saved_where_nothing_is_less() -> None:
    assert set(Savings(10.0, 10.0, 11.0, 12.0, 1, 3).shares().values()) == {0.0}


def test_savings_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from overstory.cli import explain_savings

    scenario, _ = world(SMALL)
    plan, _ = planned("gr-star", SMALL, {"residual": True})
    plan.write(tmp_path / "plan")
    monkeypatch.setattr(explain_savings, "savings_of", lambda *_: Savings(100.0, 80.0, 100.0, 90.0, 3, 3))
    command = ["explain", str(tmp_path / "plan"), "--savings"]
    assert cli.main([*command, "--scenario", str(scenario.folder)]) == 0
    said = capsys.readouterr().out
    assert "4 boxes in every filter instead of 3: 20" in said
    assert "one more broker, as near as b3: 10" in said
    assert "10 ms more for every subscriber: nothing that was found" in said
    assert cli.main([*command, "--scenario", str(scenario.folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["saves"]["box"] == pytest.approx(0.2)
    assert cli.main(command) == 64
    assert "--scenario" in capsys.readouterr().err
