"""The plain twin of ``straight``: a dictionary for kinds, and a list of pieces for each group."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from overstory.kernels.nothing import NONE
from overstory.kernels.straight import MOST_UNKNOWN, NOBODY, WITH_PROPERTIES

Message = tuple[int, int, int, int]  # where it begins and ends, its group and its way
Known = Mapping[tuple[int, bytes], tuple[int, int, int]]  # by source and kind: group, way, and the largest message


class Sorted(NamedTuple):
    """How many bytes were read, the messages that are listed, and what each group gets."""

    read: int
    messages: list[Message]
    pieces: dict[int, list[bytes]]


def sort_out(data: bytes, sources: Sequence[int], largest: int, known: Known) -> Sorted:
    """``sources`` has that of each message, or one for all."""
    found: list[Message] = []
    unknown: list[Message] = []
    pieces: dict[int, list[bytes]] = {}
    at, place = 0, 0
    while at < len(data) and len(unknown) < MOST_UNKNOWN:
        if place == len(sources) > 1:
            return Sorted(NONE, [], {})
        source = sources[place if len(sources) > 1 else 0]
        place += 1
        end = end_of(data, at)
        if end > len(data) and end - at <= largest:
            break
        kind = b"" if end == NONE or end - at > largest else kind_of(data[at:end], bool(source & WITH_PROPERTIES))
        group, way, most = known.get((source, kind), (NOBODY, NOBODY, largest))
        if not kind or group == NONE or end - at > most:
            return Sorted(NONE, [], {})
        (found if (source, kind) in known else unknown).append((at, end, group, way))
        if group != NOBODY:
            pieces.setdefault(group, []).append(data[at:end])
        at = end
    return Sorted(NONE, unknown, {}) if unknown else Sorted(at, found, pieces)


def end_of(data: bytes, at: int) -> int:
    """Where a PUBLISH of QoS 0 ends, beyond all bytes if its length has not come yet; NONE if it is something else, or
    its length takes more than two bytes, or more than it needs."""
    if data[at] != 0x30:
        return NONE
    length = data[at + 1 : at + 3]
    if not length or (length[0] >= 128 and len(length) == 1):
        return len(data) + 1
    if length[0] < 128:
        return at + 2 + length[0] if length[0] > 2 else NONE
    return at + 3 + length[0] - 128 + (length[1] << 7) if 0 < length[1] < 128 else NONE


def kind_of(packet: bytes, has_properties: bool) -> bytes:
    """All between the length and the payload; nothing if the packet is too short, or its properties are many."""
    body = packet[2 if packet[1] < 128 else 3 :]
    size = 2 + int.from_bytes(body[:2], "big")
    if has_properties:
        if size >= len(body) or body[size] >= 128:
            return b""
        size += 1 + body[size]
    return body[:size] if size <= len(body) else b""


def sent_on(data: bytes, messages: Sequence[Message], sets: Sequence[int]) -> list[tuple[bytes, int, int]]:
    """Of each message that one neighbour gets the packet, its place among all, and the set of flows of the copy."""
    return [
        (data[start:end], place, sets[way]) for place, (start, end, _, way) in enumerate(messages) if sets[way] != NONE
    ]
