"""Long work in slices: telling a neighbour of many subscriptions, letting go of many, joining a new plan.

An input only notes what is to be done. ``work`` does so many items and returns what follows from them; whoever drives
the router calls it again, between other inputs, until there is no work left. An item is one subscription that is looked
at, or a few keys that are listed. It costs as much as one subscription does.

Messages that follow subscriptions are held back until the work before them is done (``tasks``).
"""

from overstory.routing.epoch import Epoch
from overstory.routing.flow import Flow, Orders
from overstory.routing.messages import Held, Listed, Output, Send
from overstory.routing.outlet import Outlet
from overstory.routing.state import State

KEYS = 16  # that are listed for one item


def has_work(state: State) -> bool:
    """Whether anything is to be done."""
    if state.leaving or state.coming:
        return True
    for epoch in state.epochs.values():  # noqa: SIM110 (it is asked in every turn, and a generator takes three times as long)
        if epoch.working or epoch.joining is not None:
            return True
    return False


def work(state: State, most: int) -> list[Output]:
    """Does so many items of work at most, and one more bucket of keys."""
    outputs: list[Output] = []
    most = _forget_memberships(state, most)
    for number, epoch in list(state.epochs.items()):
        if most > 0 and epoch.joining is not None:
            joined, most = _join(state, epoch, most)
            outputs += joined
        while epoch.working and most > 0:
            flow = epoch.flows[next(iter(epoch.working))]
            done, most = _serve(state, number, flow, most)
            outputs += done
    return outputs


def _forget_memberships(state: State, most: int) -> int:
    """Forgets which subscriptions were in flows of epochs that were retired."""
    while state.leaving and most > 0:
        most -= 1
        id_ = state.leaving.popitem()[0]
        state.forget_memberships(id_)
    return most


def _join(state: State, epoch: Epoch, most: int) -> tuple[list[Output], int]:
    """Subscriptions join a plan that was installed. When all have, its waves begin."""
    outputs: list[Output] = []
    assert epoch.joining is not None
    while epoch.joining and most > 0:
        most -= 1
        outputs += state.join_next(epoch, next(iter(epoch.joining)))
    if not epoch.joining:
        epoch.joining = None
        outputs += state.to_those_up(epoch.settle())
        outputs += [Held(epoch.share.epoch)] if epoch.is_held else []
    return outputs, most


def _serve(state: State, number: int, flow: Flow, most: int) -> tuple[list[Output], int]:
    """Does work of one flow. If this was all, the flow has none any more."""
    outputs: list[Output] = []
    for peer, outlet in flow.outlets.items():
        orders, most = _tell(flow, peer, outlet, most)
        outputs += state.messages(number, flow.share.number, orders)
        listed, most = _list(state, number, flow, peer, outlet, most)
        outputs += listed + state.let_go(number, flow, peer)
        orders, most = _withdraw(flow, peer, outlet, most)
        outputs += state.messages(number, flow.share.number, orders)
    orders, most = _remove_void(flow, most, state.now)
    outputs += state.messages(number, flow.share.number, orders)
    if all(outlet.tasks.is_idle for outlet in flow.outlets.values()) and not (flow.stale or flow.has_void):
        flow.working.discard(flow.share.number)
    return outputs, most


def _tell(flow: Flow, peer: int, outlet: Outlet, most: int) -> tuple[Orders, int]:
    """Tells a neighbour of subscriptions.

    One that a later one of the same slice covers would be withdrawn at once, so it is not sent at all.
    """
    orders: Orders = []
    untold = outlet.tasks.untold
    while untold and most > 0:
        most -= 1
        name = next(iter(untold))
        orders += flow.told(peer, name, untold.pop(name))
    said = {order.key for _, order in orders if order.filter is not None}
    superfluous = {order.key for _, order in orders if order.filter is None} & said
    return [(to, order) for to, order in orders if order.key not in superfluous], most


def _withdraw(flow: Flow, peer: int, outlet: Outlet, most: int) -> tuple[Orders, int]:
    """Withdraws subscriptions that no event from the neighbour can match any more."""
    orders: Orders = []
    doubtful = outlet.tasks.doubtful
    while doubtful and most > 0:
        most -= 1
        key = next(iter(doubtful))
        orders += flow.doubted(peer, key, doubtful.pop(key))
    return orders, most


def _list(state: State, number: int, flow: Flow, peer: int, outlet: Outlet, most: int) -> tuple[list[Output], int]:
    """Lists buckets that a neighbour has asked for."""
    outputs: list[Output] = []
    tasks = outlet.tasks
    while tasks.asked and most > 0:
        bucket, advertisements = tasks.asked.popleft()
        keys = flow.bucket(peer, bucket, advertisements)
        most -= 1 + len(keys) // KEYS
        is_last = not tasks.asked
        outputs.append(
            Send(peer, Listed(number, flow.share.number, tasks.round, bucket, keys, advertisements, is_last))
        )
    return outputs, most


def _remove_void(flow: Flow, most: int, now: float) -> tuple[Orders, int]:
    """Removes entries that their neighbours no longer stand by, or have not renewed."""
    orders: Orders = []
    while flow.stale and most > 0:
        most -= 1 + flow.expire_bucket() // KEYS
    for peer, void in flow.void.items():
        while void and most > 0 and flow.may_remove_void(peer):
            most -= 1
            orders += flow.unsubscribe(peer, next(iter(void)), now, None, withdrawn=True)
    return orders, most
