"""The figures of a channel: what its keep-alives carry, so that those who are linked to it know them without asking.

Only the channel itself changes them. Here they are always those of this moment; on a platform they are as old as the
last keep-alive.
"""


class TopicFigures:
    """Of a topic's channel: its number, its rate, and how many are directly subscribed."""

    __slots__ = ("number", "rate", "size")
    kind = None  # as an answer: it rides on a keep-alive

    def __init__(self, number: int, rate: float) -> None:
        self.number, self.rate, self.size = number, rate, 0


class ClusterFigures:
    """Of a cluster's channel: its number, its topics, the sum of their rates, and how many are subscribed."""

    __slots__ = ("load", "number", "size", "topics")
    kind = None

    def __init__(self, number: int) -> None:
        self.number, self.size, self.load = number, 0, 0.0
        self.topics: frozenset[int] = frozenset()
