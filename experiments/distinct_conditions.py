"""Counts how many of the five conditions shown have distinct true rows, with and without folding.

    .venv/bin/python -m experiments.distinct_conditions

The conditions are pairs on census-like tables and on Adult, from prepared answers. Two conditions count as
the same if 90% (or 70%) of the rows that meet either one, in the groups asked about, meet both. Noise is
seeded: not private.
"""

from __future__ import annotations

import tempfile
from typing import Any

import duckdb
import pyarrow.parquet as pq

import dpxplain as dpx
from dpxplain.datasets import path
from dpxplain.results.answer import Answer
from dpxplain.results.explanation import Explanation
from experiments import census

K, RHO_ANSWER, RHO_PREPARED, ROWS = 5, 0.1, 1.0, 100_000
SAME = (0.9, 0.7)
QUESTIONS = [
    ("census", "sex", "AVG(income)", ("Male", "Female")),
    ("census", "marst", "AVG(income)", ("Married, spouse present", "Never married/single")),
    ("census", "classwkr", "AVG(income)", ("Federal government employee", "NIU")),
    ("census", "citizen", "AVG(income)", ("Born in U.S", "Not a citizen")),
    ("adult", "marital_status", "AVG(high_income)", ("Married-civ-spouse", "Never-married")),
    ("adult", "sex", "AVG(high_income)", ("Male", "Female")),
    ("census", "sex", "COUNT(*)", ("Male", "Female")),
    ("census", "marst", "COUNT(*)", ("Married, spouse present", "Never married/single")),
    ("adult", "marital_status", "COUNT(*)", ("Married-civ-spouse", "Never-married")),
    ("adult", "sex", "COUNT(*)", ("Male", "Female")),
]


def distinct_count(
    rows: Any, explained: Explanation, column: str, groups: tuple[str, str], same: float
) -> int:
    """The number of conditions shown that are not nearly the same as a condition above them."""
    table = duckdb.from_arrow(rows).filter(f"{column} IN {groups!r}")
    kept: list[str] = []
    for row in explained:
        condition = str(row.predicate)
        if not any(_overlap(table, condition, other) >= same for other in kept):
            kept.append(condition)
    return len(kept)


def _overlap(table: duckdb.DuckDBPyRelation, condition: str, other: str) -> float:
    both, either = (f"count(*) FILTER (({condition}) {word} ({other}))" for word in ("AND", "OR"))
    common, whole = table.aggregate(f"{both}, {either}").fetchall()[0]
    return float(common / whole) if whole else 1.0


def main() -> None:
    tables = {"census": census.generate(ROWS), "adult": pq.read_table(path("adult.parquet"))}
    schemas: dict[str, Any] = {"census": census.schema(), "adult": path("adult.toml")}
    print("| table | question | all shown: distinct at 90%, 70% | folded: at 90%, 70% |\n|---|---|---|---|")
    for name, column, value, groups in QUESTIONS:
        with tempfile.TemporaryDirectory() as folder:
            session = dpx.connect(tables[name], schemas[name], workspace=folder, insecure_seed=18)
            table = session.schema.table.name
            answer = session.query(f"SELECT {column}, {value} FROM {table} GROUP BY {column}", RHO_ANSWER)
            assert isinstance(answer, Answer)
            answer.prepare(RHO_PREPARED, conjuncts=2)
            counts = []
            for folded in (False, True):
                explained = answer.why(*groups).explain(k=K, conjuncts=2, distinct=folded)
                found = [distinct_count(tables[name], explained, column, groups, same) for same in SAME]
                counts.append(", ".join(map(str, found)))
            print(f"| {name} | {value}: {' against '.join(groups)} | {' | '.join(counts)} |", flush=True)


if __name__ == "__main__":
    main()
