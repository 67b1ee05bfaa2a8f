"""What decides: its laws, attacked by a generator."""

import itertools

import hypothesis.strategies as st
import msgspec
from hypothesis import given

from overstory.control.deciding import (
    APPLY,
    DAY,
    KEEP,
    PLACE,
    PLAN,
    Change,
    Closed,
    Decision,
    Estimate,
    Move,
    Past,
    Placing,
    Proposal,
    Rules,
    Window,
    barred_from_placing,
    drift_of,
    judge,
    look,
    place,
    returning,
    staying,
)

amounts = st.floats(0, 1e6)
numbers = st.integers(0, 30)
clients = st.integers(0, 5)
moves = st.builds(Move, clients, st.integers(100, 103), st.integers(100, 103))
estimates = st.builds(Estimate, st.floats(-1e6, 1e6), amounts)
windows = st.builds(
    Window,
    numbers,
    st.floats(0, 3 * DAY),
    st.integers(0, 10_000),
    st.builds(Estimate, amounts, amounts),
    st.floats(0, 1),
    st.none() | st.floats(1, 10),
)
proposals = st.builds(
    Proposal,
    st.just("planner"),
    estimates,
    amounts,
    st.lists(moves, max_size=3).map(tuple),
    st.frozensets(st.integers(0, 3), max_size=2),
)
pasts = st.lists(st.builds(Change, numbers, st.just("p"), st.lists(moves, max_size=3).map(tuple)), max_size=4).map(
    lambda changes: Past(tuple(sorted(changes, key=lambda change: change.window)))
)
rules = st.builds(
    Rules,
    threshold=st.floats(0, 0.5),
    horizon=st.floats(0.5, 50),
    rest=st.integers(0, 8),
    drift=st.floats(0, 0.5),
    confidence=st.floats(0, 3),
    returns=st.integers(0, 10),
    closed=st.lists(st.builds(Closed, st.floats(0, DAY), st.floats(0, DAY)), max_size=2).map(tuple),
    pinned_clients=st.frozensets(clients, max_size=2),
    pinned_flows=st.frozensets(st.integers(0, 3), max_size=2),
)


@given(windows, proposals, pasts, rules)
def test_what_is_applied_breaks_no_rule(window: Window, proposal: Proposal, past: Past, rules: Rules) -> None:
    decision = judge(window, proposal, past, rules)
    assert decision.action in (KEEP, APPLY)
    if decision.action != APPLY:
        return
    assert not {move.client for move in proposal.moves} & rules.pinned_clients
    assert not proposal.changed_flows & rules.pinned_flows
    assert not any(closed.holds(window.time) for closed in rules.closed)
    assert all(window.number - change.window >= rules.rest for change in past.changes[-1:])
    left = {
        (move.client, move.source)
        for change in past.changes
        if window.number - change.window < rules.returns
        for move in change.moves
    }
    assert not left & {(move.client, move.target) for move in proposal.moves}
    least = proposal.saving.mean - rules.confidence * proposal.saving.error
    assert least > rules.threshold * window.present.mean * (1 - 1e-9)
    assert least * rules.horizon > proposal.price


@given(windows, proposals, pasts, rules)
def test_every_decision_says_why_and_by_which_numbers(
    window: Window, proposal: Proposal, past: Past, rules: Rules
) -> None:
    for decision in (look(window, past, rules), judge(window, proposal, past, rules)):
        assert decision.reason
        assert decision.reason in decision.told()
        assert decision.numbers["cost"] == window.present.mean
        assert (decision.window, decision.time) == (window.number, window.time)


@given(windows, proposals, pasts, rules)
def test_a_decision_that_was_written_down_can_be_read(
    window: Window, proposal: Proposal, past: Past, rules: Rules
) -> None:
    for decision in (look(window, past, rules), judge(window, proposal, past, rules)):
        assert msgspec.json.decode(msgspec.json.encode(decision), type=Decision) == decision


@given(windows, pasts, rules)
def test_a_plan_is_made_only_when_it_may_be_applied_and_something_has_changed(
    window: Window, past: Past, rules: Rules
) -> None:
    if look(window, past, rules).action == PLAN:
        assert window.drift >= rules.drift
        best = Proposal("best", Estimate(2 * window.present.mean + 1), 0.0)
        if window.present.mean > 0:
            assert judge(window, best, past, rules).action == APPLY


@given(windows, proposals, pasts, rules, st.floats(0, 1))
def test_a_thinner_window_never_convinces_where_a_thicker_one_did_not(
    window: Window, proposal: Proposal, past: Past, rules: Rules, narrower: float
) -> None:
    """A wide interval makes it harder to apply a plan, and never impossible."""
    saving = proposal.saving
    thick = Proposal(
        proposal.plan,
        Estimate(saving.mean, saving.error * narrower),
        proposal.price,
        proposal.moves,
        proposal.changed_flows,
    )
    if judge(window, proposal, past, rules).action == APPLY:
        assert judge(window, thick, past, rules).action == APPLY


@given(st.lists(moves, max_size=5), pasts, numbers, rules)
def test_a_plan_without_those_who_must_stay_is_not_refused_for_its_moves(
    asked: list[Move], past: Past, number: int, rules: Rules
) -> None:
    stay = staying(asked, past, number, rules)
    left = [move for move in asked if move.client not in stay]
    assert not returning(left, past, number, rules)
    assert not {move.client for move in left} & rules.pinned_clients


@given(numbers, st.floats(0, 3 * DAY), st.booleans(), st.integers(1, 9), st.integers(0, 9), amounts, amounts, rules)
def test_nobody_is_placed_when_nothing_may_change(
    number: int, time: float, paused: bool, late: int, moved: int, added: float, price: float, rules: Rules
) -> None:
    barred = barred_from_placing(time, paused, rules)
    decision = place(number, time, Placing(late, min(moved, late), added, price), barred)
    may = not paused and not any(closed.holds(time) for closed in rules.closed)
    assert (decision.action == PLACE) == (may and moved > 0)
    assert decision.action in (PLACE, KEEP)
    assert decision.numbers["late"] == late
    assert decision.numbers["placed"] == (min(moved, late) if decision.action == PLACE else 0)
    assert decision.reason in decision.told()
    assert (decision.window, decision.time) == (number, time)


@given(st.lists(st.tuples(numbers, proposals), max_size=20), rules)
def test_changes_are_never_closer_than_the_limit(offers: list[tuple[int, Proposal]], rules: Rules) -> None:
    """Through a whole history, whatever is offered when."""
    past, applied = Past(), list[int]()
    for number, proposal in sorted(offers, key=lambda offer: offer[0]):
        window = Window(number, number * 60.0, 100, Estimate(100.0))
        if judge(window, proposal, past, rules).action == APPLY:
            past = past.after(Change(number, proposal.plan, proposal.moves), rules.returns)
            applied.append(number)
    assert all(after - before >= rules.rest for before, after in itertools.pairwise(applied))
    assert past.last() == (applied[-1] if applied else None)


@given(st.floats(0, DAY), st.floats(0, DAY), st.floats(0, DAY))
def test_a_maintenance_window_and_its_complement_fill_the_day(begin: float, end: float, time: float) -> None:
    if begin != end:
        assert Closed(begin, end).holds(time) != Closed(end, begin).holds(time % DAY)


def test_drift_is_churn_or_a_ratio_that_has_grown() -> None:
    assert drift_of(0.25, None, None) == 0.25
    assert drift_of(0.0, 1.2, 1.0) == 1.2 - 1.0
    assert drift_of(0.0, 1.0, 1.2) == 0.0  # cheaper than before is no reason to plan


def test_decisions_are_sentences() -> None:
    window = Window(7, 0.0, 500, Estimate(1000.0, 10.0), 0.2, 1.1)
    found = judge(
        window, Proposal("tree-search", Estimate(100.0, 10.0), 450.0), Past(), Rules(horizon=6.0, confidence=1.0)
    )
    assert found.told() == (
        "window 7: apply tree-search, since tree-search saves 9.0% at least and is paid back after 5.0 windows"
    )
    found = judge(
        window, Proposal("tree-search", Estimate(100.0, 10.0), 450.0), Past(), Rules(horizon=4.0, confidence=1.0)
    )
    assert found.told() == (
        "window 7: keep the plan, since tree-search saves 9.0% at least, but its change is paid back after 5.0 "
        "windows, and 4 are allowed"
    )
