"""From matches to bytes: who gets which messages, and what is written to whom, each in one piece.

The parts of a decision, in order: ``rows_of`` turns the matches of each kind of message into rows, one for each slot;
``_count`` says which messages each slot gets straight away, and ``_lead`` which slots get the very same bytes, written
once by ``_write``. What kernels cannot do for a slot (a message to be kept, an identifier to be added) is named to the
caller, as are entries and ways that it has to tell about first.
"""

from typing import Any, NamedTuple

import numpy as np

from overstory.kernels.borrowing import borrowing
from overstory.kernels.cells import encode
from overstory.kernels.compiling import Array, kernel
from overstory.kernels.events import WITH_PROPERTIES, alike, cells_of
from overstory.kernels.hashing import mixed
from overstory.kernels.match import Scratch, filters_of, match, opaque_among
from overstory.kernels.mqtt import REBUILT, RETAIN
from overstory.kernels.slots import COUNTED, MOST_IDS, OPEN
from overstory.kernels.spans import copy_span
from overstory.kernels.store import Store

# What is known of a table entry: which entry that was, and its options, the QoS among them.
ENTRY = np.dtype([("serial", "i8"), ("options", "i8")])
QOS, SPECIAL, AS_PUBLISHED = 3, 4, 8  # options; AS_PUBLISHED: special if the message is a retained one

# The report: how many messages are decided, how many ways and entries are unknown, how many slots get bytes, how many
# pairs of a message and a slot are special, how many matches there are, where the acknowledgements begin, how many
# kinds of messages there are, and how many copies are written. Behind it stand the unknown ways and entries; or of each
# slot its number and the begin and the end of its bytes; of each special pair the message and the slot; the kind of
# each message; of each kind where its matches end; and the matches, as entries of the table.
DECIDED, WAYS, ENTRIES, SLOTS, SPECIALS, MATCHES, ACKS, KINDS, COPIES, HEADER = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9


class Table(NamedTuple):
    """A forwarding table: by place in the index the entry; of each entry its way and serial; of each way its flow and
    peer; and what the caller knows: the slot of each way, and the options of each entry."""

    numbers: Array
    ways: Array
    serials: Array
    flows: Array
    peers: Array
    slot_of_way: Array
    entries: Array


class Rows(NamedTuple):
    """Who gets the messages of each kind: between offsets, slots and options. And all matches, as entries."""

    offsets: Array
    slots: Array
    options: Array
    match_offsets: Array
    matches: Array


@kernel
def decide(*arrays: Array) -> tuple[Array, Array]:
    """Given a Store, a Scratch, a Table, what an index wants and its names, two scratch arrays, the slots, which flows
    the kinds of messages serve, the bytes, the frames and the chunks: the report and the bytes to be written.

    All in one, since for a single message it is the calls that take most of the time.
    """
    store, scratch, table = Store(*arrays[0:10]), Scratch(*arrays[10:13]), Table(*arrays[13:20])
    wanted, names, floats, counter, slots, served, data, frames, chunks = arrays[20:29]
    firsts, kinds = alike(data, frames, wanted[WITH_PROPERTIES] > 0)
    cells, read = cells_of(data, frames, firsts, wanted, names, floats)
    offsets, found = match(store, encode(store, cells), scratch)
    opaque = opaque_among(store, found)
    if len(opaque):  # whatever comes before the first event with such a box can be decided
        while read and offsets[read] > opaque[0]:
            read -= 1
        offsets, found = offsets[: read + 1], found[: offsets[read]]
    match_offsets, places = filters_of(
        store.boxes, store.links, scratch.stamps, scratch.tally, offsets, found, opaque[:0]
    )
    decided = len(frames)
    for event in range(len(frames)):
        if kinds[event] >= read:
            decided = event
            break
    rows, unknown_ways, unknown_entries = rows_of(table, slots, served, match_offsets, places, counter)
    if len(unknown_ways) or len(unknown_entries):
        return _unknown(unknown_ways, unknown_entries), np.empty(0, np.uint8)
    touched, fast, specials = _count(frames[:decided], kinds, rows, chunks, slots)
    spans, total = _lead(touched, slots)
    acks = 0
    for event in range(decided):
        acks += frames[event].qos == 1 and chunks[frames[event].chunk].slot >= 0
    out = np.empty(total + 4 * acks, np.uint8)
    _write(data, frames[:decided], kinds, rows, chunks, slots, fast, out)
    _acknowledge(frames[:decided], chunks, out, total)
    for i in range(len(touched)):
        slots[touched[i]].count = 0
    report = _report(decided, spans, specials, kinds, rows, total)
    report[COPIES] = len(fast) - len(specials) // 2
    return report, out


@kernel
def _unknown(ways: Array, entries: Array) -> Array:
    report = np.zeros(HEADER + len(ways) + len(entries), np.int64)
    report[WAYS], report[ENTRIES] = len(ways), len(entries)
    report[HEADER : HEADER + len(ways)] = ways
    report[HEADER + len(ways) :] = entries
    return report


@kernel
def _report(decided: int, spans: Array, specials: Array, kinds: Array, rows: Rows, total: int) -> Array:
    size = HEADER + len(spans) + len(specials)
    if len(specials):
        size += len(kinds) + len(rows.match_offsets) + len(rows.matches)
    report = np.zeros(size, np.int64)
    report[DECIDED], report[SLOTS], report[SPECIALS] = decided, len(spans) // 3, len(specials) // 2
    report[MATCHES], report[ACKS], report[KINDS] = len(rows.matches), total, len(rows.match_offsets) - 1
    at = HEADER
    report[at : at + len(spans)] = spans
    at += len(spans)
    if len(specials):
        report[at : at + len(specials)] = specials
        at += len(specials)
        report[at : at + len(kinds)] = kinds
        at += len(kinds)
        report[at : at + len(rows.match_offsets)] = rows.match_offsets
        at += len(rows.match_offsets)
        report[at:] = rows.matches
    return report


@kernel
def rows_of(
    table: Table, slots: Array, served: Array, offsets: Array, places: Array, counter: Array
) -> tuple[Rows, Array, Array]:
    """One row for each kind of message and slot, with the highest QoS of all entries that match; and the ways and
    entries that the caller has to tell about."""
    ends, match_ends = np.zeros(len(offsets), np.int64), np.zeros(len(offsets), np.int64)
    row_slots, options = np.empty(len(places), np.int64), np.empty(len(places), np.int64)
    matches = np.empty(len(places), np.int64)
    ways, entries = np.empty(0, np.int64), np.empty(0, np.int64)
    total, kept = 0, 0
    for kind in range(len(offsets) - 1):
        counter[0] += 1
        for i in range(offsets[kind], offsets[kind + 1]):
            number = table.numbers[places[i]]
            way = table.ways[number]
            if len(served) and not served[kind, table.flows[way]]:
                continue
            matches[kept] = number
            kept += 1
            slot = table.slot_of_way[way]
            if slot < 0 or slots[slot].client != table.peers[way]:
                ways = _with(ways, way)
                continue
            entry = table.entries[number]
            if entry.serial != table.serials[number]:
                entries = _with(entries, number)
                continue
            row = slots[slot]
            if row.stamp != counter[0]:
                row.stamp, row.row = counter[0], total
                row_slots[total], options[total] = slot, entry.options
                total += 1
            else:
                known = options[row.row]
                options[row.row] = max(known & QOS, entry.options & QOS) | (known | entry.options) & ~QOS
        ends[kind + 1], match_ends[kind + 1] = total, kept
    return Rows(ends, row_slots[:total], options[:total], match_ends, matches[:kept]), ways, entries


@kernel
def _with(values: Array, value: int) -> Array:
    larger = np.empty(len(values) + 1, np.int64)
    larger[:-1] = values
    larger[-1] = value
    return larger


@kernel
def _count(frames: Array, kinds: Array, rows: Rows, chunks: Array, slots: Array) -> tuple[Array, Array, Array]:
    """The slots that get something straight away; of each message and row whether it does; and the special pairs."""
    pairs = 0
    for event in range(len(frames)):
        pairs += rows.offsets[kinds[event] + 1] - rows.offsets[kinds[event]]
    touched = np.empty(min(len(rows.slots), len(slots)), np.int64)
    fast, specials = np.empty(pairs, np.int8), np.empty(2 * pairs, np.int64)
    some, special = _count_all(frames, kinds, rows, chunks, slots, touched, fast, specials)
    return touched[:some], fast, specials[: 2 * special]


@borrowing
def _count_all(
    frames: Array, kinds: Array, rows: Rows, chunks: Array, slots: Array, touched: Array, fast: Array, specials: Array
) -> tuple[int, int]:
    """Fills these arrays. Returns how many slots get something, and how many pairs are special."""
    some, place, special_count = 0, 0, 0
    for event in range(len(frames)):
        here, kind = frames[event], kinds[event]
        from_version = chunks[here.chunk].version
        for i in range(rows.offsets[kind], rows.offsets[kind + 1]):
            slot, options = rows.slots[i], rows.options[i]
            row = slots[slot]
            qos = min(here.qos, options & QOS)
            size = _size(here, from_version, row.version, qos)
            special = options & SPECIAL or (here.marks & RETAIN and options & AS_PUBLISHED) or size > row.largest
            if qos == 0:
                special |= not row.flags & OPEN
            else:
                special |= qos == 2 or not row.flags & COUNTED or row.room <= 0
            fast[place] = -1 if special else qos
            place += 1
            if special:
                specials[2 * special_count], specials[2 * special_count + 1] = event, slot
                special_count += 1
                continue
            if row.count == 0:
                touched[some] = slot
                some += 1
                row.size, row.hash, row.base = 0, row.version, row.next
            row.count += 1
            row.size += size
            row.hash = mixed(row.hash ^ (4 * event + qos + 1))
            if qos:
                row.room -= 1
                row.next = row.next % MOST_IDS + 1
    return some, special_count


@borrowing
def _size(here: Any, from_version: int, version: int, qos: int) -> int:
    """The bytes of a message for a client of this version."""
    body = _body(here, from_version, version, qos)
    return 1 + (1 if body < 128 else 2 if body < 16384 else 3 if body < 2097152 else 4) + body


@borrowing
def _body(here: Any, from_version: int, version: int, qos: int) -> int:
    body = 2 + here.topic_end - here.topic + here.end - here.props_end
    if version != 4:
        body += here.props_end - here.props if from_version != 4 else 1
    return body + 2 if qos else body


@kernel
def _lead(touched: Array, slots: Array) -> tuple[Array, int]:
    """Of each slot its number and the span of its bytes. Slots with equal lists share them: the first one leads."""
    size = 4
    while size < 2 * len(touched):
        size *= 2
    table = np.zeros(size, np.int64)
    spans = np.empty(3 * len(touched), np.int64)
    total = 0
    for i in range(len(touched)):
        row = slots[touched[i]]
        numbered = row.base != row.next
        place = mixed(row.hash ^ (row.base if numbered else 0)) & (size - 1)
        leader = touched[i]
        while table[place]:
            other = slots[table[place] - 1]
            if (
                other.hash == row.hash
                and other.count == row.count
                and other.size == row.size
                and other.version == row.version
                and (not numbered or other.base == row.base)
            ):
                leader = table[place] - 1
                break
            place = (place + 1) & (size - 1)
        if leader == touched[i]:
            table[place] = leader + 1
            row.at, row.first = total, total
            total += row.size
        row.leader = leader
        first = slots[leader].first
        spans[3 * i], spans[3 * i + 1], spans[3 * i + 2] = touched[i], first, first + row.size
    return spans, total


@borrowing
def _write(
    data: Array, frames: Array, kinds: Array, rows: Rows, chunks: Array, slots: Array, fast: Array, out: Array
) -> None:
    """Writes the packets of all slots that lead."""
    place = 0
    for event in range(len(frames)):
        here, kind = frames[event], kinds[event]
        from_version = chunks[here.chunk].version
        for i in range(rows.offsets[kind], rows.offsets[kind + 1]):
            qos = fast[place]
            place += 1
            slot = rows.slots[i]
            row = slots[slot]
            if qos < 0 or row.leader != slot:
                continue
            if qos:
                row.at = _packet(data, here, from_version, row.version, row.base, out, row.at)
                row.base = row.base % MOST_IDS + 1
            else:
                row.at = _packet(data, here, from_version, row.version, 0, out, row.at)


@borrowing
def _packet(data: Array, here: Any, from_version: int, version: int, packet_id: int, out: Array, at: int) -> int:
    """Writes one PUBLISH, with a packet identifier unless it is 0. Returns where it ends."""
    if from_version == version and (packet_id != 0) == (here.qos != 0) and not here.marks & REBUILT:
        size = here.end - here.start
        copy_span(out, at, data, here.start, size)
        out[at] = 0x32 if packet_id else 0x30
        if packet_id:
            place = at + here.topic_end - here.start
            out[place], out[place + 1] = packet_id >> 8, packet_id & 255
        return at + size
    body = _body(here, from_version, version, packet_id)
    out[at] = 0x32 if packet_id else 0x30
    at += 1
    while body > 127:
        out[at] = body & 127 | 128
        body >>= 7
        at += 1
    out[at] = body
    topic = here.topic_end - here.topic
    out[at + 1], out[at + 2] = topic >> 8, topic & 255
    at += 3
    copy_span(out, at, data, here.topic, topic)
    at += topic
    if packet_id:
        out[at], out[at + 1] = packet_id >> 8, packet_id & 255
        at += 2
    if version != 4 and from_version == 4:
        out[at] = 0
        at += 1
    elif version != 4:
        copy_span(out, at, data, here.props, here.props_end - here.props)
        at += here.props_end - here.props
    copy_span(out, at, data, here.props_end, here.end - here.props_end)
    return at + here.end - here.props_end


@borrowing
def _acknowledge(frames: Array, chunks: Array, out: Array, at: int) -> None:
    """Writes a PUBACK for each message of QoS 1 that came from a client."""
    for event in range(len(frames)):
        here = frames[event]
        if here.qos == 1 and chunks[here.chunk].slot >= 0:
            out[at], out[at + 1], out[at + 2], out[at + 3] = 0x40, 2, here.id >> 8, here.id & 255
            at += 4
