"""The planners of subscriber assignment, for the registry: name, what, promise, time, where it does badly, paper,
parameters, function."""

from collections.abc import Callable
from typing import Any, NamedTuple

from overstory.model.plan import Value
from overstory.planners.assignment import baselines, blind, greedy, search, slp
from overstory.planners.assignment.filter_assign import USUAL

PAPER = "Yu, Agarwal and Yang"
WRITES = ("attachments", "flows", "members", "trees", "filters")
BOXES: dict[str, Value] = {"boxes": "auto", "last_hop": 0.0}
KNOBS: dict[str, Value] = {name: getattr(USUAL, name) for name in USUAL._fields if name != "in_time"}
NESTED = "filters of at most so many boxes, each within one of its parent's"


class Listed(NamedTuple):
    name: str
    summary: str
    guarantee: str
    time: str
    fails: str
    paper: str
    parameters: dict[str, Value]
    plan: Callable[..., Any]


LISTED = (
    Listed(
        "gr",
        "each subscriber, as it comes, to the broker in time whose filters it enlarges least",
        f"everyone in time; {NESTED}; loads only if it happens to find room for all",
        "a second for 100,000 subscribers and 100 brokers",
        "loads: those who come late find full brokers, and are then assigned regardless",
        f"online greedy (Gr) of {PAPER}; evict=next and later are its variants that make room",
        {**BOXES, "evict": "none"},
        greedy.plan_gr,
    ),
    Listed(
        "gr-star",
        "as gr, but always one of the subscribers with the fewest brokers left",
        f"everyone in time; {NESTED}; with residual=true within the largest load if any assignment is",
        "a second for 100,000 subscribers and 100 brokers",
        "broad interests: every broker ends up with some; without residual it may fail where latency is tight",
        f"offline greedy (Gr*) of {PAPER}; the residual check is ours",
        {**BOXES, "residual": False},
        greedy.plan_gr_star,
    ),
    Listed(
        "gr-no-latency",
        "as gr, without looking at delays",
        NESTED,
        "that of gr",
        "delays: its plan exceeds them, and shows what they cost",
        f"Gr without latency of {PAPER}",
        dict(BOXES),
        greedy.plan_gr_no_latency,
    ),
    Listed(
        "closest",
        "each subscriber to the closest broker that is not full",
        f"no load beyond the largest; {NESTED}",
        "a distance for each pair of a subscriber and a broker",
        "bandwidth: it does not look at what subscribers want, and late ones may be served from afar",
        f"Closest of {PAPER}",
        dict(BOXES),
        blind.plan_closest,
    ),
    Listed(
        "closest-unbalanced",
        "each subscriber to the closest broker, however full",
        f"the shortest last hop of all; {NESTED}",
        "that of closest",
        "bandwidth and loads",
        f"Closest without load balance of {PAPER}, after Aguilera et al. (1999)",
        dict(BOXES),
        blind.plan_closest_unbalanced,
    ),
    Listed(
        "balance",
        "everyone in time, with the least load of the fullest broker",
        f"no assignment in time has a smaller load factor; {NESTED}",
        "a maximum flow over classes of subscribers with the same brokers",
        "bandwidth: it does not look at what subscribers want",
        f"Balance of {PAPER}",
        dict(BOXES),
        blind.plan_balance,
    ),
    Listed(
        "slp1",
        "filters by linear programming on a sample with randomised rounding, subscribers by maximum flow",
        f"everyone in time, within the largest load if any assignment is; {NESTED}",
        "some dozens of linear programmes of tens of thousands of columns: about a minute, by number of brokers",
        "few boxes: rounding leaves filters of many that are then joined; several levels",
        f"SLP1 of {PAPER}, reconstructed where only their report has details",
        {**BOXES, **KNOBS},
        slp.plan_slp1,
    ),
    Listed(
        "slp",
        "slp1 from the root down: at each broker, among its children",
        f"everyone in time, within the largest load if any assignment is; {NESTED}",
        "that of slp1 for each broker that is no leaf",
        "where slp1 does; with one level the two are the same",
        f"SLP of {PAPER}; slp1 on a tree of several levels is the bottom-up variant they compare it with",
        {**BOXES, **KNOBS, "in_time": USUAL.in_time},
        slp.plan_slp,
    ),
    *(
        Listed(
            name,
            summary,
            f"everyone in time, within the largest load if any assignment is; {NESTED}",
            "seconds for 100,000 subscribers and 100 brokers",
            "interests of unlike width: middles say little of them",
            paper,
            dict(BOXES),
            plan,
        )
        for name, summary, paper, plan in (
            (
                "assignment-k-means",
                "a centre in event space for each broker by k-means, and everyone to the nearest in time with room",
                "a baseline: Lloyd's k-means",
                baselines.plan_k_means,
            ),
            (
                "assignment-packing",
                "event space packed into a tile for each broker, and everyone to the nearest in time with room",
                "a baseline: sort-tile-recursive packing of R-trees (Leutenegger et al., 1997)",
                baselines.plan_packing,
            ),
            (
                "assignment-forgy",
                "a typical rectangle for each broker, and everyone to the one that wastes least, over and over",
                "a baseline: Forgy's method on interests (Riabov et al., 2002)",
                baselines.plan_forgy,
            ),
            (
                "assignment-hypergraph",
                "interests as a hypergraph in a part for each broker, and everyone to its part in time with room",
                "a baseline: hypergraph partitioning by connectivity (Mt-KaHyPar)",
                baselines.plan_hypergraph,
            ),
        )
    ),
    Listed(
        "assignment-search",
        "large-neighbourhood search from a start that leaves a place for everyone: some are taken out and put back "
        "where they cost least",
        f"everyone in time, within the load that is wanted if any assignment is, else the least possible; {NESTED}; at "
        "most as dear as gr-star with residual=true, on events that it sees",
        "about ten seconds for 100,000 subscribers, three times as long for ten times as many; effort scales it",
        "where subscribers have hardly any choice: it then finds what gr-star finds",
        "ours; ruin and recreate after Schrimpf et al. (2000)",
        {**BOXES, "effort": search.EFFORT},
        search.plan,
    ),
)
