"""overstory clusters: the clusters of topics of a plan, what clients throw away, and what it would cost without."""

import argparse
import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from overstory.cli.cluster_tables import (
    Row,
    client_rows,
    cluster_rows,
    costs_in_words,
    costs_of,
    rate_rows,
    saved_by_riding,
    timeline_rows,
)
from overstory.cli.engine import add_options, pipeline_for
from overstory.cli.output import print_json
from overstory.cli.tables import table
from overstory.errors import UsageError
from overstory.model.plan import read_plan
from overstory.model.scenario import Scenario, read_scenario
from overstory.pipeline.pipeline import Pipeline
from overstory.pipeline.topic_windows import NO_LENGTH, follow, last_time, rates_in, riding_on, windows_of
from overstory.planners.topics.adapting import Adapting
from overstory.planners.topics.clustering import Clustering
from overstory.planners.topics.demand import Asked, asked_in
from overstory.planners.topics.history import changes_in
from overstory.planners.topics.reading import clustering_in
from overstory.planners.topics.replaying import Rules, Timeline, empty_state, replayed
from overstory.planners.topics.tamara import joins

MOST_ROWS, MOST_CLIENTS = 40, 5
LOOKS = 12  # rows of a timeline
INTERVAL = 360.0  # seconds of a maintenance interval


def add_to(commands: Any) -> None:
    command = commands.add_parser("clusters", help="tell which topics share a tree, and what that saves")
    command.add_argument("scenario", metavar="DIR", type=Path, help="the folder of the scenario")
    command.add_argument("plan", metavar="PLAN", type=Path, help="a plan of topics")
    command.add_argument(
        "--timeline", action="store_true", help="replay the history of interests, and tell what changed when"
    )
    command.add_argument(
        "--riding", action="store_true", help="also tell what is saved where keep-alives ride on events"
    )
    command.add_argument(
        "--rates", action="store_true", help="also tell how often topics have events, from windows of the log"
    )
    command.add_argument(
        "--interval", type=float, metavar="SECONDS", help=f"of a maintenance interval (default: {INTERVAL:g})"
    )
    command.add_argument(
        "--own", action="append", default=[], metavar="TOPIC=SECONDS", help="an interval of its own for a topic"
    )
    command.add_argument(
        "--live", metavar="LOG", type=Path, help="follow a folder of Parquet files, and tell what its rates change"
    )
    command.add_argument("--once", action="store_true", help="with --live: end when all that is there has been read")
    add_options(command)
    command.set_defaults(run=run_clusters)


def run_clusters(arguments: argparse.Namespace) -> None:
    scenario, plan = read_scenario(arguments.scenario), read_plan(arguments.plan)
    own, seconds = lengths_in(arguments.own), INTERVAL if arguments.interval is None else arguments.interval
    if seconds <= 0:
        raise UsageError(NO_LENGTH)
    with pipeline_for(arguments) as pipeline:
        asked = asked_in(scenario, pipeline)
        _check_own(own, asked)
        found = clustering_in(scenario, plan, asked)
        told: dict[str, Any] = {"clusters": cluster_rows(asked, found), **costs_of(asked, found)}
        told["clients"] = client_rows(asked, found, np.unique(scenario.subscriptions["client"].to_numpy()))
        if arguments.timeline:
            told["timeline"] = timeline_rows(_replayed(scenario, asked))
        if arguments.rates:
            told["rates"] = _rates(scenario, pipeline, seconds, own)
        if arguments.riding:
            told["riding"] = _riding(scenario, pipeline, asked, found, seconds, own)
        if arguments.json and not arguments.live:
            print_json({"scenario": str(arguments.scenario), "plan": str(arguments.plan), **told})
        elif not arguments.json:
            _print(told)
        if arguments.live:
            with contextlib.suppress(KeyboardInterrupt):
                _follow(pipeline, Adapting(asked, found, seconds=seconds, own=own), arguments, seconds, own)


def lengths_in(texts: list[str]) -> dict[str, float]:
    """The intervals that some topics have of their own."""
    found = {}
    for text in texts:
        topic, _, seconds = text.rpartition("=")
        try:
            found[topic] = float(seconds)
        except ValueError:
            raise UsageError(f"--own: {text!r} is not TOPIC=SECONDS, such as news=60") from None
        if not topic or found[topic] <= 0:
            raise UsageError(f"--own: {text!r}: {NO_LENGTH}")
    return found


def _check_own(own: dict[str, float], asked: Asked) -> None:
    unknown = own.keys() - set(asked.interests.names)
    if unknown:
        raise UsageError(f"--own: nobody wants a topic {min(unknown)!r}, and it has no event")


def _replayed(scenario: Scenario, asked: Asked) -> Timeline:
    state = empty_state(asked.demand.users, asked.demand.rates, asked.costs, Rules())
    return replayed(state, changes_in(scenario, asked) or joins(asked.demand, 0), LOOKS).timeline


def _riding(
    scenario: Scenario, pipeline: Pipeline, asked: Asked, found: Clustering, seconds: float, own: dict[str, float]
) -> float:
    """What an interval costs less where keep-alives ride on events. A cluster has the shortest interval of its
    topics."""
    names = asked.interests.names
    sets = [[names[topic] for topic in topics] for topics in found.sets()]
    channels = [([name], own.get(name, seconds)) for name in names]
    channels += [(topics, min(own.get(topic, seconds) for topic in topics)) for topics in sets]
    events = pipeline.spark.read.parquet(str(scenario.events))
    return saved_by_riding(asked, found, riding_on(events, channels))


def _rates(scenario: Scenario, pipeline: Pipeline, seconds: float, own: dict[str, float]) -> list[Row]:
    """From windows of the whole log, each topic's as long as its interval; most events in an interval first."""
    events = pipeline.spark.read.parquet(str(scenario.events))
    windows = windows_of(events, seconds, own).toArrow()
    return rate_rows(rates_in(windows, last_time(events) or 0.0, seconds, own))


def _print(told: dict[str, Any]) -> None:
    rows, clients = told["clusters"], told["clients"]
    print(_table(rows[:MOST_ROWS]) if rows else "  there are no clusters: every topic has its own tree")
    if len(rows) > MOST_ROWS:
        print(f"  and {len(rows) - MOST_ROWS:,} with fewer clients; --json lists them all")
    print(costs_in_words(told))
    if "riding" in told:
        share = told["riding"] / max(told["cost"], 1e-12)
        print(f"  where keep-alives ride on events, {told['riding']:,.0f} of these ({share:.1%}) are not needed")
    if clients and clients[0]["thrown away"] > 0:
        print(f"\n  who throws most away ({len(clients):,} clients in all; --json lists them)")
        print(_table(clients[:MOST_CLIENTS]))
    if told.get("rates"):
        print(f"\n  topics with most events ({len(told['rates']):,} have any; --json lists them)")
        print(_table(told["rates"][:MOST_ROWS]))
    if "timeline" in told:
        print(f"\n{_table(told['timeline'])}")


def _table(rows: list[Row]) -> str:
    return table(tuple(rows[0]), [tuple(row.values()) for row in rows])


def _follow(
    pipeline: Pipeline, adapting: Adapting, arguments: argparse.Namespace, seconds: float, own: dict[str, float]
) -> None:
    """Tells of each batch of windows that are over what their rates changed."""

    def tell(windows: pa.Table) -> None:
        rates, done = adapting.take(windows)
        last = done.timeline
        row = {
            "intervals": round(adapting.intervals, 1),
            "rates that changed": rates,
            "clusters": int(last.clusters[-1]),
            **done.updates,
            "cost": round(last.costs[-1].cost),
            "without": round(float(last.scribe[-1])),
        }
        if arguments.json:
            print_json({"scenario": str(arguments.scenario), "live": row})
        else:
            print("  " + ", ".join(f"{name} {value:,}" for name, value in row.items()), flush=True)

    follow(pipeline.spark, arguments.live, seconds, tell, arguments.once, own)
