"""What the registry says of the planners that attach clients: the fields of ``registry.Planner``, in its order."""

from typing import Any

from overstory.planners.overlay import baselines, clustering, exact, greedy_packing, mixing, partition, random_brokers
from overstory.planners.overlay import search as overlay_search
from overstory.planners.overlay.moves import ALL_MOVES
from overstory.planners.overlay.traffic import LOG
from overstory.planners.overlay.writing import CHEAPEST, SPANNING

PROBLEM = "overlay"
WRITES = ("attachments", "flows", "members", "trees")
ZHAO_WU = "Zhao and Wu, On the construction of the minimum cost content-based publish/subscribe overlays (2011)"
PAPERS: dict[str, Any] = {"channels": "auto", "traffic": LOG, "core": SPANNING}
OURS: dict[str, Any] = {"channels": "auto", "traffic": LOG, "core": CHEAPEST}

LISTED: tuple[tuple[Any, ...], ...] = (
    (
        "random",
        PROBLEM,
        "every client at a random broker; a spanning tree for each publishing broker and channel",
        "none: what the paper measures cost reduction against",
        "a draw for each client; then trees",
        "always; it looks at no price and no capacity",
        ZHAO_WU,
        WRITES,
        PAPERS,
        random_brokers.plan,
    ),
    (
        "greedy-packing",
        PROBLEM,
        "every client at the cheapest broker that has room; a spanning tree for each publishing broker and channel",
        "where core is free and capacities are loose, no attachment is cheaper; capacities hold where it finds room",
        "clients times the brokers that are full before one has room",
        "where core costs much and clients that want the same are near different brokers",
        f"Algorithm 1 of {ZHAO_WU}",
        WRITES,
        PAPERS | {"order": "demand"},
        greedy_packing.plan,
    ),
    (
        "two-stage-clustering",
        PROBLEM,
        "clients with much traffic between them at one broker, for the price of their links",
        "capacities hold where it finds room",
        "clients times brokers times channels",
        "nearly always: it pays for access what it saves in core, and does not look at where brokers are",
        f"Algorithm 2 of {ZHAO_WU}, corrected",
        WRITES,
        PAPERS | {"reading": "largest"},
        clustering.plan,
    ),
    (
        "steiner-mixing",
        PROBLEM,
        "Steiner trees of all publishers and channels, from which every client draws a broker by their traffic",
        "capacities hold where it finds room",
        "channels times brokers that publish times clients times brokers",
        "where access prices obey the triangle inequality: every tree then attaches all clients to its publisher's "
        "broker",
        f"Algorithm 3 and the three phases of {ZHAO_WU}",
        WRITES,
        PAPERS,
        mixing.plan,
    ),
    (
        "overlay-search",
        PROBLEM,
        "the best of several starts, improved by annealing, relocations, swaps and compound moves with exact "
        "differences; each event on its own Steiner tree, or all on one spanning tree where nearly all of 256 brokers "
        "or more want every event. With moves=K only the K moves that save most are made; with effort=K annealing "
        "works K times as long",
        "by its own estimate at most as dear as greedy packing, and no single relocation saves anything (unless moves "
        "are limited); capacities hold where a start keeps them",
        "20 seconds for 10,000 clients at 100 brokers",
        "where nearly every broker wants every channel: the core is then a constant, and nobody can gain",
        "ours; starts after Eisenbrand, Grandoni, Rothvoß and Schäfer (connected facility location)",
        WRITES,
        OURS | {"rounds": 8, "effort": 1, "moves": ALL_MOVES},
        overlay_search.plan,
    ),
    (
        "overlay-exact",
        PROBLEM,
        "the cheapest attachments and trees, proven, by branch and bound or CP-SAT; trees by SCIP",
        "optimal for its channels; with one broker within reach of each client its trees are optimal (SCIP)",
        "a second for 12 clients and 4 brokers; it takes up to 8 brokers and 64 clients",
        "where instances are not small: it refuses them",
        f"the integer programme of {ZHAO_WU}, corrected",
        WRITES,
        {"channels": "auto", "traffic": LOG, "solver": "branch"},
        exact.plan,
    ),
    (
        "overlay-lp",
        PROBLEM,
        "the linear relaxation, and a draw for each client by its fractions",
        "capacities hold where it finds room",
        "a linear programme of clients times ten brokers times their channels, up to 400,000 constraints",
        "where trees are long: a broker pays for a channel only the way to its nearest neighbour",
        f"the relaxation and rounding that {ZHAO_WU} names and leaves out",
        WRITES,
        OURS,
        baselines.planner(baselines.linear_programme),
    ),
    (
        "overlay-primal-dual",
        PROBLEM,
        "again and again the broker and the clients with the least price for each client",
        "capacities hold where it finds room",
        "brokers times clients for each star that is taken",
        "as overlay-lp; and it never takes back what it has decided",
        "Jain, Mahdian and Saberi (2002), whose analysis is by dual fitting; the paper names a primal-dual",
        WRITES,
        OURS,
        baselines.planner(baselines.primal_dual),
    ),
    (
        "overlay-partition",
        PROBLEM,
        "the hypergraph of interests mapped onto the network by Mt-KaHyPar, with its Steiner-tree objective",
        "capacities hold where it finds room",
        "seconds for 1,000 clients at 64 brokers; beyond 64 brokers it halves both first",
        "where access prices differ much from distances between brokers",
        "Heuer, Steiner-tree mapping of hypergraphs in Mt-KaHyPar (2024)",
        WRITES,
        OURS,
        partition.plan,
    ),
    (
        "overlay-facility",
        PROBLEM,
        "local search for facility location: brokers open and close, every client at the nearest open one with room",
        "no single broker that opens or closes saves anything, within 400 tries",
        "400 times packing all clients and adding up all trees",
        "where a broker should serve some channels and not others",
        "after Arya et al., Local search heuristics for k-median and facility location problems (2004)",
        WRITES,
        OURS,
        baselines.planner(baselines.facility_location),
    ),
    (
        "publisher-relocation",
        PROBLEM,
        "publishers move towards those who want what they publish; everybody else at the nearest broker",
        "no move makes it dearer, by its own estimate; capacities hold",
        "publishers times brokers times their channels",
        "where the core serves subscribers everywhere, as it does with broad interests",
        "Cheung and Jacobsen, Publisher relocation algorithms for minimizing delivery delay and message load (2013)",
        WRITES,
        OURS,
        baselines.planner(baselines.publisher_relocation),
    ),
)
