"""What links carry under plans that are applied to live brokers, against what the meter predicts.

The load stays the same: events are sampled for a while, the meter says what a plan costs on these, and once the plan is
in use the events that come then are measured.
"""

import asyncio
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pyarrow as pa

from benchmarks.apply import Size, brokers_of, network_of, publishing
from benchmarks.measure import Measurement
from overstory.control.applying import Options, apply
from overstory.control.keeping import files_of
from overstory.control.measuring import measure
from overstory.control.observing import Collecting, Observer
from overstory.control.operating import rollback
from overstory.lab.live import Network
from overstory.lab.live_plans import plan_of_live
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario
from overstory.model.tables import ATTACHMENTS, STEINER, TREE
from overstory.pipeline.workbench import Workbench

MOST = 2.0  # per cent between what is measured and what is predicted
BACK = "back"
QUICK, FULL = Size(3, 10, 0, 50, 3, 2), Size(20, 400, 0, 200, 15)
PARTS = 100  # of so many seconds, for which a trial would go on: one is sampled, one is measured under each plan


def predicting(quick: bool) -> Iterator[Measurement]:
    """Another plan, a steered one, and back: the bytes on links for an event."""
    size = QUICK if quick else FULL
    with TemporaryDirectory() as name, network_of(Path(name), size, {"sample": 1.0}) as network:
        found = asyncio.run(_found(network, Path(name), size))
    for kind, (measured, predicted) in found.items():
        print(f"{kind}: {measured:,.1f} bytes for an event, {predicted:,.1f} predicted", file=sys.stderr)
        difference = max(0.001, 100 * abs(measured / predicted - 1))
        yield Measurement("apply-predicted", f"{size.text}: {kind}", difference, bar=MOST, unit="%")


async def _found(network: Network, folder: Path, size: Size) -> dict[str, tuple[float, float]]:
    """Bytes on links for an event under each plan: measured, and predicted."""
    brokers, seconds = brokers_of(network), size.seconds
    found: dict[str, tuple[float, float]] = {}
    async with publishing(network, folder, size, PARTS * seconds) as trial:
        (folder / "seen").mkdir()
        observer, collecting = Observer(folder / "seen"), Collecting(brokers)
        observer.look(await collecting.look(), 0.0)
        await asyncio.sleep(seconds)
        scenario = observer.look(await collecting.look(), seconds)
        live, bench, plans = await brokers.subscriptions(), Workbench(scenario), dict[str, Plan]()
        for seed, kind in enumerate((TREE, STEINER, BACK)):
            options = Options(scenario=scenario, history=folder / "history")
            if kind == BACK:
                await rollback(brokers, options)
                plans[kind] = plans[TREE]
            else:
                plans[kind] = _whole(plan_of_live(scenario, live, kind, seed), scenario)
                await apply(plans[kind], brokers, msgspec.structs.replace(options, files=files_of(plans[kind])))
            after = await measure(brokers, scenario, seconds)
            predicted = int(bench.measured(plans[kind])[1].bytes.sum())
            found[kind] = after.bytes / after.events, predicted / observer.log.sampled[-1]
        trial.terminate()
        await trial.wait()
    return found


def _whole(plan: Plan, scenario: Scenario) -> Plan:
    """The plan with all clients where they are, also those who only publish."""
    homes = {"client": scenario.clients["id"], "broker": scenario.clients["broker"]}
    return replace(plan, attachments=pa.table(homes, schema=ATTACHMENTS.schema))
