"""What ``compare`` says about plans of topics beyond the table: the bound, and links among the users themselves."""

from pathlib import Path
from typing import cast

import pytest

from overstory.cli.engine import Scored
from overstory.cli.topic_references import BOUND, OVERLAY, about_references, topic_references
from overstory.lab.topics import Topics, make_topics
from overstory.model.scenario import Scenario, read_scenario
from overstory.pipeline.pipeline import Pipeline
from overstory.pipeline.workbench import Workbench
from overstory.planners.chains import make_plan
from overstory.planners.topics.demand import asked_in, lower_bound
from overstory.studio.views import PlanView


def test_a_plan_of_topics_is_told_the_bound_and_the_overlay(tmp_path: Path) -> None:
    what = Topics(users=30, topics=12, natural_clusters=2, interests=5, intervals=24, changes=False)
    make_topics(tmp_path / "news", what, seed=1)
    scenario = read_scenario(tmp_path / "news")
    bench = Workbench(scenario)
    plan = make_plan("scribe", scenario, bench, {}, seed=1)
    card = bench.score(plan)
    result = Scored("scribe", plan, cast(PlanView, _View("scribe", card)))
    told = topic_references([result], scenario, cast(Pipeline, bench))
    asked = asked_in(scenario, bench)
    assert told[BOUND] == pytest.approx(24 * lower_bound(asked.demand, asked.costs))
    assert told[OVERLAY] < card.cost
    bound, overlay = about_references([result], told)
    assert f"{told[BOUND]:,.0f}" in bound
    assert "scribe +" in bound
    assert f"{told[OVERLAY]:,.0f}" in overlay


class _View:
    def __init__(self, name: str, scorecard: object) -> None:
        self.name, self.scorecard = name, scorecard


def test_without_a_planner_of_topics_nothing_is_told() -> None:
    scored = Scored("opt", None, cast(PlanView, _View("opt (reference)", None)))
    assert topic_references([scored], cast(Scenario, None), cast(Pipeline, None)) == {}
    assert about_references([scored], {}) == []
