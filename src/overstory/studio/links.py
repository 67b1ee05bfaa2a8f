"""The table of the links that carry most."""

import math

import numpy as np

from overstory.model.network import Floats
from overstory.studio.picture import Picture
from overstory.studio.text import NOTHING, escaped, shortened, size_of
from overstory.studio.views import PlanView

BUSIEST = 20  # links in the table


def busiest_links(picture: Picture, plan: PlanView, at: int, hidden: bool) -> str:
    """The rows of the table of links for one plan."""
    loads = picture.loads(plan)
    sizes, frames = picture.by_pair(plan.traffic.bytes), picture.by_pair(plan.traffic.frames)
    chosen = [pair for pair in np.argsort(-loads, kind="stable")[:BUSIEST].tolist() if loads[pair]]
    rows = []
    for rank, pair in enumerate(chosen, start=1):
        one, other = (escaped(shortened(picture.names[end], 40)) for end in picture.pairs[pair])
        there, back = sizes[2 * pair], sizes[2 * pair + 1]
        cells = (
            *(size_of(value) for value in (there + back, there, back)),
            f"{frames[2 * pair] + frames[2 * pair + 1]:,}",
            f"{loads[pair] / loads.sum():.1%}",
            _either(picture, picture.network.prices, pair),
            _either(picture, picture.network.delays, pair),
        )
        head = f'<td>{rank}</td><th scope="row">{one} <span class="and">–</span> {other}</th>'
        rows.append(f'<tr data-link="{pair}">{head}{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>')
    if not rows:
        rows = ['<tr><td colspan="9" class="none">No event crosses a link between brokers.</td></tr>']
    return f'<tbody data-plan="{at}"{" hidden" * hidden}>{"".join(rows)}</tbody>'


def _either(picture: Picture, values: Floats, pair: int) -> str:
    both = picture.by_pair(values, math.nan)[2 * pair : 2 * pair + 2].tolist()
    there, back = (f"{value:,.6g}" if math.isfinite(value) else NOTHING for value in both)
    return there if there == back else f"{there} / {back}"
