"""The contenders on one open table: our explanations, DuckDB's bare query, and NumPy's bincount.

All read the same encoded columns, in memory. DuckDB and NumPy only count and sum; an explanation also plans,
reserves in the ledger, computes influences, draws noise, ranks and stores the release.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpxplain.engines.duckdb import DuckDBEngine
from dpxplain.errors import ExplanationError
from dpxplain.explanation.influence import cover
from dpxplain.ledger.ledger import open_ledger
from dpxplain.model.query import ENCODED, code_column, units_column
from dpxplain.model.schema import Schema
from dpxplain.phases.dataset import LocalReleaser, OpenDataset
from dpxplain.privacy.mechanisms.noise import private_noise
from dpxplain.results.answer import Answer
from dpxplain.results.preview import ExplanationPreview
from dpxplain.session import Session

GROUP, MEASURED = "sex", "income"
COMPARED = ("Male", "Female")
K, RHO = 5, 1.0
Subset = tuple[str, ...]


class Contenders:
    """Explanations of one question, and the bare aggregation behind them, over one encoded table."""

    def __init__(self, source: object, schema: dict[str, Any]) -> None:
        self.schema = Schema.load(schema)
        self.engine = DuckDBEngine(source, self.schema)
        self._codes: dict[str, NDArray[np.intp]] = {}
        self._units: NDArray[np.float64] = np.empty(0)

    def close(self) -> None:
        self.engine.close()

    @property
    def attributes(self) -> list[str]:
        return [name for name in self.schema.discrete() if name != GROUP]

    def answer(self) -> Answer:
        """A query's answer in a new session, which has cached and stored nothing else.

        A session that has already explained would not scan, pay or tabulate the predicates again. The ledger
        is new too, but has read its preparations once, because SQLAlchemy compiles a statement at first use.
        """
        ledger = open_ledger(None)
        ledger.open_dataset(self.schema.table.name, self.schema.privacy.rho, self.schema.privacy.delta)
        noise = private_noise(self.schema.privacy.noise)
        dataset = OpenDataset(self.schema, self.engine, ledger, LocalReleaser(ledger), noise)
        answer = Session(dataset).query(
            f"SELECT {GROUP}, AVG({MEASURED}) FROM {self.schema.table.name} GROUP BY {GROUP}", rho=RHO
        )
        assert isinstance(answer, Answer)
        ledger.preparations(self.schema.table.name, "")
        return answer

    def explain(self, *, previewed: bool = False, **options: Any) -> Callable[[], object]:
        """The explanation of a fresh question, to be timed. With `previewed`, its price was asked before."""
        question = self.answer().why(*COMPARED)
        if previewed:
            question.preview(k=K, rho=RHO, **options)
        return lambda: question.explain(k=K, rho=RHO, **options)

    def preview(self, **options: Any) -> ExplanationPreview | None:
        """A preview of the explanation; None if the mechanism refuses such a family."""
        try:
            return self.answer().why(*COMPARED).preview(k=K, rho=RHO, **options)
        except ExplanationError:
            return None

    def grouping_sets(self, conjuncts: int) -> None:
        """Computes the counts and sums of every subset of attributes with DuckDB alone."""
        codes = [code_column(self.schema, name) for name in self.attributes]
        group = code_column(self.schema, GROUP)
        sets = ", ".join(f"({group}, {', '.join(subset)})" for subset in self._subsets(conjuncts, codes))
        self.engine._connection.sql(
            f"SELECT {group}, {', '.join(codes)}, COUNT(*), SUM({units_column(self.schema, MEASURED)}) "
            f"FROM {ENCODED} GROUP BY GROUPING SETS ({sets})"
        ).to_arrow_table()

    def bincount(self, conjuncts: int) -> None:
        """Computes the same with NumPy by subset. Subsets with a common beginning share its positions."""
        self.load_columns()
        self._bincount_from(self._codes[GROUP], self._size(GROUP), self.attributes, conjuncts)

    def bincount_wide(self, conjuncts: int) -> None:
        """Computes the same with NumPy over fewer, wider subsets, whose counts and sums are then added up."""
        self.load_columns()
        subsets = tuple(self._subsets(conjuncts, self.attributes))
        waiting = set(subsets)
        for block in cover(subsets, {name: self._size(name) - 1 for name in self.attributes}):
            names = (GROUP, *block)
            shape = tuple(map(self._size, names))
            position = self._codes[GROUP]
            for name in block:
                position = position * self._size(name) + self._codes[name]
            count, total = (cells.reshape(shape) for cells in self._counted(position, math.prod(shape)))
            contained = [subset for subset in waiting if set(subset) <= set(block)]
            for subset in contained:
                others = tuple(i for i, name in enumerate(names) if name != GROUP and name not in subset)
                count.sum(axis=others), total.sum(axis=others)
            waiting.difference_update(contained)
        assert not waiting

    def load_columns(self) -> None:
        """Loads the encoded columns as NumPy's index type, so that bincount need not convert them."""
        if self._codes:
            return
        names = [GROUP, *self.attributes]
        codes = ", ".join(code_column(self.schema, name) for name in names)
        units = units_column(self.schema, MEASURED)
        columns = self.engine._connection.sql(f"SELECT {codes}, {units} FROM {ENCODED}").fetchnumpy()
        self._codes = {name: columns[code_column(self.schema, name)].astype(np.intp) for name in names}
        self._units = np.asarray(columns[units], dtype=np.float64)

    def _bincount_from(self, position: NDArray[np.intp], cells: int, rest: list[str], further: int) -> None:
        if not further:
            self._counted(position, cells)
            return
        for place, name in enumerate(rest[: len(rest) - further + 1]):
            size = self._size(name)
            self._bincount_from(
                position * size + self._codes[name], cells * size, rest[place + 1 :], further - 1
            )

    def _counted(self, position: NDArray[np.intp], cells: int) -> tuple[NDArray[Any], NDArray[Any]]:
        return np.bincount(position, minlength=cells), np.bincount(position, self._units, minlength=cells)

    def _size(self, name: str) -> int:
        return len(self.schema.domain(name)) + 1  # code 0 stands for all undeclared values

    @staticmethod
    def _subsets(conjuncts: int, names: list[str]) -> list[Subset]:
        return list(itertools.combinations(names, conjuncts))
