"""Tamara over platforms, not a cost model: a Scribe over Pastry whose nodes come and go, and Overstory's routers."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np

from overstory.lab.experiment import BySeed, Experiment, Parameters, Row, Settings
from overstory.lab.measuring import by_seed, quotients, where
from overstory.lab.platforms.churn import churned
from overstory.lab.platforms.layer import Layered
from overstory.lab.platforms.platform import Platform
from overstory.lab.platforms.routers import Routers
from overstory.lab.platforms.scribe import Scribe
from overstory.lab.topic_cells import SCRIBE, TAMARA, workload
from overstory.planners.topics.core.formulas import tables_of
from overstory.planners.topics.costs import linear
from overstory.planners.topics.replaying import Rules

PLATFORMS: dict[str, Callable[[int], Platform]] = {"scribe": Scribe, "routers": Routers}
INTERVALS, CRASHING = 10, 0.02  # how many intervals, and the share of nodes that crashes in each


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    size: Settings = {"users": 80, "topics": 24} if quick else {"users": 600, "topics": 60}
    for seed in range(1, 2 if quick else 4):
        for platform in PLATFORMS:
            yield {"platform": platform, **size, "natural_clusters": 2 if quick else 5, "noise": 0.25, "seed": seed}


def run(settings: Settings) -> list[Row]:
    """Everyone declares its interests, then nodes crash and come back: without clusters, and with them."""
    work = workload({key: value for key, value in settings.items() if key != "platform"} | {"interests": 10})
    demand, seed = work.demand, int(str(settings["seed"]))
    rates, costs = demand.rates.tolist(), tables_of(linear(demand.users, len(demand.rates)))
    rows = []
    for way, rules in ((SCRIBE, Rules(phi=0.0, seed=seed)), (TAMARA, Rules(seed=seed))):
        platform = PLATFORMS[str(settings["platform"])](demand.users)
        system = Layered(demand.users, rates, costs, rules, 3 * len(rates)).over(platform)
        for user, topic in zip(work.changes.users.tolist(), work.changes.topics.tolist(), strict=True):
            system.gain_interest(user, topic)
        found = churned(system, INTERVALS, CRASHING, np.random.default_rng([seed, 5]))
        rows.append(
            settings
            | {"way": way, "clusters": len(system.clusters), "model": sum(system.overall())}
            | {"messages": found.messages, "subscribing": system.carried, **found._asdict()}
        )
    return rows


def over(rows: Sequence[Row], platform: str, value: str) -> BySeed:
    """What a platform takes with clusters, relative to without."""
    return quotients(where(rows, platform=platform), value, {"way": TAMARA}, {"way": SCRIBE})


def lost(rows: Sequence[Row], way: str) -> BySeed:
    return by_seed(where(rows, platform="scribe", way=way), "lost")


EXPERIMENT = Experiment(
    "topics-platforms",
    "what clusters of topics save on a Scribe over Pastry whose nodes come and go, and on Overstory's routers",
    cells,
    run,
    figure="ours, after section 5.1 of topics",
    measures={
        **{
            f"{platform}_{value}_over_alone": partial(over, platform=platform, value=value)
            for platform in PLATFORMS
            for value in ("keep_alives", "messages", "model")
        },
        "scribe_repairs_over_alone": partial(over, platform="scribe", value="repairs"),
        "scribe_lost_alone": partial(lost, way=SCRIBE),
        "scribe_lost_with_clusters": partial(lost, way=TAMARA),
    },
)
