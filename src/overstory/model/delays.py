"""Delays are summed as whole microseconds, each link's for itself: so no sum depends on its order, and whoever asks
whether an event is in time gets the same answer everywhere."""

import numpy as np

from overstory.model.network import Floats

MICRO = 1000  # in a millisecond


def in_micros(milliseconds: Floats) -> Floats:
    """Delays of links as they are summed; what is infinite stays so."""
    return np.rint(milliseconds * MICRO)
