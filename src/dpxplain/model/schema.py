"""The curator's public declaration: the table, its columns' domains, and the privacy budget.

Domains come from here and never from the data (SPEC section 2, item 6). A column is discrete
(`values` or `edges`), numeric (`bounds`), or both; only discrete ones can be grouped or explained by,
only numeric ones summed or averaged.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NoReturn

from pydantic import Field, ValidationError, field_validator, model_validator

from dpxplain.errors import SchemaError
from dpxplain.model.hardening import UNCHANGEABLE, Declared

Scalar = str | int | bool | None

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

    low: float
    high: float

    def __str__(self) -> str:
        return f"({self.low:.15g}, {self.high:.15g}]"


DomainValue = str | int | bool | Bin | None


def label(value: DomainValue) -> str:
    """A declared value as text for people."""
    return "NULL" if value is None else str(value)


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


class Column(Declared):
    """One declared column.

    >>> Column(edges=[0, 10, 20]).domain
    (Bin(low=0.0, high=10.0), Bin(low=10.0, high=20.0))
    """

    values: tuple[Scalar, ...] | None = None
    edges: tuple[float, ...] | None = None
    bounds: tuple[float, float] | None = None
    step: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    null: bool = False  # NULL is one of the declared values (TOML has no null of its own)
    description: str = ""

    @field_validator("values", mode="before")
    @classmethod
    def _plain_values(cls, values: Any) -> Any:
        if values is None:
            return None
        if not isinstance(values, list | tuple) or not values:
            raise ValueError("must be a list of at least one value")
        if any(not isinstance(v, str | int | bool | None) for v in values):
            raise ValueError("may hold text, whole numbers, true or false; for other numbers use edges")
        if len({type(v) for v in values if v is not None}) > 1:
            raise ValueError("must all be of one type")
        if len(set(values)) != len(values):
            raise ValueError("must not repeat a value")
        return tuple(values)

    @field_validator("edges")
    @classmethod
    def _increasing(cls, edges: tuple[float, ...] | None) -> tuple[float, ...] | None:
        if edges is not None:
            if len(edges) < 2 or not all(math.isfinite(e) for e in edges):
                raise ValueError("must be at least two finite numbers")
            if any(a >= b for a, b in pairwise(edges)):
                raise ValueError("must increase from one to the next")
        return edges

    @field_validator("bounds")
    @classmethod
    def _ordered(cls, bounds: tuple[float, float] | None) -> tuple[float, float] | None:
        if bounds is not None and not (
            math.isfinite(bounds[0]) and math.isfinite(bounds[1]) and bounds[0] < bounds[1]
        ):
            raise ValueError("must be two finite numbers, the lower one first")
        return bounds

    @model_validator(mode="after")
    def _consistent(self) -> Column:
        if self.values is not None and (self.edges is not None or self.bounds is not None):
            raise ValueError("values cannot stand beside edges or bounds")
        if self.values is None and self.edges is None and self.bounds is None:
            raise ValueError("needs values (categories), edges (bins) or bounds (a numeric range)")
        if self.null and self.values is None and self.edges is None:
            raise ValueError("null needs values or edges; a NULL in a column with bounds only is left out")
        if self.step is not None and self.bounds is None:
            raise ValueError("step needs bounds")
        if self.bounds is not None:
            self._check_grid(max(map(abs, self.bounds)))
        return self

    def _check_grid(self, largest: float) -> None:
        """An empty grid or one beyond the range of floats would leave a sum without noise."""
        if not 1 / LARGEST_BOUND <= largest <= LARGEST_BOUND:
            raise ValueError(f"bounds must be of a size between {1 / LARGEST_BOUND:g} and {LARGEST_BOUND:g}")
        if self.step is None and self.grid.range < 1:
            raise ValueError("bounds are too close together for their size; shift the column towards 0")
        if self.grid.range < 1:
            raise ValueError("step must be smaller than the range of the bounds")
        if max(abs(self.grid.low), abs(self.grid.high)) > LARGEST_UNITS:
            raise ValueError(f"step is too fine: the bounds span more than {LARGEST_UNITS:,} steps")

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
        """The declared step, or the finest power of two that keeps sums exact (SPEC 2, item 9)."""
        if self.bounds is None:
            raise SchemaError("A column without bounds has no grid.")
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


class Columns(dict[str, Column]):
    """The declared columns, immutable because sensitivities follow from them."""

    def __init__(self, columns: Mapping[str, Column]) -> None:
        if self:
            self._refuse()
        super().__init__(columns)

    def _refuse(self, *_args: object, **_kwargs: object) -> NoReturn:
        raise TypeError(UNCHANGEABLE)

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __deepcopy__(self, memo: dict[int, Any]) -> Columns:
        return Columns({name: copy.deepcopy(column, memo) for name, column in self.items()})

    def __reduce__(self) -> tuple[type[Columns], tuple[dict[str, Column]]]:
        return Columns, (dict(self),)


class Table(Declared):
    name: str = Field(min_length=1)
    source: str | None = None
    version: str = ""  # change it when the data change: stored releases belong to one version
    cache: bool = False  # whether a file's encoded rows may be kept in the workspace, to open faster


NoiseKind = Literal["vectorised", "opendp"]


class Privacy(Declared):
    rho: float = Field(gt=0, allow_inf_nan=False)
    delta: float = Field(default=1e-6, gt=0, lt=1)
    unit: str = "row"
    max_rows: int = Field(default=1, ge=1, le=1_000_000)
    neighbours: Literal["unbounded", "bounded"] = "unbounded"  # a unit comes or goes, or is replaced
    noise: NoiseKind = "vectorised"  # which sampler draws Gaussian noise; the law is the same

    @model_validator(mode="after")
    def _rows(self) -> Privacy:
        if self.unit == "row" and self.max_rows != 1:
            raise ValueError('max_rows needs unit = "<column of the person id>"')
        return self


class Schema(Declared):
    """The whole declaration. Everything in it is public.

    >>> schema = Schema.load({
    ...     "table": {"name": "people"}, "privacy": {"rho": 1.0},
    ...     "columns": {"sex": {"values": ["F", "M"]}, "pay": {"bounds": [0, 100]}}})
    >>> schema.columns["sex"].domain
    ('F', 'M')
    """

    table: Table
    privacy: Privacy
    columns: dict[str, Column] = Field(min_length=1)

    @field_validator("columns")
    @classmethod
    def _immutable(cls, columns: dict[str, Column]) -> Columns:
        return Columns(columns)

    @classmethod
    def load(cls, source: Schema | Mapping[str, Any] | str | Path) -> Schema:
        """From a TOML file or a dict of the same shape; errors name the key."""
        if isinstance(source, Schema):
            # A copy, validated anew: whoever holds the original cannot change it or its cached properties.
            return cls.load(source.model_dump())
        where = "the schema"
        raw: Mapping[str, Any]
        if isinstance(source, Mapping):
            raw = source
        else:
            where = str(source)
            if not isinstance(source, str | Path):
                raise SchemaError(
                    f"A schema cannot be read from a value of type {type(source).__name__}.",
                    remedy="Pass a TOML file's path, or a dict of the same shape.",
                )
            try:
                raw = tomllib.loads(Path(source).read_text(encoding="utf-8"))
            except FileNotFoundError:
                raise SchemaError(
                    f"There is no schema file {where}.",
                    remedy="Draft one with: dpxplain schema init DATA_FILE",
                ) from None
            except (OSError, UnicodeDecodeError) as error:
                raise SchemaError(
                    f"{where} cannot be read: {type(error).__name__}.",
                    remedy="Pass the path of a TOML file in UTF-8 that may be read.",
                ) from None
            except tomllib.TOMLDecodeError as error:
                raise SchemaError(
                    f"{where} is not valid TOML: {error}.", remedy="Mend the file at that place."
                ) from None
        try:
            return cls.model_validate(raw)
        except ValidationError as error:
            mistakes = [_mistake(e) for e in error.errors()]
            raise SchemaError(
                f"In {where}: {'; '.join(f'{key}: {message}' for key, message in mistakes)}.",
                remedy="Mend these keys of the schema.",
                mistakes=mistakes,
            ) from None

    def column(self, name: str) -> Column:
        return self.columns[name]

    def domain(self, name: str) -> tuple[DomainValue, ...]:
        """The declared values of a discrete column."""
        domain = self.columns[name].domain
        if domain is None:
            raise SchemaError(f"Column {name} has no declared values or edges.")
        return domain

    def fingerprint(self) -> str:
        """A hash of everything that sensitivities follow from; it differs after any change of it."""
        privacy = self.privacy
        declared = [
            [self.table.name, self.table.version],
            [privacy.rho, privacy.delta, privacy.unit, privacy.max_rows, privacy.neighbours],
            [
                [c.values, c.edges, c.bounds, c.step, c.null, c.domain, c.bounds and c.grid]
                for c in self.columns.values()
            ],
            list(self.columns),
        ]
        return hashlib.sha256(json.dumps(_canonical(declared)).encode()).hexdigest()

    def discrete(self) -> Iterator[str]:
        """Names of the columns that can be grouped or explained by, in the declared order."""
        return (name for name, column in self.columns.items() if column.domain is not None)


def _canonical(value: Any) -> Any:
    """A declared value as JSON with its type; a value of an unexpected type by its identity in memory."""
    kind = type(value)
    if kind in (list, tuple):
        return [_canonical(part) for part in value]
    if kind is Bin:
        return ["bin", _canonical(value.low), _canonical(value.high)]
    if kind is Grid:
        return ["grid", _canonical(value.step), _canonical(value.low), _canonical(value.high)]
    if kind is Fraction:
        return ["fraction", value.numerator, value.denominator]
    return value if kind in (str, int, float, bool, type(None)) else ["object", id(value)]


def _mistake(error: Any) -> tuple[str, str]:
    """The refused key of a validation error, and what is wrong with it."""
    key = ".".join(str(part) for part in error["loc"]) or "schema"
    kinds: dict[str, str] = {
        "missing": "is missing",
        "extra_forbidden": "is not a known key",
    }
    message = kinds.get(error["type"]) or error["msg"].removeprefix("Value error, ")
    return key, message[0].lower() + message[1:]


AggregateKind = Literal["count", "sum", "avg"]
