"""Fig. 6 of Milo et al.: the same subscriptions within two weeks, and within a day."""

from collections.abc import Iterable, Sequence
from functools import partial

from overstory.lab import topic_cells
from overstory.lab.experiment import Experiment, Figure, Measure, Parameters, Row, Settings
from overstory.lab.measuring import lines
from overstory.lab.topic_cells import LITERALLY, SCRIBE, TAMARA, column, curves, seeds
from overstory.lab.topics import NOISE

DAYS = {"two-months": 61, "two-weeks": 14, "day": 1}


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    size: Settings = {"users": 300, "topics": 60, "natural_clusters": 5} if quick else {"users": 3000, "topics": 120}
    for seed in seeds(quick):
        for period, days in DAYS.items():
            yield {
                **size,
                "frequency": "average",
                "noise": parameters["noise"],
                "period": period,
                "days": days,
                "seed": seed,
                "ways": "|".join((SCRIBE, LITERALLY, TAMARA)),
            }


MEASURES: dict[str, Measure] = {
    "day_tamara_with_effort_over_scribe": partial(column, value="over_scribe_with_effort_later", period="day"),
    "day_tamara_with_effort_over_scribe_whole": partial(column, value="over_scribe_with_effort", period="day"),
    "day_literal_with_effort_over_scribe_whole": partial(
        column, value="over_scribe_with_effort", way=LITERALLY, period="day"
    ),
    **{
        f"{period.replace('-', '_')}_cost_with_effort_over_cost": partial(column, value="with_effort", period=period)
        for period in DAYS
    },
}


def figures(rows: Sequence[Row]) -> list[Figure]:
    mine = [row for row in rows if row.get("with_effort") is not None]
    told = lines(mine, "days", "with_effort", "way")
    whole = Figure("topics-rate", "Cost with the effort of clusters", "days", "of the cost without", told, log_x=True)
    return [whole, *(curves(rows, f"topics-rate-{each}", f"Users join: {each}", period=each) for each in DAYS)]


EXPERIMENT = Experiment(
    "topics-rate",
    "what forming clusters takes where all subscriptions come within two months, two weeks or a day",
    cells,
    topic_cells.run,
    topic_cells.PAPER,
    "Fig. 6",
    parameters={"noise": NOISE},
    measures=MEASURES,
    figures=figures,
)
