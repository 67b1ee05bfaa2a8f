"""One page that compares plans on a scenario: tables that stand alone, and a picture of the network, its traffic and
the plans' trees.

Three rules. The page asks nothing of a network: style, script and data are in it, and its security policy allows no
more. What comes from data becomes HTML only through ``escaped`` and JSON only through ``as_json``. The same input gives
the same bytes.

Python writes all tables and the first picture, so that both are there without JavaScript and on paper; the script
only redraws the picture for another plan or tree and says what lies under the pointer.
"""

import base64
import contextlib
import hashlib
import math
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from string import Template

import numpy as np

from overstory.errors import UsageError
from overstory.studio.data import data_for
from overstory.studio.layout import coordinates, fitted
from overstory.studio.links import busiest_links
from overstory.studio.picture import Picture
from overstory.studio.subject import Subject
from overstory.studio.tables import BEHAVIOUR, COSTS, plan_table
from overstory.studio.text import aligned, as_json, escaped, plain
from overstory.studio.views import PlanView

HERE = Path(__file__).parent


def write_report(path: Path, subject: Subject, plans: Sequence[PlanView], command: str) -> None:
    """Whole or not at all."""
    points = fitted(coordinates(subject.network, subject.x, subject.y))
    picture = Picture(subject.network, _names(subject), points)
    _write_whole(path, _page(subject, picture, plans, command).encode("utf-8", "replace"))


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


def _page(subject: Subject, picture: Picture, plans: Sequence[PlanView], command: str) -> str:
    cheapest = _cheapest(plans)
    unit = f", in {escaped(subject.currency)}" if subject.currency else ""
    drawn = [plan for plan in plans if len(plan.traffic.bytes) == len(picture.network.targets)]
    shown = next((at for at, plan in enumerate(drawn) if plan is cheapest), 0)
    classes = picture.classes(drawn)
    script = (HERE / "page.js").read_text("utf-8")
    return Template((HERE / "page.html").read_text("utf-8")).substitute(
        title=escaped(subject.title),
        policy=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        style=(HERE / "page.css").read_text("utf-8"),
        script=script,
        facts="".join(
            f"<div><dt>{escaped(key)}</dt><dd>{escaped(value)}</dd></div>" for key, value in subject.facts.items()
        ),
        summary=_summary(plans, cheapest, subject.currency),
        costs=plan_table("costs", f"What the plans cost{unit}", COSTS, plans, cheapest, bars=True),
        behaviour=plan_table("behaviour", "How the plans behave", BEHAVIOUR, plans, cheapest),
        picture=picture.svg(classes[shown] if drawn else np.zeros(len(picture.pairs), np.int64)),
        shown=escaped(drawn[shown].name) if drawn else "no plan",
        brokers=f"{len(picture.network):,}",
        pairs=f"{len(picture.pairs):,}",
        legend=picture.legend(drawn),
        options="".join(
            f'<option value="{at}"{" selected" * (at == shown)}>{escaped(plan.name)}</option>'
            for at, plan in enumerate(drawn)
        ),
        links="".join(busiest_links(picture, plan, at, at != shown) for at, plan in enumerate(drawn)),
        command=escaped(command),
        data=as_json(data_for(picture, drawn, classes)),
    )


def _cheapest(plans: Sequence[PlanView]) -> PlanView | None:
    """Of those that keep the limits and can be installed: a reference has no flows."""
    real = [plan for plan in plans if plan.scorecard.flows]
    allowed = [plan for plan in real if not plan.scorecard.exceeded and math.isfinite(plan.scorecard.cost)]
    return min(allowed, key=lambda plan: plan.scorecard.cost, default=None)


def _summary(plans: Sequence[PlanView], cheapest: PlanView | None, currency: str) -> str:
    if cheapest is None:
        return "No plan keeps the limits." if plans else "There is no plan."
    score = cheapest.scorecard
    against = []
    if score.gap is not None:
        against.append(f"{score.gap:.1%} above the lower bound")
    if score.flood > 0:
        against.append(f"{score.core / score.flood:.1%} of what flooding would cost")
    core = f"; its core is {' and '.join(against)}" if against else ""
    cost = f"{aligned([score.cost])[0]} {escaped(currency)}".rstrip()
    return f"<strong>{escaped(cheapest.name)}</strong> is the cheapest, at {cost}{core}."


def _names(subject: Subject) -> list[str]:
    ids = subject.network.ids.tolist()
    given = subject.names or [None] * len(ids)
    return [plain(name) if name else f"broker {broker}" for name, broker in zip(given, ids, strict=True)]
