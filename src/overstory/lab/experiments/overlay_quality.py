"""How good is each planner that attaches clients? By the ratio of prices, their law, and how narrow interests are.

``wanting`` is the share of brokers that want a value: where it is near 1, the core is a constant, and nobody can gain.
``sub_channels`` says how finely overlay-search cuts the content space.
"""

from collections.abc import Iterable, Sequence

from overstory.lab import overlay_cells as overlay
from overstory.lab.experiment import BySeed, Experiment, Figure, Parameters, Row, Settings
from overstory.lab.measuring import by_seed, lines, where

OTHERS = ("overlay-partition", "overlay-facility", "publisher-relocation", "overlay-primal-dual")
PLANNERS = (overlay.RANDOM, *overlay.OF_PAPER, *OTHERS, overlay.SEARCH)
FINENESS = (8, 32, 128, 512)


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
    yield from overlay.cells(scenarios, [{"planner": planner} for planner in PLANNERS])
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
    },
    figures=figures,
)
