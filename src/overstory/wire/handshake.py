"""How two brokers begin a link: each says who it is, which plan it has, and what it has received so far.

No time is in it, nor in any other frame: clocks may differ.
"""

import msgspec

from overstory.errors import LinkError

MAGIC = "overstory"
VERSION = 1  # of the protocol between brokers
MOST_NUMBER = 1 << 62


class Hello(msgspec.Struct, frozen=True, array_like=True):
    """The first frame of each side. The first two fields are the same in every version."""

    magic: str
    version: int
    broker: int  # the sender
    to: int  # the broker that the sender means to talk to
    incarnation: int  # of the sender
    plan: str  # a fingerprint of the plan and the scenario that the sender has
    epoch: int  # of that plan
    known: int = -1  # the incarnation of the other side that the sender has last heard; -1: none
    received: int = 0  # the last frame of that incarnation that the sender has handled


class Opening(msgspec.Struct, frozen=True, array_like=True):
    """What is read of a ``Hello`` of any version."""

    magic: str
    version: int


class Known(msgspec.Struct, frozen=True):
    """What this side expects of a ``Hello``."""

    broker: int
    plan: str
    epoch: int
    neighbours: frozenset[int]  # brokers that may have a link to this one


def encode_hello(hello: Hello) -> bytes:
    """The bytes of a ``Hello``."""
    return msgspec.msgpack.encode(hello)


def decode_hello(data: bytes | memoryview) -> Hello:
    """Decodes the bytes of a ``Hello``.

    Raises a ``LinkError`` if it is none, or one of a version that is not spoken here.
    """
    try:
        opening = msgspec.msgpack.decode(data, type=Opening)
        if opening.magic != MAGIC:
            raise LinkError("whoever is there is no broker of Overstory")
        if opening.version != VERSION:
            raise LinkError(
                f"the other side speaks version {opening.version} of the protocol between brokers, this one {VERSION}; "
                "run the same version of Overstory on both"
            )
        hello = msgspec.msgpack.decode(data, type=Hello)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise LinkError("whoever is there does not begin as a broker of Overstory does") from None
    numbers = hello.broker, hello.to, hello.incarnation, hello.epoch, hello.known, hello.received
    if not all(-1 <= number < MOST_NUMBER for number in numbers):
        raise LinkError("a handshake has a number out of range")
    return hello


def check_hello(hello: Hello, known: Known) -> None:
    """Raises a ``LinkError`` if no link can be had with this broker."""
    if hello.to != known.broker:
        raise LinkError(f"broker {hello.broker} looks for broker {hello.to}, and this is {known.broker}")
    if hello.broker == known.broker:
        raise LinkError(f"broker id {known.broker} is used twice; give each broker its own")
    if hello.broker not in known.neighbours:
        raise LinkError(f"broker {hello.broker} is a stranger: the plan has no link between it and {known.broker}")
    if (hello.plan, hello.epoch) != (known.plan, known.epoch):
        raise LinkError(f"broker {hello.broker} has another plan; start both with the same scenario and plan")
