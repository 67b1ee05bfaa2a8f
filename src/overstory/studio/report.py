"""One page that compares plans on a scenario: tables that stand alone, and a picture of the network, its traffic and
the plans' trees.

Three rules. The page asks nothing of a network: style, script and data are in it, and its security policy allows no
more. What comes from data becomes HTML only through ``escaped`` and JSON only through ``as_json``. The same input gives
the same bytes.

Python writes all tables and the first pictures, so that both are there without JavaScript and on paper; the script
redraws them for another plan, tree or event, names what there is room for, and says what lies under the pointer.
"""

import base64
import contextlib
import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from string import Template

import numpy as np

from overstory.errors import UsageError
from overstory.studio.assignments import pictures
from overstory.studio.data import Ways, data_for
from overstory.studio.layout import coordinates, fitted
from overstory.studio.links import busiest_links
from overstory.studio.moves import moves_of
from overstory.studio.picture import Picture
from overstory.studio.regions import FROM, regions_of
from overstory.studio.saving import before_of, cheapest_of, sentence
from overstory.studio.sides import sides
from overstory.studio.space import brokers_load, event_space
from overstory.studio.subject import Subject
from overstory.studio.tables import BEHAVIOUR, COSTS, PARTS, plan_table
from overstory.studio.text import as_json, escaped, plain
from overstory.studio.views import PlanView

HERE = Path(__file__).parent
SCRIPTS = ("base.js", "labels.js", "sides.js", "map.js", "ways.js", "saving.js", "page.js")  # one after the other

__all__ = ["Ways", "write_report"]


def write_report(
    path: Path, subject: Subject, plans: Sequence[PlanView], command: str, ways: Ways | None = None
) -> None:
    """Whole or not at all. ``ways`` are those of some events through these plans."""
    points = fitted(coordinates(subject.network, subject.x, subject.y))
    picture = Picture(subject.network, _names(subject), points)
    known = ways or Ways((), [()] * len(plans))
    _write_whole(path, _page(subject, picture, plans, command, known).encode("utf-8", "replace"))


def _write_whole(path: Path, content: bytes) -> None:
    unfinished = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        with open(handle, "wb") as file:
            file.write(content)
        os.chmod(unfinished, 0o644)
        os.replace(unfinished, path)
    except OSError as error:
        if unfinished:
            with contextlib.suppress(OSError):
                os.remove(unfinished)
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from None


def _page(subject: Subject, picture: Picture, plans: Sequence[PlanView], command: str, ways: Ways) -> str:
    cheapest = cheapest_of(plans)
    unit = f", in {escaped(subject.currency)}" if subject.currency else ""
    places = [at for at, plan in enumerate(plans) if len(plan.traffic.bytes) == len(picture.network.targets)]
    drawn = [plans[at] for at in places]
    shown = next((at for at, plan in enumerate(drawn) if plan is cheapest), 0)
    before = before_of(drawn, drawn[shown]) if drawn else None
    both = [plan for plan in (before, *drawn[shown : shown + 1]) if plan is not None]
    classes = picture.classes(drawn)
    regions = regions_of(picture) if len(picture.network) >= FROM else None
    own_ways = Ways(ways.events, [ways.by_plan[at] for at in places])
    script = "".join((HERE / name).read_text("utf-8") for name in SCRIPTS)
    further = "".join(event_space(plan) for plan in both) + brokers_load(both, picture.names)
    further += "".join(moves_of(plan, picture.network, picture.names) for plan in both)
    further += "".join(pictures(plan.name, plan.assignment) for plan in both)
    empty = np.zeros(len(picture.pairs), np.int64)
    return Template((HERE / "page.html").read_text("utf-8")).substitute(
        title=escaped(subject.title),
        policy=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        style=(HERE / "page.css").read_text("utf-8"),
        script=script,
        facts="".join(
            f"<div><dt>{escaped(key)}</dt><dd>{escaped(value)}</dd></div>" for key, value in subject.facts.items()
        ),
        summary=sentence(plans, cheapest, subject.currency),
        sides=sides(picture, regions, both),
        single="" if len(both) > 1 else " single",
        before=_options(drawn, drawn.index(before) if before is not None else -1),
        costs=plan_table("costs", f"What the plans cost{unit}", COSTS, plans, cheapest, bars=True),
        key="".join(
            f'<span class="{part}">{part}</span>'
            for part in PARTS
            if any(getattr(plan.scorecard, part) for plan in plans) or part == PARTS[0]
        )
        + '<span class="bound">lower bound on core</span>' * any(plan.scorecard.lower_bound > 0 for plan in plans),
        behaviour=plan_table("behaviour", "How the plans behave", BEHAVIOUR, plans, cheapest),
        picture=picture.svg(classes[shown] if drawn and regions is None else empty, with_links=regions is None),
        shown=escaped(drawn[shown].name) if drawn else "no plan",
        brokers=f"{len(picture.network):,}",
        pairs=f"{len(picture.pairs):,}",
        legend=picture.legend(drawn),
        options=_options(drawn, shown),
        further=f'<section class="further"><h2>What the plans divide</h2><div>{further}</div></section>'
        * bool(further),
        links="".join(busiest_links(picture, plan, at, at != shown) for at, plan in enumerate(drawn)),
        command=escaped(command),
        data=as_json(data_for(picture, drawn, classes, regions, own_ways)),
    )


def _options(plans: Sequence[PlanView], chosen: int) -> str:
    return "".join(
        f'<option value="{at}"{" selected" * (at == chosen)}>{escaped(plan.name)}</option>'
        for at, plan in enumerate(plans)
    )


def _names(subject: Subject) -> list[str]:
    ids = subject.network.ids.tolist()
    given = subject.names or [None] * len(ids)
    return [plain(name) if name else f"broker {broker}" for name, broker in zip(given, ids, strict=True)]
