"""Every subject by name. To add one, write it in a file of its own kind and list it here."""

from benchmarks import bounds, broker, containment, filters, index, million, pipeline, replay, routing, scale, trees
from benchmarks.measure import Subject

SUBJECTS: dict[str, Subject] = {
    "parse": filters.parse,
    "evaluate": filters.evaluate,
    "covers": filters.covers,
    "covers-unions": filters.covers_unions,
    "like": filters.like,
    "match": index.match,
    "size": index.size,
    "change": index.change,
    "covering": index.covering,
    "containment": containment.graph,
    "spark-match": pipeline.match,
    "spark-score": pipeline.score,
    "bound": bounds.bound,
    "scale": scale.scale,
    "million": million.million,
    "trees": trees.quality,
    "trees-speed": trees.speed,
    "route-subscribe": routing.subscribe,
    "route-publish": routing.publish,
    "route-experiment": routing.experiment,
    "replay": replay.churn,
    "broker": broker.throughput,
    "broker-filters": broker.filters,
    "broker-tick": broker.tick,
    "broker-latency": broker.latency,
    "broker-memory": broker.memory,
}
