"""Before and after, side by side on the same map: links as wide as what they carry, coloured by the difference."""

from collections.abc import Sequence

import numpy as np

from overstory.model.network import Floats, Ints
from overstory.studio.layout import WIDTH, height_of
from overstory.studio.picture import CLASSES, Picture
from overstory.studio.regions import Regions
from overstory.studio.text import escaped
from overstory.studio.views import PlanView

SHADES = 3  # of a difference, either way


def loads_in(picture: Picture, regions: Regions | None, plan: PlanView) -> Ints:
    """What each line of the picture carries: between brokers, or between regions."""
    loads = picture.loads(plan)
    if regions is None:
        return loads
    between = regions.pair_of >= 0
    sums = np.zeros(len(regions.ends), np.int64)
    np.add.at(sums, regions.pair_of[between], loads[between])
    return sums


def side(picture: Picture, regions: Regions | None, loads: Ints, change: Ints, most: tuple[int, int], name: str) -> str:
    """One of the two maps. ``most`` are the largest load and the largest change, of both maps."""
    widths = np.ceil(CLASSES * np.sqrt(loads / max(most[0], 1))).astype(np.int64)
    shades = (np.sign(change) * np.ceil(SHADES * np.sqrt(np.abs(change) / max(most[1], 1)))).astype(np.int64)
    ends, points = (picture.pairs, picture.points) if regions is None else (regions.ends, regions.points)
    paths = []
    for width in range(CLASSES + 1):
        for shade in range(-SHADES, SHADES + 1):
            chosen = np.flatnonzero((widths == width) & (shades == shade))
            if len(chosen):
                paths.append(f'<path class="c{width} d{shade + SHADES}" d="{_lines(points[ends[chosen]])}"/>')
    dots = _dots(picture.points) if regions is None else ""
    circles = (
        ""
        if regions is None
        else "".join(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"/>'
            for (x, y), radius in zip(regions.points.tolist(), regions.radii.tolist(), strict=True)
        )
    )
    kind = "side" if regions is None else "side areas"
    return (
        f'<svg id="side-{name}" class="{kind}" viewBox="0 0 {WIDTH} {height_of(picture.points)}" role="img" '
        f'aria-label="The network with the traffic of the plan {name} the change"><g class="lines">{"".join(paths)}</g>'
        f'<g class="circles">{circles}</g><path class="dots" d="{dots}"/><g class="labels"></g></svg>'
    )


def sides(picture: Picture, regions: Regions | None, plans: Sequence[PlanView]) -> str:
    """Both maps, or the one that there is."""
    loads = [loads_in(picture, regions, plan) for plan in plans]
    most = max((int(each.max(initial=0)) for each in loads), default=0)
    if len(loads) < 2:
        single = "".join(side(picture, regions, each, np.zeros_like(each), (most, 0), "after") for each in loads)
        return single + _about_regions(regions)
    change = loads[1] - loads[0]
    largest = most, int(np.abs(change).max(initial=0))
    both = zip(("before", "after"), plans, loads, strict=True)
    return "".join(
        f"<figure><figcaption>{name.capitalize()}: <strong>{escaped(plan.name)}</strong></figcaption>"
        f"{side(picture, regions, each, change, largest, name)}</figure>"
        for name, plan, each in both
    ) + _about_regions(regions)


def _about_regions(regions: Regions | None) -> str:
    return "" if regions is None else '<p class="areas-note">Circles: regions, each with the number of its brokers.</p>'


def _lines(ends: Floats) -> str:
    return "".join(f"M{one[0]:.1f} {one[1]:.1f}L{other[0]:.1f} {other[1]:.1f}" for one, other in ends.tolist())


def _dots(points: Floats) -> str:
    return "".join(f"M{x:.1f} {y:.1f}h0" for x, y in points.tolist())
