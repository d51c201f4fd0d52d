"""One declared column: its values, bins or bounds, and the grid that its numbers are rounded to.

A column is discrete (`values` or `edges`), numeric (`bounds`), or both: bounds beside edges, or beside
values that are whole numbers. Only discrete columns can be grouped or explained by, and only numeric ones
summed or averaged.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal
from zoneinfo import available_timezones

from pydantic import Field, TypeAdapter, ValidationError, ValidationInfo, field_validator, model_validator

from dpxplain.errors import SchemaError
from dpxplain.model.display import public
from dpxplain.model.hardening import Declared
from dpxplain.model.process import cached_property

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# -- Dates -------------------------------------------------------------------------------------------------
#
# Dates and timestamps are read from ISO text or TOML, ordered, and placed on a number line.

_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?)?\Z")
_EPOCH = datetime(1970, 1, 1)


def read_dates(values: Sequence[Any]) -> tuple[date, ...] | None:
    """The values as dates, or all as timestamps if one of them is a timestamp; None if any is neither.

    >>> read_dates(["2025-01-01", "2025-07-01"])
    (datetime.date(2025, 1, 1), datetime.date(2025, 7, 1))
    """
    read = [_read_date(value) for value in values]
    if not read or any(moment is None for moment in read):
        return None
    moments = [moment for moment in read if moment is not None]
    has_time = any(isinstance(moment, datetime) for moment in moments)
    return tuple(midnight(moment) if has_time else moment for moment in moments)


def midnight(day: date) -> datetime:
    """A date as a timestamp; a timestamp as it is."""
    return day if isinstance(day, datetime) else datetime.combine(day, time())


def position(moment: date) -> float:
    """Microseconds since 1970 on the number line, exact for some 285 years on either side."""
    return float(micros(moment))


def micros(moment: date) -> int:
    """Microseconds since 1970."""
    return (midnight(moment) - _EPOCH) // timedelta(microseconds=1)


def as_number(value: Any) -> float:
    """A number as a float; a date as its place on the number line."""
    return position(value) if isinstance(value, date) else float(value)


def at_position(place: float) -> date:
    """The inverse of `position`: a date at midnight, else a timestamp; clipped to the first or last moment.

    >>> at_position(position(date(2025, 1, 31))), at_position(-1e30)
    (datetime.date(2025, 1, 31), datetime.date(1, 1, 1))
    """
    inside = min(max(place, position(datetime.min)), position(datetime.max))
    moment = _EPOCH + timedelta(microseconds=int(inside))
    return moment.date() if moment.time() == time() else moment


def comparable(value: Any) -> Any:
    """A value that compares with others of its column: a date as a timestamp, anything else as it is."""
    return midnight(value) if isinstance(value, date) else value


def edge_text(value: Any, separator: str = "") -> str:
    """A declared edge or bound as text for people, thousands separated if asked for.

    >>> edge_text(2.5), edge_text(2500, ","), edge_text(date(2025, 1, 31))
    ('2.5', '2,500', '2025-01-31')
    """
    return str(value) if isinstance(value, date) else f"{value:{separator}.15g}"


def _read_date(value: Any) -> date | None:
    if isinstance(value, datetime) and value.tzinfo is not None:
        raise ValueError("must not contain a time zone; declare time_zone for the column")
    if isinstance(value, date):
        return value
    if not isinstance(value, str) or not _ISO.match(value):
        return None
    try:
        return date.fromisoformat(value) if len(value) == 10 else datetime.fromisoformat(value)
    except ValueError:
        return None


# -- Column ------------------------------------------------------------------------------------------------

Scalar = str | int | bool | date | datetime | None

# Values are kept as whole multiples of `step`, at most this many, so that sums over 2^31 rows stay
# exact in 64 bits with room for doubling them (docs/proofs/sensitivity.md).
LARGEST_UNITS = 2**30
LARGEST_BOUND = 1e100


@dataclass(frozen=True)
class Bin:
    """One interval of a binned column, open below and closed above.

    >>> str(Bin(40, 50))
    '(40, 50]'
    """

    low: Any  # a number, a date or a timestamp
    high: Any

    def __str__(self) -> str:
        return f"({edge_text(self.low)}, {edge_text(self.high)}]"


DomainValue = str | int | bool | date | Bin | None


def label(value: DomainValue) -> str:
    """A declared value as text for people."""
    return "NULL" if value is None else str(value)


def _label_key(value: DomainValue) -> str:
    """A declared value as a key of `value_labels`."""
    return label(value).lower() if isinstance(value, bool) else label(value)


@dataclass(frozen=True)
class Grid:
    """The fixed-point grid of a numeric column: value = units × step, low ≤ units ≤ high."""

    step: Fraction
    low: int
    high: int

    @property
    def range(self) -> int:
        return self.high - self.low

    @property
    def unit(self) -> float:
        return float(self.step)

    @property
    def coarseness(self) -> int:
        """How many half units a value is rounded to before squaring: squares up to 2^30 allow 2^31 rows."""
        return 1 << max(0, self.range.bit_length() - 15)

    @property
    def square_reach(self) -> int:
        """The largest square of (2x − low − high) / coarseness, rounded."""
        return ((2 * self.range + self.coarseness) // (2 * self.coarseness)) ** 2

    @property
    def square_unit(self) -> float:
        """The value of one such square, in the square of the column's unit."""
        return (self.unit * self.coarseness / 2) ** 2


class Column(Declared):
    """One declared column.

    >>> Column(edges=[0, 10, 20]).domain
    (Bin(low=0.0, high=10.0), Bin(low=10.0, high=20.0))
    """

    verbatim: Literal[True] | None = None  # texts that look like dates stay texts, as discovered ones do
    values: tuple[Scalar, ...] | None = None
    edges: tuple[Any, ...] | None = None  # numbers, dates or timestamps
    bounds: tuple[Any, Any] | None = None
    step: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    center: float | None = Field(default=None, allow_inf_nan=False)  # a typical value; averages expect it
    expression: str | None = Field(default=None, min_length=1)  # SQL over the columns declared above it
    groups: dict[str, tuple[Scalar, ...]] | None = None  # the values in each group, whose names are `values`
    lookup: tuple[tuple[Scalar, Any], ...] | None = None  # its value for each value of the expression
    joined: tuple[str, str] | None = None  # the public table and its column that the lookup was read from
    time_zone: str | None = None  # the zone that timestamps with a zone are converted to; UTC if none
    null: bool = False  # NULL is one of the declared values (TOML has no null of its own)
    label: str = ""  # shown to people in place of the column's name
    unit: str = ""  # of its numbers, such as "minutes"
    value_labels: dict[str, str] = Field(default_factory=dict)  # what values stand for
    description: str = ""

    @model_validator(mode="before")
    @classmethod
    def _group_names(cls, declared: Any) -> Any:
        groups = declared.get("groups") if isinstance(declared, dict) else None
        if isinstance(groups, dict) and groups and declared.get("values") in (None, [*groups], tuple(groups)):
            return declared | {"values": list(groups)}
        return declared

    @field_validator("groups", mode="before")
    @classmethod
    def _distinct_members(cls, groups: Any) -> Any:
        if groups is None:
            return None
        if not isinstance(groups, dict) or not all(
            isinstance(g, list | tuple) and g for g in groups.values()
        ):
            raise ValueError('must give each group its values: { East = ["NY", "NJ"], West = ["CA"] }')
        members = [member for group in groups.values() for member in group]
        if not members or len({type(member) for member in members}) > 1 or len(set(members)) < len(members):
            raise ValueError("must contain values of one type, each in one group only")
        if not isinstance(members[0], str | int):
            raise ValueError("may contain only text, whole numbers, or true and false")
        return groups

    @field_validator("lookup", mode="before")
    @classmethod
    def _plain_results(cls, lookup: Any) -> Any:
        """Reads results that are dates, which are text in JSON, like declared values."""
        if not lookup:
            return lookup
        keys, results = zip(*lookup, strict=True)
        return tuple(zip(keys, read_dates(results) or results, strict=True))

    @field_validator("values", mode="before")
    @classmethod
    def _plain_values(cls, values: Any, info: ValidationInfo) -> Any:
        if values is None:
            return None
        if not isinstance(values, list | tuple) or not values:
            raise ValueError("must be a list of at least one value")
        if info.data.get("verbatim"):
            if not all(isinstance(v, str) for v in values):
                raise ValueError("must all be text because of verbatim = true")
        elif (dated := read_dates([v for v in values if v is not None])) is not None:
            moments = iter(dated)
            values = [None if v is None else next(moments) for v in values]
        if any(not isinstance(v, str | int | bool | date | None) for v in values):
            raise ValueError(
                "may contain only text, whole numbers, dates, or true and false; other numbers need edges"
            )
        if len({type(v) for v in values if v is not None}) > 1:
            raise ValueError("must all be of one type")
        if len(set(values)) != len(values):
            raise ValueError("must not contain a value twice")
        return tuple(values)

    @field_validator("edges", "bounds", mode="before")
    @classmethod
    def _numbers_or_moments(cls, ends: Any) -> Any:
        if ends is None:
            return None
        if not isinstance(ends, list | tuple):
            raise ValueError("must be a list of numbers or dates")
        try:
            return read_dates(ends) or _NUMBERS.validate_python(ends)
        except ValidationError:
            raise ValueError('must be numbers, or dates such as "2025-01-31"') from None

    @field_validator("edges")
    @classmethod
    def _increasing(cls, edges: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
        if edges is not None:
            if len(edges) < 2 or not _all_finite(edges):
                raise ValueError("must be at least two finite numbers")
            if any(a >= b for a, b in pairwise(edges)):
                raise ValueError("must be in increasing order, each only once")
        return edges

    @field_validator("bounds")
    @classmethod
    def _ordered(cls, bounds: tuple[Any, Any] | None) -> tuple[Any, Any] | None:
        if bounds is not None and not (_all_finite(bounds) and bounds[0] < bounds[1]):
            raise ValueError("must be two different finite numbers, the lower one first")
        return bounds

    @field_validator("time_zone")
    @classmethod
    def _known_zone(cls, name: str | None) -> str | None:
        if name is not None and name not in available_timezones():
            raise ValueError('must be the name of a time zone, such as "Europe/Berlin" or "UTC"')
        return name

    @model_validator(mode="after")
    def _consistent(self) -> Column:
        is_declared = self.values is not None or self.edges is not None or self.bounds is not None
        if self.expression is None:  # a declaration inferred from an expression is consistent
            self._check_values_beside()
        if self.expression is not None and not is_declared:
            return self  # completed by the schema, which knows the other columns
        if not is_declared:
            raise ValueError("needs values (categories), edges (bins) or bounds (a numeric range)")
        if self.null and self.values is None and self.edges is None:
            raise ValueError(
                "has null = true, which needs values or edges; with bounds only, delete it: sums and "
                "averages leave out NULL"
            )
        if self.verbatim and self.values is None:
            raise ValueError("has verbatim, which needs values")
        if self.step is not None and self.bounds is None:
            raise ValueError("has a step but no bounds; add bounds, or delete the line with step")
        if self.center is not None and (
            self.bounds is None or not self.bounds[0] <= self.center <= self.bounds[1]
        ):
            raise ValueError("has a center, which must lie between declared bounds")
        if self.lookup is not None and (self.expression is None or self.groups is not None):
            raise ValueError("has a lookup, which needs an expression and no groups")
        if self.groups is not None and self.values != tuple(self.groups):
            raise ValueError(
                "has both values and groups; delete the line with values: the groups' names are the values"
            )
        if self.time_zone is not None and not self.is_temporal:
            raise ValueError("has a time_zone, which needs dates or timestamps as values, edges or bounds")
        ends = (*(self.edges or ()), *(self.bounds or ()))
        if len({isinstance(end, date) for end in ends}) > 1:
            raise ValueError("edges and bounds must both be numbers, or both be dates")
        if self.is_temporal and self.step is not None:
            raise ValueError("has a step, which dates cannot have; delete the line with step")
        unknown = self.value_labels.keys() - {_label_key(value) for value in self.domain or ()}
        if unknown:
            raise ValueError(f"has a label for {min(unknown)!r}, which is not one of its values")
        if self.is_summable:
            assert self.bounds is not None
            self._check_grid(max(map(abs, self.bounds)))
        return self

    def _check_values_beside(self) -> None:
        """Refuses edges beside values, and bounds beside values that are not whole numbers within them."""
        if self.values is None:
            return
        if self.edges is not None:
            raise ValueError(
                "has both values and edges; delete the line with edges to keep the categories, or the line "
                "with values to keep the bins"
            )
        if self.bounds is None:
            return
        whole: list[Any] = [value for value in self.values if value is not None]
        low, high = self.bounds
        if not all(type(value) is int for value in whole) or isinstance(low, date):
            raise ValueError(
                "has both values and bounds, which is possible for whole numbers only; delete the line with "
                "bounds to keep the categories, or the line with values to keep the numbers"
            )
        if not all(low <= value <= high for value in whole):
            raise ValueError("bounds must include all the values; widen them, or delete the line with bounds")

    def _check_grid(self, largest: float) -> None:
        """Refuses an empty grid or one beyond the range of floats: either would leave a sum without noise."""
        if not 1 / LARGEST_BOUND <= largest <= LARGEST_BOUND:
            raise ValueError(
                f"the bounds must be below {LARGEST_BOUND:g}, and one of them above {1 / LARGEST_BOUND:g}, "
                "whatever their sign"
            )
        if self.step is None and self.grid.range < 1:
            raise ValueError(
                "the bounds are too close together for numbers this large; subtract a constant first"
            )
        if self.grid.range < 1:
            raise ValueError("the step must be smaller than the distance between the bounds")
        if max(abs(self.grid.low), abs(self.grid.high)) > LARGEST_UNITS:
            raise ValueError(
                f"the step is too small: the bounds are more than {LARGEST_UNITS:,} steps from 0"
            )

    def heading(self, name: str) -> str:
        """The heading of a table's column or a chart's axis: the label, or else the name, with the unit.

        >>> Column(bounds=[0, 60], label="Delay", unit="minutes").heading("dep_delay")
        'Delay (minutes)'
        """
        text = self.label or name
        return f"{text} ({self.unit})" if self.unit else text

    @property
    def meaning(self) -> str:
        """Label, unit, description and expression in one text; empty if none is declared."""
        computed = f"Computed as {self.expression}" if self.expression else ""
        if self.joined is not None:
            computed = f"From the public table {self.joined[0]}, by {self.expression}"
        parts = (self.heading("").strip(), self.description.rstrip("."), computed)
        return ". ".join(part for part in parts if part)

    def value_label(self, value: DomainValue) -> str:
        """What a declared value stands for; empty where nothing is declared."""
        return self.value_labels.get(_label_key(value), "")

    def text(self, value: DomainValue) -> str:
        """A declared value as text for people, with what it stands for.

        >>> Column(values=["JFK", "EWR"], value_labels={"JFK": "Kennedy"}).text("JFK")
        'JFK (Kennedy)'
        """
        meaning = self.value_label(value)
        return f"{label(value)} ({meaning})" if meaning else label(value)

    @cached_property
    def domain(self) -> tuple[DomainValue, ...] | None:
        """The declared values or bins, in order and NULL last, or None for a purely numeric column."""
        listed: tuple[DomainValue, ...]
        if self.values is not None:
            listed = tuple(v for v in self.values if v is not None)
        elif self.edges is not None:
            listed = tuple(Bin(a, b) for a, b in pairwise(self.edges))
        else:
            return None
        return (*listed, None) if self.null or None in (self.values or ()) else listed

    @cached_property
    def grid(self) -> Grid:
        """The declared step, or the finest power of two that keeps sums exact.

        See docs/specification.md, exact numbers.
        """
        if self.bounds is None or not self.is_summable:
            raise SchemaError(
                "This column has no numeric bounds.", remedy="Declare numeric bounds = [low, high] for it."
            )
        low, high = (Fraction(Decimal(repr(b))) for b in self.bounds)
        if self.step is not None:
            step = Fraction(Decimal(repr(self.step)))
        else:
            exponent = math.floor(math.log2(LARGEST_UNITS / max(abs(low), abs(high))))
            step = Fraction(2) ** -exponent
        return Grid(step, math.ceil(low / step), math.floor(high / step))

    @property
    def is_numeric(self) -> bool:
        return self.values is None

    @property
    def is_temporal(self) -> bool:
        """Whether its values are dates or timestamps."""
        declared = (*(self.values or ()), *(self.edges or ()), *(self.bounds or ()))
        return isinstance(next((value for value in declared if value is not None), None), date)

    @property
    def is_summable(self) -> bool:
        """Whether its numbers can be added up and averaged."""
        return self.bounds is not None and not self.is_temporal


_NUMBERS = TypeAdapter(tuple[float, ...])


def _all_finite(ends: tuple[Any, ...]) -> bool:
    return all(isinstance(end, date) or math.isfinite(end) for end in ends)


# -- Unknown columns ---------------------------------------------------------------------------------------
#
# Columns whose values are not known beforehand: their declaration, and what a private discovery releases.

DISCOVER = "discover"


class UnknownColumn(Declared):
    """The declaration `values = "discover"`: a text column that cannot be queried before its discovery."""

    longest: int = Field(default=100, ge=1, le=1_000)  # characters; a longer value is never discovered
    label: str = ""
    description: str = ""


def with_unknown_apart(declared: Any) -> Any:
    """A schema as it was written, with the columns that are to be discovered kept apart from the others."""
    columns = declared.get("columns") if isinstance(declared, Mapping) else None
    if not isinstance(columns, Mapping):
        return declared
    unknown = {
        name: {key: value for key, value in column.items() if key != "values"}
        for name, column in columns.items()
        if isinstance(column, Mapping) and column.get("values") == DISCOVER
    }
    if not unknown:
        return declared
    known = {name: column for name, column in columns.items() if name not in unknown}
    return {**declared, "columns": known, "unknown": {**declared.get("unknown", {}), **unknown}}


def is_declarable(text: str) -> bool:
    """Whether a text can be a declared value on every engine: it must not contain the character NUL.

    Checked before noise is drawn (docs/proofs/discovery.md), so that no discovered value fails afterwards.
    """
    return "\0" not in text


@dataclass(frozen=True)
class ValueCounts:
    """The true number of privacy units that have each value of a column."""

    values: tuple[str, ...]
    units: NDArray[np.int64]


@public("DiscoveredValuePayload", "value units")
@dataclass(frozen=True)
class DiscoveredValue:
    """A value and how many privacy units have it, with noise."""

    value: str
    units: float


@dataclass(frozen=True)
class DiscoveryRelease:
    """Values that enough privacy units have, in order, and their noisy numbers of units."""

    rho: float
    delta: float
    values: tuple[str, ...]
    noisy_units: tuple[float, ...]
    threshold: int
    scale: float
    private: bool = True

    def to_json(self) -> str:
        return json.dumps(vars(self))

    @classmethod
    def from_json(cls, text: str) -> DiscoveryRelease:
        stored = json.loads(text)
        return cls(
            **stored | {"values": tuple(stored["values"]), "noisy_units": tuple(stored["noisy_units"])}
        )
