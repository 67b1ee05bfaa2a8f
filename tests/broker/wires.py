"""A client of one socket that sends and takes packets, one at a time."""

import socket
from typing import Any

from overstory.wire.decode import decode, packet_size
from overstory.wire.packets import MQTT_5, PUBACK, PUBCOMP, PUBREC, PUBREL, Ack, ConnAck, Connect, Packet, Publish

from .house import write
from .running import PATIENCE


class Wire:
    """One connection."""

    def __init__(self, port: int, name: str = "", version: int = MQTT_5, **given: Any) -> None:
        self.version = version
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self.buffer = bytearray()
        self.send(Connect(name, version, **given))
        answer = self.take()
        assert isinstance(answer, ConnAck), answer
        self.connack = answer

    def send(self, *packets: Packet) -> None:
        self.socket.sendall(b"".join(write(packet, self.version) for packet in packets))

    def take(self) -> Packet:
        """The next packet. Raises an ``EOFError`` if the broker has hung up."""
        while (size := packet_size(self.buffer)) is None or size > len(self.buffer):
            data = self.socket.recv(1 << 16)
            if not data:
                raise EOFError
            self.buffer += data
        packet = decode(bytes(self.buffer[:size]), self.version)
        del self.buffer[:size]
        return packet

    def publish(self, topic: str, payload: bytes, qos: int, packet_id: int, again: bool = False) -> None:
        self.send(Publish(topic, payload, qos, packet_id=packet_id, duplicate=again))

    def message(self) -> Publish:
        """The next message, acknowledged as it should be."""
        packet = self.take()
        while isinstance(packet, Ack) and packet.kind == PUBREL:
            self.send(Ack(PUBCOMP, packet.packet_id))
            packet = self.take()
        assert isinstance(packet, Publish), packet
        if packet.qos:
            self.send(Ack(PUBACK if packet.qos == 1 else PUBREC, packet.packet_id))
        return packet

    def close(self) -> None:
        self.socket.close()

    def __del__(self) -> None:
        if hasattr(self, "socket"):
            self.socket.close()
