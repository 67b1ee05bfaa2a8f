"""Cells of the experiments on topics: one workload, several ways to cluster it, what each costs at the end of the run.

Everything is reckoned by the paper's formulas, which the meter equals (a test says so). The *effort* is what forming
and adapting clusters takes, every message counted, relative to the overall cost over the period.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from overstory.kernels.tamara_state import KINDS, UPDATES
from overstory.lab.experiment import BySeed, Figure, Measure, Row, Settings
from overstory.lab.measuring import by_seed, lines, quotients, savings, where
from overstory.lab.topics import PERIODS, M, Topics, Workload, draw_workload
from overstory.lab.topics_calibration import static
from overstory.model.plan import Value
from overstory.pipeline.interests import partners_here
from overstory.planners.topics.clustering import Clustering, Overall, alone, covered, overall
from overstory.planners.topics.costs import Costs, linear
from overstory.planners.topics.demand import Demand, lower_bound
from overstory.planners.topics.k_means import KS, disjoint, labellings
from overstory.planners.topics.overlay import overlay_cost
from overstory.planners.topics.replaying import (
    LITERAL,
    RECOVERING,
    Replay,
    Rules,
    Timeline,
    clustering_of,
    empty_state,
    replayed,
    settle,
)
from overstory.planners.topics.seeding import CORRECTIONS, seeded
from overstory.planners.topics.tamara import joins
from overstory.planners.topics.topic_search import PARTNERS, searched

PAPER = "topics"
SCRIBE, LITERALLY, TAMARA, SEEDED = "scribe", "tamara-literal", "tamara", "tamara, seeded"
PLANTED, K_MEANS, TEN_MEANS, K_MEANS_GREEDY = "planted", "k-means", "k-means, K=10", "k-means, never reconsidered"
STATIC, SEARCH, BOUND, TCO = "static clusters", "topic-search", "bound", "TCO-GM"
MODELS = ("average", "frequent", "infrequent")
FIRST_SEED = 1  # whose runs are drawn as curves
DAY = 86400.0
LOOKS = 60  # at the cost of a run, evenly spread


class Outcome(NamedTuple):
    """What a way costs at the end, and, of online ones, what it took to get there."""

    cost: Overall
    clusters: int = 0
    width: float = 0.0  # topics of a cluster, on average
    direct: float = 0.0  # topics with a direct subscriber, as a share
    replay: Replay | None = None


def seeds(quick: bool) -> Iterable[int]:
    return range(1, 2 if quick else 11)


def workload(settings: Settings) -> Workload:
    names = Topics.__struct_fields__
    given = {key: value for key, value in settings.items() if key in names}
    return draw_workload(Topics(**given), int(str(settings["seed"])))  # type: ignore[arg-type]


def outcomes(work: Workload, ways: Sequence[str], seed: int) -> dict[str, Outcome]:
    costs = linear(work.demand.users, len(work.demand.rates))
    return {way: WAYS[way](work, costs, seed) for way in ways}


def of_clustering(demand: Demand, costs: Costs, found: Clustering) -> Outcome:
    width = float(np.mean(found.widths)) if found.clusters else 0.0
    return Outcome(overall(demand, costs, found), found.clusters, width)


def _scribe(work: Workload, costs: Costs, seed: int) -> Outcome:
    return of_clustering(work.demand, costs, alone(work.demand))


def _planted(work: Workload, costs: Costs, seed: int) -> Outcome:
    return of_clustering(work.demand, costs, covered(work.demand, costs, disjoint(work.block)))


def _means(ks: Sequence[int]) -> Callable[[Workload, Costs, int], Outcome]:
    def found(work: Workload, costs: Costs, seed: int) -> Outcome:
        tries = [covered(work.demand, costs, disjoint(each)) for each in labellings(work.demand, ks, seed)]
        return min((of_clustering(work.demand, costs, each) for each in tries), key=lambda each: each.cost.cost)

    return found


def _means_greedily(work: Workload, costs: Costs, seed: int) -> Outcome:
    """Users subscribe as they come, by the paper's rule, and never reconsider."""
    come = work.changes if work.before is None else joins(work.demand, seed)  # as if everyone had just come
    tries = [static(work.demand, disjoint(each), come) for each in labellings(work.demand, KS, seed)]
    return Outcome(min(tries, key=lambda each: each.cost))


def _searched(work: Workload, costs: Costs, seed: int) -> Outcome:
    return of_clustering(work.demand, costs, search(work.demand, costs, seed))


def search(demand: Demand, costs: Costs, seed: int) -> Clustering:
    return searched(demand, costs, partners_here(demand.both_ways(), PARTNERS), seed)


def _overlay(work: Workload, costs: Costs, seed: int) -> Outcome:
    """Links among users: a reference, and no plan."""
    return Outcome(overlay_cost(work.demand, costs))


def _static(work: Workload, costs: Costs, seed: int) -> Outcome:
    """The natural clusters of the beginning stay; users subscribe by the paper's rule as their interests change."""
    before = work.before or work.demand
    clusters = disjoint(work.block_before)
    start = covered(before, costs, clusters)
    state = empty_state(before.users, before.rates, costs, Rules(LITERAL, phi=0.0), len(clusters) + 1)
    settle(state, before, start)
    return _replayed(work, costs, replayed(state, work.changes, LOOKS))


def _online(mode: int) -> Callable[[Workload, Costs, int], Outcome]:
    """From nothing, or from the natural clusters of the beginning, among which everyone has chosen well."""

    def found(work: Workload, costs: Costs, seed: int) -> Outcome:
        before, rules = work.before or work.demand, Rules(mode, seed=seed)
        state = empty_state(before.users, before.rates, costs, rules)
        if work.before is not None:
            settle(state, before, covered(before, costs, disjoint(work.block_before)))
        return _replayed(work, costs, replayed(state, work.changes, LOOKS))

    return found


def _seeded(work: Workload, costs: Costs, seed: int) -> Outcome:
    """From the clusters of the search, or from nothing, and corrected by it."""
    nobody = Demand(np.zeros(work.demand.users + 1, np.int64), np.empty(0, np.int32), work.demand.rates)
    rules, looks = Rules(RECOVERING, seed=seed), LOOKS // (CORRECTIONS + 1)
    done = seeded(work.before or nobody, work.changes, costs, rules, lambda demand: search(demand, costs, seed), looks)
    return _replayed(work, costs, done)


def _replayed(work: Workload, costs: Costs, done: Replay) -> Outcome:
    found = clustering_of(done.state)
    told = of_clustering(work.demand, costs, found)
    return told._replace(direct=float(np.mean(done.state.fans > 0)), replay=done)


WAYS: dict[str, Callable[[Workload, Costs, int], Outcome]] = {
    SCRIBE: _scribe,
    PLANTED: _planted,
    K_MEANS: _means(KS),
    TEN_MEANS: _means((10,)),
    K_MEANS_GREEDY: _means_greedily,
    STATIC: _static,
    LITERALLY: _online(LITERAL),
    TAMARA: _online(RECOVERING),
    SEEDED: _seeded,
    SEARCH: _searched,
    TCO: _overlay,
}


def rows_of(settings: Settings, work: Workload, found: dict[str, Outcome]) -> list[Row]:
    """One row for each way, and one for the bound, each with its cost and what it is made of."""
    costs = linear(work.demand.users, len(work.demand.rates))
    period = PERIODS[str(settings.get("period", "two-months"))]
    rows = [settings | {"way": way} | _told(one, period) for way, one in found.items()]
    if settings.get("seed") == FIRST_SEED:
        rows += [settings | row for way, one in found.items() if one.replay for row in _curve(way, one.replay, period)]
    bound = lower_bound(work.demand, costs)
    return [*rows, settings | {"way": BOUND, "cost": bound, "maintenance": 0.0, "dissemination": 0.0}]


def _told(one: Outcome, period: float) -> Row:
    row: Row = {
        "cost": one.cost.cost,
        "maintenance": one.cost.maintenance,
        "dissemination": one.cost.dissemination,
        "clusters": one.clusters,
        "topics_in_a_cluster": one.width,
        "topics_with_direct_subscribers": one.direct,
    }
    if one.replay is None:
        return row
    row |= {f"messages_{kind}": count for kind, count in one.replay.messages.items()}
    row |= {f"updates_{kind}": count for kind, count in one.replay.updates.items()}
    return row | _efforts(one.replay.timeline, period)


def _curve(way: str, replay: Replay, period: float) -> list[Row]:
    """What an interval costs as time goes by, without and with the effort of clusters, and by Scribe."""
    timeline = replay.timeline
    days = timeline.times * (period / max(timeline.times[-1], 1e-9)) / DAY
    costs = np.array([each.cost for each in timeline.costs])
    sent = np.diff(timeline.messages, prepend=0) / np.maximum(np.diff(days, prepend=0.0) * DAY / M, 1e-9)
    drawn = {way: costs, f"{way}, with the effort": costs + sent, SCRIBE: timeline.scribe}
    return [
        {"curve": label, "day": float(day), "interval_cost": float(cost)}
        for label, values in drawn.items()
        for day, cost in zip(days, values, strict=True)
    ]


def curves(rows: Sequence[Row], name: str, title: str, **which: Value) -> Figure:
    """The cost as time goes by, of one seed."""
    mine = [row for row in where(rows, **which) if "curve" in row]
    return Figure(name, title, "day", "messages in an interval", lines(mine, "day", "interval_cost", "curve"))


def _efforts(timeline: Timeline, period: float) -> Row:
    """What it costs with the effort of forming clusters, over the run: as shares of the cost without, and of Scribe."""
    length = np.diff(timeline.times, prepend=0.0) * (period / max(timeline.times[-1], 1e-9)) / M
    cost = np.array([each.cost for each in timeline.costs]) * length
    sent = np.diff(timeline.messages, prepend=0)
    scribe = timeline.scribe * length
    half = len(cost) // 2
    later = slice(half, None)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(cost > 0, (cost + sent) / cost, 1.0)
    return {
        "with_effort": float((cost + sent).sum() / max(cost.sum(), 1e-9)),
        "with_effort_worst": float(each.max()),
        "over_scribe_with_effort": float((cost + sent).sum() / max(scribe.sum(), 1e-9)),
        "over_scribe_with_effort_later": float((cost + sent)[later].sum() / max(scribe[later].sum(), 1e-9)),
    }


def run(settings: Settings) -> list[Row]:
    work = workload(settings)
    ways = str(settings["ways"]).split("|")
    plain = {key: value for key, value in settings.items() if key != "ways"}
    return rows_of(plain, work, outcomes(work, ways, int(str(settings["seed"]))))


def saved(rows: Sequence[Row], way: str, **which: Value) -> BySeed:
    """How much less than Scribe a way costs, in percent."""
    return savings(quotients(where(rows, **which), "cost", {"way": way}, {"way": SCRIBE}))


def ratio(rows: Sequence[Row], way: str, other: str, value: str = "cost", **which: Value) -> BySeed:
    return quotients(where(rows, **which), value, {"way": way}, {"way": other})


def worst(rows: Sequence[Row], way: str, other: str) -> BySeed:
    """The largest quotient of the three models."""
    each = [ratio(rows, way, other, frequency=model) for model in MODELS]
    return {seed: max(one[seed] for one in each) for seed in set.intersection(*(set(one) for one in each))}


def column(rows: Sequence[Row], value: str, way: str = TAMARA, **which: Value) -> BySeed:
    return by_seed([row for row in where(rows, way=way, **which) if row.get(value) is not None], value)


def beyond(rows: Sequence[Row], way: str, other: str, **which: Value) -> BySeed:
    """How many points more of Scribe's cost a way saves than another."""
    one, than = saved(rows, way, **which), saved(rows, other, **which)
    return {seed: one[seed] - than[seed] for seed in one.keys() & than.keys()}


def statistics(*ways: str, **which: Value) -> dict[str, Measure]:
    """With average events: how many clusters there are in the end, how wide they are, how many topics still have direct
    subscribers, and how many updates and messages it took."""

    def of(way: str, *values: str) -> Measure:
        def summed(rows: Sequence[Row]) -> BySeed:
            each = [column(rows, value, way, frequency="average", **which) for value in values]
            return {seed: sum(one[seed] for one in each) for seed in each[0]}

        return summed

    found: dict[str, Measure] = {}
    for way in ways:
        name = way.replace(", ", "_").replace("-", "_")
        online = ("topics_with_direct_subscribers", *(f"updates_{kind}" for kind in UPDATES)) if way != SEARCH else ()
        for value in ("clusters", "topics_in_a_cluster", *online):
            found[f"{name}_{value}"] = of(way, value)
        if online:
            found[f"{name}_messages"] = of(way, *(f"messages_{kind}" for kind in KINDS))
    return found
