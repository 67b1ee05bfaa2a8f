"""Table 2 and Fig. 5 of Milo et al.: users join over two months, in natural clusters; what each way then costs."""

from collections.abc import Iterable, Sequence
from functools import partial

from overstory.lab import topic_cells
from overstory.lab.experiment import BySeed, Experiment, Figure, Measure, Parameters, Row, Settings
from overstory.lab.measuring import excess, lines, relative, savings
from overstory.lab.topic_cells import (
    K_MEANS,
    K_MEANS_GREEDY,
    LITERALLY,
    MODELS,
    PLANTED,
    SCRIBE,
    SEARCH,
    TAMARA,
    TEN_MEANS,
    beyond,
    column,
    curves,
    ratio,
    saved,
    seeds,
    statistics,
    worst,
)
from overstory.lab.topics import NOISE

WAYS = (SCRIBE, LITERALLY, TAMARA, PLANTED, K_MEANS_GREEDY, K_MEANS, TEN_MEANS, SEARCH)


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    size: Settings = {"users": 300, "topics": 60, "natural_clusters": 5} if quick else {"users": 3000, "topics": 120}
    for seed in seeds(quick):
        for model in (*MODELS, "printed"):
            yield {
                **size,
                "frequency": model,
                "noise": parameters["noise"],
                "period": "two-months",
                "seed": seed,
                "ways": "|".join(WAYS if model != "printed" else (SCRIBE, TAMARA)),
            }


def dissemination(rows: Sequence[Row]) -> BySeed:
    return excess(ratio(rows, TAMARA, SCRIBE, "dissemination", frequency="average"))


def with_effort(rows: Sequence[Row]) -> BySeed:
    return savings(column(rows, "over_scribe_with_effort", frequency="average"))


MEASURES: dict[str, Measure] = {
    **{f"{model}_saved_percent": partial(saved, way=TAMARA, frequency=model) for model in MODELS},
    **{f"{model}_saved_percent_literal": partial(saved, way=LITERALLY, frequency=model) for model in MODELS},
    **{f"{model}_saved_percent_planted": partial(saved, way=PLANTED, frequency=model) for model in MODELS},
    **{f"{model}_saved_percent_k_means": partial(saved, way=K_MEANS_GREEDY, frequency=model) for model in MODELS},
    **{f"{model}_saved_percent_topic_search": partial(saved, way=SEARCH, frequency=model) for model in MODELS},
    **{
        f"{model}_topic_search_beyond_planted": partial(beyond, way=SEARCH, other=PLANTED, frequency=model)
        for model in MODELS
    },
    **{
        f"{model}_tamara_beyond_planted": partial(beyond, way=TAMARA, other=PLANTED, frequency=model)
        for model in MODELS
    },
    **statistics(TAMARA, LITERALLY, SEARCH),
    "average_saved_percent_printed_rates": partial(saved, way=TAMARA, frequency="printed"),
    "average_saved_percent_with_effort": with_effort,
    "average_dissemination_added_percent": dissemination,
    "average_tamara_over_k_means": partial(ratio, way=TAMARA, other=K_MEANS, frequency="average"),
    "average_tamara_over_ten_means": partial(ratio, way=TAMARA, other=TEN_MEANS, frequency="average"),
    "worst_tamara_over_k_means": partial(worst, way=TAMARA, other=K_MEANS),
    "cost_with_effort_over_cost": partial(column, value="with_effort", frequency="average"),
    **{
        f"{model}_cost_with_effort_over_cost": partial(column, value="with_effort", frequency=model) for model in MODELS
    },
    "cost_with_effort_over_cost_worst": partial(column, value="with_effort_worst", frequency="average"),
}


def figures(rows: Sequence[Row]) -> list[Figure]:
    keys = ("frequency", "seed")
    told = relative([row for row in rows if "way" in row], "cost", {"way": SCRIBE}, keys)
    numbered = [row | {"model": MODELS.index(str(row["frequency"]))} for row in told if row["frequency"] in MODELS]
    title = "Overall cost by model (0 average, 1 frequent, 2 infrequent)"
    models = Figure("topics-join", title, "model", "of Scribe's", lines(numbered, "model", "cost", "way", WAYS))
    return [
        models,
        *(curves(rows, f"topics-join-{each}", f"Users join, {each} events", frequency=each) for each in MODELS),
    ]


EXPERIMENT = Experiment(
    "topics-join",
    "what clusters of topics save once users have joined, by Tamara, k-means and topic-search, with what it took",
    cells,
    topic_cells.run,
    topic_cells.PAPER,
    "Table 2, Fig. 5",
    parameters={"noise": NOISE},
    measures=MEASURES,
    figures=figures,
)
