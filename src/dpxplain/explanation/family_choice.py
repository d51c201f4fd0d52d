"""The predicates that a request asks for, by attributes, SQL conditions or recipes, made into a family."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from dpxplain.errors import ExplanationError
from dpxplain.explanation.family import CONDITION_BYTES, PART_BYTES, Listed, PredicateFamily
from dpxplain.model.column import Bin, DomainValue
from dpxplain.model.hardening import did_you_mean, plain, plain_texts
from dpxplain.model.query import And, Comparison, Filter, IsNull, Or, Query, filter_columns
from dpxplain.model.schema import Schema

# -- Recipes -----------------------------------------------------------------------------------------------
#
# Predicates other than equalities, made from declared domains: ranges, thresholds, differs, either. Each
# function returns a recipe, which yields its conditions once the schema and the query are known:
# `question.explain(predicates=dpx.ranges("age"))`.

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


def recipe_text(recipe: Recipe | Either) -> str:
    """The recipe as one text, for the command line or a JSON request.

    >>> recipe_text(ranges("age", "pay")), recipe_text(differs())
    ('ranges:age,pay', 'differs')
    """
    return f"{recipe.name}:{','.join(recipe.columns)}" if recipe.columns else recipe.name


def parse_recipe(text: str, schema: Schema) -> str | Recipe | Either:
    """The recipe that a text names; any other text is a SQL condition and is returned unchanged.

    >>> schema = Schema.load({"table": {"name": "t"}, "privacy": {"rho": 1},
    ...     "columns": {"age": {"edges": [0, 30, 60]}}})
    >>> parse_recipe("ranges:age", schema).columns, parse_recipe("age > 30", schema)
    (('age',), 'age > 30')
    """
    name, _, listed = text.partition(":")
    columns: list[str] = []
    if listed:  # a text that is itself a column's name, comma included, is that column
        columns = [listed] if listed in schema.columns else [column.strip() for column in listed.split(",")]
    return RECIPES[name](*columns) if name in RECIPES and (columns or name != "either") else text


def python_code(text: str, schema: Schema) -> str:
    """A predicate in Python code: a recipe as the call that makes it, a SQL condition quoted.

    >>> schema = Schema.load({"table": {"name": "t"}, "privacy": {"rho": 1},
    ...     "columns": {"age": {"edges": [0, 30, 60]}}})
    >>> for text in ("ranges:age", "differs", "age > 3"):
    ...     print(python_code(text, schema))
    dpx.ranges('age')
    dpx.differs()
    'age > 3'
    """
    recipe = parse_recipe(text, schema)
    if isinstance(recipe, str):
        return repr(text)
    return f"dpx.{recipe.name}({', '.join(map(repr, recipe.columns))})"


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
    return sorted(cells, key=lambda cell: cell.low if isinstance(cell, Bin) else cell)


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


# -- Choices -----------------------------------------------------------------------------------------------

LARGEST_FAMILY = 20_000_000
FAMILY_BYTES = 32_000_000
"""The most memory that one family may take. Asking for a family is free, and several are kept."""
_MOST_COMPARISONS = 50_000_000  # (cell, condition) pairs, to tabulate a family
_MOST_SUBSETS = FAMILY_BYTES // PART_BYTES

Predicates = str | Recipe | Either | Iterable[str | Recipe | Either]
ParseCondition = Callable[[str, Schema], Filter]


@dataclass(frozen=True)
class FamilyChoice:
    """Which predicates are asked for, not yet checked: attributes and conjuncts, or conditions."""

    attributes: Sequence[str] | None = None
    conjuncts: int | None = None
    exclude: Sequence[str] = ()
    predicates: Predicates | None = None
    nested: bool = False  # also conjunctions of fewer conditions, down to single ones, as a story needs

    def __post_init__(self) -> None:
        for name in ("attributes", "exclude", "predicates"):  # a generator is read once, here
            if isinstance(value := getattr(self, name), Iterator):
                object.__setattr__(self, name, tuple(value))

    def in_schema_order(self, schema: Schema) -> FamilyChoice:
        """The same attributes in their declared order, so that requests for them have one identity."""
        names = None if self.attributes is None else plain_texts(self.attributes)
        if names is None or not all(name in schema.columns for name in names):
            return self  # none, or refused when the choice is checked
        declared = tuple(name for name in schema.columns if name in names)
        return self if declared == tuple(names) else replace(self, attributes=declared)

    def to_request(self) -> dict[str, Any]:
        """The choice as JSON, as the history stores it and a server accepts it."""
        predicates = None
        if self.predicates is not None:
            listed = _as_items(self.predicates)
            predicates = [item if isinstance(item, str) else recipe_text(item) for item in listed]
        return {
            "attributes": None if self.attributes is None else list(self.attributes),
            "conjuncts": self.conjuncts,
            "exclude": list(self.exclude),
            "predicates": predicates,
            **({"nested": True} if self.nested else {}),
        }

    @classmethod
    def from_request(cls, body: Mapping[str, Any], schema: Schema) -> FamilyChoice:
        predicates = body["predicates"]
        return cls(
            body["attributes"],
            body["conjuncts"],
            body["exclude"],
            None if predicates is None else tuple(parse_recipe(text, schema) for text in predicates),
            body.get("nested", False),
        )


NO_ATTRIBUTE = "No column is left that could explain the difference."


@dataclass(frozen=True)
class CheckedChoice:
    """A choice that the schema and the query allow; texts and numbers are plain, recipes this library's."""

    attributes: tuple[str, ...]
    conjuncts: int
    predicates: tuple[str | Recipe | Either, ...] | None = None  # instead of conjunctions of the attributes
    nested: bool = False

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many conditions a conjunction may have."""
        return tuple(range(1, self.conjuncts + 1)) if self.nested else (self.conjuncts,)


def check_choice(choice: FamilyChoice, schema: Schema, query: Query) -> CheckedChoice:
    """The checked choice; by default all discrete columns that the query neither groups nor aggregates by.

    Columns of public tables are used only if named: each attribute makes the noise of the others larger.
    """
    attributes, conjuncts = choice.attributes, choice.conjuncts
    exclude, predicates = choice.exclude, choice.predicates
    eligible = eligible_attributes(schema, query)
    if predicates is not None:
        if attributes is not None or conjuncts is not None or exclude or choice.nested:
            raise ExplanationError(
                "predicates already name their columns, so the choice of columns does not apply.",
                remedy="Leave out attributes, conjuncts, exclude and nested, or leave out predicates.",
            )
        return CheckedChoice((), 0, _plain_predicates(predicates))
    own = [name for name in eligible if schema.columns[name].joined is None]
    chosen = _names("attributes", own if attributes is None else attributes, schema, query, eligible)
    left_out = _names("exclude", exclude, schema, query, eligible)
    chosen = tuple(name for name in chosen if name not in left_out)
    if not chosen:
        raise ExplanationError(
            NO_ATTRIBUTE,
            remedy="The curator can declare another column with values or edges.",
        )
    conjuncts = 1 if conjuncts is None else plain(conjuncts)
    if type(conjuncts) is not int or not 1 <= conjuncts <= len(chosen):
        raise ExplanationError(
            f"conjuncts must be a whole number from 1 to the number of attributes ({len(chosen)}), "
            f"not {conjuncts!r}.",
            remedy="Use conjuncts=1 for single conditions, 2 for pairs.",
        )
    return CheckedChoice(chosen, conjuncts, nested=choice.nested is True)


def chosen_family(
    choice: CheckedChoice, schema: Schema, query: Query, parse: ParseCondition
) -> PredicateFamily:
    """The predicates of a choice. `parse` reads SQL conditions; this package knows no SQL."""
    if choice.predicates is not None:
        family = _listed(choice.predicates, schema, query, parse)
        _check_tables(family)
        family.overlap  # noqa: B018 (tabulates the conditions)
        return family
    sizes = [len(schema.domain(name)) for name in choice.attributes]
    if (size := sum(_conjunction_count(sizes, number) for number in choice.sizes)) > LARGEST_FAMILY:
        raise ExplanationError(
            f"There are {size:,} conditions. At most {LARGEST_FAMILY:,} are possible.",
            remedy="Choose fewer attributes or fewer conjuncts.",
        )
    if (subsets := sum(math.comb(len(sizes), number) for number in choice.sizes)) > _MOST_SUBSETS:
        raise ExplanationError(
            f"There are {subsets:,} combinations of attributes. At most {_MOST_SUBSETS:,} are possible.",
            remedy="Choose fewer attributes or fewer conjuncts.",
        )
    return PredicateFamily.conjunctions(schema, choice.attributes, *choice.sizes)


def _conjunction_count(sizes: Sequence[int], conjuncts: int) -> int:
    """How many conjunctions there are, without listing them: an elementary symmetric polynomial.

    >>> _conjunction_count([2, 3, 4], 2)  # 2·3 + 2·4 + 3·4
    26
    """
    counts = [1] + [0] * conjuncts
    for size in sizes:
        for number in range(conjuncts, 0, -1):
            counts[number] += counts[number - 1] * size
    return counts[conjuncts]


def eligible_attributes(schema: Schema, query: Query) -> list[str]:
    """The columns that may explain: discrete, with no source in common with the groups or the aggregate."""
    measured = () if query.aggregate.column is None else (query.aggregate.column,)
    used_columns = schema.sources((*query.group_by, *measured))
    return [name for name in schema.discrete() if not schema.sources((name,)) & used_columns]


def _as_items(predicates: Predicates) -> Iterable[str | Recipe | Either]:
    return (predicates,) if isinstance(predicates, str | Recipe | Either) else predicates


def _plain_predicates(predicates: Predicates) -> tuple[str | Recipe | Either, ...]:
    items = _as_items(predicates)
    if not isinstance(items, Iterable):
        raise _not_predicates()
    plain_items: tuple[Any, ...] = tuple(
        library_recipe(item) if isinstance(item, Recipe | Either) else plain(item) for item in items
    )
    if not all(type(item) in (str, Recipe, Either) for item in plain_items):
        raise _not_predicates()
    return plain_items


def _listed(
    predicates: tuple[str | Recipe | Either, ...], schema: Schema, query: Query, parse: ParseCondition
) -> PredicateFamily:
    """Conditions grouped by the columns they read, so that each set of columns is counted once."""
    eligible = eligible_attributes(schema, query)
    by_columns: dict[tuple[str, ...], dict[Filter, None]] = {}
    number = 0
    for item in predicates:
        conditions: Iterable[Filter]
        if isinstance(item, str):
            conditions = [parse(item, schema)]
        else:
            _names("predicates", item.columns, schema, query, eligible)
            conditions = item.conditions(schema, eligible)
        for condition in conditions:
            used = filter_columns(condition)
            _names("predicates", sorted(used), schema, query, eligible)
            columns = tuple(name for name in schema.columns if name in used)
            by_columns.setdefault(columns, {})[condition] = None
            number += 1
            if number * CONDITION_BYTES > FAMILY_BYTES:
                raise _too_large()
    if not by_columns:
        raise _not_predicates()
    parts = (Listed(schema, columns, tuple(conditions)) for columns, conditions in by_columns.items())
    return PredicateFamily(schema, tuple(parts))


def _not_predicates() -> ExplanationError:
    return ExplanationError(
        "predicates must be SQL conditions, or recipes such as dpx.ranges().",
        remedy='Write predicates=["age > 40 AND sex = \'Male\'", dpx.either("pickup", "dropoff")].',
    )


def _check_tables(family: PredicateFamily) -> None:
    """Refuses conditions whose tables would take too much memory or time, before any of them is made.

    Cells are checked first: finding those that satisfy a condition takes memory too, a few bytes per cell.
    """
    parts = [part for part in family.parts if isinstance(part, Listed)]
    cells, comparisons = sum(part.cells for part in parts), sum(part.comparisons for part in parts)
    if cells * 4 > FAMILY_BYTES or comparisons > _MOST_COMPARISONS or family.bytes > FAMILY_BYTES:
        raise _too_large()


def _too_large() -> ExplanationError:
    return ExplanationError(
        f"These conditions need more than {FAMILY_BYTES // 10**6} MB of memory, the most for one request.",
        remedy="Use fewer conditions, on fewer columns, or on columns with fewer declared values.",
    )


def _names(
    argument: str, columns: Sequence[str], schema: Schema, query: Query, eligible: Sequence[str]
) -> tuple[str, ...]:
    """The distinct column names of one argument; refuses a column that cannot explain the query."""
    names = plain_texts(columns)
    if names is None:
        raise ExplanationError(
            f"{argument} must be a list of column names.", remedy=f"Choose from {', '.join(eligible)}."
        )
    for name in names:
        if name not in eligible:
            raise _not_eligible(name, schema, query, eligible)
    return tuple(dict.fromkeys(names))


def _not_eligible(name: str, schema: Schema, query: Query, eligible: Sequence[str]) -> ExplanationError:
    remedy = f"Choose from {', '.join(eligible)}."
    if name in query.group_by:
        problem = f"The query groups by {name!r}, so {name!r} cannot explain a difference between groups."
    elif name == query.aggregate.column:
        problem = f"The query aggregates {name!r}, so {name!r} cannot explain the result."
    elif name in schema.columns:
        problem = f"{name!r} has bounds but no edges, so there are no ranges to explain with."
        remedy = "Choose another attribute. The curator can declare edges for it."
    elif name in schema.unknown:
        problem = f"The values of {name!r} are not known yet."
        remedy = f'Discover them: session.discover("{name}", rho=...), or dpxplain discover.'
    else:
        problem = f"{name!r} is not a declared column."
        remedy = did_you_mean(name, eligible) or remedy
    return ExplanationError(problem, remedy=remedy)
