"""Pairs of neighbouring tables and the questions about them, chosen to move released numbers most."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dpxplain as dpx

FloatArray = NDArray[np.float64]

# -- Designs -----------------------------------------------------------------------------------------------
#
# A design's table may hold many copies of one situation, in groups of their own. A fair coin decides for each
# copy whether it has the row in question, so one query tests many pairs of neighbours at once. For all
# outcomes of the other coins, the tables with and without one copy's row are neighbours, so the privacy
# promise also holds on average over them. The confidence bounds also need releases of different copies to be
# independent.

Row = Mapping[str, object]


@dataclass(frozen=True)
class Releases:
    """The released names and numbers of each copy, and the ρ that was charged for them."""

    names: Sequence[str]
    numbers: FloatArray  # one row for each copy
    charged: float


@dataclass(frozen=True)
class Design:
    """A question about one of two neighbouring tables.

    `rows(copy, present)` returns the rows of one copy, with or without the row, or person, in question.
    """

    name: str
    mechanism: str
    aggregate: str
    schema: Mapping[str, Any]
    rows: Callable[[int, bool], list[Row]]
    ask: Callable[[dpx.Session, float], Releases]
    rho: float = 2.0
    copies: int = 1
    per_table: int = 100  # questions before a new table is made
    has_lattice: bool = False  # whether the numbers are released as they were drawn
    trusted_code: bool = False
    common: Sequence[Row] = ()  # rows that belong to no copy

    @property
    def unit(self) -> str:
        return str(self.schema["privacy"].get("unit", "row"))

    @property
    def neighbours(self) -> str:
        """The difference between the two tables."""
        return "replaced" if "neighbours" in self.schema["privacy"] else "one more"

    def table(self, present: NDArray[np.bool_]) -> list[Row]:
        return [
            *self.common,
            *(row for copy, is_present in enumerate(present.tolist()) for row in self.rows(copy, is_present)),
        ]


ROWS_OF_PERSON = 3
_NEGLIGIBLE = 1e-6  # ρ of an answer that is asked only because a preparation or a question needs one


def schema(columns: Mapping[str, Any], *, person: bool = False, replaced: bool = False) -> dict[str, Any]:
    """Declarations of a table `t` with more budget than an audit can spend."""
    privacy: dict[str, Any] = {"rho": 1e6}
    if person:
        privacy |= {"unit": "person", "max_rows": ROWS_OF_PERSON}
    if replaced:
        privacy["neighbours"] = "bounded"
    return {"table": {"name": "t"}, "privacy": privacy, "columns": dict(columns)}


# -- Answers, quality, tuning and preparations -------------------------------------------------------------

COPIES = 200

# The parts of a released answer that have one number, or several, for each group.
_PARTS = ("noisy_count", "noisy_sum", "noisy_squares", "noisy_bins")


def answer_designs() -> Iterator[Design]:
    yield from _row_designs()
    yield from _person_designs()
    yield from _replacement_designs()
    yield from _preparation_designs()
    yield from _quality_designs()


def _function(sql: str) -> str:
    """The aggregate function of an SQL expression."""
    return sql.partition("(")[0]


def _columns(groups: int, low: float = 0, high: float = 10) -> dict[str, Any]:
    return {
        "g": {"values": [str(group) for group in range(groups)]},
        "pay": {"bounds": [low, high], "step": 1},
    }


def _ask(sql: str, session: dpx.Session, rho: float) -> Releases:
    answer = session.query(f"SELECT g, {sql} FROM t GROUP BY g", rho=rho)
    answers = (answer,) if isinstance(answer, dpx.Answer) else answer.measured
    # A column for every number that a group has; the same part may be released with several aggregates.
    parts = [
        np.asarray(values, dtype=np.float64).reshape(COPIES, -1)
        for measured in answers
        for part in _PARTS
        if (values := getattr(measured.release, part)) is not None
    ]
    return Releases([""] * COPIES, np.hstack(parts), answers[0].entry.rho)


def _answer_design(
    name: str,
    aggregate: str,
    sql: str,
    rows: Callable[[int, bool], list[Row]],
    *,
    bounds: tuple[float, float] = (0, 10),
    groups: int = 1,
    person: bool = False,
    replaced: bool = False,
    has_lattice: bool = True,
) -> Design:
    columns = _columns(COPIES * groups, *bounds)
    return Design(
        name=name,
        mechanism="answer",
        aggregate=aggregate,
        schema=schema(columns, person=person, replaced=replaced),
        rows=rows,
        ask=partial(_ask, sql),
        rho=1.0,
        copies=COPIES,
        per_table=20,
        has_lattice=has_lattice,
    )


def _row(group: int, pay: float | None, **other: object) -> Row:
    return {"g": str(group), "pay": pay, "person": f"other {group}", **other}


def _one_more_row(pay: float | None, others: tuple[float, ...], copy: int, present: bool) -> list[Row]:
    """A group of rows with other values and, if present, one with the value in question."""
    return [_row(copy, value) for value in others] + ([_row(copy, pay)] if present else [])


def _row_designs() -> Iterator[Design]:
    usual = partial(_one_more_row, 10.0, (0.0, 0.0, 5.0))
    yield _answer_design("count", "COUNT", "COUNT(*)", usual)
    yield _answer_design("count of an empty group", "COUNT", "COUNT(*)", partial(_one_more_row, 10.0, ()))
    # Values beyond the bounds are clamped first.
    yield _answer_design("sum", "SUM", "SUM(pay)", partial(_one_more_row, 1e9, (0.0, 5.0)))
    yield _answer_design(
        "sum of both signs", "SUM", "SUM(pay)", partial(_one_more_row, -1e9, (4.0,)), bounds=(-10, 5)
    )
    yield _answer_design("average", "AVG", "AVG(pay)", usual)
    yield _answer_design("average of an empty group", "AVG", "AVG(pay)", partial(_one_more_row, 0.0, ()))
    yield _answer_design("variance", "VARIANCE", "VARIANCE(pay)", usual, has_lattice=False)
    yield _answer_design("median", "MEDIAN", "MEDIAN(pay)", usual)
    several = "COUNT(*), COUNT(pay), SUM(pay), AVG(pay)"
    yield _answer_design("four aggregates", "several", several, usual, has_lattice=False)
    null = partial(_one_more_row, None, (1.0, 2.0))
    yield _answer_design("four aggregates, NULL", "several", several, null, has_lattice=False)


def _one_more_person(pay: float, spread: bool, copy: int, present: bool) -> list[Row]:
    """A person with more rows in one group than count, or with one row in each of as many groups as count."""
    groups = [copy * ROWS_OF_PERSON + place for place in range(ROWS_OF_PERSON)] if spread else [copy]
    rows = [_row(group, 0.0) for group in groups]
    if present:
        times = 1 if spread else 2 * ROWS_OF_PERSON
        rows += [_row(group, pay, person=f"person {copy}") for group in groups for _ in range(times)]
    return rows


def _person_designs() -> Iterator[Design]:
    crowded = partial(_one_more_person, 10.0, False)
    for name, aggregate, sql in (
        ("count, persons", "COUNT", "COUNT(*)"),
        ("sum, persons", "SUM", "SUM(pay)"),
        ("average, persons", "AVG", "AVG(pay)"),
        ("median, persons", "MEDIAN", "MEDIAN(pay)"),
    ):
        yield _answer_design(name, aggregate, sql, crowded, person=True)
    yield _answer_design(
        "distinct persons",
        "COUNT DISTINCT",
        "COUNT(DISTINCT person)",
        partial(_one_more_person, 10.0, True),
        groups=ROWS_OF_PERSON,
        person=True,
    )


def _moved_row(pay: float, copy: int, present: bool) -> list[Row]:
    """A row that is in one group or in another."""
    return [_row(2 * copy, 5.0), _row(2 * copy + 1, 5.0), _row(2 * copy + int(present), pay)]


def _changed_value(pays: tuple[float, float], copy: int, present: bool) -> list[Row]:
    return [_row(copy, 5.0), _row(copy, pays[int(present)])]


def _moved_person(copy: int, present: bool) -> list[Row]:
    """A person whose rows are in one group or in another."""
    group = 2 * copy + int(present)
    return [
        _row(2 * copy, 0.0),
        _row(2 * copy + 1, 0.0),
        *(_row(group, 10.0, person=f"person {copy}") for _ in range(ROWS_OF_PERSON)),
    ]


def _replacement_designs() -> Iterator[Design]:
    design = partial(_answer_design, replaced=True)
    yield design("count, replaced", "COUNT", "COUNT(*)", partial(_moved_row, 5.0), groups=2)
    yield design("sum, replaced", "SUM", "SUM(pay)", partial(_moved_row, 10.0), groups=2)
    yield design(
        "sum of both signs, replaced",
        "SUM",
        "SUM(pay)",
        partial(_changed_value, (-10.0, 10.0)),
        bounds=(-10, 10),
    )
    yield design("average, replaced", "AVG", "AVG(pay)", partial(_moved_row, 10.0), groups=2)
    yield design("average, other value", "AVG", "AVG(pay)", partial(_changed_value, (0.0, 10.0)))
    yield design("median, other value", "MEDIAN", "MEDIAN(pay)", partial(_changed_value, (0.0, 10.0)))
    yield design("count, persons replaced", "COUNT", "COUNT(*)", _moved_person, groups=2, person=True)


_ATTRIBUTES = ("x", "y", "z")


def _with_attributes(pay: float, person: bool, copy: int, present: bool) -> list[Row]:
    usual: dict[str, object] = dict.fromkeys(_ATTRIBUTES, "a")
    special: dict[str, object] = dict.fromkeys(_ATTRIBUTES, "b")
    times = ROWS_OF_PERSON if person else 1
    new = [_row(copy, pay, **(special | {"person": f"person {copy}"})) for _ in range(times)]
    return [_row(copy, 0.0, **usual), *(new if present else [])]


def _prepare(sql: str, conjuncts: int, session: dpx.Session, rho: float) -> Releases:
    answer = session.query(f"SELECT g, {sql} FROM t GROUP BY g", rho=_NEGLIGIBLE)
    assert isinstance(answer, dpx.Answer)
    prepared = answer.prepare(rho=rho, attributes=_ATTRIBUTES, conjuncts=conjuncts)
    release = prepared.release
    parts: list[FloatArray] = []
    for values in (release.noisy_count, release.noisy_total):
        if values is not None:
            parts += [part.reshape(COPIES, -1) for part in release.per_part(values, COPIES)]
    return Releases([""] * COPIES, np.hstack(parts), prepared.released.entry.rho + _NEGLIGIBLE)


def _preparation_designs() -> Iterator[Design]:
    for name, sql, conjuncts, person in (
        ("prepared count", "COUNT(*)", 1, False),
        ("prepared sum", "SUM(pay)", 1, False),
        ("prepared average", "AVG(pay)", 1, False),
        ("prepared count, pairs", "COUNT(*)", 2, False),
        ("prepared sum, persons", "SUM(pay)", 1, True),
    ):
        attributes = {attribute: {"values": ["a", "b"]} for attribute in _ATTRIBUTES}
        yield Design(
            name=name,
            mechanism="marginals",
            aggregate=_function(sql),
            schema=schema(_columns(COPIES) | attributes, person=person),
            rows=partial(_with_attributes, 10.0, person),
            ask=partial(_prepare, sql, conjuncts),
            rho=1.0,
            copies=COPIES,
            per_table=20,
            has_lattice=True,
        )


def _misfits(person: bool, copy: int, present: bool) -> list[Row]:
    """A row, or a person with as many rows as count, whose values are all outside the declarations."""
    times = ROWS_OF_PERSON if person else 1
    row: Row = {"g": "undeclared", "pay": 99.0, "debt": 99.0, "x": "undeclared", "person": "person"}
    return [row] * times if present else []


def _ask_quality(session: dpx.Session, rho: float) -> Releases:
    quality = session.quality(rho=rho)
    numbers = [*quality.release.noisy_rows, *quality.release.noisy_units]
    return Releases([""], np.array([numbers]), quality.entry.rho)


def _ask_tuning(session: dpx.Session, rho: float) -> Releases:
    tuning = session.tune(rho=rho)
    numbers = [number for bins in tuning.release.noisy_bins for number in bins]
    return Releases([""], np.array([[*numbers, *tuning.release.noisy_units]]), tuning.entry.rho)


def _quality_designs() -> Iterator[Design]:
    """Quality and tuning of a table with and without values outside the declarations."""
    for mechanism, column, declared, value, ask in (
        ("quality", "x", {"values": ["a", "b"]}, "a", _ask_quality),
        ("tuning", "debt", {"bounds": [0, 10], "step": 1}, 5.0, _ask_tuning),
    ):
        for person in (False, True):
            yield Design(
                name=f"{mechanism}, persons" if person else mechanism,
                mechanism=mechanism,
                aggregate="",
                schema=schema(_columns(2) | {column: declared}, person=person),
                rows=partial(_misfits, person),
                common=[{"g": "0", "pay": 5.0, column: value, "person": "other"}],
                ask=ask,
                has_lattice=True,
            )


# -- Explanation tables ------------------------------------------------------------------------------------
#
# A part of a table (the chosen predicates, their influences, their ranks) is compared with the part of ρ that
# was charged for it, which `spends` lists. docs/audit.md says how near the bounds get to the promise, and why
# some cannot get nearer.

_MANY = 400  # rows of a group, enough that one more hardly matters
_TWO_GROUPS = {"A": 1.0, "B": -1.0}
_ONE_GROUP = {"A": 1.0}


@dataclass(frozen=True)
class _Question:
    """A question, the parts of its table that are tested, and the charges they are compared with."""

    sql: str
    weights: Mapping[str, float]
    released: Sequence[str]  # of "chosen", "influences", "ranks"; "answers": of an influence's search
    charges: Sequence[str]  # parts of the names of the events to add up; empty: all of them
    options: Mapping[str, Any]

    def __call__(self, session: dpx.Session, rho: float) -> Releases:
        answer = session.query(f"SELECT g, {self.sql} FROM t GROUP BY g", rho=_NEGLIGIBLE)
        assert isinstance(answer, dpx.Answer)
        table = answer.why(dict(self.weights)).explain(rho=rho, **self.options)
        rows = sorted(table.rows, key=lambda row: row.index)
        name = [str(row.predicate) for row in rows] if "chosen" in self.released else []
        if "ranks" in self.released:
            name += [f"{row.rank}" for row in rows]
        if "answers" in self.released:
            name += [str(_answers(row.influence, self.options["influence"].thresholds)) for row in rows]
        numbers: list[float] = []
        if "influences" in self.released:
            if isinstance(table, dpx.Explanation):
                numbers += [row.estimate for row in sorted(table, key=lambda row: row.index)]
            else:  # ends are thresholds, few enough to be counted, so they are names rather than numbers
                name += [str(end) for row in rows for end in row.influence]
        return Releases(["; ".join(name)], np.array([numbers]), _NEGLIGIBLE + self._charged(table.spends))

    def _charged(self, spends: Sequence[Any]) -> float:
        return sum(
            float(spend.rho)
            for spend in spends
            if not self.charges or any(word in spend.event for word in self.charges)
        )


def _answers(interval: tuple[float, float], thresholds: Sequence[float]) -> int:
    """The number of times that the binary searches for an interval's two ends went up.

    An end's position among the thresholds, in binary, spells out the answers of its search.

    >>> _answers((-math.inf, 5.0), (5.0, 6.0, 7.0)), _answers((6.0, math.inf), (5.0, 6.0, 7.0))
    (0, 3)
    """
    ends = (-math.inf, *thresholds, math.inf)
    low, high = (ends.index(end) for end in interval)
    return low.bit_count() + (high - 1).bit_count()


def explanation_designs() -> Iterator[Design]:
    yield from _influence_designs()
    yield from _choice_designs()
    yield from _custom_designs()


def _rows(number: int, group: str, x: str | None, pay: float = 0.0, person: str = "") -> list[Row]:
    return [{"g": group, "x": x, "pay": pay, "person": person or f"{group} {n}"} for n in range(number)]


def _rows_if_present(rows: list[Row], otherwise: list[Row], copy: int, present: bool) -> list[Row]:
    return rows if present else otherwise


def _explanation_design(
    name: str,
    question: _Question,
    common: list[Row],
    rows: list[Row],
    otherwise: list[Row] | None = None,
    *,
    bounds: tuple[float, float] = (0, 10),
    person: bool = False,
    rho: float = 2.0,
    trusted_code: bool = False,
) -> Design:
    columns = {
        "g": {"values": ["A", "B", "C"]},
        "x": {"values": ["u", "v"]},
        "pay": {"bounds": list(bounds), "step": 1},
    }
    return Design(
        name=name,
        mechanism=question.options.get("mechanism", "custom influence"),
        aggregate=_function(question.sql),
        schema=schema(columns, person=person, replaced=otherwise is not None),
        rows=partial(_rows_if_present, rows, otherwise or []),
        ask=question,
        rho=rho,
        common=common,
        trusted_code=trusted_code,
    )


def _only(predicate: str, mechanism: str = "one-shot") -> dict[str, Any]:
    """Options for a table of one predicate: nothing is selected, and its rank is known."""
    return {"k": 1, "mechanism": mechanism, "predicates": f"x = '{predicate}'"}


# In one group all rows but one satisfy v; in another the row in question is the first that does not. Without
# it, removing v empties that group; with it, a row remains, and the influence jumps by all groups' weights.
_AVERAGES = [*_rows(_MANY, "A", "v", 0.0), *_rows(_MANY, "B", "v", 10.0), *_rows(1, "B", None, 0.0)]
_SIGNED = [*_rows(_MANY, "A", "v", 10.0), *_rows(_MANY, "B", "v", -10.0), *_rows(1, "B", None, 0.0)]
_WEIGHED = [*_rows(_MANY, "B", "v"), *_rows(_MANY, "C", "v"), *_rows(1, "B", None), *_rows(1, "C", None)]
_PLAIN = [*_rows(_MANY, "A", None), *_rows(_MANY, "B", None)]


def _influence_designs() -> Iterator[Design]:
    def influence(sql: str, predicate: str, weights: Mapping[str, float] = _TWO_GROUPS) -> _Question:
        return _Question(sql, weights, ("influences",), (), _only(predicate))

    design, u = _explanation_design, _rows(1, "A", "u")
    yield design("influence, count", influence("COUNT(*)", "u"), _PLAIN, u)
    yield design("influence, sum", influence("SUM(pay)", "u"), _PLAIN, _rows(1, "A", "u", 10.0))
    sum_of_v = influence("SUM(pay)", "v")
    yield design("influence, sum of both signs", sum_of_v, _SIGNED, _rows(1, "A", None), bounds=(-10, 10))
    yield design("influence, average", influence("AVG(pay)", "v"), _AVERAGES, _rows(1, "A", None, 10.0))
    weighted = influence("COUNT(*)", "v", {"A": 2.0, "B": -1.0, "C": -3.0})
    yield design("influence, weights", weighted, _WEIGHED, _rows(1, "A", None))
    person = _rows(ROWS_OF_PERSON, "A", "u", person="person")
    yield design("influence, persons", influence("COUNT(*)", "u"), _PLAIN, person, person=True)
    yield design("influence, replaced", influence("COUNT(*)", "u"), _PLAIN, u, _rows(1, "B", "u"))
    for sql, predicate, common, rows in (
        ("COUNT(*)", "u", _PLAIN, u),
        ("AVG(pay)", "v", _AVERAGES, _rows(1, "A", None, 10.0)),
    ):
        fresh = _Question(
            sql, _TWO_GROUPS, ("influences",), ("chosen-influences",), _only(predicate, "vector")
        )
        yield design(f"vector influence, {_function(sql)}", fresh, common, rows, rho=4.0)


_TIE = [*_rows(_MANY, "A", None), *_rows(10, "A", "u"), *_rows(10, "A", "v")]
_BEHIND = [*_TIE, *_rows(1, "A", "v")]


def _choice_designs() -> Iterator[Design]:
    def question(
        sql: str,
        weights: Mapping[str, float],
        released: Sequence[str],
        charges: Sequence[str],
        split: tuple[float, float, float] = (1.0, 1.0, 2.0),
        **more: Any,
    ) -> _Question:
        options = {"k": 1, "mechanism": "one-shot", "attributes": ["x"], "split": split} | more
        return _Question(sql, weights, released, charges, options)

    design, u, v = _explanation_design, _rows(1, "A", "u"), _rows(1, "A", "v")
    dear_u = _rows(1, "A", "u", 10.0)
    select = question("COUNT(*)", _ONE_GROUP, ("chosen",), ("top-k",), (1000.0, 1.0, 1.0))
    yield design("selection, replaced", select, _TIE, u, v, rho=1.0)
    select = question("AVG(pay)", _TWO_GROUPS, ("chosen",), ("top-k",), (1000.0, 1.0, 1.0))
    yield design("selection, average", select, _AVERAGES, dear_u, rho=1.0)
    ranks = question(
        "COUNT(*)", _ONE_GROUP, ("chosen", "ranks"), ("top-k", "rank"), (1.0, 1.0, 1000.0), confidence=0.01
    )
    yield design("ranks, replaced", ranks, _BEHIND, u, v, rho=4.0)
    everything = ("chosen", "influences", "ranks")
    yield design("whole table, replaced", question("COUNT(*)", _ONE_GROUP, everything, ()), _TIE, u, v)
    select = question("AVG(pay)", _TWO_GROUPS, ("chosen",), ("all-influences",), mechanism="vector")
    yield design("vector selection, average", select, _AVERAGES, dear_u)
    whole = question("AVG(pay)", _TWO_GROUPS, everything, (), mechanism="vector")
    yield design("whole vector table, average", whole, _AVERAGES, dear_u)


def _matching(counts: Any) -> Any:
    return counts.matching(0)


def _steep(counts: Any) -> Any:
    """Jumps from below all usual thresholds to above all of them between 10 and 11 matching rows."""
    return (counts.matching(0) - 10.5) * 1e5


# In the ratio of A to B, u ranks a little below v; with one row more it ranks a little above.
_CLOSE = [
    *(*_rows(_MANY, "A", None), *_rows(11, "A", "u"), *_rows(10, "A", "v")),
    *(*_rows(_MANY - 1, "B", None), *_rows(1, "B", "u")),
]


def _custom_designs() -> Iterator[Design]:
    """Influences of unknown sensitivity, whose mechanisms use distances in rows; a row moves each by one.

    A row that carries an influence past a threshold, or one predicate past another, moves the distances on
    both sides by one: the upper search's from 1 to 0, the lower one's from 0 to 1. The answers reveal most at
    a confidence that makes the slack about half of that.
    """

    def question(
        influence: Any, released: Sequence[str], charges: Sequence[str] = (), **options: Any
    ) -> _Question:
        weights = _TWO_GROUPS if isinstance(influence, dpx.RatioInfluence) else _ONE_GROUP
        return _Question("COUNT(*)", weights, released, charges, {"influence": influence} | options)

    design = partial(_explanation_design, rows=_rows(1, "A", "u"))
    only_u: dict[str, Any] = {"predicates": "x = 'u'", "k": 1}
    ratio = dpx.RatioInfluence(thresholds=(0.026,))
    select = question(ratio, ("chosen",), ("top-k",), attributes=["x"], k=1)
    yield design("custom selection, ratio", question=select, common=_CLOSE, rho=4.0)
    ranks = question(ratio, ("ranks",), ("rank",), attributes=["x"], k=2, confidence=0.5)
    yield design("custom ranks, ratio", question=ranks, common=_CLOSE, rho=3.0)
    search = question(ratio, ("influences",), **only_u, confidence=0.5)  # it goes from 0.0247 to 0.0271
    yield design("custom influence, ratio", question=search, common=[*_PLAIN, *_rows(10, "A", "u")])
    matching = dpx.FormulaInfluence("matching rows", _matching, (10.5,))
    search = question(matching, ("influences",), **only_u, confidence=0.5)
    yield design("custom influence", question=search, common=_TIE, trusted_code=True)
    among_usual = dpx.FormulaInfluence("steep", _steep)
    search = question(among_usual, ("answers",), **only_u, confidence=0.01)
    yield design("custom influence, usual thresholds", question=search, common=_TIE, trusted_code=True)
