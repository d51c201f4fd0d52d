"""The declared groups of a query, numbered; every one of them is answered, empty ones included."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import product

from dpxplain.errors import QueryRefused, QuestionError
from dpxplain.model.caching import cached_property
from dpxplain.model.output_formula import Formula
from dpxplain.model.query import Output, Presentation, Query
from dpxplain.model.schema import Bin, DomainValue, Schema, label
from dpxplain.model.spelling import did_you_mean

LARGEST_ANSWER = 1_000_000
JOINT = ", "  # between the values of a group of several columns, as it is printed
ALL_ROWS = "all rows"  # the one group of a query without GROUP BY
_JOINTS = (JOINT, "→", "->", " / ", ",")  # the others were printed or advised by earlier versions
_SPARE_JOINTS = 64  # within values; a longer text names no group


def group_label(key: Iterable[DomainValue]) -> str:
    """A group as text for people; the one group of a query without GROUP BY is all rows."""
    return JOINT.join(map(label, key)) or ALL_ROWS


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
    texts: tuple[dict[str, int], ...] = field(compare=False)  # per column, codes of values with their labels

    @classmethod
    def of(cls, query: Query, schema: Schema) -> Groups:
        declared = [(schema.column(name), schema.domain(name)) for name in query.group_by]
        texts = tuple(
            {column.text(value): code for code, value in enumerate(domain)} if column.value_labels else {}
            for column, domain in declared
        )
        groups = cls(query.group_by, tuple(domain for _, domain in declared), texts)
        if groups.size > LARGEST_ANSWER:
            raise QueryRefused(
                f"GROUP BY {', '.join(query.group_by)} has {groups.size:,} declared groups, more than the "
                f"{LARGEST_ANSWER:,} that are answered at once.",
                remedy="Group by fewer columns.",
            )
        return groups

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(domain) for domain in self.domains)

    @cached_property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def keys(self) -> Iterator[tuple[DomainValue, ...]]:
        """The values of all groups in their order: `key` of each, in one go."""
        return product(*self.domains)

    @property
    def labels(self) -> Iterator[str]:
        """The texts of all groups in their order: `label` of each, in one go."""
        return (
            JOINT.join(key) or ALL_ROWS for key in product(*(map(label, domain) for domain in self.domains))
        )

    @property
    def has_null(self) -> bool:
        """Whether None names a group, rather than the absence of one."""
        return len(self.columns) == 1 and None in self.domains[0]

    def key(self, index: int) -> tuple[DomainValue, ...]:
        """The values of one group, one per group-by column."""
        if not 0 <= index < self.size:
            raise ValueError("There is no group of that number.")
        codes = [self._code(index, place) for place in range(len(self.shape))]
        return tuple(domain[code] for domain, code in zip(self.domains, codes, strict=True))

    def _code(self, index: int, place: int) -> int:
        """Which value of the column at `place` a group has; the last column changes fastest."""
        return index // math.prod(self.shape[place + 1 :]) % self.shape[place]

    def label(self, index: int) -> str:
        return group_label(self.key(index))

    def arranged(
        self,
        presentation: Presentation,
        values: Callable[[Formula], Sequence[float]],
        among: Iterable[int] | None = None,
    ) -> list[int]:
        """The groups in the order and number of ORDER BY and LIMIT, which act on released `values`."""
        order = list(range(self.size) if among is None else among)
        for key in reversed(presentation.order):
            output = presentation.outputs[key.output] if isinstance(key.output, int) else key.output
            if isinstance(output, Output) and output.column is not None:
                column = self.columns.index(output.column)
                places: Sequence[float] = [self._code(index, column) for index in range(self.size)]
            else:
                places = values(output.value if isinstance(output, Output) else output)
            order.sort(key=places.__getitem__, reverse=key.descending)
        return order[: presentation.limit]

    @cached_property
    def _codes(self) -> tuple[dict[object, int], ...]:
        """Per column, from a value or how it is printed to its code; values win over texts."""
        tables: list[dict[object, int]] = []
        for domain, texts in zip(self.domains, self.texts, strict=True):
            codes: dict[object, int] = {label(value): code for code, value in enumerate(domain)}
            codes.update((value, code) for code, value in enumerate(domain))
            tables.append(codes | {text: code for text, code in texts.items() if text not in codes})
        return tuple(tables)

    def find(self, address: object) -> int:
        """The number of the group that a person names: as printed, by its values, or by a JSON array."""
        if not self.columns:
            if address in ((), None, ALL_ROWS):
                return 0
            raise QuestionError("This answer has one group only.", remedy="Name it 'all rows'.")
        parts = self._parts(address)
        if len(parts) != len(self.columns):
            values = "1 value" if len(self.columns) == 1 else f"{len(self.columns)} values"
            raise QuestionError(
                f"A group of this answer is named by {values} ({', '.join(self.columns)}), not {len(parts)}.",
                remedy=f"Write it as it is printed, {self.label(0)!r}, or as a tuple, {self._sample()!r}.",
            )
        index = 0
        for name, part, codes, size in zip(self.columns, parts, self._codes, self.shape, strict=True):
            if not isinstance(part, str | int | float | date | Bin | None) or part not in codes:
                raise QuestionError(f"{part!r} is not a declared value of {name}.", remedy=_hint(part, codes))
            index = index * size + codes[part]
        return index

    def written(self, index: int) -> str:
        """The group as text that `find` reads: as printed, or as a JSON array where that is not clear."""
        printed = self.label(index)
        try:
            if self.find(printed) == index:
                return printed
        except QuestionError:  # several groups print alike
            pass
        values = [label(value) if isinstance(value, Bin) else value for value in self.key(index)]
        return json.dumps(values, ensure_ascii=False)

    def _sample(self) -> tuple[object, ...]:
        return tuple(label(value) if isinstance(value, Bin) else value for value in self.key(0))

    def _parts(self, address: object) -> tuple[object, ...]:
        """The values that an address names, one per column if it is valid."""
        if isinstance(address, tuple | list):
            return tuple(address)
        if not isinstance(address, str) or (len(self.columns) == 1 and address in self._codes[0]):
            return (address,)
        if (array := _json_array(address)) is not None:
            return array
        return (address,) if len(self.columns) == 1 else self._split(address)

    def _split(self, address: str) -> tuple[str, ...]:
        """A group of several columns written as one text: 'Queens, Brooklyn'."""
        for joint in _JOINTS:
            readings = self._readings(address.split(joint), joint)
            if len(readings) > 1:
                raise QuestionError(
                    f"{address!r} may name more than one group of this answer.",
                    remedy=f"Name each value apart, in a tuple or a JSON array: {json.dumps(readings[0])}",
                )
            if readings:
                return readings[0]
        # No declared group: a part is misspelt, which is found out later, or there are too few or too many.
        wrong = (address.split(joint) for joint in _JOINTS)
        return next((tuple(map(str.strip, p)) for p in wrong if len(p) == len(self.columns)), (address,))

    def _readings(self, pieces: Sequence[str], joint: str) -> list[tuple[str, ...]]:
        """Ways to read the pieces as one declared value per column, two at most; values may hold joints."""
        if not len(self.columns) <= len(pieces) <= len(self.columns) + _SPARE_JOINTS:
            return []
        readings: dict[int, list[tuple[str, ...]]] = {0: [()]}  # by the number of pieces read
        for codes in self._codes:
            longer: dict[int, list[tuple[str, ...]]] = {}
            for start, before in readings.items():
                for end in range(start + 1, len(pieces) + 1):
                    part = joint.join(pieces[start:end]).strip()
                    if part in codes:
                        longer.setdefault(end, []).extend((*reading, part) for reading in before)
            readings = {end: several[:2] for end, several in longer.items()}
        return readings.get(len(pieces), [])


def _json_array(text: str) -> tuple[object, ...] | None:
    if not text.startswith("["):
        return None
    try:
        array = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return tuple(array) if isinstance(array, list) else None


def _hint(part: object, codes: dict[object, int]) -> str:
    texts = {("NULL" if value is None else str(value)): code for value, code in codes.items()}
    if question := did_you_mean(str(part), list(texts)):
        return question
    labels: dict[int, str] = {}
    for text, code in texts.items():
        labels.setdefault(code, text)
    listed = ", ".join(list(labels.values())[:12]) + (", ..." if len(labels) > 12 else "")
    return f"Declared are: {listed}."
