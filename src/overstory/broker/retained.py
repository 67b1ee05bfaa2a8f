"""Retained messages: the last one of each topic, found by topic filters through a tree of levels."""

from collections.abc import Iterator

from overstory.broker.message import Message
from overstory.model.topics import ANY_LEVEL, ANY_LEVELS, SEPARATOR
from overstory.wire.topics import HIDDEN


class Node:
    """A level of topics, with the levels below it."""

    __slots__ = ("below", "message")

    def __init__(self) -> None:
        self.below: dict[str, Node] = {}
        self.message: Message | None = None


class Retained:
    """The retained messages by topic."""

    def __init__(self) -> None:
        self._root = Node()
        self._count = 0

    def __len__(self) -> int:
        """The number of retained messages."""
        return self._count

    def keep(self, message: Message) -> None:
        """Keeps a message in the place of the last one of its topic. One without a payload removes that."""
        if not message.payload:
            self.remove(message.topic)
            return
        node = self._root
        for level in message.topic.split(SEPARATOR):
            node = node.below.setdefault(level, Node())
        self._count += node.message is None
        node.message = message

    def remove(self, topic: str) -> None:
        """Removes the message of a topic, and the levels that lead to no other."""
        path = [("", self._root)]
        for level in topic.split(SEPARATOR):
            node = path[-1][1].below.get(level)
            if node is None:
                return
            path.append((level, node))
        self._count -= path[-1][1].message is not None
        path[-1][1].message = None
        for (_, above), (level, node) in zip(path[-2::-1], path[:0:-1], strict=True):
            if node.below or node.message is not None:
                return
            del above.below[level]

    def find(self, topic: str) -> Message | None:
        """The message of a topic, if there is one."""
        node: Node | None = self._root
        for level in topic.split(SEPARATOR):
            node = node.below.get(level) if node is not None else None
        return None if node is None else node.message

    def matching(self, topics: str, now: float) -> Iterator[Message]:
        """The messages whose topics match a topic filter and whose time has not passed.

        Messages that come or go while the caller looks at them may or may not be among them.
        """
        waiting = [(self._root, tuple(topics.split(SEPARATOR)), True)]
        while waiting:
            node, levels, is_first = waiting.pop()
            if (levels and levels[0] == ANY_LEVELS) or not levels:
                if node.message is not None and not node.message.is_expired(now):
                    yield node.message
                if not levels:
                    continue
            if levels[0] not in (ANY_LEVEL, ANY_LEVELS):
                below = node.below.get(levels[0])
                if below is not None:
                    waiting.append((below, levels[1:], False))
                continue
            onward = levels if levels[0] == ANY_LEVELS else levels[1:]
            for level, below in list(node.below.items()):
                if not (is_first and level.startswith(HIDDEN)):
                    waiting.append((below, onward, False))

    def expired(self, now: float) -> list[str]:
        """The topics of messages whose time has passed."""
        return [message.topic for message in self.all() if message.is_expired(now)]

    def all(self) -> Iterator[Message]:
        """All retained messages, in no particular order."""
        waiting = [self._root]
        while waiting:
            node = waiting.pop()
            waiting += node.below.values()
            if node.message is not None:
                yield node.message
