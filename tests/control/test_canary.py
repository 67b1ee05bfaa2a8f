"""A canary moves a part of the clients first. The rest follow, or the network goes back by itself."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest

from overstory.broker.admin import files_in
from overstory.client.bus import connect
from overstory.client.event import Event
from overstory.control.applying import Options, agreed_epoch
from overstory.control.brokers import Brokers
from overstory.control.history import History
from overstory.control.measuring import Verdict
from overstory.control.operating import overview
from overstory.control.steps import Asked, Done, carry_out
from overstory.errors import StalePlanError
from overstory.lab.live import HOST, Network
from overstory.lab.moving_live import FILTER, FIRST, written
from overstory.model.plan import read_plan

from .test_installing import epoch, standing

CLIENTS = 6


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Network, list[Path]]]:
    """Two brokers, with all clients planned at the first; and plans that have them at the first and at the second."""
    folder = tmp_path_factory.mktemp("canary")
    scenario, plans = written(folder, CLIENTS)
    with Network(scenario, plans[0], folder / "logs") as network:
        yield network, plans


async def applied(network: Network, plan: Path, predicted: dict[str, float], history: Path) -> tuple[Done, list[int]]:
    """Applies a plan with a canary while events are published at the second broker. Returns where clients are then.
    They connect to the first, and are sent on from there."""
    read = read_plan(plan)
    read = read.headed(msgspec.structs.replace(read.header, predicted=predicted))
    urls = ["mqtt://{}:{}".format(*network.address(broker)) for broker in (0, 1)]
    async with AsyncExitStack() as stack, connect(urls[1]) as writer:
        buses = [await stack.enter_async_context(connect(urls[0], client_id=str(FIRST + n))) for n in range(CLIENTS)]
        for bus in buses:
            await bus.subscription(FILTER, topics="#", qos=1)

        async def write() -> None:
            while True:
                await writer.publish(Event("t", {"group": 0}, b"x" * 100))
                await asyncio.sleep(0.005)

        writing = asyncio.create_task(write())
        brokers = Brokers(f"http://{HOST}:{network.ports[0].monitor}")
        options = Options(files=files_in(str(plan)), history=history)
        asked = Asked(watch=0.5, canary=0.2, limit=0.5)
        done = await carry_out(read, brokers, options, asked, lambda _: True, None)
        writing.cancel()
        ports = [network.address(broker) for broker in (0, 1)]
        where = [ports.index(bus.address) for bus in buses]
    assert (await overview(brokers)).state == "stable"
    return done, where


def test_a_canary_goes_on_or_goes_back_by_itself(two: tuple[Network, list[Path]], tmp_path: Path) -> None:
    network, plans = two
    history = tmp_path / "history"
    # A plan that promises more than a part of it can keep is given its time: the rest is moved, and then it is judged
    done, where = asyncio.run(applied(network, plans[1], {"core": 0.0}, history))
    assert (done.state, done.note, where) == ("installed", "", [1] * CLIENTS)
    assert done.outcome is not None
    assert (done.outcome.asked, done.outcome.moved, done.outcome.stayed) == (CLIENTS, CLIENTS, 0)
    assert done.verdict is not None
    assert done.verdict.measured is not None
    assert done.verdict.measured < 0.5
    # And back, where nothing had to cross the link before: the first client that goes makes it exceed
    done, where = asyncio.run(applied(network, plans[0], {"core": 0.0}, history))
    assert (done.state, where) == ("rolled back", [1] * CLIENTS), done.verdict
    assert done.note.startswith("the measured cost exceeds the predicted one: inf of the cost before")
    assert [entry.state for entry in History(history).entries()][-1] == "rolled back"


def test_what_exceeds_is_said_with_its_numbers() -> None:
    assert not Verdict(1.0, None).exceeds(0.1)
    assert Verdict(1.2, None).exceeds(0.1)
    assert Verdict(0.9, 0.5).exceeds(0.1)
    assert not Verdict(0.9, 0.5).exceeds(0.1, partly=True)
    assert Verdict(1.2, 0.5).exceeds(0.1, partly=True)
    assert not Verdict(None, 0.5).exceeds(0.1)


def test_a_broker_that_disagrees_about_the_epoch_is_named() -> None:
    agreed = {broker: standing(broker, 4, epoch(4)) for broker in range(3)}
    assert agreed_epoch(agreed) == 4
    with pytest.raises(StalePlanError, match="disagree about epoch 4: broker 2 uses epoch 5"):
        agreed_epoch({**agreed, 2: standing(2, 5, epoch(4), epoch(5))})
    other = msgspec.structs.replace(epoch(4), plan="another")
    with pytest.raises(StalePlanError, match="broker 1 has another plan under it; nothing was changed"):
        agreed_epoch({**agreed, 1: standing(1, 4, other)})
