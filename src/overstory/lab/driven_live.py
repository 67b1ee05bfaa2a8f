"""An hour in which interests shift, on real brokers: their clients subscribe, unsubscribe and publish window by window,
and the coordinator keeps up, or nobody does.

``python -m overstory.lab.driven_live`` drives the same hour twice, with the autopilot and without any coordinator, and
prints what links have carried in each window, at their prices, with the control messages of changes among it.
"""

import asyncio
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np

from overstory.control.brokers import Brokers
from overstory.control.coordinating import Coordinator, Setting
from overstory.control.deciding import Decision, Rules
from overstory.control.piloting import Planning
from overstory.lab.control_cells import PLANNING, first_plan, hour_of, sizes
from overstory.lab.crowd import Crowd, Wish, publish_of
from overstory.lab.drifting_hours import Hour
from overstory.lab.live import Network
from overstory.lab.localized import ATTRIBUTE
from overstory.lab.rehearsal import measured
from overstory.model.scenario import Scenario

Held = set[tuple[int, str]]  # a client and its filter


class Window(NamedTuple):
    """What links carried in one window, in bytes times prices."""

    events: float
    control: float
    deliveries: int  # pairs of an event and a client that got it
    expected: int  # the same, by the filters and no network


class Live:
    """The clients of an hour on a live network."""

    def __init__(self, hour: Hour, network: Network) -> None:
        self.hour, self.network = hour, network
        self.crowd, self._held, self._published = Crowd(), Held(), 0
        self._before = np.zeros((4, len(self._scenario(0).network.sources)), np.int64)
        self._got = 0

    def _scenario(self, window: int) -> Scenario:
        return self.hour.bench(window, [window]).scenario

    async def connect(self) -> None:
        """All clients come, with the subscriptions of the window before the first."""
        for row in self._scenario(-1).clients.to_pylist():
            await self.crowd.connect(row["id"], str(row["id"]), self.network.address(row["broker"]))
        await self.change(-1)

    async def change(self, window: int) -> None:
        """Subscriptions that ended are taken back, and new ones are made."""
        rows = self._scenario(window).subscriptions.to_pylist()
        now = {(row["client"], row["filter"]) for row in rows}
        for client, text in sorted(self._held - now):
            self.crowd.unsubscribe(client, [text])
        new: dict[int, list[Wish]] = defaultdict(list)
        for client, text in sorted(now - self._held):
            new[client].append(Wish(text, False))
        await asyncio.gather(*(self.crowd.subscribe(client, wishes) for client, wishes in new.items()))
        self._held = now
        await self.settle()

    async def play(self, window: int) -> int:
        """Publishes the events of a window. Returns how many deliveries they are."""
        clients: dict[str, set[int]] = defaultdict(set)
        for client, text in self._held:
            clients[text.partition("'")[2].partition("'")[0]].add(client)
        packets: dict[int, list[bytes]] = defaultdict(list)
        expected = 0
        for row in self.hour.events(window).to_pylist():
            packets[row["$publisher"]].append(publish_of(row["$id"], {ATTRIBUTE: row[ATTRIBUTE]}))
            expected += len(set().union(*(clients[word] for word in row[ATTRIBUTE])))
        await self.crowd.publish(packets)
        self._published += sum(map(len, packets.values()))
        await self.settle()
        return expected

    async def settle(self) -> None:
        """Waits until nothing is under way."""
        await asyncio.to_thread(self.network.wait_until_idle, self._published)
        await self.crowd.settle()

    def since(self, expected: int) -> Window:
        """What links have carried since the last time."""
        scenario = self._scenario(0)
        now = np.stack(measured(scenario, self.network.reports()))
        spent, self._before = now - self._before, now
        prices = scenario.network.prices
        got = sum(len(np.unique(client.events())) for client in self.crowd.clients.values())
        here, self._got = got - self._got, got
        return Window(float(spent[1] @ prices), float(spent[2] @ prices), here, expected)


async def drive_live(hour: Hour, network: Network, folder: Path, rules: Rules | None) -> list[Window]:
    """An hour on a live network; without rules nobody coordinates it."""
    live, found = Live(hour, network), list[Window]()
    brokers = Brokers(f"http://127.0.0.1:{next(iter(network.ports.values())).monitor}")
    planning = Planning(PLANNING.planner, PLANNING.parameters)
    setting = Setting(rules or Rules(), planning, rate=1.0, shadow=False)
    coordinator = Coordinator(brokers, folder, setting, tell)
    try:
        await live.connect()
        await coordinator.start()
        live.since(0)
        for window in range(hour.windows):
            await live.change(window)
            expected = await live.play(window)
            found.append(live.since(expected))
            if rules is not None:
                await coordinator.window()
                await live.settle()
    finally:
        live.crowd.close()
        coordinator.close()
    return found


def tell(decision: Decision) -> None:
    print(f"  {decision.told()}", file=sys.stderr, flush=True)


def driven(hour: Hour, rules: Rules | None) -> list[Window]:
    """Starts a network with the plan of the window before the first, and drives the hour on it."""
    bench = hour.bench(-1, [-1])
    with tempfile.TemporaryDirectory(prefix="overstory-driven-") as made:
        folder = Path(made)
        first_plan(hour).write(folder / "plan")
        settings = {"types": {ATTRIBUTE: "list"}, "sample": 1.0}
        with Network(bench.scenario.folder, folder / "plan", folder / "logs", settings) as network:
            return asyncio.run(drive_live(hour, network, folder / "pilot", rules))


def main(shape: str = "drift", windows: int = 6, seed: int = 1) -> None:
    """Prints both hours, window by window, and their ratio."""
    cell = sizes(True) | {"shape": shape, "windows": windows, "seed": seed}
    with hour_of(cell) as hour:
        both = {"autopilot": driven(hour, Rules(price_of_message=hour.price_of_message)), "nobody": driven(hour, None)}
    for way, found in both.items():
        for number, window in enumerate(found):
            print(f"{way}: window {number}: {window._asdict()}")
    totals = {way: sum(window.events + window.control for window in found) for way, found in both.items()}
    print(f"autopilot over nobody: {totals['autopilot'] / totals['nobody']:.4f}, with all control messages")
    wrong = sum(window.deliveries != window.expected for found in both.values() for window in found)
    print(f"windows with other deliveries than expected: {wrong}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "drift", *map(int, sys.argv[2:4]))
