"""A slot is what kernels know of one session: who it is, and whether packets may be written to it straight away.

In a slot that is OPEN, packets of QoS 0 may be written; in one that is COUNTED, those of QoS 1 too. Of a COUNTED slot
the packets in flight have the identifiers from ``head`` up to, and without, ``next``; ``room`` more may follow.
"""

import numpy as np

OPEN, COUNTED = 1, 2  # flags
MOST_IDS = 65535  # packet identifiers go from 1 to this, and round again

# ``client`` is the router's number of the client, ``largest`` the most bytes of a packet. What follows is scratch: the
# number of packets for the slot in this batch, their bytes, a hash of their list, the slot that has an equal list, the
# first identifier, where the packets are written and where the first of them was; a stamp, and the row made under it.
SLOT = np.dtype(
    [
        *[("client", "i8"), ("flags", "i4"), ("version", "i4"), ("head", "i4"), ("next", "i4"), ("room", "i4")],
        *[("largest", "i4"), ("count", "i8"), ("size", "i8"), ("hash", "i8"), ("leader", "i8"), ("base", "i8")],
        *[("at", "i8"), ("first", "i8"), ("stamp", "i8"), ("row", "i8")],
    ]
)
