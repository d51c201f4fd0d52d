"""Ranges and disjunctions against the bare grouped query over the same columns."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa

import dpxplain as dpx
from benchmarks.report import Line, alternate, at_most
from dpxplain.engines.duckdb import DuckDBEngine
from dpxplain.ledger.ledger import open_ledger
from dpxplain.model.schema import Schema
from dpxplain.phases.dataset import OpenDataset
from dpxplain.phases.releaser import LocalReleaser
from dpxplain.privacy.mechanisms.noise import VectorisedNoise
from dpxplain.session import Session
from dpxplain.sql.render import ENCODED, code_column, units_column

_ZONES = [f"zone {i}" for i in range(60)]
_ORDERED = ("age", "hours", "tenure", "score", "distance", "visits")
_PLACES = ("pickup", "dropoff", "home")


def _table(rows: int) -> tuple[pa.Table, Schema]:
    rng = np.random.default_rng(0)
    zones = pa.array(_ZONES)
    table = pa.table(
        {
            "sex": pa.array(["Female", "Male"]).take(pa.array(rng.integers(0, 2, rows))),
            **{name: rng.integers(1, 91, rows) for name in _ORDERED},
            **{name: zones.take(pa.array(np.minimum(rng.geometric(0.06, rows) - 1, 59))) for name in _PLACES},
            "income": rng.integers(0, 200_000, rows),
        }
    )
    declared: dict[str, Any] = {
        "table": {"name": "t"},
        "privacy": {"rho": 1000.0},
        "columns": {
            "sex": {"values": ["Female", "Male"]},
            **{name: {"edges": list(range(0, 91, 5))} for name in _ORDERED},
            **{name: {"values": _ZONES} for name in _PLACES},
            "income": {"bounds": [0, 200_000], "step": 1},
        },
    }
    return table, Schema.load(declared)


def run(rows: int) -> list[Line]:
    table, schema = _table(rows)
    engine = DuckDBEngine(table, schema)
    ledger = open_ledger(None)
    ledger.open_dataset("t", schema.privacy.rho, schema.privacy.delta)
    dataset = OpenDataset(schema, engine, ledger, LocalReleaser(ledger), VectorisedNoise())
    answer = Session(dataset).query("SELECT sex, AVG(income) FROM t GROUP BY sex", rho=0.1)
    assert isinstance(answer, dpx.Answer)
    question, price = answer.why("Male", "Female"), itertools.count(1)

    def explain(predicates: Any) -> None:
        kept = dataset._passes._results
        for key in [key for key in kept if key[0] != "totals"]:  # type: ignore[index]
            del kept[key]
        question.explain(k=5, rho=0.5 + next(price) * 1e-6, predicates=predicates, mechanism="one-shot")

    def bare(subsets: list[tuple[str, ...]]) -> None:
        columns = dict.fromkeys(name for subset in subsets for name in ("sex", *subset))
        shown = ", ".join(code_column(schema, name) for name in columns)
        sets = ", ".join(
            f"({', '.join(code_column(schema, name) for name in ('sex', *subset))})" for subset in subsets
        )
        income = units_column(schema, "income")
        engine._connection.sql(
            f"SELECT {shown}, COUNT(*), SUM({income}) FROM {ENCODED} GROUP BY GROUPING SETS ({sets})"
        ).to_arrow_table()

    pairs = list(itertools.combinations(_PLACES, 2))
    lines = []
    for name, predicates, subsets in (
        ("1,020 ranges of six columns", dpx.ranges(), [(name,) for name in _ORDERED]),
        ("180 disjunctions over three pairs", [dpx.either(*pair) for pair in pairs], pairs),
    ):
        ours, theirs = alternate(
            lambda p=predicates: explain(p),  # type: ignore[misc]
            lambda s=subsets: bare(s),  # type: ignore[misc]
            15,
        )
        lines.append(at_most(f"explain, {name}, against GROUPING SETS", ours, theirs, 2.0))
    return lines
