"""Clusters of topics on ten live brokers: what is measured is what the meter and replay say, and plain MQTT clients get
only what they asked for."""

from pathlib import Path

import pytest

from overstory.lab.live_topics import tried
from overstory.lab.topics import Topics

WHAT = Topics(users=30, topics=12, natural_clusters=2, interests=5, intervals=24, changes=False)


@pytest.mark.parametrize("planner", ["scribe", "topic-search"])
def test_measured_is_what_the_meter_says(planner: str, tmp_path: Path) -> None:
    found = tried(tmp_path, WHAT, brokers=10, publishers=5, seed=1, planner=planner)
    assert found.links_that_differ == 0
    assert found.frames == found.frames_predicted > 50
    assert found.bytes == found.bytes_predicted
    assert found.entries == found.entries_predicted > 0
    assert (found.missed, found.unasked) == (0, 0)
    assert (found.clusters > 0) == (planner == "topic-search")
