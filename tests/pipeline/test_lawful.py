"""Plans whose flows serve everybody are told lawful without writing them out, and only if they are."""

import random

import numpy as np
import pyarrow as pa
import pytest

from overstory.lab.quadratic import Quadratic, make_quadratic
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario, read_scenario
from overstory.pipeline import validate
from overstory.pipeline.boxes import boxes_of
from overstory.pipeline.lawful import serves_everybody, surely_lawful
from overstory.pipeline.predicates import distinct
from overstory.pipeline.validate import problems_of_plan
from overstory.pipeline.workbench import Workbench
from overstory.planners.chains import make_plan


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    folder = tmp_path_factory.mktemp("lawful") / "scenario"
    make_quadratic(folder, Quadratic(users=60, brokers=5, channels=6, events=300), 1)
    return read_scenario(folder)


def is_sure(scenario: Scenario, plan: Plan) -> bool:
    boxes = boxes_of(distinct(scenario.subscriptions["filter"])[0])
    return surely_lawful(scenario, plan, Workbench(scenario).publishers(scenario), boxes)


def written_out_problems(scenario: Scenario, plan: Plan, patch: pytest.MonkeyPatch) -> list[object]:
    """What the check says that writes everything out."""
    with patch.context() as context:
        context.setattr(validate, "serves_everybody", lambda plan: False)
        return list(problems_of_plan(scenario, plan, Workbench(scenario).publishers(scenario)))


def test_a_spanning_plan_is_not_written_out(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = make_plan("greedy-packing", scenario, Workbench(scenario), {})
    assert plan.flows.num_rows > 20
    assert serves_everybody(plan)
    assert is_sure(scenario, plan)
    assert written_out_problems(scenario, plan, monkeypatch) == []
    monkeypatch.setattr(validate, "written_out", None)  # nobody asks for it any more
    assert problems_of_plan(scenario, plan, Workbench(scenario).publishers(scenario)) == []


def test_whatever_breaks_the_law_is_not_sure(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flow or a link that is missing, twice or elsewhere: the slow check says what is wrong."""
    plan, draw = make_plan("greedy-packing", scenario, Workbench(scenario), {}), random.Random(3)
    broken = 0
    for _ in range(40):
        tables = {name: getattr(plan, name) for name in ("attachments", "flows", "members", "trees", "filters")}
        name = draw.choice(["flows", "trees", "attachments"])
        rows = tables[name]
        at = draw.randrange(rows.num_rows)
        kept = pa.array(np.arange(rows.num_rows) != at)
        if name == "attachments":
            brokers = rows["broker"].to_numpy().copy()
            brokers[at] = draw.choice(scenario.brokers["id"].to_pylist())
            tables[name] = rows.set_column(1, rows.schema.field(1), pa.array(brokers))
        elif name == "flows" and draw.random() < 0.5:
            texts = rows["events"].to_pylist()
            texts[at] = "value >= 0.0"
            tables[name] = rows.set_column(2, rows.schema.field(2), pa.array(texts))
        else:
            gone = rows["flow"][at].as_py()
            tables[name] = rows.filter(kept)
            if name == "flows":
                tables["trees"] = tables["trees"].filter(pa.compute.not_equal(tables["trees"]["flow"], gone))
        changed = Plan.of(plan.header, tables)
        wrong = written_out_problems(scenario, changed, monkeypatch)
        assert is_sure(scenario, changed) == (not wrong)
        broken += bool(wrong)
    assert broken > 20
