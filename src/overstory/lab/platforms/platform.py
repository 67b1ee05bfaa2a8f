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

    def crash(self, nodes: Iterable[int]) -> None:
        """Nodes go without a word: until the next repair they take nothing in and pass nothing on."""

    def repair(self) -> int:
        """The keep-alives of an interval have told who is gone; the others repair what they had to do with them."""

    def come_back(self, node: int) -> int:
        """A node that had crashed is there again, with no subscription."""


def fail(platform: Platform, nodes: Iterable[int]) -> int:
    """Nodes crash, and the others repair at once."""
    platform.crash(nodes)
    return platform.repair()
