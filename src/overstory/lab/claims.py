"""The papers' claims and our own, and what is to be said of each: computed from what was measured, never written down.

A claim is *reproduced* if the mean over seeds is where the paper says, within the tolerance; *better* if it is beyond
that, on the side that is better; else *not reproduced*. Where nothing was measured it is *not yet run*, and *not built*
if there is no such experiment yet.
"""

import math
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from overstory.lab.experiments import EXPERIMENTS
from overstory.lab.measuring import Estimate, estimate
from overstory.lab.stored_runs import StoredRun

FILE = Path(__file__).parent / "claims.toml"
PAPERS = {
    "routing-trees": "Majumder, Shrivastava, Rastogi, Srinivasan: Scalable Content-Based Routing in Pub/Sub Systems",
    "overlay": "Zhao, Wu: On the Construction of the Minimum Cost Content-Based Publish/Subscribe Overlays",
    "assignment": "Yu, Agarwal, Yang: Subscriber Assignment for Wide-Area Content-Based Publish/Subscribe",
    "topics": "Milo, Zur, Verbin: Boosting Topic-Based Publish-Subscribe Systems with Dynamic Clustering",
    "pruning": "Chen, Hu, Muthusamy, Jacobsen, Liu: Congestion Avoidance with Selective Filter Aggregation in "
    "Content-Based Routing Networks",
    "ours": "Ours: what Overstory claims for steered delivery, in no paper",
}
Kind = Literal["reproduced", "better", "not reproduced", "not yet run", "not built"]


class Claim(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    paper: str
    figure: str
    statement: str
    relation: Literal["about", "at least", "at most"]
    number: float
    unit: str
    tolerance: float  # relative; of a number of 0 absolute
    better: Literal["lower", "higher", "neither"]
    experiment: str
    measure: str
    reading: str = ""
    others: dict[str, str] = {}

    @property
    def built(self) -> bool:
        return self.experiment in EXPERIMENTS

    @property
    def margin(self) -> float:
        return abs(self.number) * self.tolerance if self.number else self.tolerance

    def spoken(self) -> str:
        """The number, as the paper has it."""
        word = "" if self.relation == "about" else f"{self.relation} "
        return f"{word}{self.number:g} {self.unit}"


CLAIMS = tuple(msgspec.convert(claim, Claim) for claim in tomllib.loads(FILE.read_text("utf-8"))["claim"])


class Verdict(msgspec.Struct, frozen=True):
    claim: Claim
    kind: Kind
    measured: Estimate | None
    why: str
    others: dict[str, Estimate | None] = {}
    quick: bool = False  # measured by a quick run: small networks

    def as_json(self) -> dict[str, Any]:
        value = self.measured
        return {
            "name": self.claim.name,
            "paper": self.claim.paper,
            "figure": self.claim.figure,
            "statement": self.claim.statement,
            "claimed": self.claim.number,
            "unit": self.claim.unit,
            "experiment": self.claim.experiment,
            "verdict": self.kind,
            "measured": value.mean if value else None,
            "interval": [value.low, value.high] if value and value.spread is not None else None,
            "seeds": value.seeds if value else 0,
            "quick": self.quick,
            "why": self.why,
            "others": {name: value.mean if value else None for name, value in self.others.items()},
        }


def judged(runs: Sequence[StoredRun]) -> list[Verdict]:
    by_name = {run.experiment.name: run for run in runs}
    return [_judged(claim, by_name.get(claim.experiment)) for claim in CLAIMS]


def _judged(claim: Claim, run: StoredRun | None) -> Verdict:
    if not claim.built:
        return Verdict(claim, "not built", None, f"the part that {claim.experiment} would try is not built yet")
    if run is None or not run.rows:
        return Verdict(claim, "not yet run", None, f"run it: overstory lab run {claim.experiment}")
    refused = run.experiment.refuses(run.rows)
    if refused:
        return Verdict(claim, "not yet run", None, f"nothing is reported: {refused}", {}, run.last.quick)
    value = _measured(run, claim.measure)
    others = {name: _measured(run, measure) for name, measure in claim.others.items()}
    if value is None:
        return Verdict(claim, "not yet run", None, "the cells that it needs are not there", others, run.last.quick)
    kind = kind_of(claim, value)
    return Verdict(claim, kind, value, _why(claim, kind, value), others, run.last.quick)


def _measured(run: StoredRun, measure: str) -> Estimate | None:
    return estimate(list(run.experiment.measures[measure](run.rows).values()))


def kind_of(claim: Claim, value: Estimate) -> Kind:
    low, high = claim.number - claim.margin, claim.number + claim.margin
    beyond = {"lower": value.high < low, "higher": value.low > high, "neither": False}[claim.better]
    if beyond:
        return "better"
    least, most = _holds_between(claim)
    return "reproduced" if least <= value.mean <= most else "not reproduced"


def leaves_open(claim: Claim, value: Estimate) -> bool:
    """Whether the claim holds in a part of the interval only."""
    least, most = _holds_between(claim)
    if kind_of(claim, value) == "better" or value.high < least or value.low > most:
        return False
    return not least <= value.low <= value.high <= most


def _holds_between(claim: Claim) -> tuple[float, float]:
    low = -math.inf if claim.relation == "at most" else claim.number - claim.margin
    high = math.inf if claim.relation == "at least" else claim.number + claim.margin
    return low, high


def _why(claim: Claim, kind: Kind, value: Estimate) -> str:
    interval = f" ± {value.spread:.2g}" if value.spread is not None else ""
    seeds = "1 seed" if value.seeds == 1 else f"{value.seeds} seeds"
    measured = f"{value.mean:.3g}{interval} {claim.unit} ({seeds})"
    allowed = f"{claim.number:g}" + (f" ± {claim.margin:g}" if claim.margin else "")
    end = {
        "reproduced": f"within what is claimed, {claim.relation} {allowed}",
        "better": f"beyond what is claimed, {claim.relation} {allowed}, on the side that is better",
        "not reproduced": f"not {claim.relation} {allowed}",
        "not yet run": "",
        "not built": "",
    }[kind]
    doubt = ", but its interval leaves that open" if leaves_open(claim, value) else ""
    return f"{measured}: {end}{doubt}."
