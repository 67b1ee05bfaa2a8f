"""The packets of events as links carry them: plain PUBLISH packets of MQTT 5 and QoS 0, one behind the other."""

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.gather import _packet, _size
from overstory.kernels.mqtt import RETAIN

MQTT_5 = 5
RETAINED = 4  # a bit of marks, beside those of the QoS, as ``wire.frames`` has it


@kernel
def link_packets(data: Array, frames: Array, chunks: Array, events: Array) -> tuple[Array, Array, Array]:
    """The packets of some framed messages; the size of each, and its mark: its QoS, and whether it is retained."""
    sizes, marks = np.empty(len(events), np.int64), np.empty(len(events), np.int64)
    total = 0
    for i in range(len(events)):
        here = frames[events[i]]
        sizes[i] = _size(here, chunks[here.chunk].version, MQTT_5, 0)
        marks[i] = here.qos | (RETAINED if here.marks & RETAIN else 0)
        total += sizes[i]
    out = np.empty(total, np.uint8)
    at = 0
    for i in range(len(events)):
        here = frames[events[i]]
        at = _packet(data, here, chunks[here.chunk].version, MQTT_5, 0, out, at)
    return out, sizes, marks
