"""Pages of real plans on generated scenarios of any size, without Spark."""

from collections.abc import Mapping
from pathlib import Path

from overstory.cli.engine import write_page
from overstory.lab.localized import Localized, make_localized
from overstory.lab.topologies import topology
from overstory.model.plan import Plan, Value
from overstory.model.scenario import Scenario, read_scenario
from overstory.pipeline.workbench import Workbench
from overstory.planners.chains import make_plan
from overstory.studio.clients import clients_at, hosts_of
from overstory.studio.trees import trees_of
from overstory.studio.views import PlanView

PLANNERS: Mapping[str, Mapping[str, Value]] = {"spt": {}, "mst": {}, "direct": {}}
QUICK: Mapping[str, Mapping[str, Value]] = {"mst": {}, "spt from 0": {"root": 0}, "spt from 4000": {"root": 4000}}


def view_of(name: str, bench: Workbench, plan: Plan, bounded: bool) -> PlanView:
    """What a page shows of a plan."""
    scenario = bench.scenario
    shown = trees_of(scenario, plan), clients_at(scenario, plan), hosts_of(scenario, plan)
    card, traffic = bench.measured(plan, bounded)
    return PlanView(name, 1.0, card, traffic, *shown, plan, scenario.settings.coalesce)


def scenario_in(folder: Path, brokers: int, network: str = "transit-stub") -> Scenario:
    """Keywords wanted by brokers near each other; events as many as they are quick to match."""
    what = Localized(keywords=max(brokers // 2, 10), events=400, locality=max(0.02, 2 / brokers))
    make_localized(folder, topology(network, brokers if network == "transit-stub" else None, 1), what, 1)
    return read_scenario(folder)


def page_of(folder: Path, brokers: int, planners: Mapping[str, Mapping[str, Value]] = PLANNERS) -> Path:
    """The page of some plans, called by their planner and what tells them apart. Bounds are left out where they take
    long."""
    bench = Workbench(scenario_in(folder / f"net-{brokers}", brokers))
    plans = {name: make_plan(name.split()[0], bench.scenario, bench, given) for name, given in planners.items()}
    views = [view_of(name, bench, plan, bounded=brokers <= 100) for name, plan in plans.items()]
    page = folder / f"page-{brokers}.html"
    write_page(page, bench.scenario, views, f"overstory compare net-{brokers} --planners {','.join(planners)}")
    return page
