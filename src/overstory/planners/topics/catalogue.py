"""The planners of topics, with what each does, promises and costs: what the registry lists of this problem."""

from typing import Any

from overstory.planners.topics import (
    co_clusters,
    k_means,
    leiden,
    scribe,
    static_clusters,
    tamara,
    topic_search,
)

WRITES = ("flows", "members", "trees", "filters")
PAPER = "Milo, Zur and Verbin, Boosting topic-based publish-subscribe systems with dynamic clustering (SIGMOD 2007)"
# name, summary, guarantee, time, when it does badly, paper, tables, parameters, function
TOPIC_PLANNERS: tuple[tuple[Any, ...], ...] = (
    (
        "scribe",
        "a tree for each topic",
        "nobody gets an event that it does not want; what clusters save is measured against it",
        "sorting the interests",
        "where users want many topics with few events: each is a tree to keep alive",
        "Castro et al., SCRIBE (2002); the baseline of Milo et al.",
        WRITES,
        {},
        scribe.plan,
    ),
    (
        "static-clusters",
        "the clusters of the base plan, among which users choose anew",
        "at most as dear as no clusters, for each user",
        "a greedy cover of each user",
        "after interests have shifted; without a base there are no clusters",
        f"SC of {PAPER}",
        WRITES,
        {},
        static_clusters.plan,
    ),
    (
        "topics-k-means",
        "disjoint clusters of topics by k-means over users, for the number of clusters that costs least",
        "none; users choose among the clusters, so no user pays more than without",
        "a decomposition of the topics' common interests: seconds for some thousand topics",
        "where clusters should overlap, and where topics with very unlike rates are wanted together",
        f"the comparison of {PAPER}",
        WRITES,
        {"clusters": "auto"},
        k_means.plan,
    ),
    (
        "topics-leiden",
        "disjoint clusters of topics: communities of the graph of common interests",
        "every community is connected; users choose among the clusters",
        "seconds for some thousand topics",
        "where topics k-means does",
        "Traag, Waltman and van Eck, From Louvain to Leiden (2019)",
        WRITES,
        {},
        leiden.plan,
    ),
    (
        "topics-co-clusters",
        "disjoint clusters of topics by spectral co-clustering of users and topics",
        "none; users choose among the clusters",
        "a decomposition of the topics' common interests",
        "where topics k-means does",
        "Dhillon, Co-clustering documents and words (2001)",
        WRITES,
        {},
        co_clusters.plan,
    ),
    (
        "tamara-literal",
        "Tamara as printed: local updates of clusters as users declare their interests, replayed",
        "every interest is covered at any time; with surveys=everyone no update raises the cost",
        "half a second for 75,000 changes",
        "early clusters stay, and users never reconsider what they are subscribed to",
        PAPER,
        WRITES,
        {"surveys": 384},
        tamara.plan_literal,
    ),
    (
        "tamara",
        "Tamara, where a user whose interests change also chooses its clusters anew; with seeded=true begun with the "
        "clusters of topic-search and corrected by it",
        "that of tamara-literal",
        "three seconds for 75,000 changes",
        "where changes come in a burst: each costs messages",
        f"{PAPER}; re-covering is ours",
        WRITES,
        {"surveys": 384, "seeded": False},
        tamara.plan,
    ),
    (
        "topic-search",
        "clusters merged on the true cost, then improved one by one, overlapping where that saves, until nothing does",
        "at most as dear as no clusters; no single step of its kinds makes the plan cheaper, where users times topics "
        "are at most 60,000,000",
        "seconds for 3,000 users and 120 topics; minutes for a million users and 10,000 topics, whose clusters are "
        "disjoint",
        "where costs are far from linear: merging takes them for straight lines",
        "ours; its updates after Milo et al.",
        WRITES,
        {"partners": 24},
        topic_search.plan,
    ),
)
