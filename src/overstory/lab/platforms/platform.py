"""What a topic-based platform offers. Channels and nodes are numbers; methods return how many messages they took."""

from collections.abc import Iterable
from typing import NamedTuple, Protocol


class Published(NamedTuple):
    """Who got an event, each once, and the messages that this took."""

    nodes: frozenset[int]
    messages: int


class Platform(Protocol):
    def create(self, channel: int) -> int:
        """A channel without subscribers."""

    def subscribe(self, node: int, channel: int) -> int: ...

    def unsubscribe(self, node: int, channel: int) -> int: ...

    def publish(self, channel: int) -> Published:
        """An event, from the channel to all its subscribers."""

    def keep_alives(self) -> int:
        """What a maintenance interval takes, of all channels."""

    def fail(self, nodes: Iterable[int]) -> int:
        """Nodes go without a word; the others repair what they had to do with them."""
