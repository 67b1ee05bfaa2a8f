"""Which events a subscriber has been given: the second copy of an event is known by its id.

Copies from one publisher come in the order in which they were published, whatever their subjects, since they take one
way through the servers. So mostly a number that is not above the last one has been seen. After a reconnection that may
not be so; therefore the last few numbers are remembered, and one that is not among them is no repetition.
"""

from collections import OrderedDict

REMEMBERED = 512  # numbers of a publisher and a topic
PUBLISHERS = 100_000  # pairs of a publisher and a topic; the one that has been silent longest is forgotten first


class Seen:
    """Events by topic and publisher."""

    def __init__(self) -> None:
        self._last: OrderedDict[tuple[str, str], tuple[int, OrderedDict[int, None]]] = OrderedDict()
        self.repeated = 0
        self.out_of_order = 0

    def is_new(self, topic: str, id_: str) -> bool:
        """Whether this is an event's first copy. From now on it has been seen."""
        publisher, _, text = id_.rpartition("-")
        number, key = int(text), (topic, publisher)
        last, recent = self._last.get(key) or (-1, OrderedDict[int, None]())
        if number in recent:
            self.repeated += 1
            return False
        self.out_of_order += number < last
        recent[number] = None
        if len(recent) > REMEMBERED:
            recent.popitem(last=False)
        self._last[key] = max(number, last), recent
        self._last.move_to_end(key)
        if len(self._last) > PUBLISHERS:
            self._last.popitem(last=False)
        return True
