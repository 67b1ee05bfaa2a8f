"""Frames of steered events from the bytes that come to the bytes that go on, in one call.

It says what ``wire.frames``, ``kernels.steering`` and the router say of the same frames, for as long as nothing is out
of the ordinary: events are of QoS 0 and each in one steered flow that is not ordered, every header can be followed, no
event has come before, and no frame says which numbers are acknowledged. The first frame of which that is not so ends
the run. Frames have few events, so it is the number of calls that takes the time.
"""

from typing import Any, NamedTuple

import numpy as np

from overstory.kernels.borrowing import borrowing
from overstory.kernels.compiling import Array, kernel
from overstory.kernels.mqtt import FRAME, JSON, PUBLISH_0, _length, _publish
from overstory.kernels.msgpack import (
    EMPTY_LIST,
    NIL,
    highest_first,
    lowest_first,
    put_bytes,
    put_highest_first,
    put_integer,
    put_list,
    put_lowest_first,
    read_bytes,
    read_integer,
    read_list,
)
from overstory.kernels.nothing import NONE
from overstory.kernels.recent import COUNT as REMEMBERED
from overstory.kernels.recent import Recent, add, take_back
from overstory.kernels.spans import copy_span
from overstory.kernels.steering import Met, Ports, take_hop

FIELDS, STEERING = 12, 4  # of a frame of events, and of its headers: see ``wire.frames.Written``
WORD, NUMBER = 4, 8  # bytes of an integer in an array
MQTT_5 = 5
MOST = 1 << 14  # events in one call
MOST_SETS = 16  # sets of flows in one frame
# What is known of an event: where its packet begins, the packet's size, the event's number, the client and the broker
# that published it, its flow, the places of that flow and that broker; where its header begins, and the header's size;
# the frame that it came in, and which set of flows of a new frame it has
PACKET, SIZE, ID, PUBLISHER, ENTRY, FLOW, PLACE, POSITION, HEADER, LENGTH, CAME_IN, SET, COLUMNS = range(13)
# The report: how many frames can be followed, whether these were, how much work they are, how many events there has to
# be room for first (0: there is), whether all that stay have one flow, and one publishing broker; and of each port how
# many copies go on there, where their frame begins and ends, and the bytes of its packets and headers
TAKEN, DONE, WORK, ROOM, ONE_FLOW, ONE_BROKER, PORTS = range(7)
COPIES, BEGIN, END, PACKET_BYTES, HEADER_BYTES, WIDTH = range(6)


class Place(NamedTuple):
    """A broker in the network of its steered flows."""

    offsets: Array  # these four are its ``Ports``
    targets: Array
    sources: Array
    bits: Array
    flows: Array  # the numbers of the steered flows
    ids: Array  # of all brokers, ascending
    facts: Array  # the epoch, the position of this broker, and what headers say of the network


class Copies(NamedTuple):
    """What goes on."""

    events: Array  # of each copy
    offsets: Array  # of the headers of copies
    headers: Array
    order: Array  # the copies by port
    sets: Array  # by place of a flow: which set of flows of a frame it is


@kernel
def follow(
    data: Array, bounds: Array, place: Place, recent: Recent, most: int, faster: int
) -> tuple[Array, Array, Array, Array]:
    """Reads frames, whose bodies are between bounds, until they are so much work; kernels do the work of ``faster``
    events as one. Nothing is changed.

    Returns the report; of each event that stays its columns, and its packet, framed; and the bytes for all ports.
    """
    epoch, here = place.facts[0], place.facts[1]
    degree = place.offsets[here + 1] - place.offsets[here]
    report = np.zeros(PORTS + WIDTH * degree, np.int64)
    nothing = np.empty((0, COLUMNS), np.int64), np.empty(0, FRAME), np.empty(0, np.uint8)
    rows, count = np.empty((64, COLUMNS), np.int64), 0
    sets = np.empty(max(MOST_SETS, len(place.flows)), np.int64)
    for number in range(len(bounds) - 1):
        if number and report[WORK] >= most:
            break
        more = _count_of(data, bounds[number], bounds[number + 1])
        if more == NONE or count + more > MOST:
            break
        rows = _with_rows(rows, count, count + more)
        if not _read_frame(data, bounds[number], bounds[number + 1], place, epoch, rows[count : count + more], sets):
            break
        rows[count : count + more, CAME_IN] = number
        count += more
        report[TAKEN] += 1
        report[WORK] += more // faster + 1
    rows = rows[:count]
    if recent.span[REMEMBERED] + count > len(recent.times):
        report[ROOM] = count
    if count == 0 or report[ROOM]:
        return report, nothing[0], nothing[1], nothing[2]
    met = _read_headers(data, rows, place)
    staying = np.flatnonzero(met.stays)
    frames = np.empty(len(staying), FRAME)
    wrong = _first_wrong(data, rows, met, recent, staying, frames)
    if wrong != NONE:
        report[TAKEN] = rows[wrong, CAME_IN]
        return report, nothing[0], nothing[1], nothing[2]
    report[DONE] = 1
    report[ONE_FLOW], report[ONE_BROKER] = _is_one(rows, staying, FLOW), _is_one(rows, staying, ENTRY)
    onward = met.onward
    ports = onward.link - place.offsets[here]
    copies = Copies(onward.tree, onward.offsets, onward.data, np.argsort(ports, kind="mergesort"), sets)
    out = np.empty(_most_bytes(rows, copies, degree), np.uint8)
    _write_all(data, rows, copies, ports, epoch, report[PORTS:], out)
    return report, rows[staying], frames, out


@kernel
def stay(events: Array, recent: Recent, received: Array, now: float) -> None:
    """Events stay here, each for the first time: they are remembered, and counted by flow and publishing broker."""
    for i in range(len(events)):
        add(recent, events[i, PLACE], events[i, ENTRY], events[i, ID], now)
        received[events[i, PLACE], events[i, POSITION]] += 1


@kernel
def _with_rows(rows: Array, used: int, count: int) -> Array:
    if len(rows) >= count:
        return rows
    larger = np.empty((2 * count, COLUMNS), np.int64)
    larger[:used] = rows[:used]
    return larger


# Reading


@borrowing
def _count_of(data: Array, at: int, stop: int) -> int:
    """How many events a frame says to have; NONE if it cannot be read."""
    if at + WORD > stop:
        return NONE
    end = at + WORD + highest_first(data, at, WORD)
    if end > stop:
        return NONE
    fields, at = read_list(data, at + WORD, end)
    if at == NONE or fields != FIELDS:
        return NONE
    _, at = read_integer(data, at, end)
    if at == NONE:
        return NONE
    count, at = read_integer(data, at, end)
    return count if at != NONE and 0 < count <= stop - end else NONE


@borrowing
def _read_frame(data: Array, at: int, stop: int, place: Place, epoch: int, rows: Array, sets: Array) -> bool:
    """Fills the columns of the events of a frame. False if it is not for kernels."""
    end = at + WORD + highest_first(data, at, WORD)
    _, at = read_list(data, at + WORD, end)
    number, at = read_integer(data, at, end)
    _, at = read_integer(data, at, end)
    if number != epoch:
        return False
    at, total = _read_column(data, at, end, rows, SIZE, WORD)
    at = _read_marks(data, at, end, len(rows))
    at, _ = _read_column(data, at, end, rows, ID, NUMBER)
    at, _ = _read_column(data, at, end, rows, PUBLISHER, NUMBER)
    at, _ = _read_column(data, at, end, rows, ENTRY, NUMBER)
    at, count = _read_sets(data, at, end, sets)
    at, _ = _read_column(data, at, end, rows, SET, WORD)
    if at == NONE or at >= end or data[at] != NIL or total != stop - end:
        return False
    at = _read_steering(data, at + 1, end, rows)
    if at == NONE or at + 1 != end or data[at] != EMPTY_LIST:
        return False
    packet = end
    for i in range(len(rows)):
        row = rows[i]
        if not 0 <= row[SET] < count or sets[row[SET]] != row[FLOW]:
            return False
        row[PLACE], row[POSITION] = _place_in(place.flows, row[FLOW]), _position_in(place.ids, row[ENTRY])
        if row[PLACE] == NONE or row[POSITION] == NONE:
            return False
        row[PACKET] = packet
        packet += row[SIZE]
    return True


@borrowing
def _read_column(data: Array, at: int, stop: int, rows: Array, column: int, width: int) -> tuple[int, int]:
    """Reads an array of integers: one for each event, or one for all. Returns where it ends, and their sum."""
    if at == NONE:
        return NONE, 0
    begin, end = read_bytes(data, at, stop)
    if end == NONE or (end - begin != width and end - begin != width * len(rows)):
        return NONE, 0
    step = 0 if end - begin == width else width
    total, value = 0, lowest_first(data, begin, width)
    for i in range(len(rows)):
        if step:
            value = lowest_first(data, begin + step * i, width)
        rows[i, column] = value
        total += value
    return end, total


@borrowing
def _read_marks(data: Array, at: int, stop: int, count: int) -> int:
    """Reads the marks of events, which have to be 0 all."""
    if at == NONE:
        return NONE
    begin, end = read_bytes(data, at, stop)
    if end == NONE or (end - begin != 1 and end - begin != count):
        return NONE
    for i in range(begin, end):
        if data[i]:
            return NONE
    return end


@borrowing
def _read_sets(data: Array, at: int, stop: int, sets: Array) -> tuple[int, int]:
    """Reads sets of flows, which have to have one flow each. Returns where they end, and how many there are."""
    if at == NONE:
        return NONE, 0
    count, at = read_list(data, at, stop)
    if at == NONE or count > MOST_SETS:
        return NONE, 0
    for i in range(count):
        size, at = read_list(data, at, stop)
        if at == NONE or size != 1:
            return NONE, 0
        sets[i], at = read_integer(data, at, stop)
        if at == NONE:
            return NONE, 0
    return at, count


@borrowing
def _read_steering(data: Array, at: int, stop: int, rows: Array) -> int:
    """Reads the headers, of which each event has one. Returns where they end."""
    parts, at = read_list(data, at, stop)
    if at == NONE or parts != STEERING:
        return NONE
    begin, end = read_bytes(data, at, stop)
    if end == NONE or end - begin != WORD * len(rows):
        return NONE
    for i in range(begin, end, WORD):
        if lowest_first(data, i, WORD) != 1:
            return NONE
    begin, at = read_bytes(data, end, stop)
    if at == NONE or at - begin != NUMBER * len(rows):
        return NONE
    for i in range(len(rows)):
        rows[i, FLOW] = lowest_first(data, begin + NUMBER * i, NUMBER)
    begin, at = read_bytes(data, at, stop)
    if at == NONE or at - begin != WORD * len(rows):
        return NONE
    header, end = read_bytes(data, at, stop)
    if end == NONE:
        return NONE
    for i in range(len(rows)):
        rows[i, HEADER], rows[i, LENGTH] = header, lowest_first(data, begin + WORD * i, WORD)
        header += rows[i, LENGTH]
    return end if header == end else NONE


@borrowing
def _place_in(values: Array, value: int) -> int:
    """Where a value stands among a few."""
    for i in range(len(values)):
        if values[i] == value:
            return i
    return NONE


@borrowing
def _position_in(values: Array, value: int) -> int:
    """Where a value stands among ascending ones."""
    low, high = 0, len(values)
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low if low < len(values) and values[low] == value else NONE


@kernel
def _read_headers(data: Array, rows: Array, place: Place) -> Met:
    offsets = np.zeros(len(rows) + 1, np.int64)
    for i in range(len(rows)):
        offsets[i + 1] = offsets[i] + rows[i, LENGTH]
    headers = np.empty(offsets[-1], np.uint8)
    for i in range(len(rows)):
        copy_span(headers, offsets[i], data, rows[i, HEADER], rows[i, LENGTH])
    ports = Ports(place.offsets, place.targets, place.sources, place.bits)
    return take_hop(ports, place.facts[1], offsets, headers, np.zeros(len(rows), np.bool_), place.facts[2])


@kernel
def _first_wrong(data: Array, rows: Array, met: Met, recent: Recent, staying: Array, frames: Array) -> int:
    """The first event whose header is wrong, else the first that has come before or is not for kernels. NONE if there
    is none: then those that stay are framed."""
    for i in range(len(rows)):
        if met.fault[i]:
            return i
    wrong, entered = NONE, 0
    for i in range(len(staying)):
        row = rows[staying[i]]
        if not _frame(data, row[PACKET], row[PACKET] + row[SIZE], frames[i]):
            wrong = staying[i]
            break
        if not add(recent, row[PLACE], row[ENTRY], row[ID], 0.0):
            wrong = staying[i]
            break
        entered += 1
    for _ in range(entered):
        take_back(recent)
    return wrong


@borrowing
def _frame(data: Array, start: int, end: int, frame: Any) -> bool:
    """Frames a packet, as those of a client are. False if it is not for kernels."""
    body, stop = _length(data, start, end)
    if stop != end or data[start] != PUBLISH_0:
        return False
    frame.chunk, frame.start, frame.end, frame.qos = 0, start, end, 0
    return bool(_publish(data, body, MQTT_5, frame) and not frame.marks & JSON)


@borrowing
def _is_one(rows: Array, chosen: Array, column: int) -> bool:
    """Whether some events have the same in a column."""
    for i in range(1, len(chosen)):
        if rows[chosen[i], column] != rows[chosen[0], column]:
            return False
    return True


# Writing


@borrowing
def _most_bytes(rows: Array, copies: Copies, ports: int) -> int:
    """As many bytes as frames for all ports may have."""
    total = 128 * ports + copies.offsets[-1]
    for event in copies.events:
        total += rows[event, SIZE] + 6 * WORD + 5 * NUMBER
    return total


@borrowing
def _write_all(data: Array, rows: Array, copies: Copies, ports: Array, epoch: int, report: Array, out: Array) -> None:
    """Writes a frame for each port that something goes on by, and says where it is."""
    begin, at = 0, 0
    while begin < len(ports):
        port = ports[copies.order[begin]]
        end = begin
        while end < len(ports) and ports[copies.order[end]] == port:
            end += 1
        mine = WIDTH * port
        report[mine + COPIES], report[mine + BEGIN] = end - begin, at
        at, size, header = _write(data, rows, copies, begin, end, epoch, out, at)
        report[mine + END], report[mine + PACKET_BYTES], report[mine + HEADER_BYTES] = at, size, header
        begin = end


@borrowing
def _write(
    data: Array, rows: Array, copies: Copies, begin: int, end: int, epoch: int, out: Array, start: int
) -> tuple[int, int, int]:
    """Writes a frame of some copies. Returns where it ends, and the bytes of its packets and headers."""
    at = put_list(out, start + WORD, FIELDS)
    at = put_integer(out, at, epoch)
    at = put_integer(out, at, end - begin)
    at = _put_column(rows, copies, begin, end, SIZE, WORD, out, at)
    at = put_bytes(out, at, 1)
    out[at] = 0
    at = _put_column(rows, copies, begin, end, ID, NUMBER, out, at + 1)
    at = _put_column(rows, copies, begin, end, PUBLISHER, NUMBER, out, at)
    at = _put_column(rows, copies, begin, end, ENTRY, NUMBER, out, at)
    at = _put_sets(rows, copies, begin, end, out, at)
    at = _put_column(rows, copies, begin, end, SET, WORD, out, at)
    out[at] = NIL
    at, header = _put_steering(rows, copies, begin, end, out, at + 1)
    out[at] = EMPTY_LIST
    put_highest_first(out, start, at + 1 - start - WORD, WORD)
    first = at + 1
    at = first
    for i in range(begin, end):
        row = rows[copies.events[copies.order[i]]]
        copy_span(out, at, data, row[PACKET], row[SIZE])
        at += row[SIZE]
    return at, at - first, header


@borrowing
def _put_column(rows: Array, copies: Copies, begin: int, end: int, column: int, width: int, out: Array, at: int) -> int:
    """Writes an array of integers: one for each copy, or one for all."""
    first, alike = rows[copies.events[copies.order[begin]], column], True
    for i in range(begin, end):
        alike &= rows[copies.events[copies.order[i]], column] == first
    count = 1 if alike else end - begin
    at = put_bytes(out, at, width * count)
    for i in range(begin, begin + count):
        at = put_lowest_first(out, at, rows[copies.events[copies.order[i]], column], width)
    return at


@borrowing
def _put_sets(rows: Array, copies: Copies, begin: int, end: int, out: Array, at: int) -> int:
    """Writes the sets of flows, in the order in which they come up, and notes which one each copy has."""
    count = 0
    for i in range(begin, end):
        copies.sets[rows[copies.events[copies.order[i]], PLACE]] = NONE
    for i in range(begin, end):
        row = rows[copies.events[copies.order[i]]]
        if copies.sets[row[PLACE]] == NONE:
            copies.sets[row[PLACE]] = count
            count += 1
        row[SET] = copies.sets[row[PLACE]]
    at = put_list(out, at, count)
    known = 0
    for i in range(begin, end):
        row = rows[copies.events[copies.order[i]]]
        if row[SET] == known:
            at = put_list(out, at, 1)
            at = put_integer(out, at, row[FLOW])
            known += 1
    return at


@borrowing
def _put_steering(rows: Array, copies: Copies, begin: int, end: int, out: Array, at: int) -> tuple[int, int]:
    """Writes the headers of copies, one for each. Returns where they end, and how many bytes they have."""
    count, total = end - begin, 0
    at = put_list(out, at, STEERING)
    at = put_bytes(out, at, WORD * count)
    for _ in range(count):
        at = put_lowest_first(out, at, 1, WORD)
    at = put_bytes(out, at, NUMBER * count)
    for i in range(begin, end):
        at = put_lowest_first(out, at, rows[copies.events[copies.order[i]], FLOW], NUMBER)
    at = put_bytes(out, at, WORD * count)
    for i in range(begin, end):
        length = copies.offsets[copies.order[i] + 1] - copies.offsets[copies.order[i]]
        at = put_lowest_first(out, at, length, WORD)
        total += length
    at = put_bytes(out, at, total)
    for i in range(begin, end):
        copy = copies.order[i]
        length = copies.offsets[copy + 1] - copies.offsets[copy]
        copy_span(out, at, copies.headers, copies.offsets[copy], length)
        at += length
    return at, total
