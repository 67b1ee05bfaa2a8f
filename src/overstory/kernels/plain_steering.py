"""The headers of steered frames as strings of bits, written to be obviously right: the twin of ``kernels.steering``."""

from collections.abc import Mapping, Sequence

from overstory.kernels.steering import NUMBER_BITS

Hops = Mapping[int, Sequence[int]]  # of a tree: the next hops of each broker
Near = Mapping[int, Sequence[int]]  # of the network: the brokers that links of each broker lead to, by port


def port_bits(near: Near, broker: int) -> int:
    """The bits of a port of this broker."""
    return max(len(near[broker]) - 1, 0).bit_length()


def written(near: Near, hops: Hops, broker: int, numbers: Mapping[int, int], ordered: bool) -> str:
    """The part of a broker and those behind it. ``numbers`` has the brokers where the event stays."""
    onward = sorted(hops.get(broker, ()), key=list(near[broker]).index)
    bits = "1" * len(onward) + "0"
    if onward:
        bits += "1" if broker in numbers else "0"
    if broker in numbers and ordered:
        bits += format(numbers[broker] % 2**NUMBER_BITS, f"0{NUMBER_BITS}b")
    for hop in onward:
        width = port_bits(near, broker)
        bits += format(list(near[broker]).index(hop), f"0{width}b") if width else ""
        bits += written(near, hops, hop, numbers, ordered)
    return bits


def header(near: Near, hops: Hops, broker: int, numbers: Mapping[int, int], ordered: bool, first: int) -> bytes:
    """The header of a frame on its way to a broker."""
    bits = written(near, hops, broker, numbers, ordered)
    bits += "0" * (-len(bits) % 8)
    return bytes([first, *(int(bits[at : at + 8], 2) for at in range(0, len(bits), 8))])
