"""Measures explanations by ranges and disjunctions against the bare grouped query over the same columns."""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

import dpxplain as dpx
from benchmarks.contenders import GROUP, MEASURED, Contenders
from benchmarks.tables import DECLARED
from benchmarks.timing import Figure, alternate
from dpxplain.model.query import ENCODED, code_column, units_column

MOST = 2.0
_ZONES = [f"zone {i}" for i in range(60)]
_ORDERED = ("age", "hours", "tenure", "score", "distance", "visits")
_PLACES = ("pickup", "dropoff", "home")
_SCHEMA: dict[str, Any] = {
    "table": {"name": "trips"},
    "privacy": DECLARED,
    "columns": {
        "sex": {"values": ["Female", "Male"]},
        **{name: {"edges": list(range(0, 91, 5))} for name in _ORDERED},
        **{name: {"values": _ZONES} for name in _PLACES},
        "income": {"bounds": [0, 200_000], "step": 1},
    },
}


def _table(rows: int) -> pa.Table:
    rng = np.random.default_rng(0)
    zones = pa.array(_ZONES)
    return pa.table(
        {
            "sex": pa.array(["Female", "Male"]).take(pa.array(rng.integers(0, 2, rows))),
            **{name: rng.integers(1, 91, rows) for name in _ORDERED},
            **{name: zones.take(pa.array(np.minimum(rng.geometric(0.06, rows) - 1, 59))) for name in _PLACES},
            "income": rng.integers(0, 200_000, rows),
        }
    )


def run(rows: int, rounds: int) -> list[Figure]:
    contenders = Contenders(_table(rows), _SCHEMA)
    pairs = list(itertools.combinations(_PLACES, 2))
    figures = []
    for name, predicates, subsets in (
        ("1,020 ranges of six columns", dpx.ranges(), [(name,) for name in _ORDERED]),
        ("180 disjunctions over three pairs of columns", [dpx.either(*pair) for pair in pairs], pairs),
    ):
        timings = alternate(
            {
                "default": partial(contenders.explain, predicates=predicates),
                "one-shot": partial(
                    contenders.explain, previewed=True, predicates=predicates, mechanism="one-shot"
                ),
                "bare": partial(partial, _grouping_sets, contenders, subsets),
            },
            rounds,
        )
        for mechanism, conditions, most in (
            ("default", "rows hardly repeating", None),
            ("one-shot", "rows hardly repeating, after its preview, which tabulates the predicates", MOST),
        ):
            ours, bare = timings[mechanism], timings["bare"]
            figures.append(
                Figure(f"{mechanism} explanation: {name}", conditions, ours, bare, "`GROUPING SETS`", most)
            )
    contenders.close()
    return figures


def _grouping_sets(contenders: Contenders, subsets: list[tuple[str, ...]]) -> None:
    schema = contenders.schema
    names = dict.fromkeys(name for subset in subsets for name in (GROUP, *subset))
    columns = ", ".join(code_column(schema, name) for name in names)
    sets = ", ".join(
        f"({', '.join(code_column(schema, name) for name in (GROUP, *subset))})" for subset in subsets
    )
    contenders.engine._connection.sql(
        f"SELECT {columns}, COUNT(*), SUM({units_column(schema, MEASURED)}) "
        f"FROM {ENCODED} GROUP BY GROUPING SETS ({sets})"
    ).to_arrow_table()
