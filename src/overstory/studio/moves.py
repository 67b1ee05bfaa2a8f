"""What moving clients saves: the cost against the number of moves, whose moves save most, and which capacities bind."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from overstory.model.network import Network
from overstory.studio.text import escaped, shortened
from overstory.studio.views import PlanView

WIDE, HIGH, EDGE = 420, 180, 34  # of the picture, and of the room for its axes
FEW = 5  # moves, and brokers that are full, that are named


def moves_of(plan: PlanView, network: Network, names: Sequence[str]) -> str:
    """Nothing where the planner did not tell. ``names`` are those of brokers, by position."""
    told = plan.plan.header.attaching if plan.plan is not None else {}
    if not told:
        return ""

    def name(broker: float) -> str:
        return names[int(network.positions(np.array([int(broker)]))[0])]

    moves = told.get("moves", [])
    many = f"{int(moves[-1]):,} clients move" if moves else "no client moves"
    return (
        f'<figure class="card picture" data-save="moves"><figcaption>Cost against the number of moves, '
        f"<strong>{escaped(plan.name)}</strong>: {many}</figcaption>{_curve(told) if moves else ''}"
        f"{_named(told, name)}</figure>"
    )


def _curve(told: Mapping[str, list[float]]) -> str:
    moves, costs = told["moves"], told["cost"]
    least, most = min(costs), max(costs)
    right, low = max(moves[-1], 1), HIGH - EDGE
    points = [
        (EDGE + (WIDE - 2 * EDGE) * at / right, 14 + (low - 14) * (most - cost) / ((most - least) or 1.0))
        for at, cost in zip(moves, costs, strict=True)
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return (
        f'<svg class="space" viewBox="0 0 {WIDE} {HIGH}" role="img" aria-label="Cost after so many moves, where that '
        f'before them is 100 %"><polyline class="curve" fill="none" stroke="currentColor" points="{line}"/>'
        f'<text x="4" y="12">{most:.1%}</text><text x="4" y="{low + 12}">{least:.1%}</text>'
        f'<text x="{EDGE}" y="{HIGH - 6}">0 moves</text>'
        f'<text x="{WIDE - 4}" y="{HIGH - 6}" text-anchor="end">{int(moves[-1]):,}</text></svg>'
    )


def _named(told: Mapping[str, list[float]], name: Callable[[float], str]) -> str:
    columns = (told.get(key, [])[:FEW] for key in ("clients", "from", "to", "saved"))
    lines = [
        f"client {int(client)}: {_short(name(source))} → {_short(name(target))}, saves {saved:.2%}"
        for client, source, target, saved in zip(*columns, strict=True)
    ]
    full = told.get("full", [])
    if full:
        more = f" and {len(full) - FEW:,} more" if len(full) > FEW else ""
        lines.append(f"capacity binds at {', '.join(_short(name(broker)) for broker in full[:FEW])}{more}")
    return f"<ul>{''.join(f'<li>{line}</li>' for line in lines)}</ul>" if lines else ""


def _short(text: str) -> str:
    return escaped(shortened(text, 24))
