"""A user's own files, by the commands that a user types: nested JSON lines with missing and odd values, a GraphML
network with prices and delays, fifty filters in a text."""

import json
import random
from pathlib import Path

import networkx as nx
import pytest

from .test_scenario import assert_fails, overstory

SITES = ["oslo", "bern", "rome", "paris", "london", "berlin", "madrid", "vienna"]
IMPORT = "scenario import made --events log.jsonl --topology net.graphml --subscriptions filters.txt".split()
ROLES = "--publisher site --time ts --bytes size".split()


def write_log(path: Path, dice: random.Random, events: int) -> None:
    with path.open("w") as file:
        for number in range(events):
            event = {
                "ts": 1_700_000_000_000 + number * 500,
                "site": dice.choice(SITES),
                "device": {"fw": f"v{number % 4}", "radio": {"rssi": -dice.randint(30, 90)}},
                "status": dice.choice(["ok", "ok", "fail", "warn"]),
                "size": dice.randint(50, 500),
                "temp": "n/a" if number % 100 == 37 else round(dice.gauss(20, 8), 1),
                "tags": dice.sample("abcd", 2),
            }
            if number % 20 == 3:
                del event["status"]
            file.write(json.dumps(event) + "\n")


def write_network(path: Path, dice: random.Random) -> None:
    graph = nx.cycle_graph(len(SITES))
    graph.add_edges_from([(0, 3), (2, 6)])
    nx.set_node_attributes(graph, dict(enumerate(SITES)), "label")
    for one, other in graph.edges:
        graph.edges[one, other].update(price=float(dice.randint(1, 9)), delay=dice.random() * 10)
    nx.write_graphml(graph, path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place, dice = tmp_path_factory.mktemp("own"), random.Random(4)
    write_log(place / "log.jsonl", dice, 2000)
    write_network(place / "net.graphml", dice)
    filters = [f"temp > {20 + number % 20} AND device.fw = 'v{number % 4}'" for number in range(46)]
    wrong = ["oslo: stauts = 'fail'", "rome: temp > 'thirty'", "bern: size > 100", "paris: status = fail"]
    (place / "filters.txt").write_text("# what is wanted\n\n" + "\n".join([*filters, *wrong]) + "\n")
    return place


def test_a_log_of_the_users_own(folder: Path) -> None:
    assert_fails(overstory(folder, *IMPORT, *ROLES), 64, "line 1: 'device' is an object", "--flatten")
    refused = overstory(folder, *IMPORT, *ROLES, "--flatten")
    assert_fails(refused, 1, "20 of 2,000 events", "'n/a' (20, first on line 38)", "--bad-values null", "--type temp=")
    made = overstory(folder, *IMPORT, *ROLES, "--flatten", "--bad-values", "null", "--json")
    assert made.code == 0, made.err
    found = made.json()
    assert found["attached"] == {"by name": 8, "by chance": 46}
    (temp,) = [about for about in found["attributes"] if about["name"] == "temp"]
    assert (temp["type"], temp["absent"], temp["odd"], temp["odd_values"][0]["place"]) == ("double", 20, 20, "line 38")
    assert any("'ts' is the time, in milliseconds by the size" in note for note in found["notes"])
    wanted = ["near to it: status", "'thirty', which is a string", "--bytes took the column", "status = 'fail'"]
    assert [words in warning for words, warning in zip(wanted, found["warnings"], strict=True)] == [True] * 4
    shown = overstory(folder, "scenario", "show", "made", "--json").json()
    assert shown["warnings"] == found["warnings"]
    assert shown["histogram"]["none"] == 4
    assert sum(publisher["events"] for publisher in shown["events_per_publisher"]) == 2000
    assert {publisher["name"] for publisher in shown["events_per_publisher"]} == set(SITES)
    assert sum(broker["clients"] for broker in shown["clients_per_broker"]) == 54
    compared = overstory(folder, "compare", "made", "--planners", "spt", "--json")
    assert compared.code == 0, compared.err
    assert compared.json()["warnings"] == found["warnings"]
    assert compared.json()["plans"][0]["cost"] > 0


def test_a_log_that_nobody_wants_is_said(folder: Path) -> None:
    (folder / "nobody.txt").write_text("stauts = 'fail'\n")
    arguments = [*"scenario import idle --events log.jsonl --topology net.graphml".split(), "--columns", "status,n"]
    assert_fails(overstory(folder, *arguments), 64, "has no column 'n'")
    arguments[-1] = "status"
    made = overstory(folder, *arguments, "--subscriptions", "nobody.txt")
    assert made.code == 0, made.err
    for words in ("nobody wants any of the 2,000 events", "no event has 'stauts'; near to it: status"):
        assert words in made.out
        assert words in overstory(folder, "scenario", "show", "idle").out
    assert "nobody wants any of the 2,000 events" in overstory(folder, "compare", "idle", "--planners", "spt").out
