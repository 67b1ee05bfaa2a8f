"""What channels cost in a maintenance interval: the paper's four functions, as tables.

``maintain[n]`` and ``deliver[n]`` are cost_m and cost_d of a channel with n subscribers, ``associate[k]`` is cost_a of
a cluster of k topics, and ``notify`` is cost_n of telling a channel of one event. Linear functions are the meter's
prices of entries, access links and associations; a curve of ``scenario.toml`` takes the place of cost_m.

    MC = Σ_t cost_m(size t) + Σ_c (cost_m(size c) + cost_a(|c|))
    DC = Σ_t freq(t) [cost_n + cost_d(size t) + Σ_{c ∋ t} (cost_n + cost_d(size c))]
    OC = MC + DC
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from overstory.errors import UsageError
from overstory.model.access import access_of
from overstory.model.scenario import Scenario
from overstory.model.settings import Curve

Floats = NDArray[np.float64]
# Links of a Scribe tree by subscribers, over a Pastry of 3,000 nodes: the mean and the most of groups that were drawn
# in the simulator of ``lab.platforms``; a test draws some again
SCRIBE_AVERAGE: Curve = ((5.0, 12.9), (25.0, 54.2), (100.0, 178.5), (625.0, 776.2), (3000.0, 2999.0))
SCRIBE_WORST: Curve = ((5.0, 15.0), (25.0, 61.0), (100.0, 187.0), (625.0, 796.0), (3000.0, 2999.0))


class Costs(NamedTuple):
    maintain: Floats
    deliver: Floats
    associate: Floats
    notify: float

    @property
    def is_linear(self) -> bool:
        """Whether one more subscriber always costs the same."""
        steps = np.diff(self.maintain)
        return len(steps) == 0 or bool(np.allclose(steps, steps[0], rtol=1e-12, atol=0))


def linear(users: int, topics: int) -> Costs:
    """The paper's: cost_n = 1, and the others are the numbers themselves."""
    return Costs(np.arange(users + 3.0), np.arange(users + 3.0), np.arange(topics + 3.0), 1.0)


def on_curve(curve: Curve, sizes: Floats) -> Floats:
    """The meter's curve at many sizes: 0 of none, straight between two points, and beyond the last as between the two
    before."""
    points = np.array([(0.0, 0.0), *curve] if curve[0][0] > 0 else curve)
    x, y = points.T
    if len(x) == 1:
        return np.where(sizes > 0, y[0], 0.0)
    found = np.interp(sizes, x, y)
    beyond = y[-1] + (y[-1] - y[-2]) / (x[-1] - x[-2]) * (sizes - x[-1])
    return np.where(sizes <= 0, 0.0, np.where(sizes > x[-1], beyond, found))


def costs_in(scenario: Scenario, users: int, topics: int) -> Costs:
    """The costs that the scenario's prices stand for.

    cost_n is the price of a byte from a publisher's broker to the brokers of subscribers, taken as the dearest link;
    cost_d the price of a byte to a client, which has to be the same for all, else its mean is taken."""
    settings = scenario.settings
    prices, sizes = settings.prices, np.arange(users + 3.0)
    curve = settings.curves.upkeep
    maintain = on_curve(curve, sizes) if curve else sizes * prices.upkeep_access
    notify = prices.core * float(scenario.network.prices.max(initial=0.0))
    deliver = sizes * (prices.access * _access_price(scenario))
    return Costs(maintain, deliver, np.arange(topics + 3.0) * prices.upkeep_association, notify)


def _access_price(scenario: Scenario) -> float:
    """The price of a byte to a subscriber, on average over some of them."""
    clients = np.unique(scenario.subscriptions["client"].to_numpy())[:1000]
    if not len(clients):
        return 0.0
    order = np.argsort(scenario.clients["id"].to_numpy())
    ids = scenario.clients["id"].to_numpy()[order]
    homes = scenario.clients["broker"].to_numpy(zero_copy_only=False).astype(np.float64)[order]
    mine = homes[np.searchsorted(ids, clients)]
    mine = np.where(np.isnan(mine), float(scenario.network.ids[0]), mine).astype(np.int64)
    return float(np.mean(access_of(scenario).down(clients, mine).prices))


def check_priced(scenario: Scenario) -> None:
    """Raises a ``UsageError`` where keeping channels alive costs nothing: then there is nothing to plan."""
    prices = scenario.settings.prices
    if not prices.upkeep_access and not scenario.settings.curves.upkeep:
        raise UsageError(
            "nothing is paid for keeping trees alive (upkeep_access in scenario.toml is 0, and there is no curve), so "
            "there is nothing that clusters of topics could save; set a price, or use a planner of trees"
        )
