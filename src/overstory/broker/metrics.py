"""What the broker counts, in the words of OpenMetrics: base units, and no names of clients or topics as labels."""

import resource
import time

from prometheus_client.core import CollectorRegistry, CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector

from overstory.broker.state import State

COUNTERS = {
    "connections": "CONNECT packets that were accepted.",
    "messages_in": "Messages that clients published.",
    "messages_out": "Messages that were handed to sessions.",
    "bytes_in": "Bytes that came from clients.",
    "bytes_out": "Bytes that went to clients.",
    "plain": "Messages that kernels could not decide about.",
    "straight": "Messages that were like one before, and went the way that one had gone.",
    "protocol_errors": "Connections that ended since a client broke the rules.",
    "faults": "Errors of the broker itself, each of which ended a connection or a piece of work.",
    "ticks": "Turns in which packets were handled.",
}
NAMES = {
    "bytes_in": "received_bytes",
    "bytes_out": "sent_bytes",
    "plain": "messages_plain",
    "straight": "messages_straight",
}
LOST = {
    "slow": "Messages of QoS 0 to clients that did not read.",
    "overflowed": "Sessions that were ended since too much waited in them.",
    "expired": "Messages whose time had passed.",
}


class Metrics(Collector):
    """The metrics of one broker. Nothing is kept for them: they are read off when somebody asks."""

    def __init__(self, state: State) -> None:
        self._state, self._started = state, time.time()
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def collect(self) -> list[Metric]:
        state = self._state
        found: list[Metric] = []
        for name, meaning in COUNTERS.items():
            written = f"overstory_{NAMES.get(name, name)}"
            found.append(CounterMetricFamily(written, meaning, value=getattr(state.counts, name)))
        for name, meaning in LOST.items():
            found.append(CounterMetricFamily(f"overstory_lost_{name}", meaning, value=getattr(state.losses, name)))
        gauges = {
            "overstory_clients": ("Clients that are connected.", len(state.links)),
            "overstory_sessions": ("Sessions, of clients here and away.", len(state.sessions)),
            "overstory_subscriptions": ("Subscriptions in the router.", len(state.subscriptions)),
            "overstory_retained_messages": ("Retained messages.", len(state.retained)),
            "overstory_journal_entries": ("Changes that wait for the disk.", len(state.journal)),
            "overstory_start_time_seconds": ("When the broker started.", self._started),
        }
        found += [GaugeMetricFamily(name, meaning, value=value) for name, (meaning, value) in gauges.items()]
        if state.watched is not None and state.watched.measured is not None:
            meaning = "What the last window cost, over what no plan could undercut, as a coordinator has measured it."
            found.append(GaugeMetricFamily("overstory_cost_over_bound", meaning, value=state.watched.measured))
        usage = resource.getrusage(resource.RUSAGE_SELF)
        cpu = usage.ru_utime + usage.ru_stime
        found.append(CounterMetricFamily("overstory_cpu_seconds", "CPU time of the broker.", value=cpu))
        peak = usage.ru_maxrss * 1024
        found.append(GaugeMetricFamily("overstory_peak_memory_bytes", "The most memory so far.", value=peak))
        return found

    def text(self) -> bytes:
        """All metrics, as OpenMetrics has them."""
        return bytes(generate_latest(self._registry))  # type: ignore[no-untyped-call]
