"""A plan is applied to real broker processes under load: every subscriber gets exactly its events; errors change
nothing; a broker is drained, lost and joined."""

import asyncio
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from overstory.client.bus import connect
from overstory.client.event import Event
from overstory.control.applying import (
    LONGEST_PAUSE,
    PAUSE,
    Options,
    UnderWayError,
    apply,
    install,
    look,
    pause_after,
)
from overstory.control.brokers import Brokers, RefusedError
from overstory.control.draining import drain, join
from overstory.control.history import History
from overstory.control.installing import ACTIVATING, DRAINING, PREPARING
from overstory.control.keeping import files_of
from overstory.control.leaving import avoiding, without
from overstory.control.operating import abort, overview, pause, resume, rollback
from overstory.errors import InfeasibleError, StalePlanError, UsageError
from overstory.lab.lines import written_tree
from overstory.lab.live import HOST, Network
from overstory.lab.live_plans import plan_of_live, scenario_of_live
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario, read_scenario
from overstory.model.tables import STEINER, TREE

LINKS = [(0, 1), (1, 2), (0, 2)]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    folder = tmp_path_factory.mktemp("applied")
    with Network(*written_tree(folder, LINKS), folder / "logs") as made:
        yield made


def brokers_of(network: Network, name: str | None = None) -> Brokers:
    return Brokers(f"http://{HOST}:{network.ports[0].monitor}", name)


async def planned(brokers: Brokers, kind: str, seed: int) -> tuple[Plan, Scenario]:
    live = await brokers.subscriptions()
    scenario = scenario_of_live(await brokers.scenario(), live)
    return plan_of_live(scenario, live, kind, seed), scenario


def options_of(plan: Plan, scenario: Scenario, history: Path) -> Options:
    return Options(scenario=scenario, files=files_of(plan), history=history, patience=30.0)


def test_every_subscriber_gets_exactly_its_events_while_plans_change(network: Network, tmp_path: Path) -> None:
    async def story() -> None:
        async with (
            connect(url(network, 0), client_id="writer", patience=30.0) as writer,
            connect(url(network, 2), client_id="reader", patience=30.0) as reader,
        ):
            subscription = await reader.subscription("n >= 0", topics="#", qos=2)
            got: list[int] = []
            sent = 0
            ended = asyncio.Event()

            async def read() -> None:
                async for event in subscription:
                    got.append(int(event.payload))

            async def write() -> None:
                nonlocal sent
                while not ended.is_set():
                    await writer.publish(Event("t", {"n": sent}, b"%d" % sent), qos=2)
                    sent += 1

            await asyncio.to_thread(network.wait_until_idle)  # the whole network serves the subscription
            tasks = [asyncio.create_task(read()), asyncio.create_task(write())]
            brokers = brokers_of(network)
            for seed, kind in enumerate((TREE, STEINER, TREE)):
                plan, scenario = await planned(brokers, kind, seed)
                outcome = await apply(plan, brokers, options_of(plan, scenario, tmp_path))
                assert outcome.state == "installed"
            assert (await rollback(brokers, Options(history=tmp_path))).state == "rolled back"
            ended.set()
            await tasks[1]
            async with asyncio.timeout(60.0):
                while len(got) < sent:
                    await asyncio.sleep(0.01)
            tasks[0].cancel()
            assert Counter(got) == Counter(range(sent))
            assert [entry.state for entry in History(tmp_path).entries()].count("installed") == 4
            assert (await overview(brokers)).state == "stable"

    asyncio.run(story())


def url(network: Network, broker: int) -> str:
    return "mqtt://{}:{}".format(*network.address(broker))


def test_what_is_wrong_is_said_and_changes_nothing(network: Network, tmp_path: Path) -> None:
    async def story() -> None:
        brokers = brokers_of(network)
        before = (await overview(brokers)).epoch
        plan, scenario = await planned(brokers, TREE, 0)
        options = options_of(plan, scenario, tmp_path / "history")
        (tmp_path / "file").write_text("")
        unwritable = options_of(plan, scenario, tmp_path / "file" / "history")
        with pytest.raises(UsageError, match=r"the history .* cannot be"):
            await apply(plan, brokers, unwritable)
        other = plan.headed(type(plan.header)("other", "", network="another network"))
        with pytest.raises(StalePlanError, match="other brokers or links"):
            await apply(other, brokers, options)
        found = await look(plan, brokers, options)
        await brokers_of(network, "first").lead()
        with pytest.raises(RefusedError, match="first is at work"):
            await install(found, brokers_of(network, "second"), options)
        await brokers_of(network, "third").lead(force=True)
        assert await pause(brokers_of(network, "third")) == "paused"
        with pytest.raises(UnderWayError, match="paused"):
            await apply(plan, brokers, options)
        assert await resume(brokers_of(network, "third"), options) == "stable"
        assert (await overview(brokers)).epoch == before

    asyncio.run(story())


def test_a_plan_that_was_left_half_installed_is_given_up_or_ended(network: Network, tmp_path: Path) -> None:
    async def story() -> None:
        brokers = brokers_of(network, "dies")
        plan, scenario = await planned(brokers, TREE, 1)
        options = options_of(plan, scenario, tmp_path)
        found = await look(plan, brokers, options)
        await brokers.lead(force=True)
        await brokers.prepare(found.package, [0, 1])
        assert (await overview(brokers)).state == "preparing"
        with pytest.raises(UnderWayError, match="under way"):
            await apply(plan, brokers_of(network), options)
        assert await abort(brokers_of(network), options) == "stable"
        found = await look(plan, brokers, options)
        await brokers.lead(force=True)
        await brokers.prepare(found.package)
        await brokers.activate(found.epoch, [1])  # and dies; the others hear of it from their neighbour
        assert await abort(brokers_of(network), options) == "stable"
        assert (await overview(brokers)).epoch == found.epoch

    asyncio.run(story())


def test_a_broker_is_drained_lost_and_joined(network: Network, tmp_path: Path) -> None:
    async def story() -> None:
        options = Options(history=tmp_path, patience=30.0)
        assert (await drain(brokers_of(network), 1, options)).state == "drained"
        assert (await join(brokers_of(network), 1, options)).state == "joined"
        with pytest.raises(UsageError, match="there is no broker 7"):
            await drain(brokers_of(network), 7, options)
        network.signal(1, signal.SIGKILL)
        lost = await drain(brokers_of(network), 1, options)
        assert lost.state == "left out"
        found = await overview(brokers_of(network))
        assert (found.state, sorted(found.brokers)) == ("stable", [0, 2])
        network.launch(1)
        while True:
            try:
                assert (await join(brokers_of(network), 1, options)).state == "joined"
                break
            except UsageError:
                await asyncio.sleep(0.1)
        found = await overview(brokers_of(network))
        assert (found.state, sorted(found.brokers)) == ("stable", [0, 1, 2])

    asyncio.run(story())


def test_a_broker_that_others_need_cannot_be_left_out(tmp_path: Path) -> None:
    scenario = read_scenario(written_tree(tmp_path, [(0, 1), (1, 2)])[0])
    for way in (avoiding, without):
        with pytest.raises(InfeasibleError, match="only be reached through it"):
            way(scenario, 1)
        assert len(way(scenario, 2).links) >= 2


def test_brokers_are_asked_less_often_where_answers_take_long_and_nobody_waits_for_them() -> None:
    assert [pause_after(PREPARING, looked) for looked in (0.001, 0.02, 5.0)] == [PAUSE, 9 * 0.02, LONGEST_PAUSE]
    assert [pause_after(state, 5.0) for state in (ACTIVATING, DRAINING)] == [PAUSE, PAUSE]
