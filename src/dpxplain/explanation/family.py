"""A family of explanation predicates, numbered 0..size-1 without being listed.

It is made of parts, each over one set of columns. What the sensitivity of the whole needs, the most
predicates that one row can satisfy (SPEC section 3's t), follows from the parts' structure alone.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpxplain.explanation.parts import Conjunctions, Part
from dpxplain.model.predicate import FilterPredicate, Predicate
from dpxplain.model.schema import Schema


@dataclass(frozen=True)
class Family:
    """The predicates of all parts, one part after the other.

    >>> schema = Schema.load({"table": {"name": "t"}, "privacy": {"rho": 1},
    ...     "columns": {"sex": {"values": ["F", "M"]}, "age": {"edges": [0, 30, 60]}}})
    >>> family = Family.conjunctions(schema, ("sex", "age"), 2)
    >>> family.size, family.overlap, str(family.predicate(1))
    (4, 1, "sex = 'F' AND age > 30 AND age <= 60")
    """

    schema: Schema
    parts: tuple[Part, ...]

    @classmethod
    def conjunctions(cls, schema: Schema, attributes: tuple[str, ...], conjuncts: int) -> Family:
        """All conjunctions of so many equalities over the attributes."""
        subsets = itertools.combinations(attributes, conjuncts)
        return cls(schema, tuple(Conjunctions(schema, subset) for subset in subsets))

    @property
    def subsets(self) -> tuple[tuple[str, ...], ...]:
        """The columns of each part."""
        return tuple(part.columns for part in self.parts)

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for part in self.parts for name in part.columns))

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Number of each part's first predicate; the last entry is the family's size."""
        return (0, *itertools.accumulate(part.size for part in self.parts))

    @property
    def size(self) -> int:
        return self.offsets[-1]

    @property
    def overlap(self) -> int:
        """The most predicates that one row can satisfy."""
        return max(1, sum(part.overlap for part in self.parts))  # conditions may hold nowhere at all

    @cached_property
    def key(self) -> str:
        """Equal for equal families."""
        return json.dumps([part.identity() for part in self.parts])

    def predicate(self, index: int) -> Predicate | FilterPredicate:
        number = int(np.searchsorted(self.offsets, index, side="right")) - 1
        return self.parts[number].predicate(index - self.offsets[number])
