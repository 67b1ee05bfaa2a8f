"""Whether a running network should change its plan: section VI of Majumder et al., with the price of changing.

1. A decision depends on what it is given: a window's numbers, a proposal, the past and the operator's rules. It has no
   clock, no I/O and no memory of its own.
2. A plan is made only if the window has changed enough since the last planning (``look``), and is applied only if it
   saves more than a threshold of the present cost and pays for its change within a horizon (``judge``). Both are asked
   of the lower end of the saving's interval. A thin window has a wide interval, so that it takes a larger saving to
   convince; it is never refused for being thin.
3. No change comes sooner than a limit after the last one, within a maintenance window, against a pin, or with a client
   that goes back to a broker which it left a few windows ago. These are checked before the numbers are.
4. Late subscriptions find their flows as they come, without a new plan (``barred_from_placing``, ``place``): not in a
   maintenance window, not while an operator has paused the network, and into no flow with a pin.
5. Every decision says what was decided, why, and by which numbers; doing nothing is a decision.
"""

from collections.abc import Iterable, Sequence
from math import inf, isfinite
from typing import Annotated

import msgspec

DAY = 86_400.0  # seconds
KEEP, PLAN, APPLY, PLACE = "keep", "plan", "apply", "place"  # what can be decided

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Whole = Annotated[int, msgspec.Meta(ge=0)]


class Estimate(msgspec.Struct, frozen=True):
    """An amount that was estimated from a sample."""

    mean: float
    error: float = 0.0  # the standard error

    def least(self, confidence: float) -> float:
        """The lower end of the interval that reaches so many standard errors to either side."""
        return self.mean - confidence * self.error if self.error else self.mean

    def most(self, confidence: float) -> float:
        """The upper end of the same interval."""
        return self.mean + confidence * self.error if self.error else self.mean


class Closed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A maintenance window: times of day, in seconds since midnight UTC. One that ends before it begins goes on past
    midnight."""

    begin: float
    end: float

    def holds(self, time: float) -> bool:
        """Whether a time, in seconds since 1970, is within it."""
        now = time % DAY
        if self.begin <= self.end:
            return self.begin <= now < self.end
        return now >= self.begin or now < self.end


class Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an operator sets."""

    threshold: Share = 0.02  # the share of the present cost that a new plan has to save
    horizon: Annotated[float, msgspec.Meta(gt=0)] = 4.0  # windows within which the saving pays for the change
    rest: Whole = 2  # windows from one change to the next, at least
    drift: Share = 0.01  # the change of a window since the last planning below which no plan is made
    confidence: Annotated[float, msgspec.Meta(ge=0)] = 1.64  # standard errors that a saving is counted less
    returns: Whole = 10  # windows within which no client goes back to a broker that it left
    placing: Share = 0.1  # of a window, after which late subscriptions are looked for; 0: only when it ends
    closed: tuple[Closed, ...] = ()  # maintenance windows, in which nothing is changed
    pinned_clients: frozenset[int] = frozenset()  # those that stay where they are
    pinned_flows: frozenset[int] = frozenset()  # numbers of flows whose trees and members stay as they are
    price_of_message: Annotated[float, msgspec.Meta(ge=0)] = 0.0  # of an entry that a change sends over a link
    price_of_move: Annotated[float, msgspec.Meta(ge=0)] = 0.0  # of moving a client with its session


class Window(msgspec.Struct, frozen=True):
    """What is known of the recent window under the present plan."""

    number: int  # windows are counted from 0
    time: float  # when it ended, in seconds since 1970
    events: int  # of the sample
    present: Estimate  # what the whole window costs under the present plan
    drift: float = 0.0  # how much has changed since the last planning: see ``drift_of``
    over_bound: float | None = None  # the core's cost over what no plan with these attachments undercuts


class Move(msgspec.Struct, frozen=True):
    """A client that goes, or went, from one broker to another."""

    client: int
    source: int
    target: int


class Proposal(msgspec.Struct, frozen=True):
    """A plan that might replace the present one, with what it would do to the recent window."""

    plan: str  # its name or fingerprint
    saving: Estimate  # of the whole window, on events that its planner did not see
    price: float  # of the change itself
    moves: tuple[Move, ...] = ()
    changed_flows: frozenset[int] = frozenset()  # numbers of present flows that it does not keep as they are


class Placing(msgspec.Struct, frozen=True):
    """What was found for late subscriptions."""

    late: int  # how many there are
    moved: int  # how many have a flow where they save what their move costs
    added: float  # to the cost of the window's sample
    price: float  # of one such move


class Change(msgspec.Struct, frozen=True):
    """A plan that was applied, and when."""

    window: int
    plan: str
    moves: tuple[Move, ...] = ()


class Past(msgspec.Struct, frozen=True):
    """What was done before, the latest change last."""

    changes: tuple[Change, ...] = ()

    def after(self, change: Change, keep: int) -> "Past":
        """The past with one more change; those of more than ``keep`` windows ago are forgotten, but for the last."""
        recent = tuple(one for one in self.changes if one.window + keep >= change.window)
        return Past((*recent, change))

    def last(self) -> int | None:
        """The window of the last change."""
        return self.changes[-1].window if self.changes else None


class Decision(msgspec.Struct, frozen=True):
    """What was decided, and why. ``numbers`` are those that the reason compares."""

    window: int
    time: float
    action: str
    reason: str
    numbers: dict[str, float] = {}
    plan: str = ""

    def told(self) -> str:
        """The decision as a sentence."""
        words = {KEEP: "keep the plan", PLAN: "make a plan", APPLY: f"apply {self.plan}", PLACE: "place subscriptions"}
        what = words.get(self.action, f"{self.plan} is {self.action}")
        return f"window {self.window}: {what}, since {self.reason}"


def drift_of(churn: float, ratio: float | None, then: float | None) -> float:
    """How much a window has changed since the last planning: the share of subscriptions that came or went, or by how
    much the ratio of cost and bound has grown, whichever is more."""
    grown = 0.0 if not ratio or not then else ratio / then - 1.0
    return max(churn, grown, 0.0)


def look(window: Window, past: Past, rules: Rules) -> Decision:
    """Whether to make a plan now."""
    numbers = {"cost": window.present.mean, "error": window.present.error, "drift": window.drift}
    if window.over_bound is not None:
        numbers["over_bound"] = window.over_bound
    barred = _barred_now(window, past, rules)
    if barred is not None:
        return Decision(window.number, window.time, KEEP, barred, numbers)
    if window.drift < rules.drift:
        reason = f"the window has changed by {window.drift:.1%}, less than {rules.drift:.1%}"
        return Decision(window.number, window.time, KEEP, reason, numbers)
    reason = f"the window has changed by {window.drift:.1%}"
    return Decision(window.number, window.time, PLAN, reason, numbers)


def judge(window: Window, proposal: Proposal, past: Past, rules: Rules) -> Decision:
    """Whether to apply a plan now."""
    present, saving = window.present.mean, proposal.saving.least(rules.confidence)
    share = saving / present if present > 0 else 0.0
    windows = proposal.price / saving if saving > 0 else inf  # until the change is paid back
    numbers = {
        "cost": present,
        "saving": proposal.saving.mean,
        "saving_error": proposal.saving.error,
        "saving_least": saving,
        "share_least": share,
        "price": proposal.price,
        "windows_to_pay": windows,
        "events": float(window.events),
        "moves": float(len(proposal.moves)),
    }

    def decided(action: str, reason: str) -> Decision:
        told = {name: value for name, value in numbers.items() if isfinite(value)}  # JSON has no others
        return Decision(window.number, window.time, action, reason, told, proposal.plan)

    against = _barred_now(window, past, rules) or _barred_plan(window, proposal, past, rules)
    if against is not None:
        return decided(KEEP, against)
    found = f"{proposal.plan} saves {share:.1%} at least"
    if share <= rules.threshold:
        return decided(KEEP, f"{found}, and {rules.threshold:.1%} is asked for")
    if saving * rules.horizon <= proposal.price:
        took = f"its change is paid back after {windows:.1f} windows"
        return decided(KEEP, f"{found}, but {took}, and {rules.horizon:g} are allowed")
    return decided(APPLY, f"{found} and is paid back after {windows:.1f} windows")


def barred_from_placing(time: float, is_paused: bool, rules: Rules) -> str | None:
    """Why no late subscription may be placed now; None if they may be."""
    if is_paused:
        return "an operator has paused the network"
    return "it is a maintenance window" if _is_closed(time, rules) else None


def place(window: int, time: float, found: Placing, barred: str | None = None) -> Decision:
    """Whether to move late subscriptions to the flows that were found for them."""
    moved = 0 if barred else found.moved
    numbers = {"late": float(found.late), "placed": float(moved), "added": found.added, "price": moved * found.price}
    if barred:
        return Decision(window, time, KEEP, barred, numbers)
    if not moved:
        reason = f"{found.late} late subscriptions save too little elsewhere to pay for their moves"
        return Decision(window, time, KEEP, reason, numbers)
    return Decision(window, time, PLACE, f"{moved} late subscriptions have flows where they cost least", numbers)


def returning(moves: Iterable[Move], past: Past, window: int, rules: Rules) -> frozenset[int]:
    """The clients that would go back to a broker which they left too few windows ago."""
    left = {
        (move.client, move.source)
        for change in past.changes
        if window < change.window + rules.returns
        for move in change.moves
    }
    return frozenset(move.client for move in moves if (move.client, move.target) in left)


def staying(moves: Sequence[Move], past: Past, window: int, rules: Rules) -> frozenset[int]:
    """The clients that a plan must leave where they are: those with a pin, and those that would go back too soon."""
    pinned = frozenset(move.client for move in moves if move.client in rules.pinned_clients)
    return pinned | returning(moves, past, window, rules)


def _is_closed(time: float, rules: Rules) -> bool:
    return any(closed.holds(time) for closed in rules.closed)


def _barred_now(window: Window, past: Past, rules: Rules) -> str | None:
    """Why nothing may be changed now, whatever the plan is."""
    if _is_closed(window.time, rules):
        return "it is a maintenance window"
    last = past.last()
    if last is not None and window.number - last < rules.rest:
        return f"the last change was {window.number - last} windows ago, and {rules.rest} have to pass"
    return None


def _barred_plan(window: Window, proposal: Proposal, past: Past, rules: Rules) -> str | None:
    """Why this plan may not be applied, whatever it saves."""
    pinned = sorted({move.client for move in proposal.moves} & rules.pinned_clients)
    if pinned:
        return f"{proposal.plan} moves client {pinned[0]}, which is pinned"
    flows = sorted(proposal.changed_flows & rules.pinned_flows)
    if flows:
        return f"{proposal.plan} changes flow {flows[0]}, which is pinned"
    back = sorted(returning(proposal.moves, past, window.number, rules))
    if back:
        return f"{proposal.plan} moves client {back[0]} back to a broker that it left within {rules.returns} windows"
    return None
