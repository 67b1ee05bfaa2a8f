"""The registry of planners: what each is called, does, promises and costs. Commands and documents read it."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import pyarrow as pa

from overstory.errors import UsageError
from overstory.model.naming import near_words
from overstory.model.plan import Value
from overstory.model.scenario import Scenario
from overstory.planners.assignment import listing as assignment_listing
from overstory.planners.overlay import nearest
from overstory.planners.overlay.listed import LISTED as OVERLAY_PLANNERS
from overstory.planners.references import REFERENCES
from overstory.planners.steps import Steps
from overstory.planners.topics.catalogue import TOPIC_PLANNERS
from overstory.planners.trees import (
    covering_cyclic,
    direct,
    flood,
    geo_mult,
    hybrid,
    medym,
    mst,
    mult,
    mult2,
    semcast,
    single,
    spt,
    steered,
    tree_search,
)
from overstory.planners.trees.demand import MOST_ROWS

Parameters = Mapping[str, Value]
AUTO = "auto"  # the value of a number that the planner chooses
EXACT = steered.EXACT  # the value of a number of boxes that is as large as it has to be
Tables = dict[str, pa.Table]


class Planner(NamedTuple):
    name: str
    problem: str  # that it solves: one of PROBLEMS
    summary: str
    guarantee: str
    time: str
    fails: str  # when it does badly
    paper: str
    writes: tuple[str, ...]  # the tables that it decides on; the others come from the base, or are the defaults
    parameters: dict[str, Value]  # and their defaults
    plan: Callable[[Scenario, Steps, Tables, Parameters, int], Tables]  # its tables, from those of the base


PROBLEMS = {  # with what they ask, and the planner to begin with
    "trees": ("which subscriptions travel together, and along which tree", "tree-search"),
    "overlay": ("at which broker each client is attached, and how brokers are joined", "overlay-search"),
    "assignment": ("which broker serves each of very many subscribers, within delays and loads", "assignment-search"),
    "topics": ("which topics share a tree, so that keeping trees alive costs little", "topic-search"),
}
TREES, OVERLAY, ASSIGNMENT, TOPICS = PROBLEMS


PLANNERS = {
    planner.name: planner
    for planner in (
        Planner(
            "flood",
            TREES,
            "every event to every broker, along a minimum spanning tree",
            "what filtering between brokers saves is measured against it: no link asks who wants what",
            "sorting the links",
            "where few brokers want an event",
            "the baseline of Majumder et al. without content",
            ("flows", "members", "trees", "filters"),
            {},
            flood.plan,
        ),
        Planner(
            "direct",
            TREES,
            "a copy along the cheapest path to each broker that has a subscriber, as one steered flow for each",
            "every path is a cheapest one; with coalesce = false it is one copy per broker (unicast), "
            "else copies share the beginnings of their ways",
            "sorting the subscriptions; the meter finds the cheapest paths from all brokers that publish",
            "where an event goes to many brokers that are far from its publisher and near to each other",
            "the baseline of Majumder et al. that sends each event along shortest paths",
            ("flows", "members", "trees"),
            {},
            direct.plan,
        ),
        Planner(
            "spt",
            TREES,
            "one flow on a tree of cheapest paths from one broker",
            "the cheapest path between the root and every broker",
            "one search for cheapest paths",
            "where traffic does not pass near the root",
            "the baseline SPT of Majumder et al.; events are filtered on every link",
            ("flows", "members", "trees"),
            {"root": "centre"},
            spt.plan,
        ),
        Planner(
            "mst",
            TREES,
            "one flow on a minimum spanning tree",
            "no spanning tree has cheaper links in sum: the cheapest one to flood",
            "sorting the links",
            "where the links are equally cheap, since it then is any tree",
            "covering-based routing on one tree, as in Siena (Carzaniga, Rosenblum and Wolf, 2001): the entries of an "
            "exact flow are the filters on each link that no other covers. spt is the same on another tree",
            ("flows", "members", "trees"),
            {},
            mst.plan,
        ),
        Planner(
            "single",
            TREES,
            "one flow on a low-stretch tree of the union of all events' Steiner trees",
            "on the sample at most the stretch of that tree (after Alon, Karp, Peleg and West) times twice the least "
            "cost of any tree, with prices that are the same both ways",
            "a Steiner tree for each distinct event; the low-stretch trees take milliseconds",
            "where a tree of cheapest paths is as good; where the sample is small",
            "Algorithm 1 (SINGLE) of Majumder et al., with AKPW's low-stretch tree instead of Elkin et al.'s",
            ("flows", "members", "trees"),
            {"rows": MOST_ROWS, "trials": 16},
            single.plan,
        ),
        Planner(
            "mult",
            TREES,
            "filters merged by the likeness of their events, a low-stretch tree for each group, the cheapest grouping",
            "on the sample at most as dear as its own single tree, with one copy for each flow",
            "two trees for each filter; Steiner trees are made anew only for events that two merged groups share",
            "on events that it has not seen, if the sample is small; where interests are spread out it takes one tree",
            "Algorithm 3 (MULT, by Jaccard similarity) of Majumder et al., from filters instead of subscriptions",
            ("flows", "members", "trees"),
            {"rows": MOST_ROWS, "trials": 8, "trees": "auto"},
            mult.plan,
        ),
        Planner(
            "mult2",
            TREES,
            "filters merged while a common tree is cheaper, the pair that saves the largest share first",
            "it ends when no two groups that share events are cheaper on one tree, with one copy for each flow",
            "a tree for each pair of groups that share an event: ten seconds for 1,000 local filters at 2,000 brokers",
            "as mult does; and it is slow where many filters share events",
            "Algorithm 2 (MULT2, by cost) of Majumder et al., from filters instead of subscriptions",
            ("flows", "members", "trees"),
            {"rows": MOST_ROWS, "trials": 8, "trees": "auto"},
            mult2.plan,
        ),
        Planner(
            "hybrid",
            TREES,
            "filters merged by the likeness of their events down to some groups, then while a common tree is cheaper",
            "that of mult2, among the groups that it starts from",
            "that of mult2, for as many filters as there are groups",
            "where likeness misleads: groups are never divided again",
            "the hybrid of Algorithms 3 and 2 that Majumder et al. suggest",
            ("flows", "members", "trees"),
            {"rows": MOST_ROWS, "trials": 8, "groups": 400},
            hybrid.plan,
        ),
        Planner(
            "geo-mult",
            TREES,
            "groups by location: k medoids, and from each a tree of cheapest paths",
            "at most as dear as one tree from the best centre, on the part of the log that it chooses by",
            "cheapest paths between all brokers; then about a second for each doubling of k at 5,000 brokers",
            "where interests are not local: it then takes one tree; copies that could travel together are not foreseen",
            "after the k-medoids of subscription interests in later work than Majumder et al.",
            ("flows", "members", "trees"),
            {"groups": "auto", "by": "both"},
            geo_mult.plan,
        ),
        Planner(
            "semcast",
            TREES,
            "SemCast (reconstructed): channels that partition the events, each flooding a tree of its own",
            "traffic of the sample falls with every split of two channels",
            "a tree for every pair of filters that share events: a minute or two for 1,000 keywords at 5,000 brokers",
            "where many filters overlap: channels are as many as sets of filters that match together, up to 6,000,000 "
            "links of trees. Filters that do not constrain the same attributes, or do not by values, stay whole",
            "Papaemmanouil and Çetintemel, SemCast (ICDE 2005), as far as its outline and Majumder et al. tell",
            ("flows", "members", "trees", "filters"),
            {"channels": "auto"},
            semcast.plan,
        ),
        Planner(
            "semcast-filtered",
            TREES,
            "the channels and trees of semcast, with exact filters on every link",
            "at most as dear as semcast",
            "that of semcast",
            "where semcast does; the two are equal where no subscription covers another",
            "the variant with internal filtering of Majumder et al.",
            ("flows", "members", "trees"),
            {"channels": "auto"},
            semcast.plan_filtered,
        ),
        Planner(
            "tree-search",
            TREES,
            "the best of one tree, a tree for each filter and groups of filters, improved by moving filters between "
            "groups and by exchanging links, and of steering events (see steered)",
            "on the part of the log that it chooses by at most as dear as one tree and as steered; no exchange of two "
            "links makes a polished tree cheaper",
            "25 seconds for 1,000 filters, 10,000 events and 5,000 brokers; one tree takes half of it; with headers or "
            "upkeep the trials of steered beside",
            "where filters match unlike events at many brokers; trees are grouped by traffic alone, and upkeep is only "
            "priced when whole plans are compared",
            "ours; its parts after Majumder et al. and Takahashi and Matsuyama",
            ("flows", "members", "trees", "filters", "regions"),
            {"rows": MOST_ROWS, "trees": "auto", "by": "choose", "steered": True, "ordered": False},
            tree_search.plan,
        ),
        Planner(
            "steered",
            TREES,
            "each event on a Steiner tree of its own, which its frames carry; where headers or upkeep are priced, the "
            "cheapest mixture of steered filters or publishing brokers with one tree, or everything by regions",
            "on the events that it chooses by at most as dear as one tree, and as steering everything; trees are at "
            "most twice the least where prices are the same both ways",
            "10 seconds for one tree at 5,000 brokers, to compare with; with headers or upkeep up to 15 trials of some "
            "seconds each; with steer=all sorting the subscriptions, and with few boxes some hundredths of a second "
            "for each host whose filters do not fit",
            "payloads below some fifty bytes, events that most brokers want, subscriptions that change faster than "
            "events come, networks that are nearly trees; events of one publisher may overtake each other unless "
            "ordered=true; a summary of few boxes lets false positives through",
            "ours; steering after MEDYM, regions after H-MEDYM (Cao and Singh, 2005), BIER and Xcast, on trees after "
            "Takahashi and Matsuyama",
            ("flows", "members", "trees", "filters", "regions"),
            {
                "boxes": steered.EXACT,
                "ordered": False,
                "regions": AUTO,
                "slices": AUTO,
                "steer": steered.CHEAPEST,
                "rows": MOST_ROWS,
            },
            steered.plan,
        ),
        Planner(
            "medym",
            TREES,
            "each event along the cheapest paths to all brokers that want it, in one steered flow",
            "every path is a cheapest one, so no plan has shorter ways; copies share the beginnings of their ways",
            "none to plan; the meter finds the cheapest paths from all brokers that publish",
            "where an event goes to many brokers that are far from its publisher and near to each other; and where "
            "steered does",
            "MEDYM: Cao and Singh, MEDYM: match-early with dynamic multicast (Middleware 2005)",
            ("flows", "members", "trees"),
            {"ordered": False},
            medym.plan,
        ),
        Planner(
            "covering-cyclic",
            TREES,
            "covering-based routing on a cyclic overlay: a flow for each publishing broker, on its tree of cheapest "
            "paths",
            "the links that medym crosses, without headers",
            "cheapest paths from all brokers that publish; a row for each broker in each tree",
            "many publishing brokers: each has a tree and entries of its own, up to 12,000,000 links of trees",
            "Li, Muthusamy and Jacobsen, Adaptive content-based routing in general overlay topologies (2008)",
            ("flows", "members", "trees"),
            {},
            covering_cyclic.plan,
        ),
        Planner(
            "nearest",
            OVERLAY,
            "every client at the broker with the cheapest access; flows and trees are those of the base",
            "no attachment has cheaper links between clients and brokers",
            "a price for each pair of a client and a broker",
            "where clients that want the same are spread over many brokers, so that core costs more than access saves; "
            "it looks at no capacity and no load, but leaves out brokers whose share is 0",
            "the start of Zhao and Wu's heuristics",
            ("attachments",),
            {},
            nearest.plan,
        ),
        *map(Planner._make, OVERLAY_PLANNERS),
        *(Planner(name, TOPICS, *about) for name, *about in TOPIC_PLANNERS),
        *(
            Planner(
                each.name,
                ASSIGNMENT,
                each.summary,
                each.guarantee,
                each.time,
                each.fails,
                each.paper,
                assignment_listing.WRITES,
                each.parameters,
                each.plan,
            )
            for each in assignment_listing.LISTED
        ),
    )
}


OWN: dict[str, Planner] = {}  # planners of others, by name: see ``own``


def planner_named(name: str) -> Planner:
    if name in REFERENCES:
        raise UsageError(f"{name} makes no plan: {REFERENCES[name].why}; see it with 'overstory compare'")
    known = PLANNERS | OWN
    if name not in known:
        near = near_words(name, known) or f"; there are {', '.join(known)}"
        raise UsageError(f"there is no planner '{name}'{near}")
    return known[name]


def planner_for(problem: str) -> str:
    """The planner to begin with."""
    if problem not in PROBLEMS:
        raise UsageError(f"there is no problem '{problem}'; there are {', '.join(PROBLEMS)}")
    return PROBLEMS[problem][1]
