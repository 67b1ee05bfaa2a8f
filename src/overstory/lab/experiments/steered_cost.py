"""What steering costs beside trees, by the payload, on all networks and interests of ``trees-cost`` and ``worth``; and
where it loses: dense interest, three brokers, small payloads."""

from collections.abc import Iterable, Sequence
from functools import partial

from overstory.lab.experiment import BySeed, Experiment, Figure, Measure, Parameters, Row, Settings
from overstory.lab.experiments.worth import NETWORKS
from overstory.lab.measuring import by_seed, largest, lines, number, where
from overstory.lab.steered_cells import (
    DEFAULT,
    MANY_TREES,
    MEDYM,
    ONE_TREE,
    PAYLOADS,
    STEERED,
    costs_of,
    making,
    planned,
    scenario_from,
)
from overstory.lab.tree_cells import DATA_SETS, events_of, sizes_and_seeds

TRANSIT_STUB, SMALLEST = "transit-stub", "random-regular"
BY_NETWORK, BY_DENSITY = "network", "density"  # what a cell is for
SUBSCRIBERS = 10  # of a keyword
SHARES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)  # of all brokers, that subscribe to a keyword
CURVE = (5, 10, *PAYLOADS, 50, 100, 500)


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    common: Settings = {"events": events_of(quick), "kind": BY_NETWORK, "subscribers": SUBSCRIBERS}
    for brokers, seed in [(80, 1), (80, 2)] if quick else sizes_and_seeds(quick):
        for data in DATA_SETS:
            yield common | {"network": TRANSIT_STUB, "brokers": brokers, "data": data, "seed": seed}
    for network in NETWORKS[:1] if quick else NETWORKS:
        yield common | {"network": network, "brokers": 0, "data": "Localized2", "seed": 1}
    yield common | {"network": SMALLEST, "brokers": 3, "data": "Uniform", "seed": 1}
    size = 40 if quick else 200
    for share in SHARES[::3] if quick else SHARES:
        density: Settings = {"kind": BY_DENSITY, "subscribers": max(1, round(share * size)), "share": share}
        yield common | density | {"network": TRANSIT_STUB, "brokers": size, "data": "Uniform", "seed": 1}


def run(settings: Settings) -> list[Row]:
    seed = int(str(settings["seed"]))
    ways = (DEFAULT, STEERED, MEDYM, ONE_TREE, MANY_TREES) if settings["kind"] == BY_NETWORK else (STEERED, ONE_TREE)
    with scenario_from(making(settings, subscribers_per_keyword=settings["subscribers"])) as scenario:
        costs, bound = costs_of(scenario, {way: planned(scenario, way, seed) for way in ways})
    known = settings | {"size": len(scenario.network)}  # real networks have as many brokers as they have
    from_payload = costs[STEERED].cheaper_from(costs[ONE_TREE])
    return [
        known
        | {"way": way, "payload": payload, "ratio": cost.of(payload) / bound if bound else None}
        | {"bare": cost.bare / bound if bound else None, "cheaper_from": from_payload}
        for way, cost in costs.items()
        for payload in CURVE
    ]


def ratio(rows: Sequence[Row], payload: int | None, data: str, way: str = STEERED) -> BySeed:
    """To the bound, on the largest network that was made; without headers if there is no payload."""
    mine = largest(where(rows, kind=BY_NETWORK, network=TRANSIT_STUB, data=data, way=way))
    return by_seed(
        where(mine, payload=PAYLOADS[0] if payload is None else payload), "bare" if payload is None else "ratio"
    )


def break_even(rows: Sequence[Row], data: str) -> BySeed:
    """The payload from which on steering is cheaper than one tree."""
    mine = where(largest(where(rows, kind=BY_NETWORK, network=TRANSIT_STUB, data=data, way=STEERED)), payload=200)
    return by_seed([row for row in mine if row["cheaper_from"] is not None], "cheaper_from")


def default_above(rows: Sequence[Row]) -> BySeed:
    """By how many percent ``tree-search`` is dearer than the cheapest other way, where it is worst by that."""
    found: dict[int, float] = {}
    bare = where(rows, kind=BY_NETWORK, payload=PAYLOADS[0])
    for ours in where(bare, way=DEFAULT):
        same = where(bare, **{name: ours[name] for name in ("network", "brokers", "data", "seed")})
        cheapest = min((number(row, "bare") for row in same if row["way"] != DEFAULT and row["bare"]), default=None)
        if cheapest is not None:
            seed, above = int(number(ours, "seed")), 100 * (number(ours, "bare") / cheapest - 1)
            found[seed] = max(above, found.get(seed, above))
    return found


MEASURES: dict[str, Measure] = {
    "default_above": default_above,
    **{f"steered_{data.lower()}": partial(ratio, payload=None, data=data) for data in DATA_SETS},
    **{f"steered_{data.lower()}_headers": partial(ratio, payload=200, data=data) for data in DATA_SETS},
    **{f"cheaper_from_{data.lower()}": partial(break_even, data=data) for data in DATA_SETS},
}


def figures(rows: Sequence[Row]) -> list[Figure]:
    found = [
        Figure(
            f"steered-cost-{data.lower()}",
            f"{data}, held out, by payload",
            "bytes of an event",
            "times the certified bound",
            lines(largest(where(rows, kind=BY_NETWORK, network=TRANSIT_STUB, data=data)), "payload", "ratio", "way"),
            log_x=True,
        )
        for data in DATA_SETS
    ]
    dense, bound = where(rows, kind=BY_DENSITY, payload=200), "times the certified bound"
    title = "The more brokers want an event, at 200 bytes"
    found.append(Figure("steered-dense", title, "share of brokers", bound, lines(dense, "share", "ratio", "way")))
    three = lines(where(rows, network=SMALLEST), "payload", "ratio", "way")
    title = "Three brokers, by payload"
    return [*found, Figure("steered-three-brokers", title, "bytes of an event", bound, three, log_x=True)]


EXPERIMENT = Experiment(
    "steered-cost",
    "steering beside cheapest paths, one tree and many, by the payload, by the network and by how many want an event",
    cells,
    run,
    measures=MEASURES,
    figures=figures,
)
