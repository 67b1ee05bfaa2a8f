"""Rectangles over two attributes of events: of flows, or of brokers' filters."""

import math
from collections import Counter
from collections.abc import Mapping

from overstory.studio.text import escaped, shortened

SIDE, EDGE = 420, 46  # of the picture, and of the room for its axes
Boxes = list[dict[str, tuple[float, float]]]  # by box and attribute: from where up to where


def plane(boxes: Mapping[str, Boxes]) -> str:
    """What is called so as rectangles over the two attributes that most of them speak of; nothing where they speak of
    fewer. Ends that are open go to the edge."""
    spoken = Counter(name for each in boxes.values() for box in each for name in box)
    names = [name for name, _ in spoken.most_common(2)]
    if len(names) < 2:
        return ""
    scales = []
    for name in names:
        ends = [end for each in boxes.values() for box in each for end in box.get(name, ()) if math.isfinite(end)]
        low, high = (min(ends), max(ends)) if ends else (0.0, 1.0)
        scales.append((low - 0.08 * (high - low or 1), high + 0.08 * (high - low or 1)))
    room = SIDE - 2 * EDGE

    def place(value: float, axis: int) -> float:
        low, high = scales[axis]
        share = min(max((value - low) / (high - low), 0.0), 1.0)
        return EDGE + room * (share if axis == 0 else 1 - share)

    shapes = []
    for rank, (called, each) in enumerate(boxes.items()):
        for box in each:
            (left, right), (low, high) = (box.get(name, (-math.inf, math.inf)) for name in names)
            x, y = place(left, 0), place(high, 1)
            wide, tall = place(right, 0) - x, place(low, 1) - y
            shapes.append(
                f'<rect class="flow f{rank % 6}" x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{tall:.1f}">'
                f"<title>{escaped(shortened(called))}</title></rect>"
            )
    ticks = "".join(
        f'<text x="{EDGE + room * at:.0f}" y="{SIDE - EDGE + 18}" text-anchor="{anchor}">{scales[0][at]:.4g}</text>'
        for at, anchor in ((0, "start"), (1, "end"))
    )
    ticks += "".join(
        f'<text x="{EDGE - 6}" y="{SIDE - EDGE - room * at + 4:.0f}" text-anchor="end">{scales[1][at]:.4g}</text>'
        for at in (0, 1)
    )
    axes = (
        f'<text x="{SIDE / 2:.0f}" y="{SIDE - 8}" text-anchor="middle">{escaped(shortened(names[0]))}</text>'
        f'<text x="12" y="{SIDE / 2:.0f}" text-anchor="middle" transform="rotate(-90 12 {SIDE / 2:.0f})">'
        f"{escaped(shortened(names[1]))}</text>"
    )
    return (
        f'<svg class="space" viewBox="0 0 {SIDE} {SIDE}" role="img" aria-label="Rectangles over two attributes">'
        f'<rect class="frame" x="{EDGE}" y="{EDGE}" width="{room}" height="{room}"/>'
        f"{''.join(shapes)}{ticks}{axes}</svg>"
    )
