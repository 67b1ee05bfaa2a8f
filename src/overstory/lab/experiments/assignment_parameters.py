"""What Yu, Agarwal and Yang leave to their report: how bandwidth, time and the size of certificates follow from the
knobs of their algorithm, and from where brokers are."""

from collections.abc import Iterable, Sequence
from functools import partial

from overstory.lab import assignment_cells as cells_
from overstory.lab.experiment import BySeed, Experiment, Figure, Line, Measure, Parameters, Row, Settings
from overstory.lab.measuring import estimate, number, where

SWEEPS: dict[str, tuple[float, ...]] = {
    "for_load": (5, 10, 20),
    "sampled": (5, 10, 20),
    "per_broker": (2, 5, 10),
    "super_subscriptions": (0, 1),
    "expansion": (0.05, 0.1, 0.2, 0.5),
    "overlap": (0.5, 0.75, 0.9),
    "in_time": (0.1, 0.3, 0.6),
}
SEVERAL = ("in_time",)  # knobs of several levels
PLACES = ("subscribers", "even")
WHERE = ("gr-star", "slp1", "assignment-search")


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    for seed in cells_.seeds(quick):
        for knob, values in SWEEPS.items():
            levels = "several" if knob in SEVERAL else "one"
            for value in values[:2] if quick else values:
                sizes = cells_.sizes(quick, levels)
                scenario = cells_.USUAL | {"workload": "HL", "levels": levels, "seed": seed, **sizes}
                yield scenario | {"planner": "slp" if knob in SEVERAL else "slp1", "knob": knob, "value": float(value)}
        for places in PLACES:
            scenarios: list[Settings] = [
                {
                    "workload": "HL",
                    "seed": seed,
                    **cells_.sizes(quick),
                    "broker_places": places,
                    "knob": "broker_places",
                }
            ]
            yield from cells_.cells(scenarios, WHERE)


def largest_certificate(rows: Sequence[Row]) -> BySeed:
    """Subscribers of the largest certificate, as a percentage of all."""
    found: BySeed = {}
    for row in rows:
        if row.get("certificate") is not None:
            seed, share = int(number(row, "seed")), 100 * number(row, "certificate") / number(row, "subscribers")
            found[seed] = max(found.get(seed, 0.0), share)
    return found


def spread(rows: Sequence[Row], knob: str) -> BySeed:
    """The dearest over the cheapest value of a knob."""
    found: dict[int, list[float]] = {}
    for row in where(rows, knob=knob):
        found.setdefault(int(number(row, "seed")), []).append(number(row, "bandwidth"))
    return {seed: max(costs) / min(costs) for seed, costs in found.items()}


MEASURES: dict[str, Measure] = {
    "largest_certificate_percent": largest_certificate,
    **{f"{knob}_spread": partial(spread, knob=knob) for knob in SWEEPS},
}


def figures(rows: Sequence[Row]) -> list[Figure]:
    found = []
    for knob in SWEEPS:
        mine = where(rows, knob=knob)
        values = sorted({number(row, "value") for row in mine})
        means = [estimate([number(row, "bandwidth") for row in where(mine, value=value)]) for value in values]
        known = [(value, mean) for value, mean in zip(values, means, strict=True) if mean is not None]
        if known:
            x, y = [value for value, _ in known], [mean.mean for _, mean in known]
            line = Line("slp" if knob in SEVERAL else "slp1", x, y, [mean.spread or 0.0 for _, mean in known])
            name = f"assignment-parameters-{knob.replace('_', '-')}"
            found.append(Figure(name, f"Bandwidth by {knob}", knob, "bytes into brokers", [line]))
    return found


EXPERIMENT = Experiment(
    "assignment-parameters",
    "bandwidth and certificates by the knobs of linear programming, and by where brokers are",
    cells,
    cells_.run,
    figure="ours, after section VI of assignment",
    measures=MEASURES,
    figures=figures,
)
