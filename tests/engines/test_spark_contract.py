"""The contract of every engine on Spark, and a real cluster by both of its addresses; each pass is a job.

What the contract tries with many generated tables is tried with a few here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import test_engine_contract as contract
from engine_openers import Opener, versioned
from hypothesis import given
from hypothesis import strategies as st
from test_engine_contract import (
    test_a_cast_that_no_text_fits_is_null_of_its_type,
    test_a_column_may_have_any_name,
    test_a_derived_step_keeps_sums_exact_to_the_last_unit,
    test_a_domain_may_be_larger_than_a_byte_or_two,
    test_a_table_of_nothing_is_answered_like_any_other,
    test_an_engine_prints_nothing_of_its_data,
    test_bins_are_open_below_and_closed_above_to_the_last_digit,
    test_bounds_off_the_grid_are_drawn_in_to_it,
    test_declared_values_are_data_and_never_sql,
    test_every_size_of_attribute_subset_is_counted_in_one_pass,
    test_functions_of_texts_are_those_that_groups_are_inferred_by,
    test_large_whole_numbers_keep_their_last_digit,
    test_more_attributes_than_a_machine_word_has_bits_are_told_apart,
    test_null_is_a_category_only_where_it_is_declared,
    test_only_whole_numbers_are_whole_number_categories,
    test_only_zero_and_one_are_numbers_for_true_and_false,
    test_rows_without_a_person_are_left_out,
    test_the_kept_rows_are_not_simply_the_first_or_the_lowest,
    test_values_are_clamped_then_rounded_to_the_declared_step,
)
from test_spark import DECLARED, HARD, cells, declare, queries

from dpxplain.engines.duckdb import DuckDBEngine
from dpxplain.engines.engine import Engine
from dpxplain.engines.spark import SparkEngine, silenced
from dpxplain.errors import SourceError
from dpxplain.model.query import Aggregate, Query
from dpxplain.model.schema import Schema
from spark_server import SETTINGS, SparkCluster

pytestmark = pytest.mark.slow

__all__ = [
    "test_a_cast_that_no_text_fits_is_null_of_its_type",
    "test_a_column_may_have_any_name",
    "test_a_derived_step_keeps_sums_exact_to_the_last_unit",
    "test_a_domain_may_be_larger_than_a_byte_or_two",
    "test_a_table_of_nothing_is_answered_like_any_other",
    "test_an_engine_prints_nothing_of_its_data",
    "test_bins_are_open_below_and_closed_above_to_the_last_digit",
    "test_bounds_off_the_grid_are_drawn_in_to_it",
    "test_declared_values_are_data_and_never_sql",
    "test_every_size_of_attribute_subset_is_counted_in_one_pass",
    "test_functions_of_texts_are_those_that_groups_are_inferred_by",
    "test_large_whole_numbers_keep_their_last_digit",
    "test_more_attributes_than_a_machine_word_has_bits_are_told_apart",
    "test_null_is_a_category_only_where_it_is_declared",
    "test_only_whole_numbers_are_whole_number_categories",
    "test_only_zero_and_one_are_numbers_for_true_and_false",
    "test_rows_without_a_person_are_left_out",
    "test_the_kept_rows_are_not_simply_the_first_or_the_lowest",
    "test_values_are_clamped_then_rounded_to_the_declared_step",
]


@pytest.fixture(scope="module")
def opener(spark_session: Any) -> Opener:
    def opened(rows: pa.Table, schema: Schema) -> Engine:
        return SparkEngine(spark_session.createDataFrame(rows), versioned(schema))

    return opened


def _inner(test: Any) -> Any:
    """What a test of the contract does with each of its examples."""
    return test.hypothesis.inner_test


@contract.examples(4)
@given(rows=contract.ROWS, asked=st.lists(contract._queries(), min_size=3, max_size=3))
def test_counts_and_sums_equal_those_of_an_exact_oracle(opener: Opener, rows: Any, asked: Any) -> None:
    _inner(contract.test_counts_and_sums_equal_those_of_an_exact_oracle)(opener, rows, asked)


@contract.examples(3)
@given(rows=contract.ROWS, filters=st.lists(contract.FILTERS, min_size=6, max_size=6))
def test_filters_follow_three_valued_logic(opener: Opener, rows: Any, filters: Any) -> None:
    _inner(contract.test_filters_follow_three_valued_logic)(opener, rows, filters)


@contract.examples(2)
@given(rows=contract.PERSON_ROWS)
def test_removing_a_person_changes_their_rows_only(opener: Opener, rows: Any) -> None:
    test = contract.test_removing_a_person_changes_their_rows_only_and_at_most_max_rows_of_them
    _inner(test)(opener, rows)


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.int64(), pa.float32(), pa.decimal128(38, 2), pa.bool_()], ids=str
)
def test_every_numeric_type_is_summed(opener: Opener, kind: pa.DataType) -> None:
    """But unsigned ones, which Spark has none of."""
    contract.test_every_numeric_type_is_summed(opener, kind)


@pytest.fixture(scope="module")
def hard_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("hard") / "hard.parquet"
    pq.write_table(HARD, file)
    return file


def expected_cells() -> Iterator[Any]:
    with closing(DuckDBEngine(HARD, declare(DECLARED))) as duckdb:
        yield from (cells(duckdb, query, subsets) for query, subsets in queries())


def create_table(session: Any, file: Path) -> None:
    session.sql(f"CREATE TABLE hard USING parquet LOCATION '{file}'")


def test_a_table_at_a_connect_server_of_a_cluster_is_counted_as_by_duckdb(
    spark_cluster: SparkCluster, hard_file: Path
) -> None:
    with silenced():
        from pyspark.sql.connect.session import SparkSession  # warns of pandas

        session = SparkSession.builder.remote(spark_cluster.connect).create()
    create_table(session, hard_file)
    schema = versioned(declare(DECLARED))
    try:
        with closing(SparkEngine(f"{spark_cluster.connect}::hard", schema)) as engine:
            found = [cells(engine, query, subsets) for query, subsets in queries()]
            assert found == list(expected_cells())
        with closing(SparkEngine((session, "hard"), versioned(schema, storage="memory"))) as engine:
            assert cells(engine, *next(queries())) == found[0]
        with (
            closing(
                SparkEngine(session.range(10**12).selectExpr("'x' AS a"), LETTERS, time_limit=5)
            ) as engine,
            pytest.raises(SourceError, match="longer than 5 s"),
        ):
            engine.grouped(Query("t", (), Aggregate("count")), (("a",),))
        with closing(SparkEngine(session.sql("SELECT raise_error('31337') AS a"), LETTERS)) as engine:
            with pytest.raises(SourceError, match="could not answer") as caught:
                engine.grouped(Query("t", (), Aggregate("count")), (("a",),))
            assert "31337" not in "".join(traceback.format_exception(caught.value))
    finally:
        session.sql("DROP TABLE hard")
        session.stop()


LETTERS = versioned(declare({"a": {"values": ["x"]}}))

IN_ANOTHER_PROCESS = """
import json, sys
from pathlib import Path
sys.path[:0] = json.loads(sys.argv[1])
from contextlib import closing
from pyspark.sql import SparkSession
from test_spark_contract import DECLARED, SparkEngine, cells, create_table, declare, queries, versioned
first = SparkSession.builder.master("local[1]").getOrCreate()
create_table(first, Path(sys.argv[3]))
first.stop()
with closing(SparkEngine(sys.argv[2], versioned(declare(DECLARED)))) as engine:
    found = [cells(engine, query, subsets) for query, subsets in queries()]
assert SparkSession.getActiveSession() is None, "the driver was not ended"
print(json.dumps(found))
"""


@pytest.mark.process
def test_a_table_at_the_master_of_a_cluster_is_counted_as_by_duckdb(
    spark_cluster: SparkCluster, hard_file: Path, tmp_path: Path
) -> None:
    """In a process of its own, which becomes a driver; the table is in a catalog that outlives a session."""
    catalog = f"jdbc:derby:;databaseName={tmp_path}/catalog;create=true"
    settings = SETTINGS | {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.javax.jdo.option.ConnectionURL": catalog,
        "spark.sql.warehouse.dir": str(tmp_path / "tables"),
        "spark.executor.memory": "600m",
        "spark.cores.max": "2",
    }
    (tmp_path / "spark-defaults.conf").write_text("".join(f"{k} {v}\n" for k, v in settings.items()))
    source = f"{spark_cluster.master}::default.hard"
    run = [sys.executable, "-c", IN_ANOTHER_PROCESS, json.dumps(sys.path), source, str(hard_file)]
    environment = os.environ | {"SPARK_CONF_DIR": str(tmp_path), "SPARK_LOCAL_IP": "127.0.0.1"}
    ended = subprocess.run(
        run, capture_output=True, text=True, check=False, timeout=600, cwd=tmp_path, env=environment
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    assert found == [[list(row) for row in rows] for rows in expected_cells()]
