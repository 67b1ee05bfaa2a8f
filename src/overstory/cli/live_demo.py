"""The end of the demo: a network of five brokers that runs, and what its links carry beside what was predicted."""

import asyncio
import time
from pathlib import Path
from typing import Any, NamedTuple

from overstory.cli.engine import planned
from overstory.cli.up import is_as_predicted, links_of, links_table, summary_of
from overstory.lab.live import Network
from overstory.lab.markets import Size, make_market
from overstory.lab.rehearsal import Rehearsal, plan_for_sized, rehearse, sized, types_of, wanted
from overstory.model.scenario import read_scenario
from overstory.pipeline.pipeline import Pipeline

SIZE = Size(brokers=5, clients=40, subscriptions=200, events=2_000)
MOST_LINKS = 8


class LiveDemo(NamedTuple):
    """What the live network did."""

    summary: dict[str, Any]
    links: list[dict[str, int]]

    @property
    def text(self) -> str:
        """The busiest links, and the verdict."""
        differ = sum(not is_as_predicted(row) for row in self.links)
        same = (
            "Every link carried just what was predicted" if not differ else f"{differ} links differ from the prediction"
        )
        busiest = sorted(self.links, key=lambda row: -row["bytes"])[:MOST_LINKS]
        seconds, deliveries = self.summary["seconds"], self.summary["deliveries"]
        return f"{links_table(busiest)}\n{same}: {deliveries:,} deliveries in {seconds:.1f} s, each to who wants it."


def run_live(pipeline: Pipeline, folder: Path, planner: str) -> LiveDemo:
    """Makes a small scenario and its plan, runs its network, and publishes its log."""
    make_market(folder / "live" / "market", SIZE)
    scenario = sized(read_scenario(folder / "live" / "market"), folder / "live" / "scenario")
    pipeline.validate(scenario)
    plan = plan_for_sized(planned(planner, scenario, pipeline, {}, 0), scenario)
    plan.write(folder / "live" / "plan")
    _, predicted = pipeline.score(scenario, plan, 0, lambda: None)
    settings = {"types": types_of(scenario)}
    with Network(scenario.folder, folder / "live" / "plan", folder / "live" / "logs", settings) as network:
        rehearsal = Rehearsal(scenario, plan, network)
        began = time.monotonic()
        result = asyncio.run(rehearse(rehearsal))
        seconds = time.monotonic() - began
    links = links_of(scenario, result, predicted)
    return LiveDemo(summary_of(result, wanted(scenario, rehearsal.log), links, len(rehearsal.log.ids), seconds), links)
