"""Range interests: the localized workload with rectangles in two attributes instead of keywords.

Every keyword becomes a rectangle somewhere in the unit square, of the same subscribers; an event is a point of the
rectangle of a keyword that a neighbourhood subscribes to. Rectangles overlap, so that others want the point, too.
"""

from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from overstory.lab.graphs import MadeBy, Topology, as_tables, dice
from overstory.lab.localized import Localized, draw_keywords, draw_subscriptions, pools_of, tables_of_filters
from overstory.model.scenario import write_scenario
from overstory.model.settings import Settings
from overstory.model.tables import EVENTS

WIDTH = 0.05  # of a rectangle, and its height
EVENT_SCHEMA = pa.schema([*EVENTS.schema, pa.field("x", pa.float64()), pa.field("y", pa.float64())])


def make_ranges(folder: Path, topology: Topology, parameters: Localized, seed: int) -> None:
    """Writes a scenario with this workload."""
    subscription_dice, neighbourhood_dice, event_dice, place_dice = dice(seed).spawn(4)
    keyword, broker = draw_subscriptions(topology, parameters, subscription_dice)
    pools = pools_of(topology, parameters, keyword, broker, neighbourhood_dice)
    low = np.round(place_dice.random((parameters.keywords, 2)) * (1 - WIDTH), 4)
    high = np.round(low + WIDTH, 4)
    texts = pa.array(
        [
            f"x >= {x} AND x < {right} AND y >= {y} AND y < {top}"
            for (x, y), (right, top) in zip(low.tolist(), high.tolist(), strict=True)
        ]
    )
    _, drawn = draw_keywords(pools, parameters.events, 1, event_dice)
    points = low[drawn] + event_dice.random((len(drawn), 2)) * (high - low)[drawn] * 0.999
    ids = np.arange(parameters.events)
    publishers = topology.brokers + event_dice.integers(topology.brokers, size=len(ids))
    columns = [ids, ids.astype(np.float64), publishers, np.full(len(ids), parameters.bytes), points[:, 0], points[:, 1]]
    events = pa.table(dict(zip(EVENT_SCHEMA.names, columns, strict=True)), EVENT_SCHEMA)
    made_by: MadeBy = {"kind": "ranges", "seed": seed, **topology.made_by, **msgspec.structs.asdict(parameters)}
    tables = as_tables(topology) | tables_of_filters(topology.brokers, texts.take(pa.array(keyword)), broker)
    write_scenario(folder, Settings(name="ranges", made_by=made_by), tables, events)
