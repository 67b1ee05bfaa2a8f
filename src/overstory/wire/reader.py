"""Reads the pieces that MQTT's packets are made of, and never past their end."""

from overstory.errors import ProtocolError
from overstory.wire.packets import Code

MOST_SHIFT = 21  # a variable byte integer has at most four bytes


class Reader:
    """A place in some bytes."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at, self.end = data, at, len(data)

    def take(self, size: int) -> bytes:
        """The next bytes, so many of them."""
        start, self.at = self.at, self.at + size
        if self.at > self.end:
            raise ProtocolError(Code.MALFORMED, "the packet ends too early")
        return self.data[start : self.at]

    def byte(self) -> int:
        at = self.at
        if at >= self.end:
            raise ProtocolError(Code.MALFORMED, "the packet ends too early")
        self.at = at + 1
        return self.data[at]

    def two(self) -> int:
        return int.from_bytes(self.take(2), "big")

    def four(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            if byte < 128:
                if byte == 0 and shift:
                    raise ProtocolError(Code.MALFORMED, "a variable byte integer is longer than it need be")
                return value
            if shift == MOST_SHIFT:
                raise ProtocolError(Code.MALFORMED, "a variable byte integer has more than four bytes")
            shift += 7

    def binary(self) -> bytes:
        return self.take(self.two())

    def text(self) -> str:
        data, at = self.data, self.at
        if at + 2 > self.end:
            raise ProtocolError(Code.MALFORMED, "the packet ends too early")
        end = self.at = at + 2 + (data[at] << 8 | data[at + 1])
        if end > self.end:
            raise ProtocolError(Code.MALFORMED, "the packet ends too early")
        try:
            text = data[at + 2 : end].decode()
        except UnicodeDecodeError:
            raise ProtocolError(Code.MALFORMED, "a text is not UTF-8") from None
        if "\0" in text:
            raise ProtocolError(Code.MALFORMED, "a text has a null character")
        return text

    def packet_id(self) -> int:
        value = self.two()
        if value == 0:
            raise ProtocolError(Code.PROTOCOL_ERROR, "a packet identifier may not be 0")
        return value

    def rest(self) -> bytes:
        return self.take(self.end - self.at)

    @property
    def done(self) -> bool:
        return self.at == self.end
