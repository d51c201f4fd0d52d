"""Predicates other than equalities, made from declared domains: ranges, thresholds, differs, either.

Each function returns a recipe, which yields its conditions once the schema and the query are known:
`question.explain(predicates=dpx.ranges("age"))`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from dpxplain.errors import ExplanationError
from dpxplain.model.hardening import plain, plain_texts
from dpxplain.model.query import And, Comparison, Filter, IsNull, Or
from dpxplain.model.schema import Bin, DomainValue, Schema

Make = Callable[[str, Schema], Iterator[Filter]]


@dataclass(frozen=True)
class Recipe:
    """Conditions on one column each: on the named columns, or else on all eligible ones that fit."""

    name: str
    columns: tuple[str, ...]
    fits: Callable[[str, Schema], bool]
    make: Make

    def conditions(self, schema: Schema, eligible: Sequence[str]) -> Iterator[Filter]:
        for name in self.columns or (name for name in eligible if self.fits(name, schema)):
            yield from self.make(name, schema)


@dataclass(frozen=True)
class Either:
    """Conditions `a = v OR b = v` on several columns together."""

    columns: tuple[str, ...]
    name: str = "either"

    def conditions(self, schema: Schema, eligible: Sequence[str]) -> Iterator[Filter]:
        first, *others = (schema.domain(name) for name in self.columns)
        common = [value for value in first if all(value in domain for domain in others)]
        if not common:
            raise ExplanationError(
                f"{' and '.join(self.columns)} have no declared value in common.",
                remedy="Choose columns whose lists of values overlap.",
            )
        for value in common:
            yield Or(tuple(_equals(name, value) for name in self.columns))


def ranges(*columns: str) -> Recipe:
    """Every run of neighbouring bins or whole numbers, such as `age > 20 AND age <= 50`."""
    return Recipe("ranges", columns, _is_ordered, _ranges)


def thresholds(*columns: str) -> Recipe:
    """`column <= edge` and `column > edge` at every declared edge between two values."""
    return Recipe("thresholds", columns, _is_ordered, _thresholds)


def differs(*columns: str) -> Recipe:
    """`column <> value` for every declared value."""
    return Recipe("differs", columns, _is_listed, _differs)


def either(*columns: str) -> Either:
    """`a = v OR b = v` for every value v the columns have in common, such as a zone at either end."""
    if len(set(columns)) < 2 or not all(isinstance(name, str) for name in columns):
        raise ExplanationError(
            "dpx.either needs two or more columns.", remedy='Write dpx.either("pickup_zone", "dropoff_zone").'
        )
    return Either(columns)


RECIPES: dict[str, Callable[..., Recipe | Either]] = {
    make.__name__: make for make in (ranges, thresholds, differs, either)
}


def written(recipe: Recipe | Either) -> str:
    """The recipe as one text, for the command line or a JSON request.

    >>> written(ranges("age", "pay")), written(differs())
    ('ranges:age,pay', 'differs')
    """
    return f"{recipe.name}:{','.join(recipe.columns)}" if recipe.columns else recipe.name


def read(text: str, schema: Schema) -> str | Recipe | Either:
    """The recipe that a text names; any other text is a SQL condition and is returned unchanged.

    >>> schema = Schema.load({"table": {"name": "t"}, "privacy": {"rho": 1},
    ...     "columns": {"age": {"edges": [0, 30, 60]}}})
    >>> read("ranges:age", schema).columns, read("age > 30", schema)
    (('age',), 'age > 30')
    """
    name, _, listed = text.partition(":")
    columns = columns_named(listed, schema) if listed else []
    return RECIPES[name](*columns) if name in RECIPES and (columns or name != "either") else text


def python_code(text: str, schema: Schema) -> str:
    """What Python code passes as a predicate: a recipe as the call that makes it, a SQL condition quoted.

    >>> schema = Schema.load({"table": {"name": "t"}, "privacy": {"rho": 1},
    ...     "columns": {"age": {"edges": [0, 30, 60]}}})
    >>> for text in ("ranges:age", "differs", "age > 3"):
    ...     print(python_code(text, schema))
    dpx.ranges('age')
    dpx.differs()
    'age > 3'
    """
    recipe = read(text, schema)
    if isinstance(recipe, str):
        return repr(text)
    return f"dpx.{recipe.name}({', '.join(map(repr, recipe.columns))})"


def columns_named(text: str, schema: Schema) -> list[str]:
    """The column names in `a,b`; a text that is itself a column's name, comma included, is that column."""
    return [text] if text in schema.columns else [name.strip() for name in text.split(",")]


def library_recipe(recipe: Recipe | Either) -> Recipe | Either | None:
    """A new recipe of the same name and columns; None if the argument was not made by this module.

    A recipe built elsewhere could yield different conditions each time it is called, some for the sensitivity
    and others for the engine. So only recipes of this module are used.
    """
    columns = plain_texts(recipe.columns)
    make = RECIPES.get(plain(recipe.name)) if isinstance(recipe.name, str) else None
    if make is None or columns is None:
        return None
    fresh = make(*columns)
    if isinstance(fresh, Either) or isinstance(recipe, Either):
        return fresh if type(recipe) is type(fresh) else None
    is_same = type(recipe) is Recipe and recipe.fits is fresh.fits and recipe.make is fresh.make
    return fresh if is_same else None


def _ranges(name: str, schema: Schema) -> Iterator[Filter]:
    cells = _in_order(name, schema)
    for first, last in itertools.combinations_with_replacement(range(len(cells)), 2):
        if (first, last) != (0, len(cells) - 1):
            yield _between(name, cells[first], cells[last], first == 0, last == len(cells) - 1)


def _thresholds(name: str, schema: Schema) -> Iterator[Filter]:
    for cell in _in_order(name, schema)[:-1]:
        edge = _number(cell.high) if isinstance(cell, Bin) else cell
        yield Comparison(name, "<=", edge)
        yield Comparison(name, ">", edge)


def _differs(name: str, schema: Schema) -> Iterator[Filter]:
    for value in schema.domain(name):
        if isinstance(value, Bin):
            raise ExplanationError(
                f"{name} has ranges of values, so <> does not work for it.",
                remedy=f"Use dpx.ranges({name!r}) or dpx.thresholds({name!r}).",
            )
        if value is not None:
            yield Comparison(name, "<>", value)


def _is_listed(name: str, schema: Schema) -> bool:
    return schema.column(name).values is not None


def _is_ordered(name: str, schema: Schema) -> bool:
    listed = [value for value in schema.domain(name) if value is not None]
    return all(isinstance(v, Bin | int | date) and not isinstance(v, bool) for v in listed)


def _in_order(name: str, schema: Schema) -> list[Bin | int | date]:
    """Bins, whole numbers or dates from low to high, NULL left out."""
    if not _is_ordered(name, schema):
        raise ExplanationError(
            f"The values of {name} have no order.",
            remedy="Choose a column with edges or whole numbers, or use dpx.differs or equalities.",
        )
    cells = [value for value in schema.domain(name) if isinstance(value, Bin | int | date)]
    return sorted(cells, key=_lower_end)


def _lower_end(cell: Bin | int | date) -> Any:
    return cell.low if isinstance(cell, Bin) else cell


def _between(
    name: str, first: Bin | int | date, last: Bin | int | date, from_start: bool, to_end: bool
) -> Filter:
    """first ≤ column ≤ last, without the end that the domain implies anyway."""
    if not isinstance(first, Bin) and first == last:
        return Comparison(name, "=", first)
    high = Comparison(name, "<=", _number(last.high) if isinstance(last, Bin) else last)
    if from_start:
        return high
    low = (
        Comparison(name, ">", _number(first.low)) if isinstance(first, Bin) else Comparison(name, ">=", first)
    )
    return low if to_end else And((low, high))


def _equals(name: str, value: DomainValue) -> Filter:
    if value is None:
        return IsNull(name)
    if isinstance(value, Bin):
        return And((Comparison(name, ">", _number(value.low)), Comparison(name, "<=", _number(value.high))))
    return Comparison(name, "=", value)


def _number(edge: Any) -> Any:
    return edge if isinstance(edge, date) else int(edge) if edge == int(edge) else edge
