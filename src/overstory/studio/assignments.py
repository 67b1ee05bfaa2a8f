"""Pictures of plans of subscriber assignment: delays against distance, loads as a box plot, and the brokers' rectangles
in event space. They are drawn where a plan has one flow whose filters lead down from one broker."""

import msgspec
import numpy as np

from overstory.errors import UsageError
from overstory.filters import parse_filter
from overstory.filters.value_sets import Numbers
from overstory.model.access import access_of
from overstory.model.network import Floats, Ints
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario
from overstory.pipeline.limits import loads_of
from overstory.studio.planes import EDGE, SIDE, Boxes, plane
from overstory.studio.text import escaped

MOST_POINTS = 1500  # clients whose delay is drawn
MOST_BROKERS = 12  # whose rectangles are drawn: those with the most clients
HEIGHT = 120  # of the box plot


class Assignment(msgspec.Struct, frozen=True):
    """What is drawn of one plan. Delays are relative to the shortest way through the tree, loads to a fair share."""

    shortest: tuple[float, ...]  # by client: milliseconds of the shortest way
    delays: tuple[float, ...]  # by client: beyond it, relative to it
    loads: tuple[float, ...]  # by leaf broker
    limits: tuple[tuple[str, float], ...]  # of loads, by name
    rectangles: dict[str, Boxes]  # by broker


def from_root(scenario: Scenario, plan: Plan) -> tuple[Floats, Ints]:
    """Milliseconds along the tree from where filters lead down from, and the positions of the brokers at its ends."""
    source, target = (plan.filters[name].to_numpy() for name in ("source", "target"))
    inner = np.isin(target, scenario.network.ids)
    roots = np.setdiff1d(source[inner], target[inner])
    if len(roots) != 1 or plan.flows.num_rows != 1:
        raise UsageError("this is no plan of subscriber assignment: one flow, with filters down from one broker")
    network = scenario.network
    ends = [network.positions(plan.trees[name].to_numpy()) for name in ("source", "target")]
    one, other = np.concatenate(ends), np.concatenate(ends[::-1])
    before, order = np.full(len(network), np.nan), [int(network.positions(roots)[0])]
    before[order[0]] = 0.0
    for here in order:
        for there in other[one == here].tolist():
            if np.isnan(before[there]):
                link = int(network.link_between(np.array([here]), np.array([there]))[0])
                before[there] = before[here] + network.delays[link]
                order.append(there)
    ways = np.bincount(one, minlength=len(network))
    return before, np.flatnonzero((ways == 1) & (np.arange(len(network)) != order[0]))


def assignment_of(scenario: Scenario, plan: Plan) -> Assignment | None:
    """None where the plan is of another problem."""
    try:
        before, leaves = from_root(scenario, plan)
    except UsageError:
        return None
    shortest, delays = _delays(scenario, plan, before, leaves)
    limits = scenario.settings.limits
    named = (("wanted", limits.load_wanted), ("at most", limits.load))
    return Assignment(
        tuple(shortest.tolist()),
        tuple(delays.tolist()),
        tuple(loads_of(scenario, plan)[leaves].tolist()),
        tuple((name, float(limit)) for name, limit in named if limit is not None),
        _rectangles(scenario, plan, leaves),
    )


def _delays(scenario: Scenario, plan: Plan, before: Floats, leaves: Ints) -> tuple[Floats, Floats]:
    """Of some clients at leaves, at equal distances in the order of their ids."""
    ids = scenario.network.ids
    clients, brokers = (plan.attachments.sort_by("client")[name].to_numpy() for name in ("client", "broker"))
    there = np.flatnonzero(np.isin(brokers, ids[leaves]))
    there = there[np.unique(np.linspace(0, len(there) - 1, min(MOST_POINTS, len(there))).astype(np.int64))]
    links = access_of(scenario)
    every = before[leaves] + links.down(clients[there][:, None], ids[leaves]).delays
    shortest = every.min(axis=1, initial=np.inf)
    mine = before[scenario.network.positions(brokers[there])] + links.down(clients[there], brokers[there]).delays
    known = np.isfinite(shortest) & (shortest > 0) & np.isfinite(mine)
    return shortest[known], mine[known] / shortest[known] - 1


def _rectangles(scenario: Scenario, plan: Plan, leaves: Ints) -> dict[str, Boxes]:
    """Of the leaf brokers with the most clients, by name."""
    places = scenario.network.positions(plan.attachments["broker"].to_numpy())
    hosted = np.bincount(places, minlength=len(scenario.network))[leaves]
    ids = scenario.network.ids[leaves[np.argsort(-hosted, kind="stable")[:MOST_BROKERS]]]
    texts = dict(zip(plan.filters["target"].to_pylist(), plan.filters["filter"].to_pylist(), strict=True))
    names = scenario.broker_names
    shown = [broker for broker in ids.tolist() if broker in texts]
    return {str(names.get(broker) or f"broker {broker}"): _boxes(texts[broker]) for broker in shown}


def _boxes(text: str) -> Boxes:
    found = []
    for box in parse_filter(text).boxes:
        cuts = {name: each.cuts for name, each in box.sets.items() if isinstance(each, Numbers)}
        found.append(
            {
                name: (float(ends[0][0]), float("inf") if len(ends) % 2 else float(ends[-1][0]))
                for name, ends in cuts.items()
            }
        )
    return found


def pictures(name: str, found: Assignment | None) -> str:
    """The figures of one plan; nothing where it is of another problem."""
    if found is None:
        return ""
    called = f"<strong>{escaped(name)}</strong>"
    figures = [
        ("delays", f"Delay beyond the shortest way, {called}", _scatter(found)),
        ("loads", f"Clients of leaf brokers, relative to a fair share, {called}", _box_plot(found)),
        ("rectangles", f"Filters of the leaf brokers with the most clients, {called}", plane(found.rectangles)),
    ]
    return "".join(
        f'<figure class="card picture" data-save="{key}"><figcaption>{caption}</figcaption>{drawing}</figure>'
        for key, caption, drawing in figures
        if drawing
    )


def _scatter(found: Assignment) -> str:
    """A dot for each client: how far it is, and how much later than that events arrive."""
    if not found.shortest:
        return ""
    far, late = max(found.shortest), max(max(found.delays), 1e-9)
    room = SIDE - 2 * EDGE
    places = [
        (EDGE + room * x / far, SIDE - EDGE - room * max(y, 0.0) / late)
        for x, y in zip(found.shortest, found.delays, strict=True)
    ]
    dots = "".join(f'<circle class="dot" r="1.5" cx="{x:.1f}" cy="{y:.1f}"/>' for x, y in places)
    words = (
        f'<text x="{SIDE / 2:.0f}" y="{SIDE - 8}" text-anchor="middle">milliseconds of the shortest way</text>'
        f'<text x="{SIDE - EDGE}" y="{SIDE - EDGE + 18}" text-anchor="end">{far:.4g}</text>'
        f'<text x="{EDGE - 6}" y="{EDGE + 4}" text-anchor="end">{late:.0%}</text>'
        f'<text x="{EDGE - 6}" y="{SIDE - EDGE + 4}" text-anchor="end">0 %</text>'
    )
    return (
        f'<svg class="space" viewBox="0 0 {SIDE} {SIDE}" role="img" aria-label="Delay against distance, by client">'
        f'<rect class="frame" x="{EDGE}" y="{EDGE}" width="{room}" height="{room}"/>{dots}{words}</svg>'
    )


def _box_plot(found: Assignment) -> str:
    """The least and largest load, the quartiles and the median, with the limits as lines."""
    if not found.loads:
        return ""
    quantiles = np.quantile(found.loads, [0, 0.25, 0.5, 0.75, 1])
    low, first, middle, third, high = (float(each) for each in quantiles)
    most: float = 1.1 * max([high, 1e-9, *(limit for _, limit in found.limits)])
    y, wide = HEIGHT / 2, (SIDE - 2 * EDGE) * (third - first) / most

    def place(load: float) -> float:
        return EDGE + (SIDE - 2 * EDGE) * load / most

    limits = "".join(
        f'<line class="limit" x1="{place(limit):.1f}" x2="{place(limit):.1f}" y1="20" y2="{HEIGHT - 20}"/>'
        f'<text x="{place(limit):.1f}" y="{14 if at % 2 else HEIGHT - 6}" text-anchor="middle">'
        f"{escaped(name)} {limit:.3g}</text>"
        for at, (name, limit) in enumerate(found.limits)
    )
    label = f"Loads from {low:.2f} to {high:.2f}, half of them between {first:.2f} and {third:.2f}, median {middle:.2f}"
    return (
        f'<svg class="space" viewBox="0 0 {SIDE} {HEIGHT}" role="img" aria-label="{label}"><title>{label}</title>'
        f'<line class="whisker" x1="{place(low):.1f}" x2="{place(high):.1f}" y1="{y}" y2="{y}"/>'
        f'<rect class="load" x="{place(first):.1f}" y="{y - 14}" width="{wide:.1f}" height="28"/>'
        f'<line class="median" x1="{place(middle):.1f}" x2="{place(middle):.1f}" y1="{y - 14}" y2="{y + 14}"/>'
        f"{limits}</svg>"
    )
