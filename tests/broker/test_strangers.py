"""Clients that nobody here wrote: mosquitto's, paho and aiomqtt."""

import asyncio
import queue
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from typing import Any

import aiomqtt
import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from .running import PATIENCE, Running, broker

needs_mosquitto = pytest.mark.skipif(
    shutil.which("mosquitto_sub") is None,
    reason="mosquitto's clients are not installed: apt-get install mosquitto-clients",
)


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with broker() as made:
        yield made


def mosquitto(command: str, port: int, *arguments: str) -> "subprocess.Popen[str]":
    given = [command, "-h", "127.0.0.1", "-p", str(port), "-W", str(int(PATIENCE)), *arguments]
    if command == "mosquitto_pub":
        del given[5:7]  # it has no time limit
    return subprocess.Popen(given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def subscribed(running: Running, name: str) -> None:
    """Waits until a client has subscribed."""
    running.wait(lambda state: bool(name in state.sessions and state.sessions[name].subscriptions))


def finished(process: "subprocess.Popen[str]") -> str:
    """What a command has printed. It must have ended well."""
    out, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    return out


@needs_mosquitto
@pytest.mark.parametrize("version", ["311", "5"])
@pytest.mark.parametrize("qos", ["0", "1", "2"])
def test_mosquitto_pub_and_sub(running: Running, version: str, qos: str) -> None:
    given = ["-V", version, "-q", qos]
    sub = mosquitto("mosquitto_sub", running.port, *given, "-t", f"m{version}/{qos}/#", "-C", "2", "-v", "-i", "sub")
    subscribed(running, "sub")
    for text in ("hello", "world"):
        pub = mosquitto("mosquitto_pub", running.port, *given, "-t", f"m{version}/{qos}/x", "-m", text)
        finished(pub)
    assert finished(sub).splitlines() == [f"m{version}/{qos}/x hello", f"m{version}/{qos}/x world"]


@needs_mosquitto
def test_mosquitto_with_a_content_filter(running: Running) -> None:
    where = ["-D", "subscribe", "user-property", "$where", "price > 3 AND symbol = 'A'"]
    sub = mosquitto("mosquitto_sub", running.port, "-V", "5", "-t", "quotes", "-C", "1", "-v", "-i", "q", *where)
    subscribed(running, "q")
    for price, symbol in (("2", "A"), ("5", "B"), ("5", "A")):
        pairs = ["-D", "publish", "user-property", "price", price, "-D", "publish", "user-property", "symbol", symbol]
        pub = mosquitto("mosquitto_pub", running.port, "-V", "5", "-t", "quotes", "-m", price + symbol, *pairs)
        finished(pub)
    assert finished(sub) == "quotes 5A\n"


class Paho:
    """A client of paho that keeps what it gets."""

    def __init__(self, port: int, name: str, version: Any = paho.MQTTv5, **given: Any) -> None:
        self.client = paho.Client(CallbackAPIVersion.VERSION2, name, protocol=version)
        self.queues()
        self.client.connect("127.0.0.1", port, **given)
        self.client.loop_start()
        self.expect("connect")

    def queues(self) -> None:
        """Keeps messages and events from now on."""
        self.messages: queue.Queue[paho.MQTTMessage] = queue.Queue()
        self.events: queue.Queue[tuple[str, Any]] = queue.Queue()
        self.client.on_message = lambda client, data, message: self.messages.put(message)
        self.client.on_connect = lambda *event: self.events.put(("connect", event))
        self.client.on_subscribe = lambda *event: self.events.put(("subscribe", event))
        self.client.on_publish = lambda *event: self.events.put(("publish", event))

    def expect(self, kind: str) -> Any:
        found, event = self.events.get(timeout=PATIENCE)
        assert found == kind
        return event

    def subscribe(self, *given: Any, **more: Any) -> Any:
        self.client.subscribe(*given, **more)
        return self.expect("subscribe")

    def get(self) -> tuple[str, bytes]:
        message = self.messages.get(timeout=PATIENCE)
        return message.topic, bytes(message.payload)

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


@pytest.mark.parametrize("version", [paho.MQTTv311, paho.MQTTv5])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_paho(running: Running, version: Any, qos: int) -> None:
    a, b = Paho(running.port, "", version), Paho(running.port, "", version)
    topic = f"paho{int(version)}/{qos}"
    b.subscribe(topic + "/+", qos)
    for number in range(20):
        a.client.publish(f"{topic}/x", b"%d" % number, qos)
    assert [b.get() for _ in range(20)] == [(f"{topic}/x", b"%d" % number) for number in range(20)]
    for _ in range(20):
        a.expect("publish")
    a.close()
    b.close()


def test_paho_with_an_expression_and_a_retained_message(running: Running) -> None:
    a, b = Paho(running.port, "pa"), Paho(running.port, "pb")
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.UserProperty = ("size", "10")
    a.client.publish("shelf/1", b"small", 1, True)
    a.client.publish("shelf/2", b"large", 1, True, properties)
    a.expect("publish")
    a.expect("publish")
    where = Properties(PacketTypes.SUBSCRIBE)  # type: ignore[no-untyped-call]
    where.UserProperty = ("$where", "size > 5")
    b.subscribe("shelf/+", options=SubscribeOptions(qos=1), properties=where)
    assert b.get() == ("shelf/2", b"large")
    _, (_, _, _, reasons, told) = "", b.subscribe("shelf?size >", 1)
    assert [reason.value for reason in reasons] == [0x8F]
    assert "^" in told.ReasonString
    a.close()
    b.close()


def test_aiomqtt(running: Running) -> None:
    async def talk() -> list[tuple[str, bytes]]:
        found = []
        async with aiomqtt.Client("127.0.0.1", running.port, protocol=aiomqtt.ProtocolVersion.V5) as client:
            await client.subscribe("aio/#", qos=1)
            for number in range(5):
                await client.publish(f"aio/{number}", b"x", qos=number % 3)
            async for message in client.messages:
                found.append((str(message.topic), bytes(message.payload)))
                if len(found) == 5:
                    return found
        return found

    found = asyncio.run(asyncio.wait_for(talk(), PATIENCE))
    assert sorted(found) == [(f"aio/{number}", b"x") for number in range(5)]


def test_metrics_and_health(running: Running) -> None:
    address = f"http://127.0.0.1:{running.monitor.port}"
    with urllib.request.urlopen(f"{address}/metrics", timeout=PATIENCE) as answer:
        assert "openmetrics" in answer.headers["Content-Type"]
        families = list(text_string_to_metric_families(answer.read().decode()))  # type: ignore[no-untyped-call]
    names = {family.name for family in families}
    assert {"overstory_messages_in", "overstory_sent_bytes", "overstory_lost_slow", "overstory_cpu_seconds"} <= names
    assert all(not sample.labels for family in families for sample in family.samples)
    with urllib.request.urlopen(f"{address}/healthz", timeout=PATIENCE) as answer:
        assert answer.read() == b"ok\n"
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(f"{address}/nothing", timeout=PATIENCE)
