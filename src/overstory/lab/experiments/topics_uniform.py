"""Fig. 7(a) of Milo et al.: interests without any natural clusters."""

from collections.abc import Iterable
from functools import partial

from overstory.lab import topic_cells
from overstory.lab.experiment import Experiment, Parameters, Settings
from overstory.lab.topic_cells import K_MEANS, LITERALLY, SCRIBE, SEARCH, TAMARA, TCO, column, curves, ratio, seeds


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    size: Settings = {"users": 300, "topics": 60} if quick else {"users": 3000, "topics": 120}
    for seed in seeds(quick):
        yield {
            **size,
            "natural_clusters": 0,
            "frequency": "average",
            "period": "two-months",
            "seed": seed,
            "ways": "|".join((SCRIBE, LITERALLY, TAMARA, K_MEANS, SEARCH, TCO)),
        }


EXPERIMENT = Experiment(
    "topics-uniform",
    "what clusters of topics save where interests are uniform",
    cells,
    topic_cells.run,
    topic_cells.PAPER,
    "Fig. 7(a)",
    measures={
        "tamara_over_scribe": partial(ratio, way=TAMARA, other=SCRIBE),
        "tamara_with_effort_over_scribe": partial(column, value="over_scribe_with_effort"),
        "connected_overlay_over_scribe": partial(ratio, way=TCO, other=SCRIBE),
        "topic_search_over_scribe": partial(ratio, way=SEARCH, other=SCRIBE),
    },
    figures=lambda rows: [curves(rows, "topics-uniform", "Users with uniform interests join")],
)
