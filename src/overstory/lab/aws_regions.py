"""The regions of a cloud as brokers: each can send to each, and who sends pays, by the prices of its own region."""

import csv
from pathlib import Path

from overstory.errors import DataError

LATENCIES = "latency_aws/aws_region_rtt_ms_21x21.csv"
# The list price in US cents of a GB to another region, as of writing. It depends on the region that sends, but for one
# pair, us-east-1 and us-east-2, which have 1 between them
CENTS = {
    "af-south-1": 14.7,
    "ap-east-1": 9.0,
    "ap-northeast-1": 9.0,
    "ap-northeast-2": 8.0,
    "ap-northeast-3": 9.0,
    "ap-south-1": 8.6,
    "ap-southeast-1": 9.0,
    "ap-southeast-2": 9.8,
    "ca-central-1": 2.0,
    "eu-central-1": 2.0,
    "eu-north-1": 2.0,
    "eu-south-1": 2.0,
    "eu-west-1": 2.0,
    "eu-west-2": 2.0,
    "eu-west-3": 2.0,
    "me-south-1": 11.05,
    "sa-east-1": 13.8,
    "us-east-1": 2.0,
    "us-east-2": 2.0,
    "us-west-1": 2.0,
    "us-west-2": 2.0,
}
NEAR, NEAR_CENTS = {"us-east-1", "us-east-2"}, 1.0


def write_links(latencies: Path, path: Path) -> Path:
    """A file of links, as an import reads it. ``latencies`` has round trips, and a delay is half of one."""
    with latencies.open(newline="") as file, path.open("w", newline="") as links:
        written = csv.writer(links)
        written.writerow(("source", "target", "price", "delay"))
        for row in csv.DictReader(file):
            source = row.pop("from\\to", "")
            if {source, *row} != CENTS.keys():
                raise DataError(f"{latencies}: a row and a column for each of {', '.join(CENTS)} are wanted")
            written.writerows(
                (source, target, _cents(source, target), float(rtt) / 2)
                for target, rtt in row.items()
                if target != source
            )
    return path


def _cents(source: str, target: str) -> float:
    return NEAR_CENTS if {source, target} == NEAR else CENTS[source]
