"""A planner of one's own: one tree around the broker with most subscriptions."""

import numpy as np
from scipy.sparse.csgraph import dijkstra

import overstory as ov
from overstory.planners.defaults import one_flow


@ov.planner("hub", guarantee="the cheapest path between the hub and every broker", fails="where publishers are far")
def hub(scenario, steps, tables, parameters, seed):
    """One tree of cheapest paths around the broker with most subscriptions."""
    network = scenario.network
    attached = tables["attachments"].to_pydict()
    broker_of = dict(zip(attached["client"], attached["broker"], strict=True))
    hosts = [broker_of[client] for client in scenario.subscriptions["client"].to_pylist()]
    busiest = np.bincount(network.positions(np.array(hosts)), minlength=len(network)).argmax()
    _, before = dijkstra(network.weighted(network.prices), indices=busiest, return_predecessors=True)
    reached = np.flatnonzero(before >= 0)
    return one_flow(scenario, before[reached], reached)
