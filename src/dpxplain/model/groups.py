"""The declared groups of a query, numbered; every one of them is answered, empty ones included."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpxplain.errors import QueryRefused, QuestionError
from dpxplain.model.query import Presentation, Query
from dpxplain.model.schema import Bin, DomainValue, Schema, label

LARGEST_ANSWER = 1_000_000
_JOINTS = ("→", "->", " / ", ",")


def group_label(key: Iterable[DomainValue]) -> str:
    """A group as text for people; the one group of a query without GROUP BY is all rows."""
    return ", ".join(map(label, key)) or "all rows"


@dataclass(frozen=True)
class Groups:
    """All combinations of the group-by columns' declared values, the last column fastest.

    >>> from dpxplain.model.query import Aggregate
    >>> schema = Schema.load({"table": {"name": "t"}, "privacy": {"rho": 1},
    ...     "columns": {"sex": {"values": ["F", "M"]}, "age": {"edges": [0, 30, 60]}}})
    >>> groups = Groups.of(Query("t", ("sex", "age"), Aggregate("count")), schema)
    >>> groups.size, groups.label(1), groups.find(("F", "(30, 60]"))
    (4, 'F, (30, 60]', 1)
    """

    columns: tuple[str, ...]
    domains: tuple[tuple[DomainValue, ...], ...]

    @classmethod
    def of(cls, query: Query, schema: Schema) -> Groups:
        groups = cls(query.group_by, tuple(schema.domain(name) for name in query.group_by))
        if groups.size > LARGEST_ANSWER:
            raise QueryRefused(
                f"GROUP BY {', '.join(query.group_by)} has {groups.size:,} declared groups, more than the "
                f"{LARGEST_ANSWER:,} that are answered at once.",
                remedy="Group by fewer columns.",
            )
        return groups

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(domain) for domain in self.domains)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def key(self, index: int) -> tuple[DomainValue, ...]:
        """The values of one group, one per group-by column."""
        codes = np.unravel_index(index, self.shape) if self.shape else ()
        return tuple(domain[int(code)] for domain, code in zip(self.domains, codes, strict=True))

    def label(self, index: int) -> str:
        return group_label(self.key(index))

    def arranged(self, presentation: Presentation, estimates: Sequence[Sequence[float]]) -> list[int]:
        """The groups in the order and number of ORDER BY and LIMIT, applied to released `estimates`."""
        order = list(range(self.size))
        codes = np.unravel_index(np.arange(self.size), self.shape) if self.shape else ()
        for key in reversed(presentation.order):
            output = presentation.outputs[key.output]
            if output.column is None:
                values: Sequence[float] = estimates[output.aggregate]
            else:
                values = codes[self.columns.index(output.column)].tolist()
            order.sort(key=values.__getitem__, reverse=key.descending)
        return order[: presentation.limit]

    @cached_property
    def _codes(self) -> tuple[dict[object, int], ...]:
        """Per column, from a value or its label to its code; values win over labels."""
        tables: list[dict[object, int]] = []
        for domain in self.domains:
            tables.append({label(value): code for code, value in enumerate(domain)})
            tables[-1].update((value, code) for code, value in enumerate(domain))
        return tuple(tables)

    def find(self, address: object) -> int:
        """The number of the group that a person names by value, by label, or by a tuple of them."""
        parts = address if isinstance(address, tuple) else (address,)
        if isinstance(address, str) and len(self.columns) > 1:
            parts = self._split(address)
        if not self.columns:
            if address in ((), None, "all rows"):
                return 0
            raise QuestionError("This answer has one group only.", remedy="Name it 'all rows'.")
        if len(parts) != len(self.columns):
            raise QuestionError(
                f"A group of this answer is named by {len(self.columns)} values "
                f"({', '.join(self.columns)}), not {len(parts)}.",
                remedy="Pass them as a tuple, or join their names with →.",
            )
        index = 0
        for name, part, codes, size in zip(self.columns, parts, self._codes, self.shape, strict=True):
            if not isinstance(part, str | int | float | Bin | None) or part not in codes:
                raise QuestionError(f"{part!r} is not a declared value of {name}.", remedy=_hint(part, codes))
            index = index * size + codes[part]
        return index

    def _split(self, address: str) -> tuple[str, ...]:
        """A group of several columns written as one text: 'Queens→Brooklyn', 'Queens, Brooklyn'."""
        for joint in _JOINTS:
            parts = tuple(part.strip() for part in address.split(joint))
            if len(parts) == len(self.columns) and all(
                part in codes for part, codes in zip(parts, self._codes, strict=True)
            ):
                return parts
        return (address,)


def _hint(part: object, codes: dict[object, int]) -> str:
    labels = list(dict.fromkeys("NULL" if value is None else str(value) for value in codes))
    close = difflib.get_close_matches(str(part), labels, n=1)
    if close:
        return f"Did you mean {close[0]!r}?"
    listed = ", ".join(labels[:12]) + (", ..." if len(labels) > 12 else "")
    return f"Declared are: {listed}."
