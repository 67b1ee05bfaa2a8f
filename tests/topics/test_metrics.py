"""The coordinator's numbers and its timeline say what there is."""

import io
import json
import socket
import time
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from overstory.errors import BrokerError
from overstory.topics.metrics import Timeline, serve

from .test_coordination import World


def settled_world(folder: Path) -> World:
    """Six clients that want most topics, so that there are clusters."""
    world = World(1, folder / "journal.db")
    for _ in range(60):
        world.change()
    for _ in range(20):
        world.publish()
    world.settled()
    return world


def test_numbers_are_those_of_the_clients(tmp_path: Path) -> None:
    world = settled_world(tmp_path)
    told = world.coordination
    told.make_plain("t0", "somebody publishes it", world.now)
    world.settled()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    serve(told, port)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    found = {one.name: one.samples[0].value for one in text_string_to_metric_families(text) if one.samples}
    held = world.clients.values()
    clustered = [each.wants - told.plain.keys() for each in held]
    assert found["overstory_topics_clients"] == len(told.clients)
    assert found["overstory_topics_clusters"] == len(told.deciding.alive()) > 0
    assert found["overstory_topics_interests"] == sum(map(len, clustered))
    plain = sum(len(each.direct & told.plain.keys()) for each in held)
    assert (
        found["overstory_topics_subscriptions"] == sum(len(each.clusters) + len(each.direct) for each in held) - plain
    )
    assert found["overstory_topics_plain"] == 1
    assert found["overstory_topics_busy"] == len(world.publishers)  # which confirm nothing in this world
    assert found["overstory_topics_handovers"] == told.handovers > 0
    with pytest.raises(BrokerError, match="metrics cannot be served on port"):
        serve(told, port)
    world.journal.close()


def test_the_timeline_tells_each_change_once(tmp_path: Path) -> None:
    world = settled_world(tmp_path)
    told = world.coordination
    told.make_plain("t1", "somebody publishes it", time.monotonic())
    formed = [change for change in told.timeline if change.what == "formed"]
    out = io.StringIO()
    timeline = Timeline(told, out, as_json=True)
    timeline.write()
    timeline.write()
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["cluster"] for line in lines if line["what"] == "formed"] == [one.cluster for one in formed]
    assert [(line["topics"], line["why"]) for line in lines if line["what"] == "plain"] == [
        (["t1"], "somebody publishes it")
    ]
    told.timeline = formed[:1]
    told.make_plain("t2", "somebody publishes it", time.monotonic())
    words = io.StringIO()
    Timeline(told, words).write()
    one, other = words.getvalue().splitlines()
    assert f"cluster {formed[0].cluster} formed: {', '.join(formed[0].topics)}" in one
    assert "t2 is in no cluster from now on: somebody publishes it" in other
    world.journal.close()
