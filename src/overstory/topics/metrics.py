"""The coordinator's numbers, for Prometheus, and its timeline, as lines of JSON."""

import json
import time
from collections.abc import Callable
from typing import Any, TextIO

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from overstory.errors import BrokerError
from overstory.topics.coordination import READY, Change, Coordination

GAUGES: dict[str, tuple[str, Callable[[Coordination], int]]] = {
    "overstory_topics_clients": ("clients of the layer", lambda told: len(told.clients)),
    "overstory_topics_clusters": ("clusters of topics", lambda told: len(told.deciding.alive())),
    "overstory_topics_interests": (
        "pairs of a client and a topic that it wants, without plain topics",
        lambda told: sum(len(told.deciding.wanted_by(client)) for client in told.clients),
    ),
    "overstory_topics_subscriptions": (
        "subscriptions that the clients have to clusters, and directly, without those to plain topics",
        lambda told: sum(_subscriptions(told, client) for client in told.clients),
    ),
    "overstory_topics_places_ready": (
        "topics in clusters that clients may rely on",
        lambda told: sum(state == READY for state in told.places.values()),
    ),
    "overstory_topics_busy": (
        "clients between two sets of subscriptions",
        lambda told: sum(one.busy for one in told.clients.values()),
    ),
    "overstory_topics_plain": (
        "topics that are in no cluster for good, since somebody publishes them without the layer",
        lambda told: len(told.plain),
    ),
}


def _subscriptions(told: Coordination, client: str) -> int:
    takes = told.clients[client].takes
    held = takes[-1].clusters if takes else {}
    brought = {topic for topics in held.values() for topic in topics}
    return len(held) + len(told.deciding.wanted_by(client) - brought)


class Numbers:
    """A collector of Prometheus over a coordination."""

    def __init__(self, told: Coordination) -> None:
        self.told = told

    def collect(self) -> Any:
        for name, (about, counted) in GAUGES.items():
            yield GaugeMetricFamily(name, about, value=counted(self.told))
        sent = CounterMetricFamily("overstory_topics_messages", "messages to clients, by kind", labels=["kind"])
        for kind, count in sorted(self.told.sent.items()):
            sent.add_metric([kind], count)
        yield sent
        yield CounterMetricFamily("overstory_topics_handovers", "sets of subscriptions taken", self.told.handovers)
        yield CounterMetricFamily(
            "overstory_topics_relayed", "events of publishers that do not use the layer", self.told.relayed
        )
        updates = CounterMetricFamily("overstory_topics_updates", "changes of clusters, by kind", labels=["kind"])
        for kind, count in self.told.deciding.updates().items():
            updates.add_metric([kind], count)
        yield updates


def serve(told: Coordination, port: int) -> None:
    """Serves the numbers at /metrics, on loopback."""
    registry = CollectorRegistry()
    registry.register(Numbers(told))
    try:
        start_http_server(port, "127.0.0.1", registry)
    except OSError as error:
        raise BrokerError(f"metrics cannot be served on port {port}: {error.strerror}; choose another") from None


class Timeline:
    """Writes each change of a cluster once, with the time of day."""

    def __init__(self, told: Coordination, out: TextIO, as_json: bool = False) -> None:
        self.told, self.out, self.as_json = told, out, as_json

    def write(self) -> None:
        changes, self.told.timeline = self.told.timeline, []
        for change in changes:
            when = time.time() - (time.monotonic() - change.time)
            print(self._as_json(change, when) if self.as_json else _in_words(change, when), file=self.out, flush=True)

    @staticmethod
    def _as_json(change: Change, when: float) -> str:
        return json.dumps({**change._asdict(), "time": round(when, 3)})


def _in_words(change: Change, when: float) -> str:
    clock = time.strftime("%H:%M:%S", time.localtime(when))
    if change.cluster is None:
        return f"{clock} {', '.join(change.topics)} is in no cluster from now on: {change.why}"
    into = f" into {change.into}" if change.into is not None else ""
    topics = f": {', '.join(change.topics)}" if change.topics else ""
    return f"{clock} cluster {change.cluster} {change.what}{into}{topics}"
