"""Phase 3 on an open session against the bare grouped query, and against one scan per predicate."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet_files

from benchmarks.report import Line, alternate, at_most, faster
from dpxplain.datasets import census
from dpxplain.engines.duckdb import DuckDBEngine
from dpxplain.ledger.ledger import open_ledger
from dpxplain.model.schema import Schema
from dpxplain.phases.dataset import OpenDataset
from dpxplain.phases.releaser import LocalReleaser
from dpxplain.privacy.mechanisms.noise import VectorisedNoise
from dpxplain.results.answer import Answer
from dpxplain.session import Session
from dpxplain.sql.render import ENCODED, code_column, units_column

_SQL = "SELECT sex, AVG(income) FROM census GROUP BY sex"
_ASK = ("Male", "Female")


class _Open:
    """A session whose engine we can also query bare, over the very same encoded table."""

    def __init__(self, parquet: Path) -> None:
        self.schema = Schema.load(census.schema() | {"privacy": {"rho": 1000.0}})
        self.engine = DuckDBEngine(parquet, self.schema)
        ledger = open_ledger(None)
        ledger.open_dataset(self.schema.table.name, self.schema.privacy.rho, self.schema.privacy.delta)
        self.dataset = OpenDataset(self.schema, self.engine, ledger, LocalReleaser(ledger), VectorisedNoise())
        answer = Session(self.dataset).query(_SQL, rho=0.1)
        assert isinstance(answer, Answer)
        self.question = answer.why(*_ASK)
        self.connection: duckdb.DuckDBPyConnection = self.engine._connection

    def explain(self, conjuncts: int, rho: float = 0.5) -> None:
        self.question.explain(k=5, rho=rho, conjuncts=conjuncts, mechanism="one-shot")

    def forget(self) -> None:
        """Make the next explanation scan again, and pay again."""
        kept = self.dataset._passes._results
        for key in [key for key in kept if key[0] != "totals"]:  # type: ignore[index]
            del kept[key]

    def bare(self, conjuncts: int) -> None:
        attributes = [code_column(self.schema, name) for name in self.schema.discrete() if name != "sex"]
        group = code_column(self.schema, "sex")
        sets = ", ".join(
            f"({group}, {', '.join(subset)})" for subset in itertools.combinations(attributes, conjuncts)
        )
        self.connection.sql(
            f"SELECT {group}, {', '.join(attributes)}, COUNT(*), SUM({units_column(self.schema, 'income')}) "
            f"FROM {ENCODED} GROUP BY GROUPING SETS ({sets})"
        ).to_arrow_table()


def run(parquet: Path) -> list[Line]:
    opened = _Open(parquet)
    lines = []
    price = itertools.count(1)  # a new ρ each time, because an identical request is free

    def fresh(conjuncts: int) -> None:
        opened.forget()
        opened.explain(conjuncts, rho=0.5 + next(price) * 1e-6)

    for conjuncts, rounds in ((1, 15), (2, 9), (3, 5)):
        ours, bare = alternate(
            lambda c=conjuncts: fresh(c),  # type: ignore[misc]
            lambda c=conjuncts: opened.bare(c),  # type: ignore[misc]
            rounds,
        )
        lines.append(at_most(f"explain, {conjuncts} conjunct(s), against GROUPING SETS", ours, bare, 2.5))
        if conjuncts == 1:
            loop = _pandas_loop(parquet)
            lines.append(faster("explain, 1 conjunct, against a pandas loop", ours, loop, 500.0))
    second, first = alternate(
        lambda: opened.explain(3, rho=0.5 + next(price) * 1e-6), lambda: opened.bare(3), 3
    )
    lines.append(at_most("second question at 3 conjuncts (no scan), against one", second, first, 1.0))
    return lines


def _pandas_loop(parquet: Path) -> float:
    """Seconds of the straightforward way: for every predicate, the query on the data without its rows.

    Columns are text, as pandas reads them from CSV or Parquet files of text.
    """
    table = parquet_files.read_table(parquet)
    frame: pd.DataFrame = pa.table(
        {
            name: column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
            for name, column in zip(table.column_names, table.columns, strict=True)
        }
    ).to_pandas()
    schema = Schema.load(census.schema())
    started = time.perf_counter()
    whole = frame.groupby("sex")["income"].agg(["mean", "count"])
    for name in schema.discrete():
        for value in schema.domain(name) if name != "sex" else ():
            rest = frame[frame[name] != value].groupby("sex")["income"].agg(["mean", "count"])
            if not rest.index.isin(_ASK).all():
                continue
            change = whole["mean"] - rest["mean"]
            (change[_ASK[0]] - change[_ASK[1]]) * rest["count"].min()
    return time.perf_counter() - started
