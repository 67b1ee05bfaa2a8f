"""Users who install software packages, and want to hear of their updates: interests that follow dependencies.

The paper's logs of a Debian mirror are not public. Here a user chooses some packages, the popular ones more often, from
a few sections of its own, and installs them with all that they depend on. Packages and dependencies are those of Debian
12, from a folder with its index, or are drawn. Watches of repositories on GitHub (a folder of its own) are interests as
they are. How often a package is updated follows a heavy-tailed law, once in fifty days on average.
"""

import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from overstory.errors import UsageError
from overstory.planners.topics.demand import Demand

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
DRAWN, DEBIAN, WATCHES = "drawn", "debian", "watches"
FOLDERS = {DEBIAN: "debian_packages", WATCHES: "github_watches"}
UPDATES_A_DAY = 0.02
CHOSEN, SECTIONS, MOST_DEPTH = 6, 3, 3
DAY = 24.0  # hours


class Index:
    """Packages with their sections, and what each depends on, by number."""

    def __init__(self, sections: Sequence[str], depends: Mapping[int, Sequence[int]]) -> None:
        self.depends = depends
        names = sorted(set(sections))
        number = {name: at for at, name in enumerate(names)}
        self.section = np.array([number[each] for each in sections], np.int64)

    def installed(self, package: int) -> set[int]:
        """The package and all that it depends on, a few steps far."""
        found, ahead = {package}, {package}
        for _ in range(MOST_DEPTH):
            ahead = {other for each in ahead for other in self.depends.get(each, ())} - found
            found |= ahead
        return found


def debian_index(folder: Path) -> Index:
    """Of the files ``packages.tsv.gz`` and ``depends.tsv.gz``; of alternatives the first that exists counts."""
    rows = _rows(folder / "packages.tsv.gz")
    number = {row[0]: at for at, row in enumerate(rows)}
    depends: dict[int, list[int]] = {}
    for row in _rows(folder / "depends.tsv.gz"):
        if row[0] in number and row[1] in number:
            depends.setdefault(number[row[0]], []).append(number[row[1]])
    return Index([row[2] for row in rows], depends)


def _rows(path: Path) -> list[list[str]]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            return [line.rstrip("\n").split("\t") for line in file]
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}; give the folder with the data") from None


def drawn_index(packages: int, draw: np.random.Generator) -> Index:
    """Later packages depend on some earlier ones, the popular ones more often."""
    depends = {}
    for package in range(1, packages):
        count = int(draw.poisson(3))
        depends[package] = sorted({int(package * draw.random() ** 3) for _ in range(count)})
    return Index([f"s{each}" for each in draw.integers(12, size=packages)], depends)


def draw_packages(index: Index, users: int, draw: np.random.Generator) -> list[set[int]]:
    """What each user has installed."""
    rank = draw.permutation(len(index.section))
    weight = 1.0 / (1 + rank) ** 0.8
    sections = int(index.section.max()) + 1
    by_section = [np.flatnonzero(index.section == each) for each in range(sections)]
    of_section = np.array([weight[each].sum() for each in by_section])
    found = []
    for _ in range(users):
        own = draw.choice(sections, min(SECTIONS, sections), replace=False, p=of_section / of_section.sum())
        mine = np.concatenate([by_section[each] for each in own])
        share = weight[mine] / weight[mine].sum()
        chosen = draw.choice(mine, min(1 + int(draw.poisson(CHOSEN)), len(mine)), replace=False, p=share)
        found.append(set().union(*(index.installed(int(each)) for each in chosen)))
    return found


def watched(folder: Path, users: int) -> list[set[int]]:
    """What the users with most watches watch."""
    interests: dict[int, set[int]] = {}
    try:
        for name in ("data.medium.gz", "data.mediumlarge.gz"):
            with gzip.open(folder / name, "rt") as file:
                for line in file:
                    user, _, repository = line.strip().partition(":")
                    interests.setdefault(int(user), set()).add(int(repository))
    except OSError as error:
        raise UsageError(f"cannot read {folder}: {error.strerror or error}; give the folder with the data") from None
    most = sorted(interests, key=lambda user: (-len(interests[user]), user))[:users]
    return [interests[user] for user in most]


def package_demand(source: str, folder: str, users: int, most: int, hours: float, seed: int) -> Demand:
    """The interests of so many users in at most so many packages, those that most have; rates for intervals of so many
    hours."""
    draw = np.random.default_rng([seed, 77])
    if source == WATCHES:
        wanted = watched(Path(folder) / FOLDERS[WATCHES], users)
    else:
        index = debian_index(Path(folder) / FOLDERS[DEBIAN]) if source == DEBIAN else drawn_index(most, draw)
        wanted = draw_packages(index, users, draw)
    user = np.repeat(np.arange(len(wanted)), [len(each) for each in wanted])
    package = np.array([each for row in wanted for each in sorted(row)], np.int64)
    known, package, counts = np.unique(package, return_inverse=True, return_counts=True)
    kept = np.sort(np.argsort(-counts, kind="stable")[:most])
    number = np.full(len(known), -1)
    number[kept] = np.arange(len(kept))
    inside = number[package] >= 0
    user, topic = user[inside], number[package[inside]]
    order = np.lexsort((topic, user))
    rates = draw.lognormal(-0.72, 1.2, len(kept)) * UPDATES_A_DAY * hours / DAY  # with a mean of about 1 before scaling
    offsets = np.searchsorted(user[order], np.arange(len(wanted) + 1))
    return Demand(offsets, topic[order].astype(np.int32), rates)
