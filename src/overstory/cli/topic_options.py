"""overstory scenario make topics: its options."""

import argparse
from typing import Any

from overstory.cli.options import share, whole
from overstory.lab.topics import CURVES, MODELS, PERIODS, SHIFTS, Topics, make_topics

MOST_USERS, MOST_TOPICS = 10_000_000, 100_000
# What the workload can have: how it is read, and what it means
NUMBERS: dict[str, tuple[Any, str]] = {
    "users": (whole(1, MOST_USERS), "users"),
    "topics": (whole(1, MOST_TOPICS), "topics"),
    "natural_clusters": (whole(0, MOST_TOPICS), "natural clusters of topics; 0: interests are uniform"),
    "interests": (whole(1, MOST_TOPICS), "interests of a user, on average"),
    "intervals": (whole(1, 10**6), "maintenance intervals of six minutes in the log"),
    "noise": (share("a user's interests", with_one=True), "interests outside a user's natural clusters"),
}
CHOICES: dict[str, tuple[Any, str]] = {
    "frequency": (MODELS, "how often topics have events"),
    "period": (PERIODS, "in which users declare or change their interests"),
    "shift": (SHIFTS, "what changes in that time: interests to other natural clusters or to none, or rates"),
    "maintenance": (CURVES, "what it costs to keep a channel alive, by its subscribers"),
}


def add_topics(kind: argparse.ArgumentParser) -> None:
    usual = Topics()
    for name, (read, what) in NUMBERS.items():
        option, default = f"--{name.replace('_', '-')}", getattr(usual, name)
        kind.add_argument(option, type=read, default=default, metavar="N", help=f"{what} (default: %(default)s)")
    for name, (choices, what) in CHOICES.items():
        default = getattr(usual, name)
        kind.add_argument(f"--{name}", choices=tuple(choices), default=default, help=f"{what} (default: %(default)s)")
    kind.add_argument("--opposed", action="store_true", help="natural clusters come in pairs that nobody has both of")
    kind.add_argument("--no-changes", dest="changes", action="store_false", help="without the history of interests")


def make_topics_from(arguments: argparse.Namespace) -> list[str]:
    names = (*NUMBERS, *CHOICES, "opposed", "changes")
    make_topics(arguments.folder, Topics(**{name: getattr(arguments, name) for name in names}), arguments.seed)
    return []
