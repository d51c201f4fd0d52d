"""The engine for Apache Spark, classic or Connect: every pass is one SQL statement, and only its cells come back.

Encoding is part of the statement, unless the schema asks for a materialised encoded table. No RDDs, no Python
code in Spark. Spark's errors quote values and plans, so that none of their text is passed on.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex
from typing import Any

import pyarrow as pa

from dpxplain.engines.encoding import Encoding, Rows, check_columns
from dpxplain.engines.fit_sql import fit_counts
from dpxplain.engines.grouped_rows import grouped_of
from dpxplain.engines.spark_source import open_spark, quietly, silenced
from dpxplain.errors import SourceError
from dpxplain.model.cancellation import check_stop, interruptible
from dpxplain.model.confidential import Confidential, sealed
from dpxplain.model.fit import FitCounts
from dpxplain.model.grouped import AnyGrouped
from dpxplain.model.query import Query
from dpxplain.model.schema import Schema
from dpxplain.sql.render import DERIVED, ENCODED, Parameters, expressions, grouped_select


class SparkEngine:
    """One data set in Spark."""

    def __init__(self, source: object, schema: Schema, *, time_limit: float | None = None) -> None:
        """`time_limit` in seconds ends each statement; Spark itself has no such limit."""
        self.schema = schema
        self._time_limit = time_limit
        self._opened = open_spark(source, schema.table.name)
        self._materialised: _Materialised | None = None
        try:
            check_columns(schema, self._opened.kinds)
            self._columns = self._encoding(Parameters()).all_rows().columns
            if schema.table.storage in ("memory", "file"):
                self._materialised = self._materialise()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<SparkEngine {self.schema.table.name}>"

    def close(self) -> None:
        if self._materialised is not None:
            self._materialised.drop()
        self._opened.close()

    def grouped(self, query: Query, subsets: tuple[tuple[str, ...], ...]) -> Confidential[AnyGrouped]:
        return Confidential(self._scan(query, subsets))

    @sealed
    def _scan(self, query: Query, subsets: tuple[tuple[str, ...], ...]) -> AnyGrouped:
        parameters = Parameters()
        rendered = grouped_select(query, self.schema, subsets, parameters=parameters)
        encoding = self._encoding(parameters)
        encoded = self._encoded(encoding)
        tables = {ENCODED: encoded.sql}
        names = expressions(query, self.schema)
        if names:
            rows = Rows(f"SELECT * FROM {ENCODED}", encoded.columns)
            tables[DERIVED] = encoding.with_derived(names, rows).sql
        listed = ", ".join(f"{name} AS ({sql})" for name, sql in tables.items())
        select = rendered.sql(encoding.dialect.name, encoding.dialect.placeholder)
        cells = self._run(f"WITH {listed} {select}", parameters)
        columns = {name: cells[name].fill_null(0).to_numpy() for name in cells.column_names}
        return grouped_of(columns, query, self.schema, subsets)

    def fit(self) -> Confidential[FitCounts]:
        return Confidential(self._fit())

    @sealed
    def _fit(self) -> FitCounts:
        """Reads the source again: encoded rows do not tell a clamped value from one at its bound."""

        def execute(sql: str, values: list[Any]) -> list[int]:
            row = self._run(sql, Parameters(values))
            return [int(column[0].as_py()) for column in row.columns]

        return fit_counts(self._encoding(Parameters()), execute)

    def _encoding(self, parameters: Parameters) -> Encoding:
        opened = self._opened
        return Encoding(self.schema, opened.kinds, opened.dialect(), opened.view, parameters)

    def _encoded(self, encoding: Encoding) -> Rows:
        if self._materialised is not None:
            return Rows(f"SELECT * FROM {self._materialised.table}", self._columns)
        return encoding.all_rows()

    def _materialise(self) -> _Materialised:
        """The encoded table, kept in Spark as the schema says; dropped when the engine is closed."""
        parameters = Parameters()
        rows = self._encoding(parameters).all_rows()
        table = f"dpxplain_{token_hex(8)}"
        failed = SourceError(
            f"Spark could not keep the encoded table of {self.schema.table.name}.",
            remedy='Is there room, and for storage = "file" the right to create a table? "stream" keeps none.',
        )

        def keep() -> _Materialised:
            with self._statement():
                frame = self._frame(rows.sql, parameters)
                if self.schema.table.storage == "file":
                    frame.write.saveAsTable(table)
                    return _Materialised(self._opened.session, table)
                frame = frame.persist()
                frame.createOrReplaceTempView(table)
                frame.count()  # reads every row, so that all passes are of the same
                return _Materialised(self._opened.session, table, frame)

        return quietly(keep, failed)

    def _run(self, sql: str, parameters: Parameters) -> pa.Table:
        with self._statement():
            return self._frame(sql, parameters).toArrow()

    def _frame(self, sql: str, parameters: Parameters) -> Any:
        return self._opened.session.sql(sql, args=_arguments(parameters))

    @contextmanager
    def _statement(self) -> Iterator[None]:
        """Spark's jobs of the block can be told by their tag, and are cancelled when the caller goes."""
        session, tag = self._opened.session, f"dpxplain-{token_hex(8)}"

        def interrupt() -> None:
            session.interruptTag(tag)

        limit = None if self._time_limit is None else threading.Timer(self._time_limit, interrupt)
        session.addTag(tag)
        try:
            with silenced(), interruptible(interrupt):
                if limit is not None:
                    limit.start()
                yield
        except Exception:
            check_stop()
            raise
        finally:
            if limit is not None:
                limit.cancel()
            session.removeTag(tag)


class _Materialised:
    """An encoded table that is kept in Spark: cached, or saved under a name of its own."""

    def __init__(self, session: Any, table: str, cached: Any = None) -> None:
        self.table = table
        self._session = session
        self._cached = cached

    def drop(self) -> None:
        def take_back() -> None:
            if self._cached is None:
                self._session.sql(f"DROP TABLE IF EXISTS {self.table}")
            else:
                self._cached.unpersist()
                self._session.catalog.dropTempView(self.table)

        with suppress(SourceError):  # the session may be gone already
            quietly(take_back, SourceError("Spark could not drop an encoded table."))


def _arguments(parameters: Parameters) -> dict[str, Any]:
    return {f"p{number}": value for number, value in enumerate(parameters.values, 1)}
