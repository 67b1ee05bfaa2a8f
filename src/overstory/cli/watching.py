"""A network seen at one moment: a table of brokers and of the busiest links; and the file that says where it is."""

import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
from rich.console import Group
from rich.table import Table

from overstory.broker.reports import Report
from overstory.errors import DisconnectedError, UsageError
from overstory.lab.live import HOST as HOST
from overstory.lab.live import Network, fetch_report

FILE = "network.json"
MOST_LINKS = 15
PATIENCE, PAUSE = 60.0, 0.05  # seconds


class Listening(msgspec.Struct, frozen=True):
    """Where one broker is."""

    broker: int
    clients: int  # ports
    monitor: int


def network_file(folder: Path) -> Path:
    """The file that says where the brokers of a network are."""
    return folder / FILE


def write_network(network: Network, folder: Path) -> None:
    """Says where the brokers are, for other commands."""
    rows = [Listening(broker, ports.clients, ports.monitor) for broker, ports in network.ports.items()]
    network_file(folder).write_bytes(msgspec.json.encode(rows))


def read_network(folder: Path) -> list[Listening]:
    """Where the brokers of a running network are. Raises a ``UsageError`` if the folder does not say."""
    try:
        return msgspec.json.decode(network_file(folder).read_bytes(), type=list[Listening])
    except (OSError, msgspec.MsgspecError):
        raise UsageError(
            f"{folder} is not the folder of a running network; start one with 'overstory up DIR --folder {folder}'"
        ) from None


def reports_of(places: list[Listening]) -> dict[int, Report]:
    """What the brokers say that say something."""
    found = {place.broker: fetch_report(HOST, place.monitor) for place in places}
    return {broker: report for broker, report in found.items() if report is not None}


def wait_until_quiet(places: list[Listening]) -> None:
    """Waits until no broker has anything under way. Raises a ``DisconnectedError`` if that takes too long."""
    before: object = None
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends:
        reports = reports_of(places)
        now = [[(link.traffic.events, link.traffic.messages) for link in one.links] for one in reports.values()]
        if len(reports) == len(places) and now == before and all(report.idle for report in reports.values()):
            return
        before = now
        time.sleep(PAUSE)
    raise DisconnectedError("the network does not become quiet; does every broker still run?")


class Watch:
    """Turns reports into tables; rates are those since the table before."""

    def __init__(self, names: Mapping[int, str]) -> None:
        self._names = names
        self._before: Mapping[int, Report] = {}
        self._at = 0.0

    def table(self, reports: Mapping[int, Report], now: float) -> Group:
        """The brokers and the busiest links."""
        seconds, before = max(now - self._at, 1e-3), self._before
        brokers = Table("broker", "clients", "subscriptions", "in/s", "out/s", "waiting", "CPU s", "MB", "links")
        links = []
        for broker, report in reports.items():
            old = before.get(broker, report)
            up = sum(link.connected for link in report.links)
            brokers.add_row(
                self._names.get(broker, str(broker)),
                f"{report.clients:,}",
                f"{report.subscriptions:,}",
                f"{(report.messages_in - old.messages_in) / seconds:,.0f}",
                f"{(report.messages_out - old.messages_out) / seconds:,.0f}",
                f"{report.waiting + sum(link.waiting_bytes for link in report.links):,}",
                f"{report.cpu_seconds:,.1f}",
                f"{report.memory_bytes / 1e6:,.0f}",
                f"{up}/{len(report.links)}",
            )
            known = {link.peer: link.traffic for link in old.links}
            for link in report.links:
                rate = (link.traffic.events - known.get(link.peer, link.traffic).events) / seconds
                links.append((rate, broker, link))
        self._before, self._at = reports, now
        busiest = Table("from", "to", "events/s", "events", "bytes", "control", "waiting", "state")
        for rate, broker, link in sorted(links, key=lambda row: (-row[0], -row[2].traffic.events, row[1]))[:MOST_LINKS]:
            busiest.add_row(
                self._names.get(broker, str(broker)),
                self._names.get(link.peer, str(link.peer)),
                f"{rate:,.0f}",
                f"{link.traffic.events:,}",
                f"{link.traffic.event_bytes + link.traffic.header_bytes:,}",
                f"{link.traffic.control_bytes:,}",
                f"{link.waiting_bytes:,}",
                "up" if link.connected else link.error or "down",
            )
        return Group(brokers, busiest)
