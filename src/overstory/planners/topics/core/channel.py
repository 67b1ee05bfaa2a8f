"""What the channels of topics and of clusters share: subscribers, a lock, surveys, and reasons to reconsider."""

from collections import deque
from collections.abc import Generator, Iterable
from typing import Any, NamedTuple

from overstory.planners.topics.core import formulas
from overstory.planners.topics.core.figures import TopicFigures
from overstory.planners.topics.core.formulas import Draws, Tables
from overstory.planners.topics.core.messages import USER, Address, Answer, Ask, Lock, Unlock
from overstory.planners.topics.replaying import Rules

Machine = Generator[Any, Any, Any]  # sends envelopes, is given what they are answered with


class Reason(NamedTuple):
    """Why a channel may reconsider, once the request that is the reason has been served."""

    role: str
    number: int
    reason: int
    topic: int
    figures: TopicFigures | None = None  # of that topic, where someone told them


class World(NamedTuple):
    """What all entities go by: costs, rules, a source of chance, and the reasons that wait."""

    costs: Tables
    rules: Rules
    draws: Draws
    reasons: deque[Reason]
    updates: dict[str, int]  # made so far, by kind

    def tossed(self, threshold: float) -> bool:
        return self.draws.uniform() < formulas.coin(self.rules.phi, threshold)


class Members:
    """Subscribers in a list where the last takes the place of one that leaves, as in the kernel."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.place: dict[int, int] = {}

    def add(self, user: int) -> None:
        self.place[user] = len(self.rows)
        self.rows.append(user)

    def remove(self, user: int) -> None:
        at, last = self.place.pop(user), self.rows.pop()
        if last != user:
            self.rows[at] = last
            self.place[last] = at

    def __len__(self) -> int:
        return len(self.rows)

    def __contains__(self, user: int) -> bool:
        return user in self.place


class Channel:
    """An entity with subscribers. An update begins only while it has the channel's own lock."""

    role = ""

    def __init__(self, number: int, world: World) -> None:
        self.number, self.world = number, world
        self.address = Address(self.role, number)
        self.members = Members()
        self.locked_by: Address | None = None

    def lock(self, asking: Address) -> bool:
        """Whether the lock is granted: to one at a time, so that no two updates change the same channel together."""
        if self.locked_by not in (None, asking):
            return False
        self.locked_by = asking
        return True

    def on_unlock(self, message: Unlock) -> None:
        if self.locked_by == message.asking:
            self.locked_by = None

    def remember(self, reason: int, topic: int, figures: TopicFigures | None = None) -> None:
        self.world.reasons.append(Reason(self.role, self.number, reason, topic, figures))

    def survey(self, asked: Ask) -> Machine:
        """Asks all subscribers, or some, each drawn by itself. Ends with a list of their answers."""
        people, draws = self.members.rows, self.world.draws
        count = formulas.answers(self.world.rules.sampled, len(people))
        chosen = list(people)
        if count < len(people):
            chosen = [people[int(draws.uniform() * len(people))] for _ in range(count)]
        found: list[Answer] = []
        for user in chosen:
            answer = yield USER, user, asked
            found.append(answer)
        return found

    def locking(self, other: Address, lock: Lock) -> Machine:
        """Locks itself and another channel. Ends with the other's answer, None where either is taken."""
        if not self.lock(self.address):
            return None
        answer = yield *other, lock
        if answer.granted:
            return answer
        self.on_unlock(Unlock(self.address))
        yield *other, Unlock(self.address)
        return None

    def unlocking(self, others: Iterable[Address]) -> Machine:
        self.on_unlock(Unlock(self.address))
        for other in others:
            yield *other, Unlock(self.address)


def most(numbers: Iterable[int]) -> tuple[int, int] | None:
    """The number that comes most often, of equals the lowest, and how often it does."""
    counts: dict[int, int] = {}
    for number in numbers:
        counts[number] = counts.get(number, 0) + 1
    if not counts:
        return None
    best = min(counts, key=lambda number: (-counts[number], number))
    return best, counts[best]
