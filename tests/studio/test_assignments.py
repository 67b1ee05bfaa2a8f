"""A page shows of an assignment: delays against distance, loads within their limits, rectangles of brokers."""

import numpy as np
import pytest

from overstory.errors import UsageError
from overstory.lab.subscribers import Subscribers
from overstory.planners.chains import make_plan
from overstory.studio.assignments import MOST_BROKERS, Assignment, assignment_of, from_root, pictures
from tests.planners.assignment.worlds import LEVELS, SMALL, planned, problem, world


@pytest.mark.parametrize("what", [SMALL, LEVELS], ids=lambda what: what.levels)
def test_what_is_drawn_is_what_the_meter_has(what: Subscribers) -> None:
    plan, card = planned("gr-star", what, {"residual": True})
    found = assignment_of(world(what)[0], plan)
    assert found is not None
    assert len(found.delays) == what.subscribers
    assert min(found.delays) > -1e-9
    assert max(found.delays) <= what.allowed_delay + 1e-6
    assert max(found.loads) == pytest.approx(card.load)
    assert len(found.loads) == len(problem(what).fair)
    assert len(found.rectangles) <= MOST_BROKERS
    assert all(1 <= len(boxes) <= 3 for boxes in found.rectangles.values())


def test_figures_are_drawn_and_names_are_escaped() -> None:
    plan, _ = planned("gr-star", SMALL, {"residual": True})
    drawn = pictures("a<b", assignment_of(world(SMALL)[0], plan))
    assert drawn.count("<figure") == 3
    assert drawn.count('class="dot"') == SMALL.subscribers
    assert "a&lt;b" in drawn
    assert "a<b" not in drawn
    assert "at most 1.8" in drawn
    assert '<rect class="flow' in drawn


def test_other_plans_have_no_such_pictures() -> None:
    scenario, bench = world(SMALL)
    plan = make_plan("mst", scenario, bench, {})
    assert assignment_of(scenario, plan) is None
    assert pictures("mst", None) == ""
    with pytest.raises(UsageError, match="no plan of subscriber assignment"):
        from_root(scenario, plan)


def test_nothing_to_draw() -> None:
    empty = Assignment((), (), (), (), {})
    assert pictures("none", empty) == ""
    assert np.isfinite(len(pictures("one", Assignment((1.0,), (0.0,), (1.0,), (), {}))))
