"""Control messages between brokers as bytes: MessagePack, a tag for each kind, filters as text.

A ``Codec`` is made for the kinds of messages that two brokers exchange; whoever adds a kind (a tagged
``msgspec.Struct``) gives it to the codec, and needs no other change here. Bytes that are no such message raise a
``LinkError``, whatever they are.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Generic, TypeVar, Union

import msgspec

from overstory.errors import FilterError, LinkError
from overstory.filters import Filter, parse_filter

MOST = 1 << 63  # integers of messages go into arrays of int64
MAY_BE_TOO_LARGE = re.compile(rb"\xcf[\x80-\xff]")  # how an integer from ``MOST`` on begins; text may look like it, too
KEPT = 1 << 14  # filters that were read last: a subscription comes in many flows, with one filter
M = TypeVar("M")
known_filter = lru_cache(KEPT)(parse_filter)


class Codec(Generic[M]):
    """Turns lists of messages into bytes and back."""

    def __init__(self, kinds: Sequence[type[M]]) -> None:
        self._encoder = msgspec.msgpack.Encoder(enc_hook=_text)
        self._decoder: msgspec.msgpack.Decoder[list[M]] = msgspec.msgpack.Decoder(
            list[Union[tuple(kinds)]],  # type: ignore[misc]  # noqa: UP007
            dec_hook=self._read,
        )

    def encode(self, messages: Sequence[M]) -> bytes:
        """The bytes of messages, in order."""
        return self._encoder.encode(messages)

    def decode(self, data: bytes | memoryview) -> list[M]:
        """The messages that bytes stand for. Raises a ``LinkError`` if they stand for none."""
        try:
            messages = self._decoder.decode(data)
        except (msgspec.MsgspecError, FilterError, UnicodeDecodeError, RecursionError) as error:
            raise LinkError(f"a control message cannot be read: {str(error).splitlines()[0]}") from None
        if MAY_BE_TOO_LARGE.search(data) and any(_is_too_large(message) for message in messages):
            raise LinkError("a control message has an integer that is too large")
        return messages

    def _read(self, kind: type, text: Any) -> Filter:
        if kind is not Filter or not isinstance(text, str):
            raise LinkError("a control message has something else where a filter is to be")
        return known_filter(text)


def _text(value: Any) -> str:
    if isinstance(value, Filter):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be sent")


def _is_too_large(value: Any) -> bool:
    """Whether there is an integer in a message that no array holds. (MessagePack has some beyond int64.)"""
    if isinstance(value, int):
        return value >= MOST
    if isinstance(value, tuple | list | frozenset):
        return any(map(_is_too_large, value))
    if isinstance(value, msgspec.Struct):
        return any(_is_too_large(getattr(value, name)) for name in value.__struct_fields__)
    return False
