"""When events happened: the unit of times that are numbers, and the seconds that a column tells."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from overstory.errors import UsageError
from overstory.pipeline.log_types import MOMENTS, NUMBERS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ISO = r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}([ T].*)?\z"  # Spark reads more, such as a time of the present day
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # in a second
IN_FULL = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
# The unit of times by their median: a clock that counts since 1970 in milliseconds passed 10^11 in 1973
UNIT_FROM = ((1e17, "ns"), (1e14, "us"), (1e11, "ms"))
NO_TIMES = "no column tells the time (--time): events have their numbers for seconds"


class Times(NamedTuple):
    """The column of a log that tells the time."""

    path: Path
    name: str
    kind: str
    as_read: "Column"
    type_as_read: str
    value: "Column"  # converted to its kind
    given: str | None  # the unit, if the user says it
    unit: str = "s"

    def with_unit(self, rows: "DataFrame") -> "Times":
        """As it is given, or by the median of the numbers."""
        from pyspark.sql import functions as sql

        if self.kind not in NUMBERS:
            if self.given is not None:
                what = f"column '{self.name}' of {self.path} has no numbers"
                raise UsageError(f"--time-unit {self.given} is for times that are numbers, and {what}; leave it out")
            return self
        if self.given is not None:
            return self._replace(unit=self.given)
        median = rows.agg(sql.percentile_approx(self.value.cast("double"), 0.5)).first()
        size = abs(median[0]) if median is not None and median[0] is not None else 0.0
        return self._replace(unit=next((unit for least, unit in UNIT_FROM if size >= least), "s"))

    def seconds(self) -> "Column":
        from pyspark.sql import functions as sql

        if self.kind in NUMBERS:
            return self.value.cast("double") / UNITS[self.unit]
        if self.kind != "string":
            what = f"column '{self.name}' of {self.path} is of {self.kind}, not of times"
            raise UsageError(f"{what}; name another one with --time")
        if self.type_as_read in MOMENTS:
            moment = self.as_read.cast("timestamp")
        else:
            moment = sql.when(self.as_read.rlike(ISO), self.as_read.try_cast("timestamp"))
        return sql.unix_micros(moment) / 1e6

    def in_words(self, rows: "DataFrame") -> str:
        from pyspark.sql import functions as sql

        seconds = self.seconds()
        found = rows.agg(sql.min(seconds).alias("first"), sql.max(seconds).alias("last")).first()
        assert found is not None
        first, last = found["first"], found["last"]
        if self.kind not in NUMBERS:
            how = "in ISO 8601"
        elif self.given is not None:
            how = f"in {IN_FULL[self.unit]}, as --time-unit says"
        else:
            how = f"in {IN_FULL[self.unit]} by the size of the numbers (--time-unit says otherwise)"
        return f"'{self.name}' is the time, {how}: {_moment(first)} to {_moment(last)}, {last - first:,.0f} s"


def _moment(seconds: float) -> str:
    """A time since 1970 as a date, if it is one that a clock may have shown."""
    if 1e8 <= seconds < 1e11:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return f"{seconds:g}"
