"""The sample of a network's events, as the log of a scenario: packets in, Parquet parts out.

1. Parts are only added, and each is whole when it has its name. A part that has left the sliding window is removed.
2. All parts have the same columns. Where an attribute comes up that older parts do not have, or has another type than
   it had, the older parts are written anew: once for each attribute, not for each event.
3. The size of an event is that of its plain PUBLISH packet of QoS 0, as links count it.
4. An attribute has the type that brokers were told. One without a type is a number or a truth if all its values are,
   else text; one that is there several times in an event is a list.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from overstory.broker.message import message_of
from overstory.broker.sampling import Sample
from overstory.errors import ProtocolError
from overstory.model.folders import parts_of
from overstory.model.tables import EVENTS
from overstory.model.values import Untyped, boolean_face, number_face
from overstory.wire.attributes import attributes_of
from overstory.wire.decode import decode
from overstory.wire.encode import encode
from overstory.wire.packets import MQTT_5, Publish

OURS = EVENTS.schema.names
WORDS = pa.list_(pa.field("element", pa.string()))
DECLARED = {"string": pa.string(), "number": pa.float64(), "boolean": pa.bool_(), "list": WORDS}


class Event(NamedTuple):
    """An event of the sample."""

    time: float
    publisher: int
    size: int
    attributes: Mapping[str, Any]


def events_in(samples: Iterable[Sample], types: Mapping[str, str]) -> list[Event]:
    """The events of packets, in the order of their times."""
    found = [event for sample in samples for event in _events(sample, types)]
    return sorted(found, key=lambda event: event.time)


def _events(sample: Sample, types: Mapping[str, str]) -> Iterable[Event]:
    for taken in sample.taken:
        try:
            packet = decode(taken.packet, taken.version)
        except ProtocolError:
            continue  # kernels took it for a message, and its publisher has been told that it is none
        if isinstance(packet, Publish):
            message = message_of(packet, packet.topic, taken.publisher, taken.time)
            size = len(encode(message.to_publish(taken.time, 0, False), MQTT_5))
            read = attributes_of(message, types)
            attributes = {name: value for name, value in read.items() if not name.startswith("$")}
            yield Event(taken.time, taken.publisher, size, attributes)


def table_of(events: Sequence[Event], first: int, types: Mapping[str, str]) -> pa.Table:
    """Events as rows, numbered from ``first`` on."""
    names = list(dict.fromkeys(name for event in events for name in event.attributes))
    columns: dict[str, pa.Array] = {
        "$id": pa.array(range(first, first + len(events)), pa.int64()),
        "$time": pa.array([event.time for event in events], pa.float64()),
        "$publisher": pa.array([event.publisher for event in events], pa.int64()),
        "$bytes": pa.array([event.size for event in events], pa.int64()),
    }
    for name in names:
        columns[name] = _column([event.attributes.get(name) for event in events], types.get(name))
    return pa.table(columns)


def _column(values: Sequence[Any], declared: str | None) -> pa.Array:
    known = [value for value in values if value is not None]
    if any(isinstance(value, list) for value in known):
        return pa.array([None if value is None else _words(value) for value in values], WORDS)
    if declared is not None:
        return pa.array([_plain(value, declared) for value in values], DECLARED[declared])
    if all(number_face(value) is not None for value in known):
        return pa.array([None if value is None else _float(number_face(value)) for value in values], pa.float64())
    if all(boolean_face(value) is not None for value in known):
        return pa.array([None if value is None else boolean_face(value) for value in values], pa.bool_())
    return pa.array([None if value is None else _text(value) for value in values], pa.string())


def _plain(value: Any, declared: str) -> Any:
    if value is None or declared == "list":
        return value
    return _float(value) if declared == "number" else value


def _float(value: Any) -> float:
    return float(value)


def _words(value: Any) -> list[str]:
    return [_text(word) for word in value] if isinstance(value, list) else [_text(value)]


def _text(value: Any) -> str:
    if isinstance(value, Untyped):
        return value.text
    return str(value).lower() if isinstance(value, bool) else str(value)


class EventLog:
    """The parts of a log in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        parts = parts_of(folder)
        self._next = 1 + max((int(part.stem.partition("-")[2]) for part in parts), default=-1)
        last = pq.read_table(parts[-1], columns=["$id"])["$id"] if parts else None
        self.next_id = 0 if last is None or not len(last) else int(pc.max(last).as_py()) + 1

    def append(self, rows: pa.Table) -> None:
        """Adds a part to the log. Older parts get the columns that they lack."""
        parts = parts_of(self.folder)
        if parts:
            rows, common = _alike(rows, pq.read_schema(parts[0]))
            if common is not None:
                for part in parts:
                    self._write(part, _cast(pq.read_table(part), common))
        self._write(self.folder / f"part-{self._next:06d}.parquet", rows)
        self._next += 1
        self.next_id += rows.num_rows

    def forget(self, keep: int) -> None:
        """Removes all parts but the last few."""
        for part in parts_of(self.folder)[: -keep or None]:
            part.unlink()

    def __len__(self) -> int:
        return len(parts_of(self.folder))

    def rows(self) -> int:
        """The events of all parts."""
        return sum(pq.read_metadata(part).num_rows for part in parts_of(self.folder))

    def _write(self, path: Path, rows: pa.Table) -> None:
        beside = path.with_name(f".{path.name}")
        pq.write_table(rows, beside, compression="zstd")
        beside.replace(path)


def _alike(rows: pa.Table, before: pa.Schema) -> tuple[pa.Table, pa.Schema | None]:
    """New rows with the columns that there were before; and the columns that older parts must have, if others."""
    fields = {field.name: field.type for field in before}
    for field in rows.schema:
        old = fields.get(field.name)
        fields[field.name] = field.type if old is None or old == field.type else _common(old, field.type)
    common = pa.schema([pa.field(name, kind) for name, kind in fields.items()])
    same = {field.name: field.type for field in before} == fields
    return _cast(rows, common), None if same else common


def _common(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    return WORDS if WORDS in (one, other) else pa.string()


def _cast(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = []
    for field in schema:
        if field.name not in rows.column_names:
            columns.append(pa.nulls(rows.num_rows, field.type))
        elif rows[field.name].type == field.type:
            columns.append(rows[field.name])
        elif field.type == WORDS:
            texts = rows[field.name].cast(pa.string()).to_pylist()
            columns.append(pa.array([None if text is None else [text] for text in texts], WORDS))
        else:
            columns.append(rows[field.name].cast(field.type))
    return pa.table(dict(zip(schema.names, columns, strict=True)), schema=schema)
