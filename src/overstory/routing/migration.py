"""Migration of users between brokers, as a policy without I/O (Zhao and Wu, section V).

1. A broker looks at its users, the one with most traffic first, and proposes the move that lowers the cost most, if it
   lowers it by more than ``hysteresis`` of what the user costs now. It proposes one move at a time.
2. The user accepts or declines. Whoever has declined is not asked again for ``patience`` turns.
3. Before anything moves, the saving is looked up once more; a move that no longer saves enough is called off. So each
   move lowers the cost by at least a share of it, two brokers never swap users for ever, and without changes from
   outside migration ends.

Verbs are the paper's: a user *registers* its subscriptions at a broker, which *summarises* what it publishes; the home
broker *requests* a move, the user *accepts*, the home broker *replicates* what it knows of the user to the foreign one,
the user *connects* there, and the home broker *redirects* events for a time, until the foreign one is known everywhere.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

REQUEST, ACCEPT, DECLINE, REPLICATE, CONNECT, REDIRECT = (
    "request_to_move",
    "accept",
    "decline",
    "replicate",
    "connect",
    "redirect",
)


class Knowledge(Protocol):
    """What a broker knows, of its own users and of other brokers."""

    def users_of(self, broker: int) -> list[tuple[float, int]]:
        """The users of a broker with their traffic."""

    def savings(self, user: int) -> Mapping[int, float]:
        """By broker that the user knows and that has room: what moving there saves."""

    def cost_of(self, user: int) -> float:
        """What the user costs where it is."""


@dataclass(frozen=True)
class Message:
    """One step of a migration."""

    verb: str
    user: int
    home: int
    foreign: int
    saving: float = 0.0


@dataclass
class Migration:
    """The policy of one broker."""

    broker: int
    hysteresis: float = 0.01
    patience: int = 10
    most_looked_at: int = 8  # users for each proposal, the heaviest first
    turn: int = 0
    asked_at: dict[int, int] = field(default_factory=dict)  # by user: the turn of its last refusal, or of no saving

    def propose(self, knowledge: Knowledge) -> Message | None:
        """A move to ask a user for, or None if none saves enough."""
        self.turn += 1
        looked_at = 0
        for _, user in sorted(knowledge.users_of(self.broker), key=lambda each: (-each[0], each[1])):
            if self.turn - self.asked_at.get(user, -self.patience) < self.patience:
                continue
            if looked_at == self.most_looked_at:
                break
            looked_at += 1
            best = self.best_move(knowledge, user)
            if best is not None:
                return best
            self.asked_at[user] = self.turn
        return None

    def best_move(self, knowledge: Knowledge, user: int) -> Message | None:
        savings = {broker: saving for broker, saving in knowledge.savings(user).items() if broker != self.broker}
        if not savings:
            return None
        foreign = min(savings, key=lambda broker: (-savings[broker], broker))
        if savings[foreign] <= self.hysteresis * knowledge.cost_of(user) or savings[foreign] <= 0:
            return None
        return Message(REQUEST, user, self.broker, foreign, savings[foreign])

    def answered(self, request: Message, accepts: bool, knowledge: Knowledge) -> list[Message]:
        """What follows a user's answer. The move happens only if it still saves enough: others may have moved since."""
        user, home, foreign = request.user, request.home, request.foreign
        if not accepts:
            self.asked_at[user] = self.turn
            return [Message(DECLINE, user, home, foreign)]
        still = self.best_move(knowledge, user)
        if still is None:
            self.asked_at[user] = self.turn
            return []
        verbs = (ACCEPT, REPLICATE, CONNECT, REDIRECT)
        return [Message(verb, user, home, still.foreign, still.saving) for verb in verbs]


def migrate_once(
    brokers: list[Migration],
    knowledge: Knowledge,
    accepts: Callable[[Message], bool],
    connect: Callable[[Message], None],
) -> list[Message]:
    """One turn of brokers, in this order. ``connect`` moves a user; returns all messages."""
    sent: list[Message] = []
    for broker in brokers:
        request = broker.propose(knowledge)
        if request is None:
            continue
        answers = broker.answered(request, accepts(request), knowledge)
        sent += [request, *answers]
        for message in answers:
            if message.verb == CONNECT:
                connect(message)
    return sent
