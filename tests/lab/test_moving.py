"""Clients are moved between two real brokers while events come: nothing is missing, nothing comes twice."""

import asyncio
from pathlib import Path

from overstory.broker.admin import files_in
from overstory.client.bus import connect
from overstory.client.event import Event
from overstory.control.applying import Options, apply
from overstory.control.brokers import Brokers
from overstory.lab.lines import written_line
from overstory.lab.live import HOST, Network
from overstory.lab.moving_live import move, written
from overstory.model.plan import read_plan

CLIENTS = 5


def test_ours_follow_and_others_stay(tmp_path: Path) -> None:
    scenario, plans = written(tmp_path, CLIENTS)
    moved_once: list[int] = []
    with Network(scenario, plans[0], tmp_path / "logs") as network:

        async def here(plan: Path) -> None:
            brokers = Brokers(f"http://{HOST}:{network.ports[0].monitor}")
            options = Options(files=files_in(str(plan)), history=tmp_path / "history")
            moved_once.append((await apply(read_plan(plan), brokers, options)).moved)

        moved = asyncio.run(move(network, plans, CLIENTS, 2, here))
    assert (moved.missing, moved.repeated, moved.others_missing) == (0, 0, 0)
    assert moved.moves == 2 * CLIENTS
    assert moved_once == [CLIENTS, CLIENTS]


def test_a_client_migrates_between_real_brokers_though_nobody_coordinates(tmp_path: Path) -> None:
    """It is alone in wanting what is published two hops away, and goes there; nothing is lost on the way."""
    with Network(*written_line(tmp_path, 3), tmp_path / "logs", {"migrate": 0.5, "sample": 1.0}) as network:
        got, sent, broker = asyncio.run(_migrated(network))
    assert broker == network.address(0)
    assert got == list(range(sent))


async def _migrated(network: Network) -> tuple[list[int], int, tuple[str, int]]:
    """What a client got, how many events there were, and the broker that it is at in the end."""
    urls = [f"mqtt://{host}:{port}" for host, port in map(network.address, (0, 2))]
    got: list[int] = []
    async with connect(urls[0]) as writer, connect(urls[1], client_id="reader") as reader:
        subscription = await reader.subscription("n >= 0", topics="#", qos=2)
        await asyncio.to_thread(network.wait_until_idle)

        async def read() -> None:
            async for event in subscription:
                got.append(int(event.payload))

        reading = asyncio.create_task(read())
        sent = 0
        while reader.moves < 1 or sent % 50:
            await writer.publish(Event("t", {"n": sent}, b"%d" % sent), qos=2)
            sent += 1
            assert sent < 20_000
            await asyncio.sleep(0.005)
        while len(got) < sent:
            await asyncio.sleep(0.01)
        reading.cancel()
        return got, sent, reader.address
