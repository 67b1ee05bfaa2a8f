"""Clusters of topics, read back from a plan: flows with associations, and the clients that have a share of each."""

import numpy as np

from overstory.model.plan import Plan
from overstory.model.scenario import Scenario
from overstory.planners.topics.clustering import Clustering, of_sets
from overstory.planners.topics.demand import Asked
from overstory.planners.topics.static_clusters import topics_of


def clustering_in(scenario: Scenario, plan: Plan, asked: Asked) -> Clustering:
    """The clusters of a plan of topics, in the order of its flows. Clients that are sent a cluster of which nothing is
    theirs are among its subscribers."""
    number = {name: at for at, name in enumerate(asked.interests.names)}
    flows, texts, topics = (plan.flows[name].to_pylist() for name in ("flow", "events", "associations"))
    chosen = [(flow, text) for flow, text, count in zip(flows, texts, topics, strict=True) if count]
    clusters = [[number[name] for name in topics_of(text) if name in number] for _, text in chosen]
    cluster_of = {flow: at for at, (flow, _) in enumerate(chosen)}
    ids = scenario.subscriptions["id"].to_numpy()
    order = np.argsort(ids)
    members = plan.members["subscription"].to_numpy()
    users = asked.user_of[order[np.searchsorted(ids[order], members)]]
    held: list[set[int]] = [set() for _ in range(asked.demand.users)]
    for flow, user in zip(plan.members["flow"].to_pylist(), users.tolist(), strict=True):
        if flow in cluster_of:
            held[user].add(cluster_of[flow])
    clients = np.unique(scenario.subscriptions["client"].to_numpy())
    known = {client: user for user, client in enumerate(clients.tolist())}
    for flow, target in zip(plan.filters["flow"].to_pylist(), plan.filters["target"].to_pylist(), strict=True):
        if flow in cluster_of and target in known:
            held[known[target]].add(cluster_of[flow])
    return of_sets(clusters, held)
