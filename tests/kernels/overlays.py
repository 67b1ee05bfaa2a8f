"""Small instances of the overlay problem, as arrays."""

import numpy as np

from overstory.kernels.overlay_state import Given


def drawn(seed: int, users: int = 7, brokers: int = 4, channels: int = 3, tight: bool = False) -> Given:
    """Random points, interests and rates; some users send or want nothing."""
    draw = np.random.default_rng(seed)
    places, homes = draw.random((brokers, 2)), draw.random((users, 2))
    far = np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1))
    if draw.random() < 0.3:  # prices that differ by direction
        far = far * (1 + draw.random((brokers, brokers)))
    wants = draw.random((users, channels)) < 0.45
    sends = np.where(draw.random((users, channels)) < 0.5, draw.random((users, channels)), 0.0)
    demand = sends.sum(axis=1) + wants @ sends.sum(axis=0)
    access = np.hypot(*(homes[:, None] - places[None]).transpose(2, 0, 1)) * demand[:, None]
    order = np.argsort(access, axis=1, kind="stable")
    user, channel = np.nonzero(sends)
    capacity = np.full(brokers, demand.sum() / brokers * 1.4 + demand.max() if tight else np.inf)
    return Given(
        far,
        (far + far.T) / 2,
        np.array([0.95]),
        np.arange(users),
        np.concatenate([[0], np.cumsum(wants.sum(axis=1))]),
        np.nonzero(wants)[1].astype(np.int32),
        np.searchsorted(user, np.arange(users + 1)),
        channel.astype(np.int32),
        sends[user, channel],
        order.astype(np.int32),
        np.take_along_axis(access, order, axis=1),
        demand,
        capacity,
        sends.sum(axis=0),
    )
