"""A tree for each topic, as Scribe and its like have it."""

from overstory.planners.topics.clustering import Clustering, alone
from overstory.planners.topics.demand import Asked
from overstory.planners.topics.planning import Parameters, planner_by


def find(asked: Asked, parameters: Parameters, seed: int) -> Clustering:
    return alone(asked.demand)


plan = planner_by(find, "scribe")
