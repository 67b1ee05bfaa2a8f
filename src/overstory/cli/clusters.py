"""overstory clusters: the clusters of topics of a plan, what clients throw away, and what it would cost without."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from overstory.cli.engine import add_options, pipeline_for
from overstory.cli.output import print_json
from overstory.cli.tables import table
from overstory.model.plan import read_plan
from overstory.model.scenario import read_scenario
from overstory.planners.topics.clustering import Clustering, alone, overall
from overstory.planners.topics.demand import Asked, asked_in, lower_bound
from overstory.planners.topics.history import changes_in
from overstory.planners.topics.reading import clustering_in
from overstory.planners.topics.replaying import Rules, Timeline, empty_state, replayed
from overstory.planners.topics.tamara import joins

MOST_TOPICS = 6  # that a row names
MOST_ROWS = 40
LOOKS = 12  # rows of a timeline
DAY = 86400.0


def add_to(commands: Any) -> None:
    command = commands.add_parser("clusters", help="tell which topics share a tree, and what that saves")
    command.add_argument("scenario", metavar="DIR", type=Path, help="the folder of the scenario")
    command.add_argument("plan", metavar="PLAN", type=Path, help="a plan of topics")
    command.add_argument(
        "--timeline", action="store_true", help="replay the history of interests, and tell what changed when"
    )
    add_options(command)
    command.set_defaults(run=run_clusters)


def run_clusters(arguments: argparse.Namespace) -> None:
    scenario, plan = read_scenario(arguments.scenario), read_plan(arguments.plan)
    with pipeline_for(arguments) as pipeline:
        asked = asked_in(scenario, pipeline)
    found = clustering_in(scenario, plan, asked)
    rows, costs = rows_of(asked, found), costs_of(asked, found)
    changes = (changes_in(scenario, asked) or joins(asked.demand, 0)) if arguments.timeline else None
    times = [] if changes is None else timeline_rows(replayed(_started(asked), changes, LOOKS).timeline)
    if arguments.json:
        told = {"clusters": rows, **costs} | ({"timeline": times} if arguments.timeline else {})
        print_json({"scenario": str(arguments.scenario), "plan": str(arguments.plan), **told})
        return
    print(table(tuple(rows[0]) if rows else ("cluster",), [tuple(row.values()) for row in rows[:MOST_ROWS]]))
    if len(rows) > MOST_ROWS:
        print(f"  and {len(rows) - MOST_ROWS:,} with fewer clients; --json lists them all")
    print(_in_words(costs))
    if times:
        print(f"\n{table(tuple(times[0]), [tuple(row.values()) for row in times])}")


def _started(asked: Asked) -> Any:
    return empty_state(asked.demand.users, asked.demand.rates, asked.costs, Rules())


def _in_words(costs: dict[str, float]) -> str:
    difference = f"{100 * abs(costs['saved']):.1f}% {'less' if costs['saved'] >= 0 else 'more'}"
    return (
        f"  an interval costs {costs['cost']:,.0f}, {difference} than without clusters ({costs['without']:,.0f}); "
        f"no plan costs less than {costs['bound']:,.0f}"
    )


def timeline_rows(timeline: Timeline) -> list[dict[str, Any]]:
    """How the clusters came about, if Tamara had followed every change."""
    return [
        {
            "day": round(time / DAY, 2),
            "clusters": clusters,
            "cost": round(cost.cost),
            "without": round(without),
            "messages": messages,
        }
        for time, cost, messages, clusters, without in zip(
            timeline.times.tolist(),
            timeline.costs,
            timeline.messages.tolist(),
            timeline.clusters.tolist(),
            timeline.scribe.tolist(),
            strict=True,
        )
    ]


def rows_of(asked: Asked, found: Clustering) -> list[dict[str, Any]]:
    """The clusters with most clients first: what each client gets in an interval, and throws away of it."""
    demand, names = asked.demand, asked.interests.names
    has = found.has(len(names))
    loads, wanted = has @ demand.rates, wanted_by(demand.offsets, demand.topics, demand.rates, found, has)
    rows: list[dict[str, Any]] = []
    for number in np.argsort(-found.sizes, kind="stable").tolist():
        size = int(found.sizes[number])
        thrown = 1 - wanted[number] / max(size * loads[number], 1e-12)
        topics = [names[topic] for topic in np.flatnonzero(has[number]).tolist()]
        more = f" and {len(topics) - MOST_TOPICS} more" if len(topics) > MOST_TOPICS else ""
        rows.append(
            {
                "cluster": number,
                "clients": size,
                "topics": len(topics),
                "events": round(float(loads[number]), 3),
                "thrown away": f"{100 * max(thrown, 0.0):.0f}%",
                "which": ", ".join(topics[:MOST_TOPICS]) + more,
            }
        )
    return rows


def wanted_by(offsets: Any, topics: Any, rates: Any, found: Clustering, has: Any) -> Any:
    """By cluster, the events that its subscribers want of it, summed over them."""
    user = np.repeat(np.arange(len(offsets) - 1), np.diff(found.held_offsets))
    counts = np.diff(offsets)[user]
    at = np.repeat(offsets[user] - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
    cluster, topic = np.repeat(found.held, counts), topics[at]
    inside = has[cluster, topic]
    return np.bincount(cluster[inside], rates[topic[inside]], minlength=found.clusters)


def costs_of(asked: Asked, found: Clustering) -> dict[str, float]:
    demand, costs = asked.demand, asked.costs
    now, without = overall(demand, costs, found).cost, overall(demand, costs, alone(demand)).cost
    saved = 1 - now / without if without else 0.0
    return {"cost": now, "without": without, "saved": saved, "bound": lower_bound(demand, costs)}
