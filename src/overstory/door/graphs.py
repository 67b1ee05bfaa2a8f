"""Brokers and links with numbers on them, as tables, and as graphs of NetworkX and of rustworkx."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from overstory.errors import UsageError
from overstory.model.network import Ints, Network
from overstory.model.scenario import Scenario
from overstory.model.scorecard import Traffic

if TYPE_CHECKING:
    import rustworkx as rx


class Graph:
    """A network of brokers. ``nodes`` and ``edges`` are tables; nodes are known by their ids."""

    def __init__(self, nodes: pd.DataFrame, edges: pd.DataFrame, directed: bool) -> None:
        self.nodes, self.edges, self.directed = nodes, edges, directed

    def __len__(self) -> int:
        return len(self.edges)

    def __repr__(self) -> str:
        return f"<{len(self.nodes):,} brokers, {len(self.edges):,} {'directed ' if self.directed else ''}links>"

    def to_pandas(self) -> pd.DataFrame:
        """The links, one a row."""
        return self.edges.copy()

    def to_networkx(self) -> Any:
        """A ``networkx.DiGraph``, or a ``Graph`` where links have no direction, with the columns as attributes."""
        try:
            import networkx as nx
        except ImportError:
            raise UsageError("networkx is not installed; install it, or use to_rustworkx()") from None
        graph = nx.DiGraph() if self.directed else nx.Graph()
        graph.add_nodes_from((id_, known) for id_, known in zip(self.nodes.index, _known(self.nodes), strict=True))
        ends = zip(self.edges["source"], self.edges["target"], strict=True)
        graph.add_edges_from((*pair, rest) for pair, rest in zip(ends, self._tolls(), strict=True))
        return graph

    def to_rustworkx(self) -> "rx.PyGraph[Any, Any] | rx.PyDiGraph[Any, Any]":
        """A ``rustworkx.PyDiGraph``, or a ``PyGraph`` where links have no direction. Payloads are dictionaries; that of
        a broker has its ``id``."""
        import rustworkx as rx

        graph = rx.PyDiGraph() if self.directed else rx.PyGraph()
        ids = self.nodes.index.tolist()
        rows = zip(ids, _known(self.nodes), strict=True)
        at = dict(zip(ids, graph.add_nodes_from([{"id": id_, **known} for id_, known in rows]), strict=True))
        ends = zip(self.edges["source"].map(at), self.edges["target"].map(at), strict=True)
        graph.add_edges_from([(*pair, rest) for pair, rest in zip(ends, self._tolls(), strict=True)])
        return graph

    def _tolls(self) -> list[dict[str, Any]]:
        return list(self.edges.drop(columns=["source", "target"]).to_dict("records"))


def _known(nodes: pd.DataFrame) -> list[dict[str, Any]]:
    """Attributes of nodes, without those that are absent."""
    return [{str(name): value for name, value in row.items() if not pd.isna(value)} for row in nodes.to_dict("records")]


def nodes_of(scenario: Scenario) -> pd.DataFrame:
    """The brokers with their names and places, by id."""
    brokers = scenario.brokers.select(["id", "name", "x", "y"]).to_pandas().set_index("id")
    return brokers.sort_index()


def network_of(scenario: Scenario) -> Graph:
    """All directed links between brokers."""
    return Graph(nodes_of(scenario), _links(scenario.network), directed=True)


def traffic_of(scenario: Scenario, traffic: Traffic) -> Graph:
    """The same with what crosses each link, and what that costs."""
    network, links = scenario.network, _links(scenario.network)
    carried = {"frames": traffic.frames, "bytes": traffic.bytes}
    cost = traffic.bytes * network.prices * scenario.settings.prices.core
    return Graph(nodes_of(scenario), links.assign(**carried, cost=cost), directed=True)


def tree_of(scenario: Scenario, sources: Ints, targets: Ints) -> Graph:
    """A tree, given by the ids of both ends of its links; the price of a link is that of the direction given."""
    network = scenario.network
    brokers = np.unique(np.concatenate([sources, targets]))
    links = network.link_between(network.positions(sources), network.positions(targets))
    edges = pd.DataFrame({"source": sources, "target": targets, "price": network.prices[links]})
    return Graph(nodes_of(scenario).loc[brokers], edges, directed=False)


def _links(network: Network) -> pd.DataFrame:
    ends = {"source": network.ids[network.sources], "target": network.ids[network.targets]}
    return pd.DataFrame({**ends, "price": network.prices, "delay": network.delays})
