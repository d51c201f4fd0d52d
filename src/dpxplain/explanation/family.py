"""A family of explanation predicates, indexed 0..size-1 without being listed.

All conjunctions of `conjuncts` equalities over the chosen attributes. A row satisfies at most one
predicate per attribute subset, so `overlap` (SPEC section 3's t) follows from the structure alone.
"""

from __future__ import annotations

import difflib
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpxplain.errors import ExplanationError
from dpxplain.model.predicate import Condition, Predicate
from dpxplain.model.query import Query
from dpxplain.model.schema import Schema

LARGEST_FAMILY = 20_000_000


@dataclass(frozen=True)
class Family:
    """Conjunctions over `attributes` taken `conjuncts` at a time.

    >>> schema = Schema.load({"table": {"name": "t"}, "privacy": {"rho": 1},
    ...     "columns": {"sex": {"values": ["F", "M"]}, "age": {"edges": [0, 30, 60]}}})
    >>> family = Family(schema, ("sex", "age"), 2)
    >>> family.size, str(family.predicate(1))
    (4, "sex = 'F' AND age > 30 AND age <= 60")
    """

    schema: Schema
    attributes: tuple[str, ...]
    conjuncts: int

    @cached_property
    def subsets(self) -> tuple[tuple[str, ...], ...]:
        return tuple(itertools.combinations(self.attributes, self.conjuncts))

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Domain sizes per subset."""
        sizes = {name: len(self.schema.domain(name)) for name in self.attributes}
        return tuple(tuple(sizes[name] for name in subset) for subset in self.subsets)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Index of each subset's first predicate; the last entry is the family's size."""
        return (0, *itertools.accumulate(math.prod(shape) for shape in self.shapes))

    @property
    def size(self) -> int:
        return self.offsets[-1]

    @property
    def overlap(self) -> int:
        """The most predicates that one row can satisfy."""
        return len(self.subsets)

    def predicate(self, index: int) -> Predicate:
        subset = int(np.searchsorted(self.offsets, index, side="right")) - 1
        codes = np.unravel_index(index - self.offsets[subset], self.shapes[subset])
        return Predicate(
            tuple(
                Condition(name, self.schema.domain(name)[int(code)])
                for name, code in zip(self.subsets[subset], codes, strict=True)
            )
        )


def choose_family(
    schema: Schema, query: Query, attributes: Sequence[str] | None = None, conjuncts: int = 1
) -> Family:
    """The family for a query: by default all discrete columns it neither groups nor aggregates by."""
    eligible = [
        name for name in schema.discrete() if name not in query.group_by and name != query.aggregate.column
    ]
    if isinstance(attributes, str):
        attributes = [attributes]
    if attributes is None:
        attributes = eligible
    if not isinstance(attributes, Iterable) or not all(isinstance(name, str) for name in attributes):
        raise ExplanationError(
            "attributes must be a list of column names.", remedy=f"Choose from {', '.join(eligible)}."
        )
    chosen = tuple(dict.fromkeys(attributes))
    for name in chosen:
        if name not in eligible:
            raise _not_eligible(name, schema, query, eligible)
    if not chosen:
        raise ExplanationError(
            "There is no attribute left to explain with.",
            remedy="Declare another column with values or edges in the schema.",
        )
    if isinstance(conjuncts, bool) or not isinstance(conjuncts, int) or not 1 <= conjuncts <= len(chosen):
        raise ExplanationError(
            f"conjuncts must be a whole number from 1 to the number of attributes ({len(chosen)}), "
            f"not {conjuncts!r}.",
            remedy="Use conjuncts=1 for single conditions, 2 for pairs.",
        )
    family = Family(schema, chosen, conjuncts)
    if family.size > LARGEST_FAMILY:
        raise ExplanationError(
            f"{family.size:,} predicates are more than the {LARGEST_FAMILY:,} that fit in memory.",
            remedy="Choose fewer attributes or fewer conjuncts.",
        )
    return family


def _not_eligible(name: str, schema: Schema, query: Query, eligible: Sequence[str]) -> ExplanationError:
    remedy = f"Choose from {', '.join(eligible)}."
    if name in query.group_by:
        problem = f"{name!r} is what the query groups by, so it cannot explain a difference between groups."
    elif name == query.aggregate.column:
        problem = f"{name!r} is what the query aggregates, so it cannot explain it."
    elif name in schema.columns:
        problem = f"{name!r} is declared with bounds only, so it has no ranges to explain by."
        remedy = "Give it edges in the schema, or choose another attribute."
    else:
        problem = f"{name!r} is not a declared column."
        if close := difflib.get_close_matches(name, eligible, n=1):
            remedy = f"Did you mean {close[0]!r}?"
    return ExplanationError(problem, remedy=remedy)
