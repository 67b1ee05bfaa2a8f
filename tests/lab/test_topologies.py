"""Networks are simple, connected, as large as asked, the same for the same seed, and like what they are named after."""

import tarfile
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from overstory.errors import DataError, UsageError
from overstory.lab.topologies import (
    GENERATORS,
    Shape,
    Topology,
    as_tables,
    graphml,
    random_regular,
    topohub_network,
    topology,
    transit_stub,
    waxman,
)
from overstory.lab.transit_stub_shape import GRID, shape_for, stub_sizes
from overstory.model.network import Network

ZOO = Path(__file__).parents[3] / "shared" / "data" / "topology_zoo" / "graphml.tar.gz"
SIZES = [*range(1, 41), 52, 99, 100, 101, 500, 997, 1952, 2000]


def graph_of(made: Topology) -> "nx.Graph[int]":
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(made.brokers))
    graph.add_edges_from(zip(made.sources.tolist(), made.targets.tolist(), strict=True))
    return graph


def assert_sound(made: Topology) -> None:
    graph = graph_of(made)
    assert nx.is_connected(graph)
    assert graph.number_of_edges() == len(made.sources)  # none twice
    assert (made.sources < made.targets).all()  # no loops
    for values in (made.names, made.x, made.y):
        assert values is None or len(values) == made.brokers
    for values in (made.prices, made.delays):
        assert values is None or len(values) == len(made.sources)


@pytest.mark.parametrize("name", GENERATORS)
def test_every_size_is_exact_and_connected(name: str) -> None:
    for brokers in SIZES:
        made = topology(name, brokers, seed=brokers)
        assert made.brokers == brokers
        assert_sound(made)


@pytest.mark.parametrize("name", GENERATORS)
def test_the_seed_decides(name: str) -> None:
    one, same, other = (topology(name, 100, seed) for seed in (1, 1, 2))
    assert as_tables(one) == as_tables(same)
    assert as_tables(one)["links"] != as_tables(other)["links"]


# Transit-stub


def test_shapes_of_the_grid_have_the_sizes_of_the_papers() -> None:
    assert {brokers: shape.brokers for brokers, shape in GRID.items()} == {500: 500, 1000: 1000, 2000: 1952, 5000: 5050}
    for brokers in range(50, 6000, 37):
        assert shape_for(brokers).brokers == pytest.approx(brokers, rel=0.1)


def test_stubs_make_up_for_what_the_shape_lacks() -> None:
    sizes = stub_sizes(2000, GRID[2000])
    assert sizes.sum() == 2000 - GRID[2000].core
    assert set(sizes.tolist()) == {10, 11}


def test_a_plain_transit_stub_network_hangs_together_by_domains() -> None:
    shape = Shape(4, 5, 7, 7)
    made = transit_stub(None, 3, shape, extra_transit_stub=0, extra_stub_stub=0)
    graph = graph_of(made)
    for domain in range(shape.domains):
        assert nx.is_connected(graph.subgraph(range(domain * 5, domain * 5 + 5)))
    for stub in range(shape.core * shape.stubs):
        nodes = set(range(shape.core + stub * 7, shape.core + stub * 7 + 7))
        assert nx.is_connected(graph.subgraph(nodes))
        outward = [other for node in nodes for other in graph[node] if other not in nodes]
        assert outward == [stub // shape.stubs]
    assert made.names is not None
    assert made.names[0] == "t0.0"
    assert made.names[-1] == "s3.4.6.6"


def test_links_within_domains_are_as_likely_as_asked() -> None:
    shape = Shape(1, 200, 1, 40)  # so large that drawing anew until connected does not matter
    made = transit_stub(None, 1, shape, extra_transit_stub=0, extra_stub_stub=0)
    graph = graph_of(made)
    assert nx.density(graph.subgraph(range(200))) == pytest.approx(0.6, abs=0.02)
    stubs = [nx.density(graph.subgraph(range(200 + at * 40, 240 + at * 40))) for at in range(200)]
    assert np.mean(stubs) == pytest.approx(0.42, abs=0.02)


def test_further_links_are_a_fifth_of_the_brokers_and_of_their_kind() -> None:
    plain = transit_stub(500, 1, extra_transit_stub=0, extra_stub_stub=0)
    rich = transit_stub(500, 1)
    core = GRID[500].core
    before, after = (
        np.bincount((made.sources < core).astype(int) + (made.targets < core), minlength=3) for made in (plain, rich)
    )
    assert (after - before).tolist() == [100, 100, 0]  # links with 0, 1 and 2 ends in the core
    assert rich.made_by["topology_extra_stub_stub"] == 100
    assert len(transit_stub(500, 1, extra_transit_stub=7, extra_stub_stub=11).sources) == len(plain.sources) + 18


def test_what_no_transit_stub_network_can_be() -> None:
    with pytest.raises(UsageError, match="give the number of brokers or the shape"):
        transit_stub(None, 1)
    with pytest.raises(UsageError, match="3 brokers do not fit"):
        transit_stub(3, 1, Shape(2, 5, 7, 7))
    with pytest.raises(UsageError, match="at least, not"):
        Shape(0, 5, 7, 7)
    with pytest.raises(UsageError, match="p_stub must be more than 0 and at most 1, not 0"):
        transit_stub(100, 1, p_stub=0)
    with pytest.raises(UsageError, match=r"hardly ever connected with a link probability of 0\.01; raise it"):
        transit_stub(500, 1, p_stub=0.01)
    with pytest.raises(UsageError, match="no room for 99 further links of a kind, but for"):
        transit_stub(5, 1, extra_stub_stub=99)
    with pytest.raises(UsageError, match="cannot be -1 further links"):
        transit_stub(5, 1, extra_stub_stub=-1)


def test_stubs_are_drawn_around_their_transit_nodes() -> None:
    made = transit_stub(500, 1)
    assert made.x is not None
    assert made.y is not None
    at = made.x + 1j * made.y
    assert np.abs(at[:10]) == pytest.approx(np.ones(10))
    stubs = at[10:].reshape(70, 7).mean(axis=1)
    nearest = np.abs(stubs[:, None] - at[None, :10]).argmin(axis=1)
    assert nearest.tolist() == np.repeat(np.arange(10), 7).tolist()


# Other random networks


def test_waxman_links_are_rarer_the_longer_they_are() -> None:
    made = waxman(600, 1, alpha=0.4, beta=0.1)
    assert made.x is not None
    assert made.y is not None
    at = np.stack((made.x, made.y))
    every = np.triu_indices(600, 1)
    of_all = np.hypot(*(at[:, every[0]] - at[:, every[1]]))
    of_links = np.hypot(*(at[:, made.sources] - at[:, made.targets]))
    for low, high in ((0.0, 0.1), (0.1, 0.2), (0.2, 0.4)):
        pairs = of_all[(of_all >= low) & (of_all < high)]
        linked = np.count_nonzero((of_links >= low) & (of_links < high))
        assert linked == pytest.approx((0.4 * np.exp(-pairs / (0.1 * 2**0.5))).sum(), rel=0.1)


def test_waxman_has_four_links_a_broker_whatever_the_size() -> None:
    for brokers in (200, 1500):
        assert 2 * len(waxman(brokers, 1).sources) / brokers == pytest.approx(4, abs=0.4)


@pytest.mark.parametrize(("brokers", "degree"), [(1, 0), (2, 1), (3, 2), (50, 2), (51, 4), (60, 5), (40, 30), (30, 29)])
def test_random_regular_networks_are_regular(brokers: int, degree: int) -> None:
    made = random_regular(brokers, degree, seed=5)
    assert_sound(made)
    assert {each for _, each in graph_of(made).degree} == {degree}


def test_random_regular_networks_are_all_equally_likely() -> None:
    """Of the 70 cubic networks on 6 named brokers, 10 are the complete bipartite one, and 60 the prism."""
    triangles = [sum(nx.triangles(graph_of(random_regular(6, 3, seed))).values()) // 3 for seed in range(700)]
    assert triangles.count(0) == pytest.approx(100, abs=40)
    assert triangles.count(2) == 700 - triangles.count(0)


@pytest.mark.parametrize(("brokers", "degree"), [(5, 3), (5, 5), (4, 1), (4, 0), (1, 2), (0, 0), (10, -2)])
def test_what_no_regular_network_can_be(brokers: int, degree: int) -> None:
    with pytest.raises(UsageError):
        random_regular(brokers, degree, seed=1)


# Known networks


def test_geant_is_what_topohub_says() -> None:
    made = topology("zoo:Geant2012")
    assert_sound(made)
    assert (made.brokers, len(made.sources)) == (37, 58)
    assert made.names is not None
    assert made.names[:2] == ["NL", "BE"]
    assert made.x is not None
    assert made.y is not None
    assert (made.x[0], made.y[0]) == (4.89, 52.37)
    assert made.prices is None
    assert made.delays is not None
    assert made.delays.mean() == pytest.approx(823.65 / 200, rel=1e-3)
    far = topohub_network("zoo:Geant2012", price_by="distance").prices
    assert far is not None
    assert far.tolist() == pytest.approx((made.delays * 200).tolist())


@pytest.mark.parametrize("name", ["topohub:topozoo/Abilene", "topohub:sndlib/polska", "topohub:backbone/africa"])
def test_other_networks_of_topohub(name: str) -> None:
    assert_sound(topology(name))


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("zoo:geant2102", "near to it are zoo:Geant20"),
        ("topohub:sndlib/poland", "near to it are topohub:sndlib/pol"),
        ("zoo:../../__init__", "; "),
        ("topohub:", "zoo:Geant2012 and topohub:sndlib/polska are examples"),
        ("transit-stubs", "did you mean 'transit-stub'?"),
        ("mesh", "use transit-stub, transit-stub-plain, waxman, random-regular, zoo:NAME"),
        ("nowhere.graphml", "give the path of a GraphML file"),
    ],
)
def test_unknown_names_get_one_line_of_advice(text: str, advice: str) -> None:
    with pytest.raises(UsageError) as error:
        topology(text, 10, 1)
    assert advice in str(error.value)
    assert "\n" not in str(error.value)


def test_a_known_network_has_the_brokers_that_it_has() -> None:
    assert topology("zoo:Geant2012", 37).brokers == 37
    with pytest.raises(UsageError, match="has 37 brokers, not 500; leave out the number"):
        topology("zoo:Geant2012", 500)


@pytest.mark.parametrize("name", GENERATORS)
def test_no_brokers_and_negative_seeds_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="at least 1 broker, not 0"):
        topology(name, 0)
    with pytest.raises(UsageError, match="seed must be 0 or more"):
        topology(name, 10, -1)


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not ZOO.exists():
        pytest.skip(f"the Topology Zoo is not at {ZOO}")
    folder = tmp_path_factory.mktemp("zoo")
    with tarfile.open(ZOO) as archive:
        archive.extractall(folder, filter="data")
    return folder / "graphml"


def test_every_network_of_the_zoo_is_read_as_networkx_reads_it_or_refused(zoo: Path) -> None:
    read, with_coordinates, refused = 0, 0, 0
    for path in sorted(zoo.glob("*.graphml")):
        try:
            made = graphml(path)
        except DataError as error:
            refused += 1
            assert "not connected" in str(error) or "cannot be read as GraphML: Invalid 'attr.type'" in str(error)
            continue
        assert_sound(made)
        wanted = nx.Graph(nx.read_graphml(path))
        wanted.remove_edges_from(list(nx.selfloop_edges(wanted)))
        assert (made.brokers, len(made.sources)) == (wanted.number_of_nodes(), wanted.number_of_edges())
        read += 1
        with_coordinates += made.x is not None
    assert (read, refused) == (252, 24)
    assert with_coordinates > 60


def test_a_file_of_the_zoo_by_its_path(zoo: Path) -> None:
    made = topology(str(zoo / "Geant2012.graphml"))
    assert made.brokers == 40
    assert made.made_by == {"topology": "Geant2012.graphml"}
    assert made.names is not None
    assert made.names[0] == "NL"
    with pytest.raises(DataError, match=r"Geant2011.graphml is not connected: it falls into \d+ parts of"):
        topology(str(zoo / "Geant2011.graphml"))


def test_broken_graphml_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "broken.graphml"
    for text in (
        "",
        "<graphml",
        "hello",
        "<graphml></graphml>",
        "<graphml><graph edgedefault='undirected'/></graphml>",
    ):
        path.write_text(text)
        with pytest.raises(DataError) as error:
            graphml(path)
        assert "\n" not in str(error.value)


# Tables


def test_tables_have_both_directions_and_defaults() -> None:
    made = random_regular(20, 4, seed=1)
    tables = as_tables(made)
    assert tables["brokers"]["id"].to_pylist() == list(range(20))
    assert tables["brokers"]["x"].null_count == 20
    network = Network.of(tables["brokers"], tables["links"])
    assert np.diff(network.offsets).tolist() == [4] * 20
    assert set(network.prices) == set(network.delays) == {1.0}
    assert not len(network.unreached())


def test_tables_keep_prices_and_delays_with_their_links() -> None:
    made = topohub_network("zoo:Abilene", price_by="distance")
    network = Network.of(*as_tables(made).values())
    for sources, targets in ((made.sources, made.targets), (made.targets, made.sources)):
        links = network.link_between(sources, targets)
        assert made.prices is not None
        assert network.prices[links].tolist() == made.prices.tolist()
        assert network.delays[links].tolist() == (made.prices / 200).tolist()
