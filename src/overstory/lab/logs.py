"""Subscriptions for an event log that has none: filters over its attributes, as its values suggest them."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from overstory.errors import DataError, UsageError
from overstory.lab.graphs import dice
from overstory.lab.log_columns import Column, Term, column_of

MOST_ROWS = 100_000  # that are read of a file
MOST_GROUPS = 100  # parts of a file that they are read from
MOST_MEASURED = 10_000  # events that shares are measured on
CANDIDATES = 4  # filters drawn for each that is kept


def add_subscriptions(
    events: pa.Table | Path,
    count: int,
    seed: int,
    selectivity: float = 0.02,
    most_terms: int = 3,
) -> list[str]:
    """``count`` filters that on average match this share of the events, as nearly as the attributes allow.

    A filter is a conjunction of conditions on 1 to ``most_terms`` attributes. Most are narrower than the average and a
    few much wider. Of four that are drawn, the one is kept that brings the average so far closer to the wanted one; so
    attributes that depend on one another, or allow only some shares, do not shift it.
    """
    check_draw(count, selectivity)
    if most_terms < 1:
        raise UsageError(f"a filter has at least one term, not {most_terms}")
    draw = dice(seed)
    columns = _columns(_sample(events), draw)
    if not columns:
        raise UsageError("the events have no attribute to filter by: bool, int64, double, string or list<string>")
    kept: list[str] = []
    total = 0.0
    for position in range(1, count + 1):
        wanted = draw.beta(1, (1 - selectivity) / selectivity, size=CANDIDATES)
        candidates = [_conjunction(columns, float(share), most_terms, draw) for share in wanted]
        shares = [float(candidate.met.mean()) for candidate in candidates]
        best = int(np.argmin(np.abs(total + np.array(shares) - position * selectivity)))
        kept.append(candidates[best].text)
        total += shares[best]
    return kept


def check_draw(count: int, selectivity: float) -> None:
    """Call it before the work whose result filters are drawn from."""
    if count < 0:
        raise UsageError(f"there can be 0 or more subscriptions, not {count}")
    if not 0 < selectivity < 1:
        raise UsageError(
            f"selectivity is the share of events that a subscription matches, more than 0 and less than 1, "
            f"not {selectivity:g}"
        )


def _conjunction(columns: list[Column], share: float, most_terms: int, draw: np.random.Generator) -> Term:
    terms = int(draw.integers(1, min(most_terms, len(columns)) + 1))
    chosen = draw.choice(len(columns), terms, replace=False)
    whole: Term | None = None
    for done, column in enumerate(chosen):
        so_far = 1.0 if whole is None else float(whole.met.mean())
        wanted = min(1.0, share / max(so_far, 1e-9)) ** (1 / (terms - done))
        term = columns[column].draw(wanted, draw)
        whole = term if whole is None else Term(f"{whole.text} AND {term.text}", whole.met & term.met)
    assert whole is not None
    return whole


def _columns(sample: pa.Table, draw: np.random.Generator) -> list[Column]:
    names = [name for name in sample.column_names if not name.startswith("$")]
    return [column for name in names if (column := column_of(name, sample[name], draw)) is not None]


def _sample(events: pa.Table | Path) -> pa.Table:
    rows = _read(events) if isinstance(events, Path) else events
    step = -(-max(len(rows), 1) // MOST_MEASURED)
    return rows.take(pa.array(np.arange(0, len(rows), step)))


def _read(path: Path) -> pa.Table:
    """The beginnings of parts all over the file: a log changes with time."""
    try:
        with pq.ParquetFile(path) as file:
            groups = np.unique(np.linspace(0, file.num_row_groups - 1, MOST_GROUPS).astype(int))
            share = MOST_ROWS // len(groups)
            starts = (next(file.iter_batches(share, [int(group)]), None) for group in groups if file.num_row_groups)
            return pa.Table.from_batches([start for start in starts if start is not None], file.schema_arrow)
    except (OSError, pa.ArrowException) as error:
        raise DataError(
            f"{path} is not a Parquet file that can be read: {str(error).partition(chr(10))[0][:120]}"
        ) from None
