"""explain --client: candidates, slack and why, as the meter's delays and loads have them."""

from pathlib import Path

import pytest

from overstory import cli
from overstory.cli.explain_client import choices_of
from overstory.errors import UsageError
from overstory.lab.subscribers import Subscribers
from overstory.planners.chains import make_plan
from tests.planners.assignment.worlds import LEVELS, SMALL, leaves_of, planned, problem, world


@pytest.mark.parametrize("what", [SMALL, LEVELS], ids=lambda what: what.levels)
def test_choices_are_the_brokers_in_time(what: Subscribers) -> None:
    plan, _ = planned("gr-star", what, {"residual": True})
    mine, scenario = problem(what), world(what)[0]
    leaf = leaves_of(plan, mine)
    for at in range(0, len(mine.clients), 97):
        choices = choices_of(scenario, plan, int(mine.clients[at]))
        in_time = {each.broker for each in choices if each.slack > 1e-5}
        ids = scenario.network.ids[mine.brokers.leaves[mine.mask[mine.which[at]]]]
        assert in_time == set(ids.tolist())
        assert choices[0].here
        assert choices[0].broker == scenario.network.ids[mine.brokers.leaves[leaf[at]]]
        assert choices[0].covers


def test_in_words_and_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scenario, bench = world(SMALL)
    plan = make_plan("gr-star", scenario, bench, {"residual": True})
    plan.write(tmp_path / "plan")
    client = str(problem(SMALL).clients[3])
    command = ["explain", str(tmp_path / "plan"), "--client", client]
    assert cli.main([*command, "--scenario", str(scenario.folder)]) == 0
    said = capsys.readouterr().out
    assert f"client {client} is at" in said
    assert "why here:" in said
    assert cli.main([*command, "--scenario", str(scenario.folder), "--json"]) == 0
    assert '"choices"' in capsys.readouterr().out
    assert cli.main(command) == 64
    assert "--scenario" in capsys.readouterr().err
    with pytest.raises(UsageError, match="no client 99999999"):
        choices_of(scenario, plan, 99_999_999)
