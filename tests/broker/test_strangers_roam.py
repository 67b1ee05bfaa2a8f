"""To clients that nobody here wrote three brokers are one: sessions, retained messages, one id twice, shared groups."""

import asyncio
import signal
import time
from collections.abc import Callable, Iterator

import aiomqtt
import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from overstory.lab.lines import written_line
from overstory.lab.live import Network

from .running import PATIENCE
from .test_strangers import Paho, finished, mosquitto, needs_mosquitto

GROUP, ENOUGH = "$share/team/jobs/#", "enough"


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    folder = tmp_path_factory.mktemp("strangers")
    with Network(*written_line(folder, 3), folder / "logs") as made:
        yield made


class Roamer(Paho):
    """A client of paho with a session that is kept, and that acknowledges only what it is told to."""

    def __init__(self, network: Network, broker: int, name: str) -> None:
        self.client = paho.Client(CallbackAPIVersion.VERSION2, name, protocol=paho.MQTTv5, manual_ack=True)
        self.queues()
        self.ended: list[int] = []
        self.client.on_disconnect = lambda *event: self.ended.append(event[3].value)
        kept = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        kept.SessionExpiryInterval = 1000
        self.client.connect(*network.address(broker), clean_start=False, properties=kept)
        self.client.loop_start()
        self.present: bool = self.expect("connect")[2].session_present

    def take(self, acknowledged: bool = True) -> tuple[bytes, bool]:
        """The next message, and whether it says that it came before."""
        message = self.messages.get(timeout=PATIENCE)
        if acknowledged:
            self.client.ack(message.mid, message.qos)
        return bytes(message.payload), message.dup


def until(condition: Callable[[], bool]) -> None:
    ends = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.01)


def publish(network: Network, broker: int, topic: str, text: str, *more: str) -> None:
    """mosquitto_pub, with QoS 1: it ends when the message is acknowledged."""
    finished(mosquitto("mosquitto_pub", network.ports[broker].clients, "-q", "1", "-t", topic, "-m", text, *more))


@needs_mosquitto
def test_a_client_finds_its_session_its_retained_and_its_in_flight_messages_elsewhere(network: Network) -> None:
    first = Roamer(network, 0, "nomad")
    assert not first.present
    first.subscribe("letters/#", qos=1)
    network.wait_until_idle()
    publish(network, 1, "letters/1", "in flight")
    assert first.take(acknowledged=False) == (b"in flight", False)
    first.close()
    publish(network, 2, "letters/2", "waited")
    publish(network, 0, "board/1", "retained", "-r")
    second = Roamer(network, 2, "nomad")
    assert second.present
    assert [second.take() for _ in range(2)] == [(b"in flight", True), (b"waited", False)]
    second.subscribe("board/+", qos=1)
    assert second.take() == (b"retained", False)
    publish(network, 0, "letters/3", "later")
    assert second.take() == (b"later", False)
    second.close()
    third = Roamer(network, 1, "nomad")
    assert third.present
    assert third.messages.empty()
    third.close()


def test_two_clients_with_one_id(network: Network) -> None:
    first = Roamer(network, 0, "twin")
    first.client.reconnect_delay_set(1000, 1000)
    second = Roamer(network, 2, "twin")
    assert second.present
    until(lambda: first.ended == [0x8E])
    first.client.loop_stop()
    second.close()


@needs_mosquitto
def test_a_shared_group_over_three_brokers_whose_home_dies(network: Network) -> None:
    """A member of paho at the home, one of mosquitto and one of aiomqtt elsewhere. Each job goes to one of them."""
    home = Paho(network.ports[0].clients, "at home")
    home.subscribe(GROUP, qos=1)
    given = "-q", "1", "-V", "5", "-t", GROUP, "-t", ENOUGH, "-i", "mosquito"
    other = mosquitto("mosquitto_sub", network.ports[1].clients, *given)
    until(lambda: seen(network, 1, "subscriptions") > 0)
    network.wait_until_idle()
    jobs = asyncio.run(asyncio.wait_for(work(network), 3 * PATIENCE))
    assert other.stdout is not None
    done = list(map(int, iter(other.stdout.readline, f"{ENOUGH}\n")))
    other.terminate()
    other.communicate(timeout=PATIENCE)
    at_home = [int(home.messages.get_nowait().payload) for _ in range(home.messages.qsize())]
    home.client.loop_stop()
    assert at_home
    assert max(at_home) < 30
    assert sorted([*at_home, *done, *jobs]) == list(range(60))  # nothing was under way when the home died
    assert done
    assert jobs
    network.launch(0)
    network.wait(lambda reports: all(report.active for report in reports.values()), "the home is back")


async def work(network: Network) -> list[int]:
    """Publishes thirty jobs, kills the home, publishes thirty more. Returns the jobs that aiomqtt's member got."""
    host, port = network.address(2)
    async with aiomqtt.Client(host, port, protocol=aiomqtt.ProtocolVersion.V5) as client:
        await client.subscribe(GROUP, qos=1)
        await client.subscribe(ENOUGH, qos=1)
        await asyncio.to_thread(network.wait_until_idle)
        for number in range(30):
            await client.publish("jobs/x", b"%d" % number, qos=1)
        await asyncio.to_thread(network.wait_until_idle)
        network.signal(0, signal.SIGKILL)
        await asyncio.to_thread(until, lambda: seen(network, 1, "groups") > 0)  # there is another home
        for number in range(30, 60):
            await client.publish("jobs/x", b"%d" % number, qos=1)
        await client.publish(ENOUGH, ENOUGH, qos=1)
        got = []
        async for message in client.messages:
            if str(message.topic) == ENOUGH:
                break
            got.append(int(bytes(message.payload)))
    return got


def seen(network: Network, broker: int, field: str) -> int:
    """A number of a broker's report; 0 if it says nothing."""
    report = network.report(broker)
    return 0 if report is None else int(getattr(report, field))
