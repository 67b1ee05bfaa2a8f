"""Clusters of topics on ten live brokers: measured traffic, upkeep and control are what the meter and replay say.

That plain clients get only what they asked for is held by ``broker/test_networks.py`` and ``broker/test_clusters.py``.
"""

from pathlib import Path

import pytest

from overstory.lab.live_topics import Pair, tried
from overstory.lab.topics import Topics

WHAT = Topics(users=30, topics=12, natural_clusters=2, interests=5, intervals=24, changes=False)


def is_equal(pair: Pair) -> bool:
    return pair.measured == pair.predicted > 0


@pytest.mark.parametrize("planner", ["scribe", "topic-search"])
def test_measured_is_what_the_meter_and_replay_say(planner: str, tmp_path: Path) -> None:
    """With a tree for each topic clients are plain; of clusters they take all."""
    clustered = planner == "topic-search"
    found = tried(tmp_path, WHAT, 10, 5, 1, planner, takes_clusters=clustered, changing=3)
    assert found.links_that_differ == 0
    assert is_equal(found.frames)
    assert found.frames.measured > 50
    assert is_equal(found.bytes)
    assert is_equal(found.entries_core)
    assert is_equal(found.entries_access)
    assert is_equal(found.upkeep)
    assert is_equal(found.control)
    assert found.control_links_that_differ == 0
    assert is_equal(found.entries_after)
    assert is_equal(found.access_copies)
    assert is_equal(found.access_bytes)
    assert found.missed == 0
    assert ((found.clusters > 0), (found.unasked > 0)) == (clustered, clustered)
