"""References: what plans are measured against, but cannot be installed. Each gives a scorecard and no plan.

Clients are attached as in the defaults, and access is priced as for a plan that sends each client just what it wants.
Nothing is installed, so there is no upkeep.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from overstory.kernels.steiner import PLAN
from overstory.model.plan import Header, Plan, Value
from overstory.model.scenario import Scenario
from overstory.model.scorecard import Scorecard
from overstory.planners import defaults

Parameters = Mapping[str, Value]


class Meter(Protocol):
    """What a reference may ask of the pipeline."""

    def score_steiner(self, scenario: Scenario, base: Plan, tree_effort: str, effort: int) -> Scorecard: ...


class Reference(NamedTuple):
    name: str
    summary: str
    guarantee: str
    time: str
    fails: str
    paper: str
    why: str  # it cannot be installed
    parameters: dict[str, Value]
    score: Callable[[Scenario, Meter, Plan, Parameters, int], Scorecard]


def _opt(scenario: Scenario, meter: Meter, base: Plan, parameters: Parameters, effort: int) -> Scorecard:
    return meter.score_steiner(scenario, base, str(parameters["effort"]), effort)


REFERENCES = {
    reference.name: reference
    for reference in (
        Reference(
            "opt",
            "a Steiner tree of its own for each event, approximate",
            "at most twice the least core where prices are the same both ways; its gap is certified",
            "for each distinct event: its terminals times the nodes of its tree, for each start; then a local search",
            "nothing to install: it is what plans are measured against; steered is what comes closest",
            "OPT of Majumder et al.; Takahashi and Matsuyama (1980), then local search as of Uchoa and Werneck (2012)",
            "it searches longer for a tree than a broker may; steered installs those that brokers find",
            {"effort": PLAN},
            _opt,
        ),
    )
}


def score_reference(name: str, scenario: Scenario, meter: Meter, given: Parameters, effort: int) -> Scorecard:
    reference = REFERENCES[name]
    base = Plan.of(Header(name, scenario.fingerprint), defaults.tables(scenario))
    return reference.score(scenario, meter, base, reference.parameters | dict(given), effort)
