"""Designs for explanation tables: the rows that move an influence, a choice or a rank most.

A part of a table (the chosen predicates, their influences, their ranks) is compared with the part of ρ that
was charged for it, which `spends` lists. docs/audit.md says how near the bounds get to the promise, and why
some cannot get nearer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import dpxplain as dpx
from dpxplain.audit.designs import ROWS_OF_PERSON, Design, Releases, Row, schema

_NEGLIGIBLE = 1e-6  # ρ of the answer that a question needs
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
    """How often the two binary searches for an interval's ends were told to look higher.

    An end's position among the thresholds, in binary, spells out the answers of its search.

    >>> _answers((-math.inf, 5.0), (5.0, 6.0, 7.0)), _answers((6.0, math.inf), (5.0, 6.0, 7.0))
    (0, 3)
    """
    ends = (-math.inf, *thresholds, math.inf)
    low, high = (ends.index(end) for end in interval)
    return low.bit_count() + (high - 1).bit_count()


def explanation_designs() -> Iterator[Design]:
    yield from _one_predicate()
    yield from _two_predicates()
    yield from _custom()


def _rows(number: int, group: str, x: str | None, pay: float = 0.0, person: str = "") -> list[Row]:
    return [{"g": group, "x": x, "pay": pay, "person": person or f"{group} {n}"} for n in range(number)]


def _if_present(rows: list[Row], otherwise: list[Row], copy: int, present: bool) -> list[Row]:
    return rows if present else otherwise


def _design(
    name: str,
    mechanism: str,
    aggregate: str,
    question: _Question,
    common: list[Row],
    rows: list[Row],
    otherwise: list[Row] | None = None,
    *,
    values: Sequence[str] = ("u", "v"),
    bounds: tuple[float, float] = (0, 10),
    person: bool = False,
    rho: float = 2.0,
    trusted_code: bool = False,
) -> Design:
    columns = {
        "g": {"values": ["A", "B", "C"]},
        "x": {"values": list(values)},
        "pay": {"bounds": list(bounds), "step": 1},
    }
    replaced = otherwise is not None
    return Design(
        name=name,
        mechanism=mechanism,
        aggregate=aggregate,
        unit="person" if person else "row",
        neighbours="replaced" if replaced else "one more",
        schema=schema(columns, person=person, replaced=replaced),
        rows=partial(_if_present, rows, otherwise or []),
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


def _one_predicate() -> Iterator[Design]:
    def influence(sql: str, predicate: str, weights: Mapping[str, float] = _TWO_GROUPS) -> _Question:
        return _Question(sql, weights, ("influences",), (), _only(predicate))

    yield _design(
        "influence, count", "one-shot", "COUNT", influence("COUNT(*)", "u"), _PLAIN, _rows(1, "A", "u")
    )
    yield _design(
        "influence, sum", "one-shot", "SUM", influence("SUM(pay)", "u"), _PLAIN, _rows(1, "A", "u", 10.0)
    )
    yield _design(
        "influence, sum of both signs",
        "one-shot",
        "SUM",
        influence("SUM(pay)", "v"),
        _SIGNED,
        _rows(1, "A", None, 0.0),
        bounds=(-10, 10),
    )
    average = influence("AVG(pay)", "v")
    yield _design("influence, average", "one-shot", "AVG", average, _AVERAGES, _rows(1, "A", None, 10.0))
    yield _design(
        "influence, weights",
        "one-shot",
        "COUNT",
        influence("COUNT(*)", "v", {"A": 2.0, "B": -1.0, "C": -3.0}),
        _WEIGHED,
        _rows(1, "A", None),
    )
    yield _design(
        "influence, persons",
        "one-shot",
        "COUNT",
        influence("COUNT(*)", "u"),
        _PLAIN,
        _rows(ROWS_OF_PERSON, "A", "u", person="person"),
        person=True,
    )
    yield _design(
        "influence, replaced",
        "one-shot",
        "COUNT",
        influence("COUNT(*)", "u"),
        _PLAIN,
        _rows(1, "A", "u"),
        _rows(1, "B", "u"),
    )
    for sql, aggregate, predicate, common, rows in (
        ("COUNT(*)", "COUNT", "u", _PLAIN, _rows(1, "A", "u")),
        ("AVG(pay)", "AVG", "v", _AVERAGES, _rows(1, "A", None, 10.0)),
    ):
        fresh = _Question(
            sql, _TWO_GROUPS, ("influences",), ("chosen-influences",), _only(predicate, "vector")
        )
        yield _design(f"vector influence, {aggregate}", "vector", aggregate, fresh, common, rows, rho=4.0)


_TIE = [*_rows(_MANY, "A", None), *_rows(10, "A", "u"), *_rows(10, "A", "v")]
_BEHIND = [*_TIE, *_rows(1, "A", "v")]


def _two_predicates() -> Iterator[Design]:
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

    u, v = _rows(1, "A", "u"), _rows(1, "A", "v")
    select = question("COUNT(*)", _ONE_GROUP, ("chosen",), ("top-k",), (1000.0, 1.0, 1.0))
    yield _design("selection, replaced", "one-shot", "COUNT", select, _TIE, u, v, rho=1.0)
    select = question("AVG(pay)", _TWO_GROUPS, ("chosen",), ("top-k",), (1000.0, 1.0, 1.0))
    yield _design(
        "selection, average", "one-shot", "AVG", select, _AVERAGES, _rows(1, "A", "u", 10.0), rho=1.0
    )
    ranks = question(
        "COUNT(*)", _ONE_GROUP, ("chosen", "ranks"), ("top-k", "rank"), (1.0, 1.0, 1000.0), confidence=0.01
    )
    yield _design("ranks, replaced", "one-shot", "COUNT", ranks, _BEHIND, u, v, rho=4.0)
    everything = ("chosen", "influences", "ranks")
    whole = question("COUNT(*)", _ONE_GROUP, everything, ())
    yield _design("whole table, replaced", "one-shot", "COUNT", whole, _TIE, u, v)
    select = question("AVG(pay)", _TWO_GROUPS, ("chosen",), ("all-influences",), mechanism="vector")
    yield _design(
        "vector selection, average", "vector", "AVG", select, _AVERAGES, _rows(1, "A", "u", 10.0), rho=2.0
    )
    whole = question("AVG(pay)", _TWO_GROUPS, everything, (), mechanism="vector")
    yield _design("whole vector table, average", "vector", "AVG", whole, _AVERAGES, _rows(1, "A", "u", 10.0))


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


def _custom() -> Iterator[Design]:
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

    design = partial(_design, mechanism="custom influence", aggregate="COUNT", rows=_rows(1, "A", "u"))
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
