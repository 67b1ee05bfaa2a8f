"""A wave goes through every tree of a plan, from its ends: a broker tells a neighbour once all its others have told it.

Links keep their order. So when a wave has come from everywhere, so has all that was sent before it; and when it has
come from all neighbours in all trees, it is over here. It may be told again, which changes nothing.
"""

from collections.abc import Iterable, Mapping

Step = tuple[int, int]  # the flow, and the neighbour in its tree that is to be told


class Wave:
    def __init__(self, neighbours: Mapping[int, frozenset[int]]) -> None:
        """Of this broker, by flow."""
        self.begun = False  # here: nothing is told before
        self._near = neighbours
        self._heard: dict[int, set[int]] = {flow: set() for flow in neighbours}
        self._told: dict[int, set[int]] = {flow: set() for flow in neighbours}

    @property
    def is_over(self) -> bool:
        return self.begun and all(self._heard[flow] >= near for flow, near in self._near.items())

    def begin(self) -> list[Step]:
        self.begun = True
        return [step for flow in self._near for step in self._next(flow)]

    def hear(self, flow: int, peer: int) -> list[Step]:
        self._heard[flow].add(peer)
        return list(self._next(flow)) if self.begun else []

    def told(self, peer: int) -> list[Step]:
        """All that this neighbour was told, or would have been, had it been there."""
        return [(flow, peer) for flow, told in self._told.items() if peer in told]

    def _next(self, flow: int) -> Iterable[Step]:
        near, heard, told = self._near[flow], self._heard[flow], self._told[flow]
        for peer in sorted(near - told):
            if heard >= near - {peer}:
                told.add(peer)
                yield flow, peer
