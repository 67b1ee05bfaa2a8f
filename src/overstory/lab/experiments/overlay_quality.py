"""How good is each planner that attaches clients? By the ratio of prices, their law, and how narrow interests are.

``wanting`` is the share of brokers that want a value: where it is near 1, the core is a constant, and nobody can gain.
A cell is a ratio of prices, their law and a width; the gap of overlay-search to what no plan undercuts is of each cell.
``sub_channels`` says how finely overlay-search cuts the content space.
"""

from collections.abc import Iterable, Sequence

from overstory.lab import overlay_cells as overlay
from overstory.lab.experiment import BySeed, Experiment, Figure, Parameters, Row, Settings
from overstory.lab.measuring import by_seed, lines, number, quotients, where
from overstory.model.plan import Value

OTHERS = ("overlay-partition", "overlay-facility", "publisher-relocation", "overlay-primal-dual")
PLANNERS = (overlay.RANDOM, *overlay.OF_PAPER, *OTHERS, overlay.SEARCH)
FINENESS = (8, 32, 128, 512)
CELL, HELD_OUT = ("access_core_ratio", "prices", "width"), "cost_held_out"


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    users, brokers, seeds = (60, 5, 1) if quick else (1000, 100, 20)
    scenarios: list[Settings] = [
        {
            "users": users,
            "brokers": brokers,
            "access_core_ratio": ratio,
            "prices": law,
            "width": width,
            "channels": 100 if width < 0.1 else 20,
            "seed": seed,
        }
        for ratio in (0.2, 1.0, 5.0)
        for law in ("metric", "independent")
        for width in (0.02, 0.3)
        for seed in range(1, seeds + 1)
    ]
    planners: list[Settings] = [{"planner": planner} for planner in PLANNERS if planner != overlay.SEARCH]
    yield from overlay.cells(scenarios, [*planners, {"planner": overlay.SEARCH, "bounded": True}])
    for scenario in scenarios[:1] if quick else scenarios[:seeds]:
        for count in FINENESS[:2] if quick else FINENESS:
            yield scenario | {"planner": overlay.SEARCH, "sub_channels": count}


def saved(rows: Sequence[Row], ratio: float) -> BySeed:
    """Percent that overlay-search saves against the cheapest of the paper's planners, narrow interests, held out."""
    mine = [row for row in rows if "sub_channels" not in row]
    mine = where(mine, access_core_ratio=ratio, prices="metric", width=0.02)
    ours = by_seed(where(mine, planner=overlay.SEARCH), "cost_held_out")
    theirs = [by_seed(where(mine, planner=planner), "cost_held_out") for planner in overlay.OF_PAPER]
    best = {seed: min(found[seed] for found in theirs if seed in found) for seed in theirs[0]}
    return {seed: 100 * (1 - ours[seed] / best[seed]) for seed in ours.keys() & best.keys()}


def by_cell(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows of each cell; those that try another number of sub-channels are left out."""
    found: dict[tuple[Value, ...], list[Row]] = {}
    for row in rows:
        if "sub_channels" not in row:
            found.setdefault(tuple(row[name] for name in CELL), []).append(row)
    return list(found.values())


def dearest(rows: Sequence[Row]) -> BySeed:
    """Percent that overlay-search is dearer than the cheapest other planner, held out: of the means over
    seeds of the quotient, that in the cell and against the planner where it is worst. So there is one number."""
    worst = [
        max(
            estimate_of(quotients(cell, HELD_OUT, {"planner": overlay.SEARCH}, {"planner": planner}))
            for planner in (*overlay.OF_PAPER, *OTHERS)
        )
        for cell in by_cell(rows)
    ]
    return {0: 100 * (max(worst) - 1)} if worst else {}


def estimate_of(found: BySeed) -> float:
    return sum(found.values()) / len(found) if found else 0.0


def gaps(rows: Sequence[Row]) -> BySeed:
    """Percent above what no plan undercuts, in the cell where that is worst, by seed."""
    found: BySeed = {}
    for row in rows:
        least = row.get("bound_total")
        if isinstance(least, float) and least > 0:
            seed = int(str(row["seed"]))
            found[seed] = max(found.get(seed, 0.0), 100 * (number(row, "cost") / least - 1))
    return found


def figures(rows: Sequence[Row]) -> list[Figure]:
    plain = [row for row in rows if "sub_channels" not in row and row["planner"] != overlay.RANDOM]
    found = [
        Figure(
            f"overlay-quality-{law}-{'narrow' if width == 0.02 else 'broad'}",
            f"Cost by prices, {law}, width {width}",
            "mean price of access / mean price of core",
            "held-out cost",
            lines(where(plain, prices=law, width=width), "access_core_ratio", "cost_held_out", "planner"),
            log_x=True,
            log_y=True,
        )
        for law in ("metric", "independent")
        for width in (0.02, 0.3)
    ]
    found.append(
        Figure(
            "overlay-quality-wanting",
            "How many brokers want a value, metric prices, equal prices of access and core",
            "mean width of a subscription",
            "share of brokers",
            lines(where(plain, prices="metric", access_core_ratio=1.0), "width", "wanting", "planner"),
        )
    )
    finer = [row for row in rows if "sub_channels" in row]
    found.append(
        Figure(
            "overlay-quality-channels",
            "Cost by the number of sub-channels",
            "sub-channels",
            "held-out cost",
            lines(finer, "sub_channels", "cost_held_out", "planner"),
            log_x=True,
        )
    )
    return found


EXPERIMENT = Experiment(
    "overlay-quality",
    "what attaching clients costs under each planner, by prices and interests",
    cells,
    overlay.run,
    measures={
        "search_saves_dear_core": lambda rows: saved(rows, 0.2),
        "search_saves_equal_prices": lambda rows: saved(rows, 1.0),
        "search_dearer_worst_cell": dearest,
        "search_gap_worst_cell": gaps,
    },
    figures=figures,
)
