"""A broker's place in a network."""

import msgspec

from overstory.routing.share import Share


class Place(msgspec.Struct, frozen=True):
    """A broker's place in a network: its share of the plan, and what all brokers have to agree on."""

    share: Share
    neighbours: frozenset[int]
    next_hops: dict[int, int]  # along the late tree, to every broker
    fingerprint: str  # of the network and of the plan that it began with
    incarnation: int = 0
    network: str = ""  # the fingerprint of its brokers and links
    plan: str = ""  # the fingerprint of the first plan

    @property
    def late(self) -> list[int]:
        """The neighbours in the late tree."""
        return sorted(set(self.next_hops.values()))
