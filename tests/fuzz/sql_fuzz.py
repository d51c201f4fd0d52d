"""Checks statements: what is answered has DuckDB's values, what is refused has a place and a remedy."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlglot
from sql_grammar import statement
from sql_world import World
from sqlglot import exp

import dpxplain as dpx
from dpxplain.errors import QueryRefused
from dpxplain.model.column import Bin
from dpxplain.model.expression import evaluate
from dpxplain.model.groups import Groups
from dpxplain.privacy.mechanisms.noise import OpenDPNoise, VectorisedNoise
from dpxplain.sql.parse import parse
from opened import dataset_of

PER_WORLD = 500  # statements asked of one table


@dataclass
class Figures:
    """What became of the statements; `wrong` has each failure, with the number that reproduces it."""

    tried: int = 0
    refused: int = 0
    answered: int = 0
    compared: int = 0
    released: int = 0  # of the answered, those that were released without noise and compared again
    groups: int = 0
    not_in_duckdb: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def fuzz_sql(seed: int, numbers: Iterator[int], folder: Path, release_each: int = 10) -> Figures:
    """Tries the statements of these numbers; one in `release_each` accepted ones goes through a release."""
    figures = Figures()
    session, world, at = None, None, -1
    with without_noise():
        for number in numbers:
            if number // PER_WORLD != at or session is None or world is None:
                at = number // PER_WORLD
                if session is not None:
                    session.close()
                world = World(seed, at)
                session = dpx.connect(
                    world.rows, world.schema, curator=True, workspace=folder / f"{seed}-{number}"
                )
            text = statement(seed, number)
            try:
                _try(text, session, world, figures, is_released=_one_in(release_each, number))
            except Exception as failure:
                figures.wrong.append(f"--seed {seed} --start {number}: {_short(failure)}\n    {text!r}")
    if session is not None:
        session.close()
    return figures


@contextmanager
def without_noise() -> Iterator[None]:
    """Noise is left out, so that a release and what HAVING, ORDER BY and intervals make of it are exact."""
    kept = [(kind, kind.gaussian) for kind in (OpenDPNoise, VectorisedNoise)]
    for kind, _ in kept:
        kind.gaussian = lambda _source, _measurement, values, _scale: values  # type: ignore[method-assign]
    try:
        yield
    finally:
        for kind, draw in kept:
            kind.gaussian = draw  # type: ignore[method-assign]


def _short(failure: Exception) -> str:
    return f"{type(failure).__name__}: {failure}"[:600]


def _one_in(each: int, number: int) -> bool:
    """By the number alone, so that a case that is tried again is tried in the same way."""
    return random.Random(f"release {number}").randrange(each) == 0


def _try(text: str, session: dpx.Session, world: World, figures: Figures, *, is_released: bool) -> None:
    figures.tried += 1
    try:
        parsed = parse(text, dataset_of(session).schema)
    except QueryRefused as refusal:
        _check_refusal(text, refusal)
        figures.refused += 1
        return
    figures.answered += 1
    rows = _duckdb_rows(text, world.reference)
    comparison = Comparison(parsed, session, rows)
    if rows is None:
        figures.not_in_duckdb.append(text)
    elif comparison.is_one_to_one:
        figures.compared += 1
        figures.groups += comparison.groups.size
        comparison.compare_truth()
    if is_released and not comparison.groups.remaining:
        with pytest.raises(QueryRefused, match="excludes every listed group") as refused:
            session.preview(text, rho=1.0)
        _check_refusal(text, refused.value)
    elif is_released:
        figures.released += 1
        session.preview(text, rho=1.0)
        comparison.compare_release(session.query(text, rho=1.0))


def _check_refusal(text: str, refusal: QueryRefused) -> None:
    assert refusal.problem.endswith((".", "?")), refusal.problem
    assert refusal.remedy, f"no remedy: {refusal.problem}"
    assert refusal.start is not None or not text.strip(), f"no position: {refusal.problem}"
    if refusal.start is not None:
        assert 0 <= refusal.start < (refusal.end or 0) <= len(text), f"{refusal.start}, {refusal.end}"
    assert all(isinstance(line, str) for line in refusal.pointed_sql())


def _duckdb_rows(text: str, connection: duckdb.DuckDBPyConnection) -> list[tuple[Any, ...]] | None:
    """DuckDB's rows without HAVING, ORDER BY and LIMIT; None where it does not read the text.

    Three columns come behind the selected ones: whether HAVING holds, with its numbers a little higher and a
    little lower, and the first key of ORDER BY.
    """
    tree = sqlglot.parse_one(text, dialect="duckdb")
    having, order = tree.args.get("having"), tree.args.get("order")
    for clause in ("having", "order", "limit"):
        tree.set(clause, None)
    key = order.expressions[0].this if order else None
    is_place = isinstance(key, exp.Literal)
    further = [_moved(having, 1e-6), _moved(having, -1e-6), exp.null() if key is None or is_place else key]
    for i, part in enumerate(further):
        tree.append("expressions", exp.alias_(exp.Paren(this=part.copy()), f"further_{i}"))
    _forgive(tree)
    try:
        rows = connection.execute(tree.sql(dialect="duckdb")).fetchall()
    except duckdb.Error:
        return None
    if key is not None and is_place:
        rows = [(*row[:-1], row[int(key.name) - 1]) for row in rows]
    return rows


def _moved(having: exp.Expr | None, distance: float) -> exp.Expr:
    """The condition with its numbers moved; NULL, which says nothing, where two aggregates are compared."""
    if having is None:
        return exp.true()
    condition = having.this.copy()
    for compared in condition.find_all(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between):
        if compared.find_ancestor(exp.AggFunc, exp.Filter):
            continue
        ends = [e for e in compared.args.values() if isinstance(e, exp.Expr)]
        numbers = [e for e in ends if isinstance(e.this if isinstance(e, exp.Neg) else e, exp.Literal)]
        if len(numbers) < len(ends) - 1:
            return exp.null()
        for number in numbers:
            number.replace(
                exp.Paren(this=exp.Add(this=number.copy(), expression=exp.Literal.number(distance)))
            )
    return condition


_NUMERIC = (
    *(exp.Sum, exp.Avg, exp.Variance, exp.VariancePop, exp.Stddev, exp.StddevSamp, exp.StddevPop),
    *(exp.Median, exp.PercentileCont, exp.Quantile),
)


def _forgive(tree: exp.Expr) -> None:
    """Spells for DuckDB what docs/language.md says: what cannot be computed is NULL, and TRUE is 1."""
    for node in list(tree.find_all(exp.Cast, exp.Ln, exp.Div, exp.Mod, *_NUMERIC)):
        if isinstance(node, exp.Div | exp.Mod):
            node.set(
                "expression", exp.Nullif(this=_double(node.expression), expression=exp.Literal.number(0))
            )
            node.set("this", _double(node.this))
        elif isinstance(node, exp.Ln):
            positive = exp.GT(this=node.this.copy(), expression=exp.Literal.number(0))
            node.set("this", exp.Case(ifs=[exp.If(this=positive, true=node.this)]))
        elif isinstance(node, _NUMERIC):
            node.set("this", _double(node.this))
        elif type(node) is exp.Cast and node.args["to"].this.name not in ("DATE", "TIMESTAMP"):
            node.replace(exp.TryCast(this=node.this, to=node.args["to"]))


def _double(node: exp.Expr) -> exp.Expr:
    return exp.TryCast(this=exp.Paren(this=node), to=exp.DataType.build("DOUBLE"))


class Comparison:
    """The groups of one statement, as DPXPlain and as DuckDB have them."""

    def __init__(self, parsed: Any, session: dpx.Session, rows: list[tuple[Any, ...]] | None) -> None:
        self.parsed, self.dataset = parsed, dataset_of(session)
        self.groups = Groups.of(parsed.query, self.dataset.schema)
        self.size = 400  # rows
        outputs = parsed.presentation.outputs
        self.keys = [i for name in parsed.query.group_by for i, o in enumerate(outputs) if o.column == name]
        self.values = [i for i, o in enumerate(outputs) if o.column is None]
        self.domains = [self.dataset.schema.domain(name) for name in parsed.query.group_by]
        self.is_one_to_one = True
        self.rows: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        for row in rows or ():
            group = self._group(tuple(row[i] for i in self.keys))
            if group is not None:
                self.is_one_to_one &= group not in self.rows
                self.rows[group] = row

    def _group(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """The declared group of a key of DuckDB's; None for a NULL that is not declared."""
        group = []
        for value, domain in zip(key, self.domains, strict=True):
            fitting = [declared for declared in domain if _is_in(value, declared)]
            if not fitting and value is None:
                return None
            assert len(fitting) == 1, f"DuckDB has a group that is not declared: {key!r}"
            group.append(fitting[0])
        return tuple(group)

    def compare_truth(self) -> None:
        """The curator's true value of every declared group beside DuckDB's."""
        columns = [self.dataset._true_aggregates(query) for query in self.parsed.queries]
        remaining = set(self.groups.remaining)
        for index in range(self.groups.size):
            own = [column[index] for column in columns]
            row = self.rows.get(self.groups.key(index))
            assert row is None or index in remaining, f"WHERE leaves {self.groups.label(index)!r} in DuckDB"
            for i in self.values:
                self._agree(self.parsed.presentation.outputs[i], own, None if row is None else row[i], index)

    def _agree(self, output: Any, own: list[float | None], expected: Any, index: int) -> None:
        where = f"{output.name} of {self.groups.label(index)!r}"
        true = evaluate(output.value, own)
        kind = None if output.formula is not None else self.parsed.queries[output.aggregate].aggregate.kind
        if expected is not None and not math.isfinite(expected):
            expected = None
        if expected is None and kind in ("count", "sum", "persons"):
            expected = 0  # SQL's sum over no rows is NULL, and it has no row for an empty group
        if kind is None and (expected is None or true is None):
            return  # in formulas too, a sum over no rows is 0 here and NULL in DuckDB
        if true is None:
            assert expected is None or self._has_edges_only(output), (
                f"{where}: DuckDB has {expected!r}, not None"
            )
            return
        assert expected is not None, f"{where}: DuckDB has None, the curator {true!r}"
        slack = 1e-9 * max(1.0, abs(true)) + self._slack(output, own)
        if output.digits is not None:
            slack += 1.01 * 10**-output.digits
        assert abs(true - float(expected)) <= slack, f"{where}: DuckDB has {expected!r}, the curator {true!r}"

    def _slack(self, output: Any, own: list[float | None]) -> float:
        """How far rounding to the columns' grids can move a value, by moving what it is computed from."""
        units = [self._unit(q.aggregate, v) for q, v in zip(self.parsed.queries, own, strict=True)]
        moved = [
            evaluate(
                output.value, [None if v is None else v + way * u for v, u in zip(own, units, strict=True)]
            )
            for way in (-1, 1)
        ]
        true = evaluate(output.value, own)
        if true is None or None in moved:
            return math.inf
        return 4 * max(abs(m - true) for m in moved if m is not None)

    def _unit(self, aggregate: Any, value: float | None) -> float:
        """The error of one aggregate of values that are rounded to the grid."""
        if aggregate.kind in ("count", "persons"):
            return 0.0
        grid = self.dataset.schema.column(aggregate.column).grid
        reach = grid.unit * grid.range
        if aggregate.kind == "sum":
            return grid.unit * max(1, self.size)
        if aggregate.kind in ("var_samp", "var_pop"):
            return grid.unit * grid.coarseness * reach
        if aggregate.kind.startswith("stddev"):
            error = grid.unit * grid.coarseness * reach  # of the variance
            return min(math.sqrt(error), error / value) if value else math.sqrt(error)
        return grid.unit

    def _has_edges_only(self, output: Any) -> bool:
        aggregate = self.parsed.queries[output.aggregate].aggregate
        return aggregate.kind == "quantile" and not self.dataset.schema.column(aggregate.column).is_summable

    def compare_release(self, answer: Any) -> None:
        """Released without noise, intervals cover the truth, and HAVING and ORDER BY act as in DuckDB."""
        for record in answer.truth().records():
            assert record.get("covered") is not False, f"an exact release is not covered: {record!r}"
        shown = [row.group for row in answer.rows]
        presentation = self.parsed.presentation
        if presentation.limit is not None:
            assert len(shown) <= presentation.limit
        for group, row in self.rows.items() if self._having_is_exact() else ():
            if row[-3] is row[-2] is False:
                assert group not in shown, f"HAVING keeps {group!r}"
            if row[-3] is row[-2] is True and presentation.limit is None:
                assert group in shown, f"HAVING leaves out {group!r}"
        keys = [self.rows[group][-1] for group in shown if group in self.rows]
        numbers = [float(k) for k in keys if isinstance(k, int | float | Decimal) and not isinstance(k, bool)]
        if presentation.order and len(numbers) == len(keys):
            down = presentation.order[0].descending
            for before, after in pairwise(numbers[::-1] if down else numbers):
                assert before <= after + 1e-6 * max(1.0, abs(after)), f"ORDER BY: {numbers!r}"

    def _having_is_exact(self) -> bool:
        """Whether a release without noise decides HAVING as the truth does.

        Estimates of variances and quantiles are not the values of the rows even then, and the name of a
        rounded value stands for the value before rounding (docs/language.md).
        """
        kinds = {query.aggregate.kind for query in self.parsed.queries}
        is_rounded = any(output.digits is not None for output in self.parsed.presentation.outputs)
        return kinds <= {"count", "sum", "avg", "persons"} and not is_rounded


def _is_in(value: Any, declared: Any) -> bool:
    value, declared = _comparable(value), _comparable(declared)
    if isinstance(declared, Bin):
        return value is not None and _comparable(declared.low) < value <= _comparable(declared.high)
    if isinstance(value, float) and isinstance(declared, int | float):
        return math.isclose(value, declared, rel_tol=1e-12, abs_tol=1e-12)
    return type(value) is type(declared) and value == declared


def _comparable(value: Any) -> Any:
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)
    if isinstance(value, bool | int | float | Decimal):
        return float(value)
    return value
