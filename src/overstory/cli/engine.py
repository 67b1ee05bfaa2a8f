"""What all commands share that use the pipeline: their options, progress, and scenarios with their plans."""

import argparse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from overstory.cli.options import whole
from overstory.cli.progress import Progress
from overstory.errors import StalePlanError, UsageError
from overstory.lab.replay import POLICY, replay
from overstory.model.folders import check_can_be_written
from overstory.model.plan import Plan, Value, read_plan
from overstory.model.scenario import Scenario
from overstory.model.scorecard import Scorecard, Traffic
from overstory.pipeline.bound import EFFORT
from overstory.pipeline.history import has_churn
from overstory.pipeline.pipeline import Pipeline
from overstory.pipeline.session import LOCAL
from overstory.planners.chains import make_plan
from overstory.planners.references import score_reference
from overstory.routing.policies import SUMMARIES, make_policy
from overstory.routing.policy import Policy
from overstory.studio.assignments import assignment_of
from overstory.studio.clients import clients_at, hosts_of
from overstory.studio.report import Ways, write_report
from overstory.studio.subject import subject_of
from overstory.studio.trees import trees_of
from overstory.studio.views import PlanView
from overstory.studio.ways import some_ways

Watch = Callable[[], float]  # the seconds since it was started, without what plans share: see ``Clock.watch``


def add_options(command: argparse.ArgumentParser, report: bool = False) -> None:
    command.add_argument("--master", default=LOCAL, help="where Spark runs (default: %(default)s)")
    command.add_argument("--json", action="store_true", help="print one JSON object")
    command.add_argument(
        "--no-cache",
        action="store_true",
        help="match and bound again, and keep nothing of it in the folder .cache of the scenario",
    )
    if report:
        command.add_argument("--report", metavar="FILE.html", type=Path, help="also write a page that shows it")
        command.add_argument(
            "--bound-effort",
            type=whole(0, 10**18),
            default=EFFORT,
            metavar="N",
            help="distinct sets of brokers that want an event, times brokers, that dual ascent bounds; events beyond "
            "that are bounded by distance, and a sample of them gives an estimate (default: %(default)s)",
        )

        command.add_argument(
            "--control",
            action="store_true",
            help="count the messages of the table changes from the first event on also where they have no price",
        )
        command.add_argument(
            "--policy",
            default=POLICY,
            metavar="NAME",
            help=f"by which brokers forward subscriptions when changes are replayed: {', '.join(SUMMARIES)} "
            "(default: %(default)s)",
        )


def check_report(arguments: argparse.Namespace) -> None:
    """Raises a ``UsageError`` if the page cannot be written where it is asked for. Call it before the work."""
    if arguments.report is not None:
        check_can_be_written(arguments.report)


@contextmanager
def pipeline_for(arguments: argparse.Namespace) -> Iterator[Pipeline]:
    with (
        Progress() as progress,
        Pipeline(arguments.master, tell=progress.tell, cache=not arguments.no_cache, note=progress.note) as pipeline,
    ):
        progress.watch(pipeline)
        yield pipeline


def plan_for(folder: Path, scenario: Scenario) -> Plan:
    """Raises a ``StalePlanError`` if it was made for another scenario."""
    plan = read_plan(folder)
    check_made_for(plan, scenario, str(folder))
    return plan


def check_made_for(plan: Plan, scenario: Scenario, called: str) -> None:
    """Raises a ``StalePlanError`` if the plan that is called so was made for another scenario."""
    if plan.header.scenario != scenario.fingerprint:
        raise StalePlanError(
            f"the plan {called} was not made for the scenario {scenario.folder} as it is now; plan again"
        )


def parameters_in(pairs: list[str]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign or not name:
            raise UsageError(f"'{pair}' is no setting: write it as key=value")
        found[name] = _value(text)
    return found


def _value(text: str) -> Value:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


class Scored(NamedTuple):
    name: str
    plan: Plan | None  # a reference has none
    view: PlanView


def planned(
    name: str,
    scenario: Scenario,
    pipeline: Pipeline,
    given: Mapping[str, Value],
    seed: int,
    base: Plan | None = None,
) -> Plan:
    with pipeline.clock.step(f"planning with {name}"):
        return make_plan(name, scenario, pipeline, given, seed, base)


class Control(NamedTuple):
    """How the messages of changes are counted."""

    policy: Policy
    always: bool  # also where they have no price

    @classmethod
    def asked(cls, arguments: argparse.Namespace) -> "Control":
        """What the command line says. Raises a ``UsageError`` if there is no such policy."""
        return cls(make_policy(arguments.policy), arguments.control)

    def messages(self, scenario: Scenario, plan: Plan, pipeline: Pipeline) -> int | None:
        """How many messages the churn of a scenario sends under a plan; None if nobody wants to know."""
        if not self.always and not scenario.settings.prices.control:
            return None
        if not has_churn(scenario):
            return 0
        with pipeline.clock.step("replaying changes"):
            return replay(scenario, plan, self.policy).churn.total


def scored(
    name: str,
    scenario: Scenario,
    plan: Plan,
    pipeline: Pipeline,
    effort: int,
    watch: Watch,
    control: Control | None = None,
) -> Scored:
    """Scores a plan on the whole log, with its changes. Without ``control`` the messages of changes are counted where
    they have a price."""
    counting = control or Control(make_policy(POLICY), always=False)
    card, traffic = pipeline.score(scenario, plan, effort, lambda: counting.messages(scenario, plan, pipeline))
    seconds, shown = watch(), (trees_of(scenario, plan), clients_at(scenario, plan), hosts_of(scenario, plan))
    view = PlanView(name, seconds, card, traffic, *shown, plan, scenario.settings.coalesce)
    return Scored(name, plan, view)


def scored_reference(
    name: str, scenario: Scenario, pipeline: Pipeline, given: Mapping[str, Value], effort: int, watch: Watch
) -> Scored:
    card = score_reference(name, scenario, pipeline, given, effort)
    none = np.empty(0, np.int64)
    return Scored(name, None, PlanView(f"{name} (reference)", watch(), card, Traffic(none, none)))


def set_up_of(pipeline: Pipeline) -> dict[str, float]:
    return {name: round(seconds, 3) for name, seconds in pipeline.clock.set_up().items()}


def about_set_up(seconds: Mapping[str, float]) -> str:
    """What no plan's seconds hold, in one line."""
    if not seconds:
        return "matching and bounds were known from an earlier command (--no-cache works them out again)"
    return "once for all plans: " + ", ".join(f"{name} {taken:.1f} s" for name, taken in seconds.items())


def write_page(path: Path, scenario: Scenario, views: list[PlanView], command: str) -> None:
    facts = {name: f"{value:,}" for name, value in sizes_of(scenario, views[0].scorecard).items()}
    told, ways = some_ways(scenario, [(view.plan, view.coalesce) for view in views])
    views = [_with_assignment(scenario, view) for view in views]
    write_report(path, subject_of(scenario, facts), views, command, Ways(told, ways))


def _with_assignment(scenario: Scenario, view: PlanView) -> PlanView:
    """With what is drawn of plans of subscriber assignment."""
    found = None if view.plan is None else assignment_of(scenario, view.plan)
    return view if found is None else msgspec.structs.replace(view, assignment=found)


def sizes_of(scenario: Scenario, card: Scorecard | None = None) -> dict[str, int]:
    found = {
        "brokers": len(scenario.network),
        "links": len(scenario.network.targets) // 2,
        "clients": scenario.clients.num_rows,
        "subscriptions": scenario.subscriptions.num_rows,
    }
    return found | ({"events": card.events} if card is not None else {})
