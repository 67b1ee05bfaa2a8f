"""Networks from files of the user: what links cost, in which direction, what they are called, and what is left out."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from overstory.errors import DataError
from overstory.lab.overlays import Overlay, overlay_of
from overstory.model.network import Network


def written(path: Path, graph: Any) -> str:
    nx.write_graphml(graph, path)
    return str(path)


def tolls(overlay: Overlay) -> dict[tuple[str, str], tuple[float, float]]:
    """Price and delay by the names of both ends."""
    names = dict(zip(overlay.brokers["id"].to_pylist(), overlay.brokers["name"].to_pylist(), strict=True))
    return {
        (names[row["source"]], names[row["target"]]): (row["price"], row["delay"]) for row in overlay.links.to_pylist()
    }


def ring(kind: Callable[[], Any] = nx.Graph, **attributes: Any) -> Any:
    graph = kind()
    for at, label in enumerate(("oslo", "rome", "bern")):
        graph.add_node(f"n{at}", label=label)
    for at in range(3):
        graph.add_edge(f"n{at}", f"n{(at + 1) % 3}", **{name: value + at for name, value in attributes.items()})
    return graph


def test_prices_and_delays_of_edges_are_read(tmp_path: Path) -> None:
    overlay = overlay_of(written(tmp_path / "net.graphml", ring(price=2.0, delay=7.5)), None, 0)
    assert tolls(overlay) == {
        ("oslo", "rome"): (2.0, 7.5),
        ("rome", "oslo"): (2.0, 7.5),
        ("rome", "bern"): (3.0, 8.5),
        ("bern", "rome"): (3.0, 8.5),
        ("bern", "oslo"): (4.0, 9.5),
        ("oslo", "bern"): (4.0, 9.5),
    }
    assert overlay.notes == ()


def test_a_weight_is_a_price_and_that_is_said(tmp_path: Path) -> None:
    overlay = overlay_of(written(tmp_path / "net.graphml", ring(weight=2, kind_of_cable=1)), None, 0)
    assert tolls(overlay)["oslo", "rome"] == (2.0, 1.0)
    assert overlay.notes == (
        "net.graphml: 'weight' is taken for the price of a byte",
        "net.graphml: not used of its edges: kind_of_cable",
    )
    both = overlay_of(written(tmp_path / "both.graphml", ring(weight=2, price=5.0)), None, 0)
    assert tolls(both)["oslo", "rome"] == (5.0, 1.0)
    assert both.notes == ("both.graphml: not used of its edges: weight",)
    none = overlay_of(written(tmp_path / "none.graphml", ring()), None, 0)
    assert none.notes == ("none.graphml has no prices: a byte costs 1 on every link",)


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["price", "weight", "delay"])
def test_tolls_are_numbers_from_zero_up(name: str, value: float, tmp_path: Path) -> None:
    graph = ring(nx.Graph, **{name: 1.0})
    graph.edges["n1", "n2"][name] = value
    path = written(tmp_path / "net.graphml", graph)
    with pytest.raises(
        DataError, match=rf"from rome to bern has the {name} .*; a {name} is a number from 0 up"
    ) as caught:
        overlay_of(path, None, 0)
    assert "\n" not in str(caught.value)


def test_text_is_no_price(tmp_path: Path) -> None:
    graph = ring()
    nx.set_edge_attributes(graph, "cheap", "price")
    with pytest.raises(DataError, match="has the price 'cheap'"):
        overlay_of(written(tmp_path / "net.graphml", graph), None, 0)


def test_a_directed_graph_has_prices_for_each_direction(tmp_path: Path) -> None:
    graph = ring(nx.DiGraph, price=1.0)
    for one, other in list(graph.edges):
        graph.add_edge(other, one, price=10.0)
    graph.add_edge("n0", "n0", price=1.0)
    overlay = overlay_of(written(tmp_path / "net.graphml", graph), None, 0)
    found = tolls(overlay)
    assert found["oslo", "rome"][0] == 1.0
    assert found["rome", "oslo"][0] == 10.0
    assert found["bern", "oslo"][0] == 3.0
    assert found["oslo", "bern"][0] == 10.0
    assert overlay.notes == ("net.graphml: 1 edges from a node to itself were left out",)


def test_one_way_links_carry_no_tree(tmp_path: Path) -> None:
    ways = written(tmp_path / "ring.graphml", ring(nx.DiGraph))
    with pytest.raises(
        DataError, match=r"is directed, .* without the 3 links that go one way only .* undirected"
    ) as caught:
        overlay_of(ways, None, 0)
    assert "\n" not in str(caught.value)
    graph = ring(nx.DiGraph, price=1.0)
    for one, other in (("n1", "n0"), ("n2", "n1")):
        graph.add_edge(one, other, price=1.0)
    overlay = overlay_of(written(tmp_path / "some.graphml", graph), None, 0)
    assert len(overlay.links) == 4
    assert "some.graphml: 1 links go one way only and were left out, as no tree can use them" in overlay.notes


def test_of_parallel_edges_the_cheapest_counts(tmp_path: Path) -> None:
    graph = ring(nx.MultiGraph, price=5.0)
    graph.add_edge("n1", "n0", price=2.0)
    graph.add_edge("n0", "n1", price=9.0)
    overlay = overlay_of(written(tmp_path / "net.graphml", graph), None, 0)
    assert tolls(overlay)["rome", "oslo"] == (2.0, 1.0)
    assert len(Network.of(overlay.brokers, overlay.links).targets) == 6
    assert "net.graphml: 2 edges are beside another between the same nodes; the cheapest counts" in overlay.notes


def test_ids_and_labels_are_names(tmp_path: Path) -> None:
    overlay = overlay_of(written(tmp_path / "net.graphml", ring()), None, 0)
    known = overlay.named()
    assert known == {"oslo": 0, "n0": 0, "rome": 1, "n1": 1, "bern": 2, "n2": 2}
    assert overlay.unknown("osol") == "there is no broker osol; near to it: oslo"


def test_a_label_of_two_nodes_is_no_name(tmp_path: Path) -> None:
    graph = ring()
    graph.nodes["n2"]["label"] = "oslo"
    overlay = overlay_of(written(tmp_path / "net.graphml", graph), None, 0)
    assert "oslo" not in overlay.named()
    assert overlay.unknown("oslo") == "several brokers are called 'oslo'; use their ids"


def test_a_list_of_links_has_weights(tmp_path: Path) -> None:
    path = tmp_path / "links.csv"
    path.write_text("source,target,weight,delay,colour\noslo,rome,2.5,7,red\nrome,bern,,8,blue\n")
    overlay = overlay_of(str(path), None, 0)
    assert tolls(overlay)["rome", "oslo"] == (2.5, 7.0)
    assert tolls(overlay)["bern", "rome"] == (1.0, 8.0)
    assert overlay.notes == (
        "links.csv: 'weight' is taken for the price of a byte",
        "links.csv: 1 links have no weight, and take 1",
        "links.csv: not used: colour",
    )
    path.write_text("source,target,price,weight\noslo,rome,2,9\n")
    overlay = overlay_of(str(path), None, 0)
    assert tolls(overlay)["oslo", "rome"] == (2.0, 1.0)
    assert overlay.notes == ("links.csv: not used: weight",)
    path.write_text("source,target,weight\noslo,rome,-2\n")
    with pytest.raises(DataError, match=r"row 1 column weight: -2\.0 is not a number from 0 up"):
        overlay_of(str(path), None, 0)
