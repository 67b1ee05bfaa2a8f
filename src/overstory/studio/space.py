"""Which events enter which flow, where a plan divides them: a picture of two attributes, or else a bar for each flow.
And how many clients each broker has, where plans differ in that."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from overstory.errors import OverstoryError
from overstory.filters import parse_filter
from overstory.filters.value_sets import Numbers
from overstory.model.network import Ints
from overstory.model.plan import EVERYTHING
from overstory.studio.text import escaped, shortened
from overstory.studio.trees import FlowTree
from overstory.studio.views import PlanView

SIDE, EDGE = 420, 46  # of the picture of two attributes, and of the room for its axes
ROW, MOST_BROKERS = 24, 16  # the height of a bar; brokers that have one
Range = tuple[float, float]


def event_space(plan: PlanView) -> str:
    """Nothing if all events enter all flows."""
    divided = [tree for tree in plan.trees if tree.events != EVERYTHING]
    if not divided:
        return ""
    boxes = {tree.flow: _boxes(tree) for tree in divided}
    spoken = Counter(name for each in boxes.values() for box in each for name in box)
    picture = _plane(boxes, [name for name, _ in spoken.most_common(2)]) if len(spoken) > 1 else ""
    many = f"the {len(divided)} flows with most members" if plan.scorecard.flows > len(divided) else "each flow"
    return (
        f'<figure class="card picture" data-save="event-space"><figcaption>Which events enter {many} of '
        f"<strong>{escaped(plan.name)}</strong></figcaption>{picture or _flows(divided)}</figure>"
    )


def _boxes(tree: FlowTree) -> list[dict[str, Range]]:
    """The ranges of numbers of a flow's predicate, by attribute."""
    try:
        boxes = parse_filter(tree.events).boxes
    except OverstoryError:  # it was cut to be short
        return []
    found = []
    for box in boxes:
        cuts = {name: each.cuts for name, each in box.sets.items() if isinstance(each, Numbers)}
        found.append({name: (float(ends[0][0]), float(ends[-1][0])) for name, ends in cuts.items()})
    return found


def _plane(boxes: dict[int, list[dict[str, Range]]], names: list[str]) -> str:
    """Flows as rectangles over two attributes; ends that are open go to the edge."""
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
    for rank, (flow, each) in enumerate(boxes.items()):
        for box in each:
            (left, right), (low, high) = (box.get(name, (-math.inf, math.inf)) for name in names)
            x, y = place(left, 0), place(high, 1)
            wide, tall = place(right, 0) - x, place(low, 1) - y
            shapes.append(
                f'<rect class="flow f{rank % 6}" x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{tall:.1f}">'
                f"<title>flow {flow}</title></rect>"
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
        f'<svg class="space" viewBox="0 0 {SIDE} {SIDE}" role="img" aria-label="Flows over two attributes of events">'
        f'<rect class="frame" x="{EDGE}" y="{EDGE}" width="{room}" height="{room}"/>'
        f"{''.join(shapes)}{ticks}{axes}</svg>"
    )


def _flows(trees: Sequence[FlowTree]) -> str:
    most = max(tree.members for tree in trees) or 1
    rows = [(tree.events, tree.members / most, f"{tree.members:,} members") for tree in trees]
    return _bars(rows, "Members of each flow, with the events that enter it")


def brokers_load(plans: Sequence[PlanView], names: Sequence[str]) -> str:
    """The clients of the fullest brokers, before and after. Nothing where both plans attach them alike."""
    hosts = [plan.hosts for plan in plans if plan.hosts is not None]
    if len(hosts) < 2 or np.array_equal(hosts[0], hosts[1]):
        return ""
    fullest = np.argsort(-np.maximum(hosts[0], hosts[1]), kind="stable")[:MOST_BROKERS]
    most = max(int(each.max(initial=0)) for each in hosts) or 1
    figures: list[str] = []
    for plan, each in zip(plans, hosts, strict=True):
        rows = [(names[broker], each[broker] / most, f"{each[broker]:,}") for broker in fullest.tolist()]
        label = f"Clients of the fullest brokers under {plan.name}"
        figures.append(
            f'<figure class="card picture" data-save="clients-{len(figures)}">'
            f"<figcaption>Clients of the fullest brokers, "
            f"<strong>{escaped(plan.name)}</strong>, {_fullest(each)}</figcaption>{_bars(rows, label)}</figure>"
        )
    return "".join(figures)


def _fullest(hosts: Ints) -> str:
    mean = hosts.mean() if len(hosts) else 0.0
    return f"at most {hosts.max(initial=0):,} where the mean is {mean:,.1f}"


def _bars(rows: Sequence[tuple[str, float, str]], label: str) -> str:
    """Lying bars, each with a text above its left end and a number beside it."""
    height = 2 * ROW * len(rows) + 8
    shapes = []
    for at, (text, share, number) in enumerate(rows):
        y = 2 * ROW * at
        shapes.append(
            f'<text x="4" y="{y + 17}">{escaped(shortened(text, 60))}</text>'
            f'<rect class="load" x="4" y="{y + ROW}" width="{max(320 * share, 1):.1f}" height="16" rx="2"/>'
            f'<text x="{12 + 320 * share:.1f}" y="{y + ROW + 13}">{escaped(number)}</text>'
        )
    opened = f'<svg class="space" viewBox="0 0 420 {height}" role="img" aria-label="{escaped(label)}">'
    return f"{opened}{''.join(shapes)}</svg>"
