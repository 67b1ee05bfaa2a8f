"""A running network as a scenario: brokers, links, clients, subscriptions, a sample of its events, and today's plan.

1. Brokers, links and settings are those that the network was started with. Clients are those with a session, where it
   is, and those who published what is in the sample.
2. Events are sampled by the brokers whose clients publish them. The log is a sliding window of the last parts, each of
   which is what came between two looks.
3. The folder is a scenario like any other. In its folder ``today`` is the plan that is in use, with everyone in the
   flows that routers have them in; those who are late are in a flow of their own, along the late tree.
"""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from overstory.broker.observing import Observed
from overstory.broker.sampling import Sample
from overstory.control.brokers import Brokers
from overstory.control.event_log import EventLog, events_in, table_of
from overstory.control.placing import with_late
from overstory.errors import DataError, DisconnectedError
from overstory.model.folders import write_table
from overstory.model.plan import LATE, Plan, read_plan
from overstory.model.scenario import SETTINGS_FILE, Scenario, read_scenario
from overstory.model.settings import Settings
from overstory.model.tables import ALL, ATTACHMENTS, CLIENTS, MEMBERS, SUBSCRIPTIONS
from overstory.routing.written_out import written_out

TODAY = "today"  # the folder of the plan that is in use, inside the scenario's
LATE_FLOW = "late_flow"  # a parameter of today's plan: the flow that stands for the late one, if somebody is late
LOG = "events.parquet"
OBSERVED = "observed.json"


class Network(NamedTuple):
    """What all brokers say at one moment."""

    files: Mapping[str, bytes]  # of the scenario that the network was started with
    plan: Mapping[str, bytes]  # the files of the plan that is in use
    brokers: Sequence[Observed]
    samples: Sequence[Sample]


class Log(msgspec.Struct):
    """How much of what was published the log holds, part by part."""

    published: list[int] = []  # messages that clients published while each part was sampled
    sampled: list[int] = []
    ended: list[float] = []  # when

    @property
    def scale(self) -> float:
        """How many events one of the sample stands for."""
        return sum(self.published) / sum(self.sampled) if sum(self.sampled) else 1.0


class Observer:
    """Keeps a folder a scenario of a running network."""

    def __init__(self, folder: Path, window: int = 1) -> None:
        """The sliding window has so many parts."""
        self.folder, self.window = folder, window
        self._events = EventLog(folder / LOG)
        self._written = folder / OBSERVED
        self.log = msgspec.json.decode(self._written.read_bytes(), type=Log) if self._written.exists() else Log()
        self._before: dict[int, tuple[int, int]] = {}  # of each broker: its incarnation, and what it had published

    def look(self, network: Network, now: float) -> Scenario:
        """Adds what has come since the look before, and writes the tables anew."""
        types = {name: kind for broker in network.brokers for name, kind in broker.types.items()}
        events = events_in(network.samples, types)
        self._events.append(table_of(events, self._events.next_id, types))
        self._events.forget(self.window)
        for column, value in (
            (self.log.published, self._published(network.samples)),
            (self.log.sampled, len(events)),
            (self.log.ended, now),
        ):
            column.append(value)  # type: ignore[arg-type]
            del column[: -self.window]
        self._written.write_bytes(msgspec.json.encode(self.log))
        publishers = {event.publisher: event for event in events}
        homes = _homes(network, publishers)
        self._write_tables(network, homes)
        scenario = read_scenario(self.folder)
        self._write_plan(network, scenario, homes)
        return scenario

    def _published(self, samples: Iterable[Sample]) -> int:
        """Messages since the look before."""
        total = 0
        for sample in samples:
            incarnation, before = self._before.get(sample.broker, (sample.incarnation, -1))
            if before < 0:  # the first look: what the sample stands for
                share = sample.rate or 1.0
                total += min(sample.published, round((len(sample.taken) + sample.missed) / share))
            else:
                total += sample.published - (before if incarnation == sample.incarnation else 0)
            self._before[sample.broker] = sample.incarnation, sample.published
        return total

    def _write_tables(self, network: Network, homes: Mapping[int, int]) -> None:
        for name in ("brokers.parquet", "links.parquet"):
            (self.folder / name).write_bytes(network.files[name])
        settings = msgspec.toml.decode(network.files[SETTINGS_FILE], type=Settings)
        made_by: dict[str, str | int | float | bool] = {"kind": "observed", "scale": self.log.scale}
        settings = msgspec.structs.replace(settings, name="observed", made_by=made_by)
        (self.folder / SETTINGS_FILE).write_bytes(msgspec.toml.encode(settings, order="deterministic"))
        wanted = [one for broker in network.brokers for one in broker.subscriptions]
        rows = [(one.number, one.client, one.filter, one.no_local) for one in wanted if one.client in homes]
        columns = dict(zip(SUBSCRIPTIONS.schema.names, zip(*rows, strict=True) if rows else [[]] * 4, strict=True))
        write_table(self.folder, SUBSCRIPTIONS, pa.table(columns, schema=SUBSCRIPTIONS.schema))
        write_table(self.folder, CLIENTS, self._clients(network, homes, settings))

    def _clients(self, network: Network, homes: Mapping[int, int], settings: Settings) -> pa.Table:
        """Clients where they are, with the coordinates that the scenario has of them, or those of their brokers."""
        names = {one.number: one.name for broker in network.brokers for one in broker.clients}
        known = {row["id"]: row for row in _table(network.files, "clients.parquet").to_pylist()}
        brokers = {row["id"]: row for row in _table(network.files, "brokers.parquet").to_pylist()}
        rows = []
        for client, broker in sorted(homes.items()):
            row = known.get(client) or ({} if settings.access.metric == "none" else brokers[broker])
            told = {name: row.get(name) for name in ("x", "y", "place")}
            rows.append(
                {
                    "id": client,
                    "broker": broker,
                    **told,
                    "name": names.get(client) or row.get("name"),
                    "latest": known.get(client, {}).get("latest"),
                }
            )
        return pa.Table.from_pylist(rows, schema=CLIENTS.full_schema)

    def _write_plan(self, network: Network, scenario: Scenario, homes: Mapping[int, int]) -> None:
        """Today's plan, if there is one."""
        shutil.rmtree(self.folder / TODAY, ignore_errors=True)
        if not network.plan:
            return
        source = self.folder / f".{TODAY}"
        shutil.rmtree(source, ignore_errors=True)
        source.mkdir()
        for name, data in network.plan.items():
            (source / name).write_bytes(data)
        try:
            today(read_plan(source), scenario, network.brokers, homes).write(self.folder / TODAY)
        finally:
            shutil.rmtree(source, ignore_errors=True)


class Collecting:
    """Asks brokers for what is new since the time before."""

    def __init__(self, brokers: Brokers) -> None:
        self.brokers = brokers
        self._after: dict[int, tuple[int, int]] = {}  # of each broker: its incarnation, and the last packet that came
        self._files: dict[str, bytes] = {}

    async def look(self) -> Network:
        """What all brokers say now. Raises a ``DisconnectedError`` if one of them is silent."""
        known = await self.brokers.meet()
        silent = sorted(self.brokers.addresses.keys() - known.keys())
        if silent:
            raise DisconnectedError(f"broker {silent[0]} does not answer, so that the picture would not be whole")
        self._files = self._files or await self.brokers.scenario_files()
        observed = await self.brokers.observed()
        after = {
            broker: self._after[broker][1]
            for broker, one in observed.items()
            if self._after.get(broker, (None, 0))[0] == one.incarnation
        }
        samples = await self.brokers.samples(after)
        for broker, sample in samples.items():
            last = max((taken.number for taken in sample.taken), default=after.get(broker, 0))
            self._after[broker] = sample.incarnation, last
        epoch = max((one.active for one in known.values()), default=0)
        plan = await self.brokers.plan_files(epoch) if epoch else {}
        return Network(self._files, plan, list(observed.values()), list(samples.values()))


def today(plan: Plan, scenario: Scenario, brokers: Sequence[Observed], homes: Mapping[int, int]) -> Plan:
    """The plan that is in use, for the clients and subscriptions that there are."""
    every = [one for broker in brokers for one in broker.subscriptions]
    flows = {one.number: [flow for flow in one.flows if flow != LATE] for one in every}
    known = set(scenario.subscriptions["id"].to_pylist())
    late = pa.array(sorted(one for one in known if not flows.get(one)), pa.int64())
    attachments = pa.table({"client": list(homes), "broker": list(homes.values())}, schema=ATTACHMENTS.schema)
    plan = replace(plan, attachments=attachments)
    if pc.any(pc.equal(plan.flows["members"], ALL)).as_py() and len(late):
        placed = scenario.subscriptions.filter(pc.invert(pc.is_in(scenario.subscriptions["id"], late)))
        plan = written_out(replace(scenario, subscriptions=placed), plan)
    parts = {(row["flow"], row["subscription"]): row["part"] for row in plan.members.to_pylist()}
    rows = [(flow, one, parts.get((flow, one))) for one, mine in flows.items() if one in known for flow in mine]
    listed = set(plan.flows.filter(pc.fill_null(pc.not_equal(plan.flows["members"], ALL), True))["flow"].to_pylist())
    rows = sorted((row for row in rows if row[0] in listed), key=lambda row: row[:2])
    columns = dict(zip(MEMBERS.schema.names, zip(*rows, strict=True) if rows else [[]] * 3, strict=True))
    plan = _without_empty(replace(plan, members=pa.table(columns, schema=MEMBERS.schema)), listed)
    whole = with_late(plan, scenario)
    late_flow = {LATE_FLOW: int(pc.max(whole.flows["flow"]).as_py())} if whole is not plan else {}
    header = msgspec.structs.replace(
        plan.header,
        parameters=plan.header.parameters | late_flow,
        scenario=scenario.fingerprint,
        predicted={},
        bounds={},
        dearest_links=(),
        attaching={},
    )
    return whole.headed(header)


def _without_empty(plan: Plan, listed: set[int]) -> Plan:
    """The plan without flows that nobody is in any more."""
    empty = pa.array(sorted(listed - set(plan.members["flow"].to_pylist())), pa.int64())
    tables = {
        name: getattr(plan, name).filter(pc.invert(pc.is_in(getattr(plan, name)["flow"], empty))).combine_chunks()
        for name in ("flows", "trees", "filters", "regions")
    }
    return replace(plan, **tables)


def _homes(network: Network, publishers: Mapping[int, object]) -> dict[int, int]:
    """Where each client is: at the broker that has its session or, without one, at the broker where it published."""
    homes = {taken.publisher: sample.broker for sample in network.samples for taken in sample.taken}
    homes = {client: broker for client, broker in homes.items() if client in publishers}
    for broker in network.brokers:
        for client in broker.clients:
            if client.connected or client.number not in homes:
                homes[client.number] = broker.broker
    return dict(sorted(homes.items()))


def _table(files: Mapping[str, bytes], name: str) -> pa.Table:
    if name not in files:
        raise DataError(f"the brokers have no {name}: was the network started from a scenario?")
    return pq.read_table(pa.BufferReader(files[name]))
