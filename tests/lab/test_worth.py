"""Is it worth it? On one small network, and on logs as their publishers pack them."""

import csv
import gzip
import json
import lzma
import tarfile
from pathlib import Path

import pytest

from overstory.errors import DataError, UsageError
from overstory.lab.aws_regions import CENTS, write_links
from overstory.lab.experiment import Parameters
from overstory.lab.experiments.worth import NETWORKS, WAYS, cases, figures, totals
from overstory.lab.real_logs import LOGS, spread, write_log
from overstory.lab.running import run_experiment
from overstory.lab.topologies import topology

from .engines import Here


def test_a_small_network_is_planned_in_every_way(tmp_path: Path) -> None:
    given: Parameters = {"data": str(tmp_path), "events": 200, "networks": 1}
    rows = run_experiment("worth", given, tmp_path / "store", Here()).rows
    row = rows[0]
    assert (row["network"], row["workload"], row["brokers"], row["links"]) == ("zoo:Abilene", "localized", 11, 14)
    assert all(float(row[way] or 0) >= 1 for way in WAYS)
    assert [totals(rows)[f"mean_{way}"] for way in WAYS] == [row[way] for way in WAYS]
    by_payload = {line.label: line.y[0] for line in figures(rows)[-1].lines}
    assert by_payload["200 bytes"] == pytest.approx(float(row["with_headers"] or 0))
    assert by_payload["20 bytes"] > by_payload["200 bytes"] > by_payload["20,000 bytes"] > float(row["steered"] or 0)
    skipped = str(totals(rows)["skipped_for_want_of_data"])
    assert skipped.split(", ") == [str(case) for case in cases(0)]


def test_there_are_twenty_networks_from_small_to_large() -> None:
    brokers = [topology(name).brokers for name in NETWORKS]
    assert len(set(NETWORKS)) == 20
    assert brokers == sorted(brokers)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        run_experiment("worth", {"data": str(tmp_path / "none")}, tmp_path, Here())


def test_who_sends_pays(tmp_path: Path) -> None:
    rows = [["from\\to", *CENTS], *([source, *["10"] * len(CENTS)] for source in CENTS)]
    latencies = tmp_path / "latencies.csv"
    latencies.write_text("".join(f"{','.join(row)}\n" for row in rows))
    with write_links(latencies, tmp_path / "links.csv").open() as file:
        links = {(row["source"], row["target"]): (row["price"], row["delay"]) for row in csv.DictReader(file)}
    assert len(links) == 21 * 20
    assert links["sa-east-1", "us-east-1"] == ("13.8", "5.0")
    assert links["us-east-1", "sa-east-1"] == ("2.0", "5.0")
    assert links["us-east-1", "us-east-2"] == ("1.0", "5.0")
    latencies.write_text("from\\to,here\nhere,1\n")
    with pytest.raises(DataError, match="af-south-1"):
        write_links(latencies, tmp_path / "links.csv")


def test_events_are_taken_from_all_over_a_log() -> None:
    assert list(spread(range(10), 3)) == [0, 3, 6]
    assert list(spread(range(3), 10)) == [0, 1, 2]
    assert list(spread([], 10)) == []


def test_logs_become_json_lines(tmp_path: Path) -> None:
    for log in LOGS.values():
        (tmp_path / log.file).parent.mkdir()
    with gzip.open(tmp_path / LOGS["wikiticker"].file, "wt") as file:
        file.write('{"channel": "#de", "user": "ö", "cityName": null, "delta": 3, "comment": "?"}\n')
    (tmp_path / "IBM").write_text("[class,'STOCK'],[symbol,'IBM'],[open,2.5],[volume,7],[date,'1-Dec-04']\n")
    with tarfile.open(tmp_path / LOGS["stockquotes"].file, "w:xz") as archive:
        archive.add(tmp_path / "IBM", "quotes/IBM")
    with lzma.open(tmp_path / LOGS["flights"].file, "wt") as file:
        file.write("month,hour,dep_delay,carrier,origin,dest,distance,tailnum\n1,5,NA,UA,EWR,IAH,1400,N1\n")
    with gzip.open(tmp_path / LOGS["watches"].file, "wt") as file:
        file.write("4:7\n5:8\n")
    with gzip.open(tmp_path / "github_watches" / "lang.txt.gz", "wt") as file:
        file.write("7:Ruby;10,C;2\n")
    read = {
        name: [
            json.loads(line)
            for line in write_log(log, tmp_path, 10, tmp_path / f"{name}.jsonl").read_text().splitlines()
        ]
        for name, log in LOGS.items()
    }
    assert read == {
        "wikiticker": [{"channel": "#de", "user": "ö", "delta": 3}],
        "stockquotes": [{"symbol": "IBM", "open": 2.5, "volume": 7}],
        "flights": [{"carrier": "UA", "origin": "EWR", "dest": "IAH", "month": 1, "hour": 5, "distance": 1400}],
        "watches": [
            {"user": 4, "repository": 7, "languages": ["Ruby", "C"]},
            {"user": 5, "repository": 8, "languages": []},
        ],
    }
