"""The one number to watch: what the last window cost, over what no plan could undercut. A coordinator works it out;
brokers keep it for whoever asks them."""

import msgspec


class Watched(msgspec.Struct, frozen=True):
    """A window in a few numbers."""

    window: int
    time: float  # when it ended, in seconds since 1970
    cost: float  # what links between brokers have carried, at their prices
    predicted: float | None  # the present plan over the certified bound, both on the sample; None without a bound
    measured: float | None  # the measured cost over the same bound, scaled up to the window
    events: int  # of the sample
    scale: float  # how many events each of them stands for
    savings: dict[str, float] = {}  # shares of the cost that one link, one broker or 10 ms more would save
