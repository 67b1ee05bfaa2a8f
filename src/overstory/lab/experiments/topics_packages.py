"""Fig. 9 of Milo et al.: users of software packages join one after the other, with structures that are maintained every
2, 12 and 24 hours."""

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from overstory.lab import topic_cells
from overstory.lab.experiment import BySeed, Experiment, Figure, Parameters, Row, Settings
from overstory.lab.measuring import by_seed, lines, where
from overstory.lab.topic_packages import DEBIAN, DRAWN, WATCHES, package_demand
from overstory.planners.topics.clustering import alone, overall
from overstory.planners.topics.costs import linear
from overstory.planners.topics.replaying import LITERAL, RECOVERING, Replay, Rules, empty_state, replayed
from overstory.planners.topics.tamara import joins

HOURS = (2, 12, 24)
YEAR = 365 * 24.0  # hours in which users join
ROOM = 600  # clusters at once
WAYS = {"tamara-literal": LITERAL, "tamara": RECOVERING}


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    data = str(parameters["data"] or "")
    sources = (DEBIAN, WATCHES) if data else (DRAWN,)
    users, packages, seeds = (120, 200, 1) if quick else (1000, 3000, 3)
    for seed in range(1, seeds + 1):
        for source in sources:
            for hours in HOURS:
                yield {
                    "source": source,
                    "data": data,
                    "users": users,
                    "packages": packages,
                    "hours": hours,
                    "looks": 20 if quick else 40,
                    "seed": seed,
                }


def run(settings: Settings) -> list[Row]:
    users, packages, hours, looks, seed = (
        int(str(settings[name])) for name in ("users", "packages", "hours", "looks", "seed")
    )
    demand = package_demand(str(settings["source"]), str(settings["data"]), users, packages, hours, seed)
    costs = linear(demand.users, len(demand.rates))
    scribe = overall(demand, costs, alone(demand))
    rows = []
    for way, mode in WAYS.items():
        state = empty_state(demand.users, demand.rates, costs, Rules(mode, seed=seed), ROOM)
        done = replayed(state, joins(demand, seed), looks)
        cost = done.timeline.costs[-1]
        plain = {key: value for key, value in settings.items() if key != "data"}
        rows.append(
            plain
            | {"way": way, "topics": len(demand.rates), "interests": len(demand.topics)}
            | {"times": scribe.cost / cost.cost, "times_maintenance": scribe.maintenance / cost.maintenance}
            | {"break_even": break_even(done, users, hours, 0), "clusters": int(done.timeline.clusters[-1])}
            | {"break_even_with_effort": break_even(done, users, hours, 1)}
        )
        if seed == topic_cells.FIRST_SEED and way == topic_cells.TAMARA:
            rows += [plain | row for row in _curves(done, users, hours)]
    return rows


def _costs(done: Replay, hours: float, with_effort: int) -> NDArray[np.float64]:
    """Of an interval, as users come evenly over a year; with the effort of forming clusters, or without."""
    timeline = done.timeline
    sent = np.diff(timeline.messages, prepend=0) / (YEAR / hours / len(timeline.times))
    cost: NDArray[np.float64] = np.array([each.cost for each in timeline.costs]) + with_effort * sent
    return cost


def break_even(done: Replay, users: int, hours: float, with_effort: int) -> float:
    """How many users have joined when the cost is below Scribe's for good."""
    cost = _costs(done, hours, with_effort)
    dear = np.flatnonzero(cost >= done.timeline.scribe)
    at = int(dear[-1]) + 1 if len(dear) else 0
    return users * (at + 1) / len(cost)


def _curves(done: Replay, users: int, hours: float) -> list[Row]:
    """What an interval costs as users join."""
    drawn = {
        topic_cells.TAMARA: _costs(done, hours, 0),
        f"{topic_cells.TAMARA}, with the effort": _costs(done, hours, 1),
        topic_cells.SCRIBE: done.timeline.scribe,
    }
    return [
        {"curve": label, "joined": users * (at + 1) / len(values), "interval_cost": float(cost)}
        for label, values in drawn.items()
        for at, cost in enumerate(values.tolist())
    ]


def of(rows: Sequence[Row], value: str, hours: int, source: str | None = None) -> BySeed:
    sources = (source,) if source else (DEBIAN, DRAWN)
    mine = [row for row in where(rows, way="tamara", hours=hours) if row["source"] in sources]
    return by_seed(mine, value)


def figures(rows: Sequence[Row]) -> list[Figure]:
    packages = [row for row in rows if row["source"] != WATCHES]
    mine = [row for row in packages if "way" in row]
    title = "How many times less than Scribe"
    times = Figure("topics-packages", title, "hours between maintenance", "times", lines(mine, "hours", "times", "way"))
    return [times, *(_joining(packages, hours) for hours in HOURS)]


def _joining(rows: Sequence[Row], hours: int) -> Figure:
    """Fig. 9, of one seed."""
    mine = [row for row in where(rows, hours=hours) if "curve" in row]
    title = f"Users of packages join, maintenance every {hours} hours"
    drawn = lines(mine, "joined", "interval_cost", "curve")
    return Figure(f"topics-packages-{hours}", title, "users", "messages in an interval", drawn)


EXPERIMENT = Experiment(
    "topics-packages",
    "what clusters of topics save users of software packages, by how often structures are maintained",
    cells,
    run,
    topic_cells.PAPER,
    "Fig. 9",
    parameters={"data": ""},
    measures={
        "scribe_over_tamara": partial(of, value="times", hours=24),
        "scribe_over_tamara_dense": partial(of, value="times", hours=2),
        "scribe_over_tamara_dense_maintenance": partial(of, value="times_maintenance", hours=2),
        "break_even_users": partial(of, value="break_even", hours=24),
        "break_even_users_with_effort": partial(of, value="break_even_with_effort", hours=24),
        "watches_scribe_over_tamara": partial(of, value="times", hours=24, source=WATCHES),
    },
    figures=figures,
)
