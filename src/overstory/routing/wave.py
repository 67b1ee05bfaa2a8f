"""A wave goes through every tree of a plan, from its leaves inwards and out again.

A broker tells a neighbour of the wave once all its other neighbours in that tree have told the broker.

Links keep their order. So when the wave has come from a neighbour, all messages that the neighbour sent before the wave
have come, too. When the wave has come from all neighbours in all trees, it is over at this broker. A neighbour may tell
of the wave again, which changes nothing.
"""

from collections.abc import Iterable, Mapping

Step = tuple[int, int]  # the flow, and the neighbour in its tree that is to be told


class Wave:
    """One wave through all trees of a plan, as one broker sees it."""

    def __init__(self, neighbours: Mapping[int, frozenset[int]]) -> None:
        """``neighbours`` has this broker's neighbours in the tree of each flow."""
        self.begun = False  # at this broker, which tells nobody before
        self._neighbours = neighbours
        self._heard: dict[int, set[int]] = {flow: set() for flow in neighbours}
        self._told: dict[int, set[int]] = {flow: set() for flow in neighbours}

    def __contains__(self, flow: int) -> bool:
        """Whether the wave goes through the tree of this flow."""
        return flow in self._neighbours

    @property
    def is_over(self) -> bool:
        """Whether the wave has begun here and has come from all neighbours in all trees."""
        return self.begun and all(self._heard[flow] >= neighbours for flow, neighbours in self._neighbours.items())

    def begin(self) -> list[Step]:
        """This broker is ready for the wave. Returns the neighbours that can be told at once."""
        self.begun = True
        return [step for flow in self._neighbours for step in self._next(flow)]

    def hear(self, flow: int, peer: int) -> list[Step]:
        """The wave has come from a neighbour. Returns the neighbours that can be told now."""
        self._heard[flow].add(peer)
        return list(self._next(flow)) if self.begun else []

    def told(self, peer: int) -> list[Step]:
        """The steps that this neighbour was told of, or would have been told of had it been up."""
        return [(flow, peer) for flow, told in self._told.items() if peer in told]

    def _next(self, flow: int) -> Iterable[Step]:
        """Neighbours in one tree that were not told yet and whose others have all told this broker."""
        neighbours, heard, told = self._neighbours[flow], self._heard[flow], self._told[flow]
        for peer in sorted(neighbours - told):
            if heard >= neighbours - {peer}:
                told.add(peer)
                yield flow, peer
