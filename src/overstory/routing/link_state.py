"""Which links are down, as one broker believes it.

1. A broker says which of its own links are down, each time under a higher version. After a restart it has a higher
   incarnation, and what it said before is void.
2. What a broker says goes to all neighbours that are up, and from there on, once: the newest counts. A neighbour that
   comes up is told all that is known.
3. A link that nobody has spoken of is up. So only brokers with news send anything, and beliefs about distant links may
   be old: a frame that meets a link that is down finds another way there.
4. Before an epoch with steered flows is installed here, nothing is sent. Then neighbours are told all that is known.
"""

from collections.abc import Iterable
from functools import cached_property

from overstory.routing.messages import LinkState, Send

Link = tuple[int, int]


class LinkStates:
    """What one broker knows about the links of all brokers, its own among them."""

    def __init__(self, broker: int, incarnation: int) -> None:
        self.broker = broker
        self.up: set[int] = set()  # neighbours
        self.changes = 0  # how often a link has come up or gone down, as far as is known here
        self.is_used = False  # whether some epoch has had steered flows
        self._said = {broker: LinkState(broker, incarnation, 0, frozenset())}

    @cached_property
    def down(self) -> frozenset[Link]:
        """The links that this broker believes to be down."""
        return frozenset((said.broker, there) for said in self._said.values() for there in said.down)

    def incarnation_of(self, broker: int) -> int | None:
        """The incarnation in which a broker spoke last; None if it has not spoken."""
        said = self._said.get(broker)
        return None if said is None else said.incarnation

    def neighbour_up(self, peer: int) -> list[Send]:
        """A neighbour is up: it is told everything; if its link was down before, all others are told of that."""
        self.up.add(peer)
        self.changes += 1
        news = self._say(self._said[self.broker].down - {peer})
        return [*news, *self._introduced([peer])]

    def use(self) -> list[Send]:
        """An epoch with steered flows is installed here: neighbours are told what they were not told before."""
        if self.is_used:
            return []
        self.is_used = True
        return self._introduced(self.up)

    def neighbour_down(self, peer: int) -> list[Send]:
        """A neighbour is down, and the others are told."""
        self.up.discard(peer)
        return self._say(self._said[self.broker].down | {peer})

    def hear(self, peer: int, message: LinkState) -> list[Send]:
        """A broker's news, from a neighbour: if it is new, it goes on. News of this broker is from before a restart."""
        known = self._said.get(message.broker)
        if message.broker == self.broker or (known is not None and known.version_key >= message.version_key):
            return []
        self._note(message)
        return self._told(message, self.up - {peer})

    def _say(self, down: frozenset[int]) -> list[Send]:
        """Tells all neighbours which links of this broker are down, if that is news."""
        before = self._said[self.broker]
        if down == before.down:
            return []
        news = LinkState(self.broker, before.incarnation, before.version + 1, down)
        self._note(news)
        return self._told(news, self.up)

    def _note(self, message: LinkState) -> None:
        self._said[message.broker] = message
        self.changes += 1
        self.__dict__.pop("down", None)

    def _told(self, message: LinkState, peers: Iterable[int]) -> list[Send]:
        return [Send(peer, message) for peer in sorted(peers)] if self.is_used else []

    def _introduced(self, peers: Iterable[int]) -> list[Send]:
        """All that is known and is news to anybody who has heard nothing, for these neighbours."""
        news = [said for said in self._said.values() if said.version_key > (0, 0)]
        return [send for said in news for send in self._told(said, set(peers) - {said.broker})]
