"""The state that steering needs beside trees: entries, summaries, and what a change of a subscription sends.

``messages`` are the entries that one more subscription adds, on average: each crosses its link once. One tree with
exact filters is what active covering keeps. ``cheaper_below`` is how many subscriptions may change for each event, if a
message is as large as an event, before one tree is cheaper than steering everything. ``held`` is how many filters and
summaries of others the broker with most of them holds, if it may publish everywhere: only where all is steered.
``core`` is what an event costs between brokers, so that with ``messages`` it tells the cost at every rate of changes.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from overstory.lab.experiment import BySeed, Experiment, Figure, Parameters, Row, Settings
from overstory.lab.localized import Localized
from overstory.lab.measuring import by_seed, excess, largest, lines, number, quotients, where
from overstory.lab.ranges import make_ranges
from overstory.lab.steered_cells import MANY_TREES, ONE_TREE, STEERED, making, network_of, planned, scenario_from
from overstory.lab.tree_cells import DATA_SETS, events_of
from overstory.model.plan import Plan, Value
from overstory.model.scenario import Scenario
from overstory.model.scorecard import Scorecard
from overstory.model.tables import STEERED as STEERED_KINDS
from overstory.pipeline.entries import entries_of, steered_summaries
from overstory.pipeline.rules import listed, metered
from overstory.pipeline.summaries import links_of
from overstory.pipeline.workbench import Workbench
from overstory.planners.chains import make_plan

CYCLIC, SUMMARISED = "cyclic covering", "steered, 16 boxes"
REGIONS, SUMMARISED_REGIONS = "steered by regions", "steered by regions, 16 boxes"
OTHERS: dict[str, tuple[str, dict[str, Value]]] = {
    CYCLIC: ("covering-cyclic", {}),
    SUMMARISED: ("steered", {"steer": "all", "boxes": 16}),
    REGIONS: ("steered", {"steer": "all"}),
    SUMMARISED_REGIONS: ("steered", {"steer": "all", "boxes": 16}),
}
KEYWORDS, RANGES = "keywords", "ranges"
MOST_CYCLIC = 200  # brokers; beyond, a tree for each of them is too much
SAMPLED = 12  # subscriptions, for what one more sends
RATES = (0.0, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05)  # changes of subscriptions for each event, in the figure


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    sizes, seeds = ((40,), 1) if quick else ((100, 200, 500, 1000), 3)
    for seed in range(1, seeds + 1):
        for brokers in sizes:
            for data, interest in (("Localized1", KEYWORDS), ("Uniform", KEYWORDS), ("Localized1", RANGES)):
                yield {
                    "network": "transit-stub",
                    "brokers": brokers,
                    "data": data,
                    "interest": interest,
                    "keywords": 100 if quick else 1000,
                    "events": events_of(quick),
                    "seed": seed,
                }


def run(settings: Settings) -> list[Row]:
    with scenario_from(_making(settings)) as scenario:
        return _rows(settings, scenario, int(str(settings["seed"])))


def _rows(settings: Settings, scenario: Scenario, seed: int) -> list[Row]:
    bench = Workbench(scenario)
    plans = {way: planned(scenario, way, seed) for way in (ONE_TREE, MANY_TREES, STEERED)}
    for way, (planner, given) in OTHERS.items():
        if way in (REGIONS, SUMMARISED_REGIONS):
            given = given | {"regions": round(len(scenario.network) ** 0.5)}
        if way != CYCLIC or len(scenario.network) <= MOST_CYCLIC:
            plans[way] = make_plan(planner, scenario, bench, given, seed)
    cards = {way: bench.score(plan) for way, plan in plans.items()}
    messages = {way: messages_of(scenario, bench, plan, seed) for way, plan in plans.items()}
    below = cheaper_below(cards, messages)
    return [
        settings
        | {"way": way, "entries": card.entries_core, "messages": messages[way], "summaries": _summaries(plans[way])}
        | {"cost": card.cost_held_out, "false_positives": card.false_positives, "cheaper_below": below}
        | {"held": held(scenario, bench, plans[way]), "core": card.core / max(card.events, 1)}
        for way, card in cards.items()
    ]


def _making(settings: Settings) -> Callable[[Path], None]:
    if settings["interest"] == KEYWORDS:
        return making(settings, keywords=settings["keywords"])
    seed = int(str(settings["seed"]))
    made = network_of(str(settings["network"]), int(str(settings["brokers"])), seed)
    events, keywords = (int(str(settings[name])) for name in ("events", "keywords"))
    what = Localized(locality=DATA_SETS[str(settings["data"])], events=events, keywords=keywords)
    return lambda folder: make_ranges(folder, made, what, seed)


def messages_of(scenario: Scenario, bench: Workbench, plan: Plan, seed: int) -> float:
    """Entries that a subscription adds to those of all others, over some that are drawn. A summary row that changes
    crosses all its links again; so does that of its region."""
    if _summaries(plan):
        known = metered(scenario, plan, bench.publishers(scenario))
        both = steered_summaries(listed(scenario, plan, known))
        found = [
            links_of(known, each, of_regions) / max(len(each.place), 1)
            for of_regions, each in zip((False, True), both, strict=True)
        ]
        return sum(found)
    every = scenario.subscriptions["id"].to_numpy()
    drawn = np.random.default_rng(seed).choice(every, min(SAMPLED, len(every)), replace=False)
    whole = _entries(scenario, bench, plan)
    return float(
        np.mean([whole - _entries(_without(scenario, each), bench, _plan_without(plan, each)) for each in drawn])
    )


def _entries(scenario: Scenario, bench: Workbench, plan: Plan) -> int:
    known = metered(scenario, plan, bench.publishers(scenario))
    return entries_of(plan, listed(scenario, plan, known)).core or 0


def _without(scenario: Scenario, subscription: int) -> Scenario:
    kept = pc.not_equal(scenario.subscriptions["id"], subscription)
    return replace(scenario, subscriptions=scenario.subscriptions.filter(kept))


def _plan_without(plan: Plan, subscription: int) -> Plan:
    return replace(plan, members=plan.members.filter(pc.not_equal(plan.members["subscription"], subscription)))


def _summaries(plan: Plan) -> int:
    """Rows that hosts tell publishing brokers."""
    return sum(row["source"] == row["target"] for row in plan.filters.to_pylist())


def held(scenario: Scenario, bench: Workbench, plan: Plan) -> int | None:
    """How many parts of others' summaries a broker holds, at most."""
    if any(kind not in STEERED_KINDS for kind in plan.flows["kind"].to_pylist()):
        return None
    known = listed(scenario, plan, metered(scenario, plan, bench.publishers(scenario)))
    size, gateway = len(scenario.network), known.rules.gateway
    hosts, regions = (
        np.bincount(each.place, each.parts, size * plan.flows.num_rows).reshape(-1, size)
        for each in steered_summaries(known)
    )
    found = np.zeros(size)
    for flow in range(plan.flows.num_rows):
        mine = gateway[flow * size : (flow + 1) * size] if len(gateway) > 1 else np.zeros(size, np.int64)
        inside = np.bincount(mine, hosts[flow], size)
        found += inside[mine] - hosts[flow] + regions[flow].sum() - regions[flow][mine]
    return int(found.max())


def cheaper_below(cards: dict[str, Scorecard], messages: dict[str, float]) -> float | None:
    """Changes of subscriptions for each event; None: always, or never."""
    tree, ours = cards[ONE_TREE], cards[STEERED]
    more, saved = messages[STEERED] - messages[ONE_TREE], tree.core - ours.core
    return saved / ours.events / more if more > 0 and saved > 0 else None


def times(
    rows: Sequence[Row], value: str, way: str = STEERED, other: str = ONE_TREE, interest: str = KEYWORDS
) -> BySeed:
    """Beside another way, on the largest network."""
    most = max((int(str(row["brokers"])) for row in rows), default=0)
    mine = where(rows, interest=interest, data="Localized1", brokers=most)
    return quotients(mine, value, {"way": way}, {"way": other})


def more_for_few_boxes(rows: Sequence[Row]) -> BySeed:
    """What summaries of few boxes cost more than exact ones on range interests, in percent."""
    return excess(times(rows, "cost", SUMMARISED, STEERED, RANGES))


def changes(rows: Sequence[Row]) -> BySeed:
    mine = where(rows, way=STEERED, interest=KEYWORDS, data="Localized1")
    return by_seed([row for row in mine if row["cheaper_below"] is not None], "cheaper_below")


def churned(rows: Sequence[Row]) -> list[Row]:
    """What an event costs with the changes of subscriptions that come with it, on the largest network."""
    mine = largest(where(rows, interest=KEYWORDS, data="Localized1"))
    return [
        row | {"rate": rate, "with_changes": number(row, "core") + rate * number(row, "messages")}
        for row in mine
        for rate in RATES
    ]


def figures(rows: Sequence[Row]) -> list[Figure]:
    state = [
        Figure(
            f"steered-state-{name}",
            f"{title}, keywords of Localized1",
            "brokers",
            title,
            lines(where(rows, interest=KEYWORDS, data="Localized1"), "brokers", name, "way"),
            log_x=True,
            log_y=True,
        )
        for name, title in (("entries", "Entries between brokers"), ("messages", "Messages of one more subscription"))
    ]
    churn = lines(churned(rows), "rate", "with_changes", "way", (STEERED, SUMMARISED, ONE_TREE, MANY_TREES))
    title = "Subscriptions that change, Localized1"
    cost = "links crossed for each event, by messages too"
    return [*state, Figure("steered-churn", title, "changes for each event", cost, churn)]


EXPERIMENT = Experiment(
    "steered-state",
    "entries, summaries and messages of steering, by regions and not, beside one tree, many trees and covering on a "
    "cyclic overlay",
    cells,
    run,
    measures={
        "entries_over_one_tree": partial(times, value="entries"),
        "messages_over_one_tree": partial(times, value="messages"),
        "entries_of_summaries_over_one_tree": partial(times, value="entries", way=SUMMARISED),
        "entries_of_regions_over_steered": partial(times, value="entries", way=REGIONS, other=STEERED),
        "held_by_regions_over_steered": partial(times, value="held", way=SUMMARISED_REGIONS, other=SUMMARISED),
        "cost_of_regions_over_steered": partial(times, value="cost", way=REGIONS, other=STEERED),
        "more_for_few_boxes": more_for_few_boxes,
        "changes_for_an_event": changes,
    },
    figures=figures,
)
