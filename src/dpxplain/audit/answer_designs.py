"""Designs for answers, quality, tuning and preparations: the rows that move each of their numbers most."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import dpxplain as dpx
from dpxplain.audit.designs import ROWS_OF_PERSON, Design, FloatArray, Releases, Row, schema

COPIES = 200
_NEGLIGIBLE = 1e-6  # ρ of an answer that is asked only because a preparation needs one

# The parts of a released answer that have one number, or several, for each group.
_PARTS = ("noisy_count", "noisy_sum", "noisy_squares", "noisy_bins")


def answer_designs() -> Iterator[Design]:
    yield from _one_more()
    yield from _persons()
    yield from _replaced()
    yield from _prepared()
    yield from _quality()
    yield from _tuning()


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


def _design(
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
        unit="person" if person else "row",
        neighbours="replaced" if replaced else "one more",
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


def _one_more() -> Iterator[Design]:
    usual = partial(_one_more_row, 10.0, (0.0, 0.0, 5.0))
    yield _design("count", "COUNT", "COUNT(*)", usual)
    yield _design("count of an empty group", "COUNT", "COUNT(*)", partial(_one_more_row, 10.0, ()))
    # Values beyond the bounds are clamped first.
    yield _design("sum", "SUM", "SUM(pay)", partial(_one_more_row, 1e9, (0.0, 5.0)))
    yield _design(
        "sum of both signs", "SUM", "SUM(pay)", partial(_one_more_row, -1e9, (4.0,)), bounds=(-10, 5)
    )
    yield _design("average", "AVG", "AVG(pay)", usual)
    yield _design("average of an empty group", "AVG", "AVG(pay)", partial(_one_more_row, 0.0, ()))
    yield _design("variance", "VARIANCE", "VARIANCE(pay)", usual, has_lattice=False)
    yield _design("median", "MEDIAN", "MEDIAN(pay)", usual)
    several = "COUNT(*), COUNT(pay), SUM(pay), AVG(pay)"
    yield _design("four aggregates", "several", several, usual, has_lattice=False)
    null = partial(_one_more_row, None, (1.0, 2.0))
    yield _design("four aggregates, NULL", "several", several, null, has_lattice=False)


def _one_more_person(pay: float, spread: bool, copy: int, present: bool) -> list[Row]:
    """A person with more rows in one group than count, or with one row in each of as many groups as count."""
    groups = [copy * ROWS_OF_PERSON + place for place in range(ROWS_OF_PERSON)] if spread else [copy]
    rows = [_row(group, 0.0) for group in groups]
    if present:
        times = 1 if spread else 2 * ROWS_OF_PERSON
        rows += [_row(group, pay, person=f"person {copy}") for group in groups for _ in range(times)]
    return rows


def _persons() -> Iterator[Design]:
    crowded = partial(_one_more_person, 10.0, False)
    for name, aggregate, sql in (
        ("count, persons", "COUNT", "COUNT(*)"),
        ("sum, persons", "SUM", "SUM(pay)"),
        ("average, persons", "AVG", "AVG(pay)"),
        ("median, persons", "MEDIAN", "MEDIAN(pay)"),
    ):
        yield _design(name, aggregate, sql, crowded, person=True)
    yield _design(
        "distinct persons",
        "COUNT DISTINCT",
        "COUNT(DISTINCT person)",
        partial(_one_more_person, 10.0, True),
        groups=ROWS_OF_PERSON,
        person=True,
    )


def _moved(pay: float, copy: int, present: bool) -> list[Row]:
    """A row that is in one group or in another."""
    return [_row(2 * copy, 5.0), _row(2 * copy + 1, 5.0), _row(2 * copy + int(present), pay)]


def _other_value(pays: tuple[float, float], copy: int, present: bool) -> list[Row]:
    return [_row(copy, 5.0), _row(copy, pays[int(present)])]


def _other_person(copy: int, present: bool) -> list[Row]:
    """A person whose rows are in one group or in another."""
    group = 2 * copy + int(present)
    return [
        _row(2 * copy, 0.0),
        _row(2 * copy + 1, 0.0),
        *(_row(group, 10.0, person=f"person {copy}") for _ in range(ROWS_OF_PERSON)),
    ]


def _replaced() -> Iterator[Design]:
    design = partial(_design, replaced=True)
    yield design("count, replaced", "COUNT", "COUNT(*)", partial(_moved, 5.0), groups=2)
    yield design("sum, replaced", "SUM", "SUM(pay)", partial(_moved, 10.0), groups=2)
    yield design(
        "sum of both signs, replaced",
        "SUM",
        "SUM(pay)",
        partial(_other_value, (-10.0, 10.0)),
        bounds=(-10, 10),
    )
    yield design("average, replaced", "AVG", "AVG(pay)", partial(_moved, 10.0), groups=2)
    yield design("average, other value", "AVG", "AVG(pay)", partial(_other_value, (0.0, 10.0)))
    yield design("median, other value", "MEDIAN", "MEDIAN(pay)", partial(_other_value, (0.0, 10.0)))
    yield design("count, persons replaced", "COUNT", "COUNT(*)", _other_person, groups=2, person=True)


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


def _prepared() -> Iterator[Design]:
    for name, aggregate, sql, conjuncts, person in (
        ("prepared count", "COUNT", "COUNT(*)", 1, False),
        ("prepared sum", "SUM", "SUM(pay)", 1, False),
        ("prepared average", "AVG", "AVG(pay)", 1, False),
        ("prepared count, pairs", "COUNT", "COUNT(*)", 2, False),
        ("prepared sum, persons", "SUM", "SUM(pay)", 1, True),
    ):
        attributes = {attribute: {"values": ["a", "b"]} for attribute in _ATTRIBUTES}
        yield Design(
            name=name,
            mechanism="marginals",
            aggregate=aggregate,
            unit="person" if person else "row",
            neighbours="one more",
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


def _quality() -> Iterator[Design]:
    columns = _columns(2) | {"x": {"values": ["a", "b"]}}
    for name, person in (("quality", False), ("quality, persons", True)):
        yield Design(
            name=name,
            mechanism="quality",
            aggregate="",
            unit="person" if person else "row",
            neighbours="one more",
            schema=schema(columns, person=person),
            rows=partial(_misfits, person),
            common=[{"g": "0", "pay": 5.0, "x": "a", "person": "other"}],
            ask=_ask_quality,
            has_lattice=True,
        )


def _ask_tuning(session: dpx.Session, rho: float) -> Releases:
    tuning = session.tune(rho=rho)
    numbers = [number for bins in tuning.release.noisy_bins for number in bins]
    return Releases([""], np.array([[*numbers, *tuning.release.noisy_units]]), tuning.entry.rho)


def _tuning() -> Iterator[Design]:
    columns = _columns(2) | {"debt": {"bounds": [0, 10], "step": 1}}
    for name, person in (("tuning", False), ("tuning, persons", True)):
        yield Design(
            name=name,
            mechanism="tuning",
            aggregate="",
            unit="person" if person else "row",
            neighbours="one more",
            schema=schema(columns, person=person),
            rows=partial(_misfits, person),
            common=[{"g": "0", "pay": 5.0, "debt": 5.0, "person": "other"}],
            ask=_ask_tuning,
            has_lattice=True,
        )
