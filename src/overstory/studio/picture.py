"""The picture of the network: links as wide as their traffic, brokers as dots, names where there is room.

A link between two brokers is one *pair*, with traffic there (from the broker that comes first) and back at 2p and
2p + 1. All plans share one scale of traffic, so that a thicker line in another plan is more traffic.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from overstory.model.network import Floats, Ints, Network
from overstory.studio.layout import WIDTH, height_of
from overstory.studio.text import escaped, shortened, size_of
from overstory.studio.views import PlanView

CLASSES = 6  # of traffic, besides none at all
MOST_LABELS, FEW, SOME = 60, 100, 600  # brokers: smaller dots beyond few, no labels beyond some

Number = TypeVar("Number", np.int64, np.float64)


@dataclass(frozen=True, eq=False)
class Picture:
    network: Network
    names: list[str]
    points: Floats  # per broker x and y

    @cached_property
    def pairs(self) -> Ints:
        """The ends of every link, the one that comes first first."""
        return np.stack(np.divmod(self._keyed[0], max(len(self.network), 1)), axis=1)

    @cached_property
    def slots(self) -> Ints:
        """Where each directed link stands among the pairs: 2p there, 2p + 1 back."""
        return 2 * self._keyed[1] + (self.network.sources > self.network.targets)

    @cached_property
    def _keyed(self) -> tuple[Ints, Ints]:
        sources, targets = self.network.sources, self.network.targets
        keys = np.minimum(sources, targets) * len(self.network) + np.maximum(sources, targets)
        unique, pair = np.unique(keys, return_inverse=True)
        return unique, pair.reshape(-1)

    def by_pair(self, values: NDArray[Number], missing: float = 0) -> NDArray[Number]:
        """What directed links carry, in the slots of their pairs."""
        placed = np.full_like(values, missing, shape=2 * len(self.pairs))
        placed[self.slots] = values
        return placed

    def loads(self, plan: PlanView) -> Ints:
        """Bytes of each pair, both ways; frames where events have no bytes."""
        carried = plan.traffic.bytes if plan.traffic.bytes.any() else plan.traffic.frames
        placed = self.by_pair(carried)
        return placed[::2] + placed[1::2]

    def most(self, plans: Sequence[PlanView]) -> int:
        return max((int(self.loads(plan).max(initial=0)) for plan in plans), default=0)

    def classes(self, plans: Sequence[PlanView]) -> list[Ints]:
        """Of each plan's pairs, by the root of their load: width grows with it, so that what is little can be seen."""
        most = max(self.most(plans), 1)
        return [np.ceil(CLASSES * np.sqrt(self.loads(plan) / most)).astype(np.int64) for plan in plans]

    def svg(self, classes: Ints, with_links: bool = True) -> str:
        """The map that the script draws on; without links where there are too many for a picture of each."""
        chosen = [np.flatnonzero(classes == each) if with_links else classes[:0] for each in range(CLASSES + 1)]
        lines = [self._lines(each) for each in chosen]
        paths = "".join(f'<path class="c{each}" d="{line}"/>' for each, line in enumerate(lines))
        dots = "".join(f"M{_point(point)}h0" for point in self.points) if with_links else ""
        size = "few" if len(self.network) <= FEW else "some" if len(self.network) <= SOME else "many"
        return (
            f'<svg id="map" class="{size}" viewBox="0 0 {WIDTH} {height_of(self.points)}" role="img"'
            f' aria-label="The network, with traffic as the width of its links">'
            f'<g id="traffic">{paths}</g><path id="tree" d=""/><path id="joining" d=""/><path id="mark" d=""/>'
            f'<g id="regions"></g><path id="way" d=""/><path id="hop" d=""/>'
            f'<path id="brokers" d="{dots}"/><path id="members" d=""/><path id="spot" d=""/>'
            f'<g id="labels">{self._labels()}</g></svg>'
        )

    def _lines(self, pairs: Ints) -> str:
        ends = self.points[self.pairs[pairs]]
        return "".join(f"M{_point(one)}L{_point(other)}" for one, other in ends)

    def _labels(self) -> str:
        """Of the brokers with most links first, to the right or the left of them, where there is room."""
        if len(self.network) > SOME:
            return ""
        degrees = np.bincount(self.pairs.reshape(-1), minlength=len(self.network))
        taken = np.column_stack([self.points - 2, self.points + 2])  # left, top, right and bottom of what is there
        labels: list[str] = []
        for broker in np.argsort(-degrees, kind="stable"):
            name, (x, y) = shortened(self.names[broker]), self.points[broker]
            wide = 5.7 * len(name)
            for left, side in ((x + 5, 'dx=".7em"'), (x - 5 - wide, 'dx="-.7em" text-anchor="end"')):
                box = np.array([left, y - 6, left + wide, y + 6])
                free = left >= 0 and left + wide <= WIDTH and not _overlapping(box, taken).any()
                if free and len(labels) < MOST_LABELS:
                    taken = np.vstack([taken, box])
                    labels.append(f'<text x="{x:.1f}" y="{y:.1f}" dy=".35em" {side}>{escaped(name)}</text>')
                    break
        return "".join(labels)

    def legend(self, plans: Sequence[PlanView]) -> str:
        most = self.most(plans)
        if not most:
            return "<span>no traffic on any link</span>"
        told = size_of if any(plan.traffic.bytes.any() for plan in plans) else "{:,.0f} frames".format
        ends = [told(most * (each / CLASSES) ** 2) for each in range(1, CLASSES + 1)]
        line = '<svg viewBox="0 0 28 12" aria-hidden="true"><path class="c{}" d="M2 6H26"/></svg>'
        keys = ["none", *(f"to {end}" for end in ends)]
        return "".join(f"<span>{line.format(each)}{key}</span>" for each, key in enumerate(keys))


def _point(point: Floats) -> str:
    return f"{point[0]:.1f} {point[1]:.1f}"


def _overlapping(box: Floats, others: Floats) -> NDArray[np.bool_]:
    return np.asarray(((box[:2] < others[:, 2:]) & (others[:, :2] < box[2:])).all(axis=1))
