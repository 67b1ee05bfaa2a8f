"""Which events enter which flow, where a plan divides them: a picture of two attributes, or else a bar for each flow.
And how many clients each broker has, where plans differ in that."""

from collections.abc import Sequence

import numpy as np

from overstory.errors import OverstoryError
from overstory.filters import parse_filter
from overstory.filters.value_sets import Numbers
from overstory.model.network import Ints
from overstory.model.plan import EVERYTHING
from overstory.studio.planes import Boxes, plane
from overstory.studio.text import escaped, shortened
from overstory.studio.trees import FlowTree
from overstory.studio.views import PlanView

ROW, MOST_BROKERS = 24, 16  # the height of a bar; brokers that have one


def event_space(plan: PlanView) -> str:
    """Nothing if all events enter all flows."""
    divided = [tree for tree in plan.trees if tree.events != EVERYTHING]
    if not divided:
        return ""
    picture = plane({f"flow {tree.flow}": _boxes(tree) for tree in divided})
    many = f"the {len(divided)} flows with most members" if plan.scorecard.flows > len(divided) else "each flow"
    return (
        f'<figure class="card picture" data-save="event-space"><figcaption>Which events enter {many} of '
        f"<strong>{escaped(plan.name)}</strong></figcaption>{picture or _flows(divided)}</figure>"
    )


def _boxes(tree: FlowTree) -> Boxes:
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
