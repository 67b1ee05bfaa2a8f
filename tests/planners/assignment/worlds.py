"""Small scenarios of subscriber assignment, and plans of them under the meter."""

from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from overstory.lab.subscribers import Subscribers, make_subscribers
from overstory.model.plan import Plan, Value
from overstory.model.scenario import Scenario, read_scenario
from overstory.model.scorecard import Scorecard
from overstory.pipeline.validate import problems_of_plan
from overstory.pipeline.workbench import Workbench
from overstory.planners import defaults
from overstory.planners.assignment.problem import Problem, problem_of
from overstory.planners.chains import make_plan

SMALL = Subscribers(subscribers=600, brokers=8, events=3000)
LEVELS = Subscribers(subscribers=600, brokers=40, events=3000, levels="several", latency="tight")
RSS = Subscribers(kind="rss", subscribers=500, brokers=8, events=3000, load=4.0)
HOTSPOTS = Subscribers(kind="hotspots", subscribers=500, brokers=8, events=3000, load=4.0)


@lru_cache(8)
def world(what: Subscribers = SMALL, seed: int = 1) -> tuple[Scenario, Workbench]:
    folder = Path(mkdtemp(prefix="overstory-tests-")) / "scenario"
    make_subscribers(folder, what, seed)
    scenario = read_scenario(folder)
    bench = Workbench(scenario)
    bench.load()
    return scenario, bench


@lru_cache(8)
def problem(what: Subscribers = SMALL, seed: int = 1) -> Problem:
    scenario, bench = world(what, seed)
    return problem_of(scenario, bench, defaults.tables(scenario), {})


def planned(
    name: str, what: Subscribers, given: dict[str, Value] | None = None, seed: int = 1
) -> tuple[Plan, Scorecard]:
    """The plan, which is lawful, and its scorecard."""
    scenario, bench = world(what)
    plan = make_plan(name, scenario, bench, given or {}, seed)
    assert problems_of_plan(scenario, plan, bench.publishers(scenario)) == []
    return plan, bench.score(plan)


def leaves_of(plan: Plan, problem: Problem) -> np.ndarray:
    """By subscriber the number of its leaf."""
    clients, brokers = (plan.attachments[name].to_numpy() for name in ("client", "broker"))
    order = np.argsort(clients)
    mine = brokers[order][np.searchsorted(clients[order], problem.clients)]
    return np.asarray(problem.brokers.leaf_of[problem.brokers.network.positions(mine)])
