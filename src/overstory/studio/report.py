"""One page that compares plans on a scenario: tables that stand alone, and a picture of the network and its traffic.

Three rules. The page asks nothing of a network: style, script and data are in it, and its security policy allows no
more. What comes from data becomes HTML only through ``_text`` and JSON only through ``_json``. The same input gives the
same bytes.

Python writes all tables and the first picture, so that both are there without JavaScript and on paper; the script
only redraws the picture for another plan or flow and says what lies under the pointer. Both know a link between two
brokers as one *pair*, with traffic there (from the broker that comes first) and back at 2p and 2p + 1. All plans share
one scale of traffic, so that a thicker line in another plan is more traffic.
"""

import base64
import contextlib
import hashlib
import html
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from string import Template
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np
import rustworkx as rx
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import dijkstra

from overstory.errors import UsageError
from overstory.model.network import Floats, Ints, Network
from overstory.model.scorecard import Scorecard, Traffic

HERE = Path(__file__).parent
CLASSES = 6  # of traffic, besides none at all
BUSIEST = 20  # links in the table
MOST_TREES = 200  # of a plan, to choose from
MOST_LABELS, FEW, SOME = 60, 100, 600  # brokers: smaller dots beyond few, no labels beyond some
MOST_SPRINGS = 1000  # brokers, beyond which springs are slow
WIDTH, LEAST_HEIGHT, MOST_HEIGHT, MARGIN = 1000, 380, 640, 36  # of the picture
NOTHING = "–"

Number = TypeVar("Number", np.int64, np.float64)


class PlanView(msgspec.Struct, frozen=True):
    """A row of the comparison. Traffic without any link is that of a reference that cannot be installed: it has a
    score and no picture."""

    name: str
    seconds: float  # that planning took
    scorecard: Scorecard
    traffic: Traffic
    trees: list[list[int]] = []  # per flow the directed links of its tree, either direction once


def write_report(
    path: Path,
    title: str,
    facts: dict[str, str],
    network: Network,
    names: list[str] | None,
    x: ArrayLike | None,
    y: ArrayLike | None,
    plans: Sequence[PlanView],
    command: str,
) -> None:
    """Whole or not at all. Without names brokers go by their ids, without coordinates by a layout of ours."""
    picture = _Picture(network, _names(network, names), _fitted(_coordinates(network, x, y)))
    _write_whole(path, _page(title, facts, picture, plans, command).encode("utf-8", "replace"))


def _write_whole(path: Path, content: bytes) -> None:
    unfinished = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        with open(handle, "wb") as file:
            file.write(content)
        os.chmod(unfinished, 0o644)
        os.replace(unfinished, path)
    except OSError as error:
        if unfinished:
            with contextlib.suppress(OSError):
                os.remove(unfinished)
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from None


def _page(title: str, facts: dict[str, str], picture: "_Picture", plans: Sequence[PlanView], command: str) -> str:
    cheapest = _cheapest(plans)
    drawn = [plan for plan in plans if len(plan.traffic.bytes) == len(picture.network.targets)]
    shown = next((at for at, plan in enumerate(drawn) if plan is cheapest), 0)
    classes = picture.classes(drawn)
    script = (HERE / "page.js").read_text("utf-8")
    return Template((HERE / "page.html").read_text("utf-8")).substitute(
        title=_text(title),
        policy=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        style=(HERE / "page.css").read_text("utf-8"),
        script=script,
        facts="".join(f"<div><dt>{_text(key)}</dt><dd>{_text(value)}</dd></div>" for key, value in facts.items()),
        summary=_summary(plans, cheapest),
        costs=_plan_table("costs", "What the plans cost", COSTS, plans, cheapest, bars=True),
        behaviour=_plan_table("behaviour", "How the plans behave", BEHAVIOUR, plans, cheapest),
        picture=picture.svg(classes[shown] if drawn else np.zeros(len(picture.pairs), np.int64)),
        shown=_text(drawn[shown].name) if drawn else "no plan",
        brokers=f"{len(picture.network):,}",
        pairs=f"{len(picture.pairs):,}",
        legend=picture.legend(drawn),
        options="".join(
            f'<option value="{at}"{" selected" * (at == shown)}>{_text(plan.name)}</option>'
            for at, plan in enumerate(drawn)
        ),
        links="".join(picture.busiest(plan, at, at != shown) for at, plan in enumerate(drawn)),
        command=_text(command),
        data=_json(picture.data(drawn, classes)),
    )


def _cheapest(plans: Sequence[PlanView]) -> PlanView | None:
    """Of those that keep the limits and can be installed: a reference has no flows."""
    real = [plan for plan in plans if plan.scorecard.flows]
    allowed = [plan for plan in real if not plan.scorecard.exceeded and math.isfinite(plan.scorecard.cost)]
    return min(allowed, key=lambda plan: plan.scorecard.cost, default=None)


def _summary(plans: Sequence[PlanView], cheapest: PlanView | None) -> str:
    if cheapest is None:
        return "No plan keeps the limits." if plans else "There is no plan."
    score = cheapest.scorecard
    against = []
    if score.gap is not None:
        against.append(f"{score.gap:.1%} above the lower bound")
    if score.flood > 0:
        against.append(f"{score.core / score.flood:.1%} of what flooding would cost")
    core = f"; its core is {' and '.join(against)}" if against else ""
    return f"<strong>{_text(cheapest.name)}</strong> is the cheapest, at {_aligned([score.cost])[0]}{core}."


class Measure(NamedTuple):
    """A column of a table of plans."""

    name: str
    meaning: str
    of: Callable[[PlanView], float | None]
    percent: bool = False


COSTS = (
    Measure("Cost", "the one cost on the whole log", lambda plan: plan.scorecard.cost),
    Measure("Core", "bytes × price on links between brokers", lambda plan: plan.scorecard.core),
    Measure("Access", "bytes × price between clients and brokers", lambda plan: plan.scorecard.access),
    Measure("Upkeep", "entries in routing tables, renewed each interval", lambda plan: plan.scorecard.upkeep),
    Measure("Control", "messages for changes of subscriptions", lambda plan: plan.scorecard.control),
    Measure("Lower bound", "certified: no core costs less", lambda plan: plan.scorecard.lower_bound),
    Measure("Gap", "of core above the lower bound", lambda plan: plan.scorecard.gap, percent=True),
    Measure(
        "Of flooding",
        "core, relative to every event going to every broker",
        lambda plan: plan.scorecard.core / plan.scorecard.flood if plan.scorecard.flood > 0 else None,
        percent=True,
    ),
    Measure("Cost, fit", "of the events that the planner learned from", lambda plan: plan.scorecard.cost_fit),
    Measure("Cost, held out", "of events that it never saw", lambda plan: plan.scorecard.cost_held_out),
    Measure("Bound, held out", "on the core of those", lambda plan: plan.scorecard.lower_bound_held_out),
)
BEHAVIOUR = (
    Measure("Flows", "each with a tree of its own", lambda plan: plan.scorecard.flows),
    Measure("Deliveries", "to subscriptions", lambda plan: plan.scorecard.deliveries),
    Measure("Frames", "that crossed a link between brokers", lambda plan: plan.scorecard.frames),
    Measure("Duplicates", "frames beyond an event's first at a broker", lambda plan: plan.scorecard.duplicates),
    Measure("False positives", "frames nobody behind the link wanted", lambda plan: plan.scorecard.false_positives),
    Measure("Discards", "copies that a client threw away", lambda plan: plan.scorecard.discards),
    Measure("Mean delay, ms", "from publisher to subscriber", lambda plan: plan.scorecard.mean_delay),
    Measure("Max delay, ms", "from publisher to subscriber", lambda plan: plan.scorecard.max_delay),
    Measure("Load", "of the fullest broker, 1 is an equal share", lambda plan: plan.scorecard.load),
    Measure("Seconds", "that planning took", lambda plan: plan.seconds),
)
PARTS = ("core", "access", "upkeep", "control")


def _plan_table(
    name: str,
    caption: str,
    measures: Sequence[Measure],
    plans: Sequence[PlanView],
    cheapest: PlanView | None,
    bars: bool = False,
) -> str:
    heads = [f'<th scope="col" title="{_text(each.meaning)}">{_text(each.name)}</th>' for each in measures]
    scale = max((sum(_parts(plan)) for plan in plans), default=0.0)
    columns = [_column(each, plans, scale if bars else None) for each in measures]
    rows = []
    for at, plan in enumerate(plans):
        bar = f"<td>{_bar(plan, scale)}</td>" if bars else ""
        cells = "".join(f"<td>{column[at]}</td>" for column in columns)
        row = ' class="best"' if plan is cheapest else ""
        rows.append(f'<tr{row}><th scope="row">{_label(plan, plan is cheapest)}</th>{bar}{cells}</tr>')
    first = '<th scope="col">Plan</th>' + ('<th scope="col" class="bars">Parts and bound</th>' if bars else "")
    head = f"<thead><tr>{first}{''.join(heads)}</tr></thead>"
    return f'<table id="{name}"><caption>{caption}</caption>{head}<tbody>{"".join(rows)}</tbody></table>'


def _label(plan: PlanView, best: bool) -> str:
    exceeded = "".join(f' <span class="exceeded">exceeds {_text(limit)}</span>' for limit in plan.scorecard.exceeded)
    return _text(plan.name) + (' <span class="badge">cheapest</span>' if best else "") + exceeded


def _column(measure: Measure, plans: Sequence[PlanView], most: float | None) -> list[str]:
    values = [measure.of(plan) for plan in plans]
    if measure.percent:
        return [NOTHING if value is None or not math.isfinite(value) else f"{value:.1%}" for value in values]
    return _aligned(values, most)


def _parts(plan: PlanView) -> list[float]:
    values = [float(getattr(plan.scorecard, part)) for part in PARTS]
    return [value if math.isfinite(value) and value > 0 else 0.0 for value in values]


def _bar(plan: PlanView, scale: float) -> str:
    """The parts of the cost end to end, and a tick at the bound on the first of them."""
    shares = [100 * part / scale if scale else 0.0 for part in _parts(plan)]
    bound = 100 * min(plan.scorecard.lower_bound / scale, 1.0) if scale else 0.0
    starts = np.cumsum([0.0, *shares])
    pieces = "".join(
        f'<rect class="{part}" x="{start:.2f}" y="4" width="{share:.2f}" height="10"/>'
        for part, start, share in zip(PARTS, starts, shares, strict=False)
        if share > 0
    )
    tick = f'<path class="bound" d="M{bound:.2f} 0V18"/>' if bound > 0 else ""
    return (
        '<svg class="bar" viewBox="0 0 100 18" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="track" x="0" y="4" width="100" height="10"/>{pieces}{tick}</svg>'
    )


def _plain(value: str) -> str:
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in value)


def _text(value: str) -> str:
    return html.escape(_plain(value))


def _json(value: object) -> str:
    """To stand between script tags."""
    dumped = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return dumped.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _aligned(values: Iterable[float | None], most: float | None = None) -> list[str]:
    """With as many decimals as ``most``, or else the largest, needs for four digits, and none if all are whole; from a
    hundred million on in millions."""
    known = [None if value is None or not math.isfinite(value) else value for value in values]
    sizes = [abs(value) for value in known if value is not None]
    most = max(sizes, default=0) if most is None else most
    if most >= 1e8:
        return [NOTHING if value is None else f"{value / 1e6:,.{1 + (most < 1e10)}f} M" for value in known]
    whole = all(size == int(size) for size in sizes)
    decimals = 0 if whole or not most else min(max(3 - math.floor(math.log10(most)), 0), 4)
    return [NOTHING if value is None else f"{value:,.{decimals}f}" for value in known]


def _bytes(value: float) -> str:
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            break
        value /= 1000
    digits = 0 if unit == "B" or value >= 100 else 1
    return f"{value:,.{digits}f} {unit}"


def _numbers(values: Floats) -> list[float | int | None]:
    """As short as JSON can have them, to six digits."""
    rounded = [float(f"{value:.6g}") if math.isfinite(value) else None for value in values.tolist()]
    return [int(value) if value is not None and value == int(value) else value for value in rounded]


@dataclass(frozen=True, eq=False)
class _Picture:
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

    def svg(self, classes: Ints) -> str:
        lines = [self._lines(np.flatnonzero(classes == each)) for each in range(CLASSES + 1)]
        paths = "".join(f'<path class="c{each}" d="{line}"/>' for each, line in enumerate(lines))
        dots = "".join(f"M{_point(point)}h0" for point in self.points)
        size = "few" if len(self.network) <= FEW else "some" if len(self.network) <= SOME else "many"
        return (
            f'<svg id="map" class="{size}" viewBox="0 0 {WIDTH} {_height(self.points)}" role="img"'
            f' aria-label="The network, with traffic as the width of its links">'
            f'<g id="traffic">{paths}</g><path id="tree" d=""/><path id="mark" d=""/>'
            f'<path id="brokers" d="{dots}"/><path id="spot" d=""/><g id="labels">{self._labels()}</g></svg>'
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
            name, (x, y) = _shortened(self.names[broker]), self.points[broker]
            wide = 5.7 * len(name)
            for left, side in ((x + 5, 'dx=".7em"'), (x - 5 - wide, 'dx="-.7em" text-anchor="end"')):
                box = np.array([left, y - 6, left + wide, y + 6])
                free = left >= 0 and left + wide <= WIDTH and not _overlapping(box, taken).any()
                if free and len(labels) < MOST_LABELS:
                    taken = np.vstack([taken, box])
                    labels.append(f'<text x="{x:.1f}" y="{y:.1f}" dy=".35em" {side}>{_text(name)}</text>')
                    break
        return "".join(labels)

    def legend(self, plans: Sequence[PlanView]) -> str:
        most = self.most(plans)
        if not most:
            return "<span>no traffic on any link</span>"
        told = _bytes if any(plan.traffic.bytes.any() for plan in plans) else "{:,.0f} frames".format
        ends = [told(most * (each / CLASSES) ** 2) for each in range(1, CLASSES + 1)]
        line = '<svg viewBox="0 0 28 12" aria-hidden="true"><path class="c{}" d="M2 6H26"/></svg>'
        keys = ["none", *(f"to {end}" for end in ends)]
        return "".join(f"<span>{line.format(each)}{key}</span>" for each, key in enumerate(keys))

    def busiest(self, plan: PlanView, at: int, hidden: bool) -> str:
        """The rows of the table of links for one plan."""
        loads = self.loads(plan)
        sizes, frames = self.by_pair(plan.traffic.bytes), self.by_pair(plan.traffic.frames)
        chosen = [pair for pair in np.argsort(-loads, kind="stable")[:BUSIEST].tolist() if loads[pair]]
        rows = []
        for rank, pair in enumerate(chosen, start=1):
            one, other = (_text(_shortened(self.names[end], 40)) for end in self.pairs[pair])
            there, back = sizes[2 * pair], sizes[2 * pair + 1]
            cells = (
                *(_bytes(value) for value in (there + back, there, back)),
                f"{frames[2 * pair] + frames[2 * pair + 1]:,}",
                f"{loads[pair] / loads.sum():.1%}",
                self._either(self.network.prices, pair),
                self._either(self.network.delays, pair),
            )
            head = f'<td>{rank}</td><th scope="row">{one} <span class="and">–</span> {other}</th>'
            rows.append(f'<tr data-link="{pair}">{head}{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>')
        if not rows:
            rows = ['<tr><td colspan="9" class="none">No event crosses a link between brokers.</td></tr>']
        return f'<tbody data-plan="{at}"{" hidden" * hidden}>{"".join(rows)}</tbody>'

    def _either(self, values: Floats, pair: int) -> str:
        both = self.by_pair(values, math.nan)[2 * pair : 2 * pair + 2].tolist()
        there, back = (f"{value:,.6g}" if math.isfinite(value) else NOTHING for value in both)
        return there if there == back else f"{there} / {back}"

    def data(self, plans: Sequence[PlanView], classes: Sequence[Ints]) -> dict[str, object]:
        """What the script needs."""
        return {
            "size": [WIDTH, _height(self.points)],
            "names": self.names,
            "points": _numbers(np.round(self.points.reshape(-1), 1)),
            "ends": self.pairs.reshape(-1).tolist(),
            "prices": _numbers(self.by_pair(self.network.prices, math.nan)),
            "delays": _numbers(self.by_pair(self.network.delays, math.nan)),
            "plans": [
                {
                    "name": _plain(plan.name),
                    "classes": "".join(map(str, each.tolist())),
                    "frames": self.by_pair(plan.traffic.frames).tolist(),
                    "bytes": self.by_pair(plan.traffic.bytes).tolist(),
                    "trees": [self._bits(tree) for tree in plan.trees[:MOST_TREES]],
                    "flows": len(plan.trees),
                }
                for plan, each in zip(plans, classes, strict=True)
            ],
        }

    def _bits(self, tree: list[int]) -> str:
        """One bit a pair: a spanning tree of 5,000 brokers is a kilobyte or two."""
        within = np.zeros(len(self.pairs), np.uint8)
        within[self.slots[np.asarray(tree, np.int64)] // 2] = 1
        return base64.b64encode(np.packbits(within, bitorder="little").tobytes()).decode()


def _point(point: Floats) -> str:
    return f"{point[0]:.1f} {point[1]:.1f}"


def _shortened(name: str, length: int = 24) -> str:
    return name if len(name) <= length else name[: length - 1] + "…"


def _overlapping(box: Floats, others: Floats) -> NDArray[np.bool_]:
    return np.asarray(((box[:2] < others[:, 2:]) & (others[:, :2] < box[2:])).all(axis=1))


def _names(network: Network, names: list[str] | None) -> list[str]:
    given: Sequence[str | None] = names if names is not None else [None] * len(network)
    return [_plain(name) if name else f"broker {broker}" for name, broker in zip(given, network.ids, strict=True)]


def _coordinates(network: Network, x: ArrayLike | None, y: ArrayLike | None) -> Floats:
    if x is not None and y is not None:
        given = np.stack([np.asarray(x, np.float64), -np.asarray(y, np.float64)], axis=1)
        if np.isfinite(given).all():
            return given
    start = _pivot_layout(network)
    return _level(_spring_layout(network, start) if 2 < len(network) <= MOST_SPRINGS else start)


def _pivot_layout(network: Network, pivots: int = 50) -> Floats:
    """Brokers as far apart as they are in hops, as well as a plane allows: PivotMDS (Brandes, Pich 2006), linear in
    the links."""
    size = len(network)
    if size < 2:
        return np.zeros((size, 2))
    links = network.weighted(np.ones(len(network.targets)))
    hops = np.zeros((size, 0))
    nearest = np.full(size, np.inf)
    for _ in range(min(pivots, size)):
        pivot = int(np.argmax(nearest))
        found = dijkstra(links, directed=False, indices=pivot, unweighted=True)
        hops = np.column_stack([hops, found])
        nearest = np.minimum(nearest, found)
        nearest[pivot] = -1
    hops[np.isinf(hops)] = 1.5 * hops[np.isfinite(hops)].max() + 1
    squares = hops**2
    centred = squares.mean(axis=0) + squares.mean(axis=1, keepdims=True) - squares - squares.mean()
    left, strength, _ = np.linalg.svd(centred, full_matrices=False)
    plane = np.zeros((size, 2))
    plane[:, : left.shape[1]] = left[:, :2] * np.sqrt(strength[:2])
    # brokers that have the same distances would hide each other
    turns = np.arange(size) * (math.pi * (3 - math.sqrt(5)))
    spread = 0.25 / math.sqrt(size) * np.ptp(plane, axis=0).max()
    return np.asarray(plane + spread * np.stack([np.cos(turns), np.sin(turns)], axis=1))


def _spring_layout(network: Network, start: Floats) -> Floats:
    graph = rx.PyGraph(multigraph=False)
    graph.add_nodes_from(range(len(network)))
    graph.add_edges_from_no_data(list(zip(network.sources.tolist(), network.targets.tolist(), strict=True)))
    scaled = start / max(np.abs(start).max(), 1e-9)
    placed = rx.spring_layout(graph, pos=dict(enumerate(scaled.tolist())), num_iter=50, seed=1)
    return np.array([placed[at] for at in range(len(network))])


def _level(points: Floats) -> Floats:
    """Turned so that it is widest from left to right, with the farthest broker to the right and above."""
    if len(points) < 2:
        return points
    centred = points - points.mean(axis=0)
    turned = centred @ np.linalg.svd(centred, full_matrices=False)[2].T
    farthest = turned[np.argmax(np.abs(turned), axis=0), [0, 1]]
    return np.asarray(turned * np.where(farthest * [1, -1] < 0, -1, 1))


def _fitted(points: Floats) -> Floats:
    """To the picture's width and height, with one scale for both."""
    if not len(points):
        return points
    low, extent = points.min(axis=0), np.ptp(points, axis=0)
    wide = WIDTH - 2 * MARGIN
    height = wide * extent[1] / extent[0] if extent[0] else extent[1] and MOST_HEIGHT
    tall = np.clip(height, LEAST_HEIGHT, MOST_HEIGHT) - 2 * MARGIN
    scale = min(side / each for side, each in ((wide, extent[0]), (tall, extent[1])) if each) if extent.any() else 0.0
    middle = np.array([wide, tall]) / 2
    return np.asarray(MARGIN + middle + (points - low - extent / 2) * scale, np.float64)


def _height(points: Floats) -> int:
    """Of a picture of fitted points, which stand in its middle."""
    if not len(points):
        return LEAST_HEIGHT
    return round(float(points[:, 1].min() + points[:, 1].max()))
