"""Twenty seeded schedules over a real cluster of NATS servers and a leaf node: interests shift, the coordinator is
killed and comes back, in every fourth a server is killed, and every event is followed. These are also run without the
layer, to tell what plain clients lose."""

from collections.abc import Iterable, Sequence

from overstory.lab.experiment import BySeed, Experiment, Parameters, Row, Settings
from overstory.lab.measuring import by_seed, where

SCHEDULES = 20
FULL: Settings = {"subscribers": 1000, "topics": 300, "publishers": 8, "rounds": 2, "pace": 20.0}
QUICK: Settings = {"subscribers": 24, "topics": 24, "publishers": 4, "rounds": 1, "pace": 60.0, "quiet": 1.0}


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    for seed in range(1, 3 if quick else SCHEDULES + 1):
        killed = seed == 2 if quick else seed % 4 == 0
        if quick:  # one of them is killed in each
            yield {**QUICK, "kill_coordinator": not killed, "kill_server": killed, "layer": True, "seed": seed}
            continue
        for layer in (True, False) if killed else (True,):
            yield {**FULL, "kill_server": killed, "layer": layer, "seed": seed}


def run(settings: Settings) -> list[Row]:
    from overstory.lab.nats_trial import Schedule, tried  # which needs nats-py

    found = tried(Schedule(**settings))  # type: ignore[arg-type]
    told = found._asdict()
    changes = {f"clusters_{what}": count for what, count in told.pop("changes").items()}
    wrong = "; ".join(told.pop("wrong"))
    return [settings | told | changes | {"wrong": wrong}]


def summed(rows: Sequence[Row], *columns: str, killed: bool) -> BySeed:
    mine = where(rows, kill_server=killed, layer=True)
    found = [by_seed(mine, column) for column in columns]
    return {seed: sum(each[seed] for each in found) for seed in found[0]}


def lost_percent(rows: Sequence[Row], lost: str, expected: str) -> BySeed:
    """Of all that was due in the schedules in which a server is killed."""
    mine = where(rows, kill_server=True, layer=True)
    gone, due = by_seed(mine, lost), by_seed(mine, expected)
    return {seed: 100 * gone[seed] / due[seed] for seed in gone if due[seed]}


EXPERIMENT = Experiment(
    "topics-nats",
    "interests shift over real NATS servers, the coordinator of clusters and servers are killed: 20 schedules",
    cells,
    run,
    measures={
        "wrong_while_servers_live": lambda rows: summed(rows, "lost", "doubled", "disordered", killed=False),
        "doubled_or_disordered_with_a_server_killed": lambda rows: summed(rows, "doubled", "disordered", killed=True),
        "lost_percent_with_a_server_killed": lambda rows: lost_percent(rows, "lost", "expected"),
        "lost_percent_by_plain_clients": lambda rows: lost_percent(rows, "plain_lost", "plain_expected"),
        "lost_with_a_server_killed": lambda rows: summed(rows, "lost", killed=True),
        "lost_though_no_outage_explains_it": lambda rows: summed(rows, "beyond", killed=True),
        "lost_without_the_layer": lambda rows: by_seed(where(rows, layer=False), "lost"),
    },
    alone=True,
    on_driver=True,
)
