"""Figures as pictures: SVG for the page, PNG for everything else. The same data give the same bytes."""

from io import BytesIO, StringIO
from typing import TYPE_CHECKING, Any

from overstory.lab.experiment import Figure, Line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

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
SIZE = (7.2, 4.3)  # inches, with room for the legend beside the axes
APART = "flood"  # costs so much more than all else that it would press the others together: it has axes of its own
MANY = 40  # points of a line that have no marks of their own
STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 11,
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
        (_draw_bars if figure.bars else _draw_curves)(canvas, figure)
        canvas.savefig(out, format=kind, dpi=160, metadata=metadata)


def _draw_bars(canvas: "Canvas", figure: Figure) -> None:
    axes = canvas.add_subplot()
    _bars(axes, figure)
    _title(axes, figure)


def _draw_curves(canvas: "Canvas", figure: Figure) -> None:
    """Flooding on axes of its own above the others, if there are others."""
    high = [line for line in figure.lines if line.label == APART]
    others = [line for line in figure.lines if line.label != APART]
    if not high or not others:
        axes = canvas.add_subplot()
        _curves(axes, figure, figure.lines)
        _title(axes, figure)
        _legend(canvas, [axes])
        return
    above, below = canvas.subplots(2, 1, sharex=True, height_ratios=(1, 3))
    _curves(below, figure, others)
    _curves(above, figure, high)
    above.set_xlabel("")
    above.set_ylabel("")
    _title(above, figure)
    _legend(canvas, [above, below])


def _title(axes: "Axes", figure: Figure) -> None:
    axes.set_title(figure.title, fontsize=12, fontweight="bold", loc="left")


def _legend(canvas: "Canvas", axes: "list[Axes]") -> None:
    """Beside the axes, so that it lies on no line."""
    found = [each.get_legend_handles_labels() for each in axes]
    handles = [handle for each, _ in found for handle in each]
    labels = [str(label) for _, each in found for label in each]
    if handles:
        canvas.legend(handles, labels, loc="outside right upper", frameon=False, handlelength=1.6)


def _curves(axes: "Axes", figure: Figure, lines: list[Line]) -> None:
    spare = iter(OTHERS * 3)
    for line in lines:
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
