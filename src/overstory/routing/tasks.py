"""What is still to be done for one neighbour in one flow: long work, which the router does in slices (``work``).

1. Nothing here is a decision. Each item is looked at again when its turn comes: a subscription that has gone meanwhile
   is not told, and one that an advertisement meets again is not withdrawn.
2. ``untold`` has the subscriptions of hops that the outlet does not count yet. A subscription that comes or goes
   meanwhile takes its item away, so that each hop counts once.
3. Messages that follow subscriptions (``Settled``, ``Probe``, ``Reach``) are *held back* until the neighbour has been
   told everything: until nothing is untold, and after it was down, until it has asked for all that it lacks.
"""

from collections import deque
from collections.abc import Iterable
from typing import TypeVar

from overstory.filters import Filter
from overstory.routing.messages import Key, Message

Name = tuple[int, Key]  # the hop that a subscription came from, and its key


class Tasks:
    """What is to be done for one neighbour, and how far the two have compared what they know."""

    def __init__(self) -> None:
        # Subscriptions to be told of, and those to be withdrawn, if no event for them can come from the neighbour. With
        # each the advertisement that has come or gone; None: any may have.
        self.untold: dict[Name, Filter | None] = {}
        self.doubtful: dict[Key, Filter | None] = {}
        self.asked: deque[tuple[int, bool]] = deque()  # buckets to be listed, and whether of advertisements
        self.round = 0  # of comparing
        self.is_agreed = False  # the neighbour has asked for all that it lacked when the round began
        self.held_back: list[Message] = []

    @property
    def is_clear(self) -> bool:
        """Whether the neighbour was told of all subscriptions that it has to know."""
        return self.is_agreed and not self.untold and not self.asked

    @property
    def is_idle(self) -> bool:
        """Whether there is no work left."""
        return not (self.untold or self.doubtful or self.asked)

    def begin_round(self) -> int:
        """Begins to compare anew. Returns the number of the round."""
        self.round += 1
        self.is_agreed = False
        self.asked.clear()
        return self.round

    def cut(self) -> None:
        """The neighbour is down: it is told again of what is held back here, and asks anew, when it comes up."""
        self.is_agreed = False
        self.asked.clear()
        self.held_back.clear()

    def tell(self, names: Iterable[Name], announced: Filter | None) -> None:
        """The neighbour may have to be told of these subscriptions."""
        _note(self.untold, dict.fromkeys(names, announced))

    def doubt(self, keys: Iterable[Key], announced: Filter | None) -> None:
        """The neighbour may have these subscriptions for nothing."""
        _note(self.doubtful, dict.fromkeys(keys, announced))


Item = TypeVar("Item")


def _note(known: dict[Item, Filter | None], more: dict[Item, Filter | None]) -> None:
    """Adds items to those that are known.

    Those that were there for another advertisement are to be looked at for all of them.
    """
    both = dict.fromkeys(known.keys() & more.keys())
    known |= more
    known |= both
