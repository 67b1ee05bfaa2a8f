"""Table 3 and Figs. 7(b) and 8 of Milo et al.: users change their interests to other natural clusters, or to none."""

from collections.abc import Iterable, Sequence
from functools import partial

from overstory.lab import topic_cells
from overstory.lab.experiment import Experiment, Figure, Measure, Parameters, Row, Settings
from overstory.lab.topic_cells import (
    K_MEANS,
    K_MEANS_GREEDY,
    LITERALLY,
    MODELS,
    PLANTED,
    SCRIBE,
    SEARCH,
    SEEDED,
    STATIC,
    TAMARA,
    TEN_MEANS,
    beyond,
    column,
    curves,
    ratio,
    saved,
    seeds,
    statistics,
)
from overstory.lab.topics import NOISE

WAYS = (SCRIBE, STATIC, LITERALLY, TAMARA, SEEDED, PLANTED, K_MEANS_GREEDY, K_MEANS, TEN_MEANS, SEARCH)


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    size: Settings = {"users": 300, "topics": 60, "natural_clusters": 5} if quick else {"users": 3000, "topics": 120}
    for seed in seeds(quick):
        for model in (*MODELS, "printed"):
            for shift in ("interests", "uniform", "rates") if model == "average" else ("interests",):
                yield {
                    **size,
                    "frequency": model,
                    "noise": parameters["noise"],
                    "period": "two-months",
                    "shift": shift,
                    "seed": seed,
                    "ways": "|".join(WAYS if model != "printed" else (SCRIBE, TAMARA)),
                }


MEASURES: dict[str, Measure] = {
    **{f"{model}_saved_percent": partial(saved, way=TAMARA, frequency=model, shift="interests") for model in MODELS},
    **{
        f"{model}_saved_percent_seeded": partial(saved, way=SEEDED, frequency=model, shift="interests")
        for model in MODELS
    },
    **{
        f"{model}_saved_percent_static": partial(saved, way=STATIC, frequency=model, shift="interests")
        for model in MODELS
    },
    **{
        f"{model}_saved_percent_k_means": partial(saved, way=K_MEANS, frequency=model, shift="interests")
        for model in MODELS
    },
    **{
        f"{model}_seeded_over_k_means": partial(ratio, way=SEEDED, other=K_MEANS, frequency=model, shift="interests")
        for model in MODELS
    },
    **{
        f"{model}_tamara_over_k_means": partial(ratio, way=TAMARA, other=K_MEANS, frequency=model, shift="interests")
        for model in MODELS
    },
    "average_saved_percent_printed_rates": partial(saved, way=TAMARA, frequency="printed", shift="interests"),
    "average_tamara_over_static": partial(ratio, way=TAMARA, other=STATIC, frequency="average", shift="interests"),
    "average_tamara_over_ten_means": partial(
        ratio, way=TAMARA, other=TEN_MEANS, frequency="average", shift="interests"
    ),
    "rates_tamara_over_static": partial(ratio, way=TAMARA, other=STATIC, shift="rates"),
    "rates_seeded_over_static": partial(ratio, way=SEEDED, other=STATIC, shift="rates"),
    "uniform_tamara_over_static": partial(ratio, way=TAMARA, other=STATIC, shift="uniform"),
    **{
        f"{model}_topic_search_beyond_planted": partial(
            beyond, way=SEARCH, other=PLANTED, frequency=model, shift="interests"
        )
        for model in MODELS
    },
    **{
        f"{model}_cost_with_effort_over_cost": partial(column, value="with_effort", frequency=model, shift="interests")
        for model in MODELS
    },
    **{
        f"{model}_seeded_cost_with_effort_over_cost": partial(
            column, value="with_effort", way=SEEDED, frequency=model, shift="interests"
        )
        for model in MODELS
    },
    **statistics(TAMARA, SEEDED, SEARCH, shift="interests"),
}


def figures(rows: Sequence[Row]) -> list[Figure]:
    drawn = [
        curves(rows, f"topics-shift-{model}", f"Interests shift, {model} events", frequency=model, shift="interests")
        for model in MODELS
    ]
    return [*drawn, curves(rows, "topics-shift-uniform", "Interests become uniform", shift="uniform")]


EXPERIMENT = Experiment(
    "topics-shift",
    "what clusters of topics save after all users have changed their interests, adapted, seeded and left as they were",
    cells,
    topic_cells.run,
    topic_cells.PAPER,
    "Table 3, Figs. 7(b) and 8",
    parameters={"noise": NOISE},
    measures=MEASURES,
    figures=figures,
)
