"""Section 5.2 of Milo et al.: ten to 3,000 topics, and hundreds to 10,000 users, with average events. Results are said
to be practically independent of both."""

from collections.abc import Iterable, Sequence
from functools import partial

from overstory.lab import topic_cells
from overstory.lab.experiment import BySeed, Experiment, Figure, Parameters, Row, Settings
from overstory.lab.measuring import lines, relative
from overstory.lab.topic_cells import LITERALLY, PLANTED, SCRIBE, TAMARA, column, saved
from overstory.lab.topics import NOISE

USUAL = (3000, 120)
SIZES = ((300, 120), (1000, 120), USUAL, (10_000, 120), (3000, 10), (3000, 30), (3000, 500), (3000, 3000))
QUICK = ((60, 24), (120, 24), (60, 48))
WIDTH = 12  # topics of a natural cluster, where there are enough
SEEDS = 3


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    for seed in range(1, 2 if quick else SEEDS + 1):
        for users, topics in QUICK if quick else SIZES:
            yield {
                "users": users,
                "topics": topics,
                "natural_clusters": max(topics // WIDTH, 2),
                "interests": min(25, topics // 2),
                "frequency": "average",
                "noise": parameters["noise"],
                "period": "two-months",
                "seed": seed,
                "ways": "|".join((SCRIBE, LITERALLY, TAMARA, PLANTED)),
            }


def spread(rows: Sequence[Row]) -> BySeed:
    """How many points apart what Tamara saves with most and with least, over all sizes of 120 topics or more."""
    sizes = {(row["users"], row["topics"]) for row in rows if "way" in row}
    each = [saved(rows, TAMARA, users=users, topics=topics) for users, topics in sizes if int(str(topics)) >= USUAL[1]]
    seeds = set.intersection(*(set(one) for one in each)) if each else set()
    return {seed: max(one[seed] for one in each) - min(one[seed] for one in each) for seed in seeds}


def figures(rows: Sequence[Row]) -> list[Figure]:
    told = relative([row for row in rows if "way" in row], "cost", {"way": SCRIBE}, ("users", "topics", "seed"))
    found = []
    for x, other in (("users", "topics"), ("topics", "users")):
        most = max((str(row[other]) for row in told), key=[str(row[other]) for row in told].count, default="")
        mine = [row for row in told if str(row[other]) == most]
        title = f"Overall cost by {x}, with {most} {other}"
        found.append(Figure(f"topics-sizes-{x}", title, x, "of Scribe's", lines(mine, x, "cost", "way"), log_x=True))
    return found


EXPERIMENT = Experiment(
    "topics-sizes",
    "what clusters of topics save with ten to 3,000 topics and hundreds to 10,000 users",
    cells,
    topic_cells.run,
    figure="ours, after section 5.2 of topics",
    parameters={"noise": NOISE},
    measures={
        "points_between_sizes": spread,
        "most_clusters": partial(column, value="clusters"),
    },
    figures=figures,
)
