"""The packets of events as links carry them: plain PUBLISH packets of MQTT 5 and QoS 0, one behind the other."""

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.gather import _packet, _size

MQTT_5 = 5


@kernel
def link_packets(data: Array, frames: Array, chunks: Array, events: Array) -> tuple[Array, Array]:
    """The packets of some framed messages, and the size of each."""
    sizes = np.empty(len(events), np.int64)
    total = 0
    for i in range(len(events)):
        here = frames[events[i]]
        sizes[i] = _size(here, chunks[here.chunk].version, MQTT_5, 0)
        total += sizes[i]
    out = np.empty(total, np.uint8)
    at = 0
    for i in range(len(events)):
        here = frames[events[i]]
        at = _packet(data, here, chunks[here.chunk].version, MQTT_5, 0, out, at)
    return out, sizes
