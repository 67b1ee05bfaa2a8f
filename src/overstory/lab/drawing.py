"""Figures as pictures: SVG for the page, PNG for everything else. The same data give the same bytes."""

from io import BytesIO, StringIO
from typing import TYPE_CHECKING, Any

from overstory.lab.experiment import Figure, Line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# One colour and one mark for a name, in all figures.
LOOKS = {
    "flood": ("#8a8f98", "x"),
    "spt": ("#b07aa1", "v"),
    "mst": ("#9c755f", "D"),
    "direct": ("#8a8f98", "x"),
    "semcast": ("#e0a030", "s"),
    "semcast-filtered": ("#c97b12", "P"),
    "single": ("#4e79a7", "o"),
    "one_tree": ("#4e79a7", "o"),
    "mult": ("#e15759", "^"),
    "mult2": ("#a83238", "<"),
    "many_trees": ("#e15759", "^"),
    "geo-mult": ("#76b7b2", "h"),
    "tree-search": ("#1f6b4e", "*"),
    "coalesced": ("#1f6b4e", "*"),
    "opt": ("#1c2420", "+"),
    "none": ("#8a8f98", "x"),
    "active": ("#4e79a7", "o"),
    "lazy": ("#76b7b2", "s"),
    "packing": ("#b07aa1", "v"),
    "paced": ("#e0a030", "D"),
    "selective": ("#e15759", "^"),
    "cost": ("#1f6b4e", "*"),
}
OTHERS = (
    ("#4e79a7", "o"),
    ("#e15759", "^"),
    ("#76b7b2", "s"),
    ("#edc948", "D"),
    ("#b07aa1", "v"),
    ("#59a14f", "P"),
    ("#9c755f", "h"),
    ("#f28e2b", "X"),
)
SIZE = (5.2, 3.7)  # inches
MANY = 40  # points of a line that have no marks of their own
STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6eae7",
    "grid.linewidth": 0.8,
    "axes.edgecolor": "#9aa39e",
    "axes.axisbelow": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "overstory",
}


def svg_of(figure: Figure) -> str:
    out = StringIO()
    _draw(figure, out, "svg", {"Date": None, "Creator": None})
    text = out.getvalue()
    return text[text.index("<svg") :]


def png_of(figure: Figure) -> bytes:
    out = BytesIO()
    _draw(figure, out, "png", {"Software": None})
    return out.getvalue()


def _draw(figure: Figure, out: StringIO | BytesIO, kind: str, metadata: dict[str, None]) -> None:
    import matplotlib  # it takes half a second, and most commands draw nothing

    with matplotlib.rc_context(STYLE):
        from matplotlib.figure import Figure as Canvas

        canvas = Canvas(figsize=SIZE, layout="constrained")
        axes = canvas.add_subplot()
        (_bars if figure.bars else _curves)(axes, figure)
        axes.set_title(figure.title, fontsize=10, fontweight="bold", loc="left")
        canvas.savefig(out, format=kind, dpi=160, metadata=metadata)


def _curves(axes: "Axes", figure: Figure) -> None:
    spare = iter(OTHERS * 3)
    for line in figure.lines:
        colour, mark = LOOKS.get(line.label) or next(spare)
        width = 2.0 if mark == "*" else 1.3
        # What is never negative is not shown as if it could be
        below = [min(spread, y) if y >= 0 else spread for y, spread in zip(line.y, line.spread, strict=True)]
        if len(line.x) > MANY:
            lowest = [y - spread for y, spread in zip(line.y, below, strict=True)]
            highest = [y + spread for y, spread in zip(line.y, line.spread, strict=True)]
            axes.fill_between(line.x, lowest, highest, color=colour, alpha=0.2, linewidth=0)
            axes.plot(line.x, line.y, label=line.label, color=colour, linewidth=width / 1.5)
            continue
        axes.errorbar(
            line.x,
            line.y,
            yerr=[below, line.spread] if any(line.spread) else None,
            label=line.label,
            color=colour,
            marker=mark,
            markersize=7 if mark == "*" else 5,
            linewidth=width,
            capsize=2.5,
        )
    axes.set_xlabel(figure.x)
    axes.set_ylabel(figure.y)
    if figure.log_x:
        axes.set_xscale("log")
    if figure.log_y:
        axes.set_yscale("log")
    if figure.lines:
        axes.legend(fontsize=7.5, ncols=2, handlelength=1.6, framealpha=0.8, edgecolor="none")


def _bars(axes: "Axes", figure: Figure) -> None:
    """Lying, so that long names can be read. They begin where the best could be, at 1, if all are above it."""
    shown = [line for line in figure.lines if line.y]
    places = list(range(len(shown)))[::-1]
    least = 1.0 if all(line.y[0] >= 1 for line in shown) else 0.0
    if figure.log_y and shown:
        least = min(min((line.y[0], *(line.span or ()))) for line in shown) / 2
        axes.set_xscale("log")
    reach = [_reach(line) for line in shown]
    axes.barh(
        places,
        [line.y[0] - least for line in shown],
        left=least,
        xerr=[[below for below, _ in reach], [above for _, above in reach]],
        color=[_bar_colour(line) for line in shown],
        height=0.62,
        error_kw={"elinewidth": 1, "capsize": 2.5},
    )
    axes.set_yticks(places, [line.label for line in shown])
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(figure.y)


def _reach(line: Line) -> tuple[float, float]:
    """How far the whiskers of a bar go down and up."""
    if line.span is None:
        return line.spread[0], line.spread[0]
    return max(0.0, line.y[0] - line.span[0]), max(0.0, line.span[1] - line.y[0])


def _bar_colour(line: Line) -> str:
    """By the first word of the label, which is a planner's name."""
    known = LOOKS.get(line.label.split(",")[0])
    return known[0] if known else OTHERS[0][0]
