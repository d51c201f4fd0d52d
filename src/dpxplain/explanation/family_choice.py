"""Checks which predicates a request asks for and builds their family, from attributes or from conditions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpxplain.errors import ExplanationError
from dpxplain.explanation.family import CONDITION_BYTES, PART_BYTES, Family, Listed
from dpxplain.explanation.recipes import Either, Recipe, library_recipe, read, written
from dpxplain.model.hardening import plain, plain_texts
from dpxplain.model.query import Filter, Query, filter_columns
from dpxplain.model.schema import Schema
from dpxplain.model.spelling import did_you_mean

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
        predicates = self.predicates
        listed = [predicates] if isinstance(predicates, str | Recipe | Either) else predicates
        return {
            "attributes": None if self.attributes is None else list(self.attributes),
            "conjuncts": self.conjuncts,
            "exclude": list(self.exclude),
            "predicates": None
            if listed is None
            else [item if isinstance(item, str) else written(item) for item in listed],
            **({"nested": True} if self.nested else {}),
        }

    @classmethod
    def from_request(cls, body: Mapping[str, Any], schema: Schema) -> FamilyChoice:
        predicates = body["predicates"]
        return cls(
            body["attributes"],
            body["conjuncts"],
            body["exclude"],
            None if predicates is None else tuple(read(text, schema) for text in predicates),
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
            remedy="Declare another column with values or edges in the schema.",
        )
    conjuncts = 1 if conjuncts is None else plain(conjuncts)
    if type(conjuncts) is not int or not 1 <= conjuncts <= len(chosen):
        raise ExplanationError(
            f"conjuncts must be a whole number from 1 to the number of attributes ({len(chosen)}), "
            f"not {conjuncts!r}.",
            remedy="Use conjuncts=1 for single conditions, 2 for pairs.",
        )
    return CheckedChoice(chosen, conjuncts, nested=choice.nested is True)


def chosen_family(choice: CheckedChoice, schema: Schema, query: Query, parse: ParseCondition) -> Family:
    """The predicates of a choice. `parse` reads SQL conditions; this package knows no SQL."""
    if choice.predicates is not None:
        family = _listed(choice.predicates, schema, query, parse)
        _check_tables(family)
        family.overlap  # noqa: B018 (tabulates the conditions)
        return family
    sizes = [len(schema.domain(name)) for name in choice.attributes]
    if (size := sum(_conjunction_count(sizes, number) for number in choice.sizes)) > LARGEST_FAMILY:
        raise _too_many(size)
    if (subsets := sum(math.comb(len(sizes), number) for number in choice.sizes)) > _MOST_SUBSETS:
        raise ExplanationError(
            f"There are {subsets:,} combinations of attributes. At most {_MOST_SUBSETS:,} are possible.",
            remedy="Choose fewer attributes or fewer conjuncts.",
        )
    return Family.conjunctions(schema, choice.attributes, *choice.sizes)


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


def _plain_predicates(predicates: Predicates) -> tuple[str | Recipe | Either, ...]:
    items = (predicates,) if isinstance(predicates, str | Recipe | Either) else predicates
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
) -> Family:
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
            read = filter_columns(condition)
            _names("predicates", sorted(read), schema, query, eligible)
            columns = tuple(name for name in schema.columns if name in read)
            by_columns.setdefault(columns, {})[condition] = None
            number += 1
            if number * CONDITION_BYTES > FAMILY_BYTES:
                raise _too_large()
    if not by_columns:
        raise _not_predicates()
    return Family(
        schema,
        tuple(Listed(schema, columns, tuple(conditions)) for columns, conditions in by_columns.items()),
    )


def _not_predicates() -> ExplanationError:
    return ExplanationError(
        "predicates must be SQL conditions, or recipes such as dpx.ranges().",
        remedy='Write predicates=["age > 40 AND sex = \'Male\'", dpx.either("pickup", "dropoff")].',
    )


def _check_tables(family: Family) -> None:
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


def _too_many(size: int) -> ExplanationError:
    return ExplanationError(
        f"There are {size:,} conditions. At most {LARGEST_FAMILY:,} are possible.",
        remedy="Choose fewer attributes or fewer conjuncts.",
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
        remedy = "Give it edges in the schema, or choose another attribute."
    elif name in schema.unknown:
        problem = f"The values of {name!r} are not known yet."
        remedy = f'Discover them: session.discover("{name}", rho=...), or dpxplain discover.'
    else:
        problem = f"{name!r} is not a declared column."
        remedy = did_you_mean(name, eligible) or remedy
    return ExplanationError(problem, remedy=remedy)
