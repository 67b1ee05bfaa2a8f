"""Frames runs of PUBLISH and PUBACK straight from the bytes of many connections.

What is not as plain as most (another packet, QoS 2, a retained message, a topic alias, anything malformed) is left to
whoever calls: the run of that connection ends before it. So a packet that is framed here is well-formed, and means the
same as what ``wire.decode`` reads.
"""

from typing import Any

import numpy as np

from overstory.kernels.borrowing import borrowing
from overstory.kernels.compiling import Array, kernel
from overstory.kernels.slots import COUNTED, MOST_IDS
from overstory.kernels.store import with_room

# The bytes of a connection, and who it is: the slot of its session, the number of its client. A kernel says where it
# stopped, and why; and how many messages of QoS 1 there were.
CHUNK = np.dtype(
    [
        *[("start", "i8"), ("stop", "i8"), ("client", "i8"), ("version", "i4"), ("slot", "i4")],
        *[("at", "i8"), ("why", "i4"), ("counted", "i4")],
    ]
)
# A PUBLISH: where it starts and ends, where its topic and its properties do; its payload follows these.
FRAME = np.dtype(
    [
        (name, "i4")
        for name in ("chunk", "qos", "start", "topic", "topic_end", "props", "props_end", "end", "id", "marks")
    ]
)
MORE, ODD = 0, 1  # why a run has stopped: the rest has not come yet, or is not for kernels
JSON, RETAIN, REBUILT = 1, 2, 4  # marks; REBUILT: the frame says something else than the first byte
MOST_LEVELS = 200
PUBLISH_0, PUBLISH_1, PUBLISH_1_AGAIN, PUBACK = 0x30, 0x32, 0x3A, 0x40
PLUS, HASH, SLASH = 43, 35, 47


@kernel
def frame(data: Array, chunks: Array, slots: Array, largest: int) -> Array:
    """The messages of all chunks, in order. Acknowledgements that come in order are counted in the slots."""
    for number in range(len(chunks)):
        chunks[number].at, chunks[number].counted = chunks[number].start, 0
    frames = np.empty(64, FRAME)
    number, count = _frame_some(data, chunks, slots, largest, frames, 0, 0)
    while number < len(chunks):
        frames = with_room(frames, count + 1)
        number, count = _frame_some(data, chunks, slots, largest, frames, number, count)
    return frames[:count]


@borrowing
def _frame_some(
    data: Array, chunks: Array, slots: Array, largest: int, frames: Array, number: int, count: int
) -> tuple[int, int]:
    """Goes on with this chunk, behind so many messages, while there is room for more. Returns the chunk and the number
    of messages to go on with."""
    while number < len(chunks):
        chunk = chunks[number]
        at, stop, why = chunk.at, chunk.stop, MORE
        while at < stop:
            body, end = _length(data, at, stop)
            if end < 0 or end - at > largest:
                why = ODD
                break
            if end == 0 or end > stop:
                break
            first = data[at]
            if first == PUBLISH_0 or first == PUBLISH_1 or first == PUBLISH_1_AGAIN:
                if count == len(frames):
                    chunk.at = at
                    return number, count
                here = frames[count]
                here.chunk, here.start, here.end = number, at, end
                here.qos = 0 if first == PUBLISH_0 else 1
                if not _publish(data, body, chunk.version, here):
                    why = ODD
                    break
                count += 1
                chunk.counted += here.qos
            elif first != PUBACK or not _acknowledged(data, body, end, slots, chunk.slot):
                why = ODD
                break
            at = end
        chunk.at, chunk.why = at, why
        number += 1
    return number, count


@borrowing
def _length(data: Array, at: int, stop: int) -> tuple[int, int]:
    """Where the packet's body begins and ends; the end is 0 if that has not come yet, -1 if it is malformed."""
    size, shift = 0, 0
    place = at + 1
    while place < stop:
        byte = np.int64(data[place])
        size |= (byte & 127) << shift
        place += 1
        if byte < 128:
            return place, -1 if byte == 0 and shift else place + size
        if shift == 21:
            return 0, -1
        shift += 7
    return 0, 0


@borrowing
def _acknowledged(data: Array, body: int, end: int, slots: Array, slot: int) -> bool:
    """Counts an acknowledgement that is the next in order. What else it may be is not for kernels."""
    if slot < 0 or end - body < 2 or end - body > 3 or (end - body == 3 and data[body + 2] >= 128):
        return False
    row = slots[slot]
    if not row.flags & COUNTED or row.head == row.next:
        return False
    if (np.int64(data[body]) << 8 | np.int64(data[body + 1])) != row.head:
        return False
    row.head = row.head % MOST_IDS + 1
    row.room += 1
    return True


@borrowing
def _publish(data: Array, at: int, version: int, here: Any) -> bool:
    """Reads a PUBLISH of QoS 0 or 1. False if it is not for kernels."""
    end = here.end
    if at + 2 > end:
        return False
    size = np.int64(data[at]) << 8 | np.int64(data[at + 1])
    here.topic, here.topic_end = at + 2, at + 2 + size
    at += 2 + size
    if size == 0 or at > end or not is_topic(data, here.topic, at):
        return False
    here.id, here.marks = 0, 0
    if here.qos:
        if at + 2 > end:
            return False
        here.id = np.int64(data[at]) << 8 | np.int64(data[at + 1])
        at += 2
        if here.id == 0:
            return False
    here.props, here.props_end = at, at
    if version == 4:
        return True
    if at >= end:
        return False
    if data[at] == 0:  # no properties: most have none
        here.props_end = at + 1
        return True
    start, props_end = _length(data, at - 1, end)
    if props_end <= 0 or props_end > end:
        return False
    here.props_end = props_end
    marks = _properties(data, start, props_end)
    here.marks = marks
    return marks >= 0


@borrowing
def is_topic(data: Array, start: int, stop: int) -> bool:
    """Whether these bytes are a topic without wildcards, and not of too many levels."""
    levels, plain = 1, True
    for i in range(start, stop):
        byte = data[i]
        if byte == PLUS or byte == HASH or byte == 0:
            return False
        levels += byte == SLASH
        plain &= byte < 128
    return levels <= MOST_LEVELS and (plain or is_text(data, start, stop))


@borrowing
def is_text(data: Array, start: int, stop: int) -> bool:
    """Whether these bytes are UTF-8 without a null character."""
    at = start
    while at < stop:
        byte = np.int64(data[at])
        at += 1
        if byte == 0:
            return False
        if byte < 128:
            continue
        if 0xC2 <= byte < 0xE0:
            more, least, value = 1, 0x80, byte & 31
        elif 0xE0 <= byte < 0xF0:
            more, least, value = 2, 0x800, byte & 15
        elif 0xF0 <= byte < 0xF5:
            more, least, value = 3, 0x10000, byte & 7
        else:
            return False
        if at + more > stop:
            return False
        for _ in range(more):
            following = np.int64(data[at])
            if following & 0xC0 != 0x80:
                return False
            value = value << 6 | (following & 63)
            at += 1
        if value < least or value > 0x10FFFF or 0xD800 <= value < 0xE000:
            return False
    return True


@borrowing
def _properties(data: Array, at: int, stop: int) -> int:
    """The marks of properties that are all well-formed and plain; -1 if they are not for kernels."""
    seen, marks = 0, 0
    while at < stop:
        kind = np.int64(data[at])
        if kind == 0x26:
            at = _pair_end(data, at + 1, stop)
        elif kind > 9 or seen & (1 << kind):
            return -1
        else:
            seen |= 1 << kind
            end = _property_end(data, kind, at + 1, stop)
            if kind == 3 and end >= 0 and _says_json(data, at + 3, end):
                marks |= JSON
            at = end
        if at < 0:
            return -1
    return marks


@borrowing
def _pair_end(data: Array, at: int, stop: int) -> int:
    """Where a user property ends; -1 if it is malformed."""
    for _ in range(2):
        end = _text_end(data, at, stop)
        if end < 0 or not is_text(data, at + 2, end):
            return -1
        at = end
    return at


@borrowing
def _property_end(data: Array, kind: int, at: int, stop: int) -> int:
    """Where a property that may be there once ends; -1 if it is malformed or not for kernels."""
    if kind == 1:
        return at + 1 if at < stop and data[at] < 2 else -1
    if kind == 2:
        whole = at + 4 <= stop
        return at + 4 if whole and (data[at] or data[at + 1] or data[at + 2] or data[at + 3]) else -1
    if kind != 3 and kind != 8 and kind != 9:
        return -1
    end = _text_end(data, at, stop)
    if end < 0 or kind == 9:
        return end
    if kind == 3:
        return end if is_text(data, at + 2, end) else -1
    return end if end > at + 2 and is_topic(data, at + 2, end) else -1


@borrowing
def _text_end(data: Array, at: int, stop: int) -> int:
    if at + 2 > stop:
        return -1
    end = at + 2 + (np.int64(data[at]) << 8 | np.int64(data[at + 1]))
    return end if end <= stop else -1


@borrowing
def _says_json(data: Array, start: int, stop: int) -> bool:
    """Whether "json" is somewhere in a content type, in whatever case."""
    for i in range(start, stop - 3):
        if data[i] | 32 == 106 and data[i + 1] | 32 == 115 and data[i + 2] | 32 == 111 and data[i + 3] | 32 == 110:
            return True
    return False
