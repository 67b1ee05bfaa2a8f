"""The plain twin of ``straight``: a dictionary for kinds, and a list of pieces for each group."""

from collections.abc import Mapping
from typing import NamedTuple

from overstory.kernels.nothing import NONE
from overstory.kernels.straight import MOST_UNKNOWN, NOBODY

Message = tuple[int, int, int]  # where it begins and ends, and its group


class Sorted(NamedTuple):
    """How many bytes were read, the messages that are listed, and what each group gets."""

    read: int
    messages: list[Message]
    pieces: dict[int, list[bytes]]


def sort_out(data: bytes, has_properties: bool, largest: int, known: Mapping[bytes, tuple[int, int]]) -> Sorted:
    """``known`` has the group of each kind, and how large its messages may be."""
    found: list[Message] = []
    unknown: list[Message] = []
    pieces: dict[int, list[bytes]] = {}
    at = 0
    while at < len(data) and len(unknown) < MOST_UNKNOWN:
        end = end_of(data, at)
        if end > len(data) and end - at <= largest:
            break
        kind = b"" if end == NONE or end - at > largest else kind_of(data[at:end], has_properties)
        group, most = known.get(kind, (NOBODY, largest))
        if not kind or group == NONE or end - at > most:
            return Sorted(NONE, [], {})
        (found if kind in known else unknown).append((at, end, group))
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
