"""Subscriptions that all brokers know from a plan, so that none of them has to be told of them.

1. A plan says which subscriptions are in a flow, and where their hosts are. So each broker can work out for itself what
   its neighbours would tell it when the plan is installed, and what they would be told. It enters just that, in slices,
   before the epoch is there for anybody else (``Coming``).
2. That is a guess: subscriptions may have ended since the plan was made. A host that does not have one takes it back
   (``Flow.unforeseen``). And whenever two neighbours meet in such an epoch, they compare what each believes by digests,
   before either holds the epoch. So nothing has to be known of when they installed it, or what they missed.
3. Only *unrelated* subscriptions are foreseen: those that cover no other one of their flow, and that no other one
   covers. What a neighbour is told of the rest depends on the policy, and on what came first.
"""

from collections.abc import Iterator
from itertools import groupby, islice

from overstory.kernels.nothing import NONE
from overstory.routing.epoch import Epoch
from overstory.routing.share import Foreseen


class Coming:
    """An epoch that is not installed yet: what is foreseen of it is entered first."""

    def __init__(self, epoch: Epoch) -> None:
        self.epoch = epoch
        self.left = len(epoch.share.foreseen)
        self._waiting: Iterator[Foreseen] = iter(epoch.share.foreseen)

    def enter(self, most: int, now: float) -> int:
        """Enters so many at most. Returns how many more could have been."""
        some = list(islice(self._waiting, most))
        self.left -= len(some)
        for (flow, hop, host), ones in groupby(some, lambda one: one[:3]):
            wanted = {one.key: one.filter for one in ones}
            self.epoch.flows[flow].foresee(hop, host, wanted, now)
            if hop == NONE:
                for key in wanted:
                    self.epoch.own.setdefault(key[0], []).append((flow, key))
        return most - len(some)
