"""An hour in which interests shift, in minutes and on real brokers: ``overstory coordinate`` beside never replanning.

python -m overstory.lab.drifting_live SHAPE [SECONDS [SEED]] drives the hour twice, once with the autopilot and once
with one that may place late subscriptions but never plans, and says what links have carried and what the hour came to.

1. The hour is that of ``control-drift``, on a smaller network (``SIZE``). Clients make and end their subscriptions when
   a window begins, and publish its events evenly until it ends.
2. The coordinator is a process of its own. Its windows are as long as those of the hour, and end in the middle of them.
3. An event costs its bytes on each link at the link's price, as links have counted them; a change costs the control
   messages that links have carried beyond those of the network that never replans.
4. The reference knows each window in advance, and pays for its changes (``control_cells``). It is priced by the meter,
   which counts the same bytes as links do.
"""

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
import pyarrow as pa

from overstory.broker.reports import Report
from overstory.control.coordinating import DECISIONS, decisions_in
from overstory.control.deciding import APPLY, PLAN, Rules
from overstory.control.measuring import between, prices_of
from overstory.lab.control_cells import MEMORY, USUAL, first_plan, hour_of, reference
from overstory.lab.control_cells import drive as metered
from overstory.lab.crowd import NO_TOPIC, Crowd, Wish
from overstory.lab.drifting_hours import Hour
from overstory.lab.experiment import Settings
from overstory.lab.live import HOST, Network
from overstory.lab.localized import ATTRIBUTE
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario
from overstory.wire.attributes import pairs_of
from overstory.wire.encode import encode
from overstory.wire.packets import Publish

SIZE: Settings = USUAL | {"brokers": 20, "keywords": 60, "events": 2000, "windows": 12}
NEVER = {"drift": 1.0, "threshold": 1.0}  # rules by which no plan is applied: none saves more than all


class Driven(msgspec.Struct, frozen=True):
    """What an hour on live brokers came to."""

    traffic: float  # the bytes of events on links, at their prices
    messages: int  # of control, on links
    planned: int
    applied: int
    events: int


class Compared(msgspec.Struct, frozen=True):
    """The hour with the autopilot, beside the same one without new plans, and beside the reference."""

    shape: str
    seed: int
    autopilot: Driven
    never: Driven
    changes: float  # what the autopilot's changes cost
    over_never: float
    over_reference: float
    never_over_reference: float
    measured: float  # the traffic of the network that never replans, over what the meter says


def compare(settings: Settings, seconds: float) -> Compared:
    """Drives an hour twice, each time in so many seconds."""
    with hour_of(settings) as hour:
        rules, first = Rules(price_of_message=hour.price_of_message), first_plan(hour)
        known = reference(hour, rules, first)
        share = float(str(settings["share"]))
        plain = metered(hour, rules, share, first, replans=False)
        autopilot = drive(hour, rules, share, first, seconds)
        never = drive(hour, msgspec.structs.replace(rules, **NEVER), share, first, seconds)
    changes = (autopilot.messages - never.messages) * hour.price_of_message
    total = autopilot.traffic + changes
    return Compared(
        hour.shape,
        hour.seed,
        autopilot,
        never,
        changes,
        total / never.traffic,
        total / known.total,
        never.traffic / known.total,
        never.traffic / plain.total,
    )


def drive(hour: Hour, rules: Rules, share: float, first: Plan, seconds: float) -> Driven:
    """The hour on live brokers, under a coordinator with these rules that samples a share of all events."""
    with tempfile.TemporaryDirectory() as name:
        folder, scenario = Path(name), hour.bench(0, [-1]).scenario
        first.write(folder / "plan")
        (folder / "rules.toml").write_bytes(msgspec.toml.encode(rules))
        with Network(scenario.folder, folder / "plan", folder / "logs", {"types": {ATTRIBUTE: "list"}}) as network:
            return asyncio.run(_driven(hour, network, scenario, folder, share, seconds / hour.windows))


async def _driven(
    hour: Hour, network: Network, scenario: Scenario, folder: Path, share: float, seconds: float
) -> Driven:
    crowd, home = Crowd(), {row["id"]: row["broker"] for row in scenario.clients.to_pylist()}
    try:
        wanted = _wanted(hour, 0)
        for client, broker in home.items():
            await crowd.connect(client, str(client), network.address(broker))
            await crowd.subscribe(client, [Wish(text) for one, text in wanted if one == client])
        await asyncio.to_thread(network.wait_until_idle)
        pilot = await _pilot(network, folder, share, seconds)
        await _publish(crowd, hour.events(-1).slice(0, hour.what.events // 2), hour.what.bytes, seconds / 2)
        await asyncio.to_thread(network.wait_until_idle)
        before = network.reports()
        for window in range(hour.windows):
            now = _wanted(hour, window)
            for client, text in wanted - now:
                crowd.unsubscribe(client, [text])
            for client, text in now - wanted:
                crowd.subscribe_further(client, text)
            wanted = now
            await _publish(crowd, hour.events(window), hour.what.bytes, seconds)
        await asyncio.to_thread(network.wait_until_idle)
        after = network.reports()
        with suppress(ProcessLookupError):
            pilot.kill()
        await pilot.wait()
    finally:
        crowd.close()
    carried = between(before, after, prices_of(scenario), seconds * hour.windows)
    actions = [one.action for one in decisions_in(folder / "pilot")] if (folder / "pilot" / DECISIONS).exists() else []
    return Driven(
        carried.cost * scenario.settings.prices.core,
        _messages(after) - _messages(before),
        actions.count(PLAN),
        actions.count(APPLY),
        carried.events,
    )


def _wanted(hour: Hour, window: int) -> set[tuple[int, str]]:
    """The clients and the filters of their subscriptions in a window."""
    _, keywords, brokers = hour.subscriptions(window)
    pairs = zip(keywords.tolist(), brokers.tolist(), strict=True)
    return {(hour.made.brokers + broker, f"{ATTRIBUTE} HAS ANY ('k{keyword}')") for keyword, broker in pairs}


async def _pilot(network: Network, folder: Path, share: float, seconds: float) -> asyncio.subprocess.Process:
    """The coordinator, which has begun with its first window."""
    url = f"http://{HOST}:{next(iter(network.ports.values())).monitor}"
    command = [sys.executable, "-m", "overstory.cli", "coordinate", url, "-o", str(folder / "pilot")]
    command += ["--rules", str(folder / "rules.toml"), "--seconds", str(seconds), "--window", str(MEMORY)]
    command += ["--rate", str(share), "--set", "steered=false"]
    return await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)


async def _publish(crowd: Crowd, events: pa.Table, size: int, seconds: float) -> None:
    """Clients publish these events, evenly."""
    loop = asyncio.get_running_loop()
    began, rows = loop.time(), events.to_pylist()
    for place, row in enumerate(rows):
        ahead = began + place * seconds / len(rows) - loop.time()
        if ahead > 0:
            await asyncio.sleep(ahead)
        crowd.clients[row["$publisher"]].transport.write(_packet(row["$id"], row[ATTRIBUTE], size))
    await asyncio.sleep(began + seconds - loop.time())


def _packet(event: int, words: Sequence[str], size: int) -> bytes:
    """The packet of an event, of so many bytes: its payload ends with its number."""
    properties = {"user_properties": pairs_of({ATTRIBUTE: list(words)})}
    payload = event.to_bytes(size, "big")
    more = len(encode(Publish(NO_TOPIC, payload, properties=properties))) - size
    return encode(Publish(NO_TOPIC, payload[more:], properties=properties))


def _messages(reports: dict[int, Report]) -> int:
    """The control messages that links have carried."""
    return sum(link.traffic.messages for report in reports.values() for link in report.links)


def main(shape: str, seconds: str = "300", seed: str = "1") -> None:
    compared = compare(SIZE | {"shape": shape, "seed": int(seed)}, float(seconds))
    print(msgspec.json.format(msgspec.json.encode(compared)).decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
