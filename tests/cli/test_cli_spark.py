"""`dpxplain schema init` and `query` on tables of Spark: the catalog alone for drafts, cells for answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dpxplain.cli.metadata import described_catalog, draft_described
from dpxplain.engines.opening import spark_catalog
from dpxplain.engines.spark import open_spark, silenced
from spark_server import SparkCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = [(f"p{n % 9}", "F" if n % 3 else "M", n % 80) for n in range(600)]
COLUMNS = "who string, sex string, age int"


@pytest.mark.slow
def test_a_draft_from_spark_has_names_and_types_and_no_value(spark_session: SparkSession) -> None:
    frame = spark_session.createDataFrame(ROWS, COLUMNS)
    opened = open_spark(frame, "people")
    try:
        table = spark_catalog(opened.fields, "people", "sc://host::people")
    finally:
        opened.close()
    text = draft_described(described_catalog(table, "the catalog of Spark"), 1.0).text
    assert "[columns.sex]" in text
    assert 'values = "discover"' in text
    assert "p1" not in text


@pytest.mark.slow
def test_the_command_line_drafts_and_asks_at_a_connect_server(
    dpxplain: Any, folder: Path, spark_cluster: SparkCluster
) -> None:
    with silenced():
        from pyspark.sql.connect.session import SparkSession  # warns of pandas

        session = SparkSession.builder.remote(spark_cluster.connect).create()
    address = f"{spark_cluster.connect}::people"
    session.createDataFrame(ROWS, COLUMNS).write.saveAsTable("people")
    try:
        draft = dpxplain("schema", "init", address, "-o", "people.toml")
        text = (folder / "people.toml").read_text(encoding="utf-8")
        assert "catalog of Spark" in draft.err
        assert f'source = "{address}"' in text
        assert "[columns.age]" in text.replace("# [", "[")
        assert "names no table" in dpxplain("schema", "init", spark_cluster.connect, "-o", "no.toml").err
        (folder / "dpxplain.toml").write_text(
            '[table]\nname = "people"\nversion = "1"\n[privacy]\nrho = 1000.0\nunit = "who"\nmax_rows = 100\n'
            '[columns.sex]\nvalues = ["F", "M"]\n',
            encoding="utf-8",
        )
        sql = "SELECT sex, COUNT(*) FROM people GROUP BY sex"
        asked = dpxplain("query", sql, "--rho", "900", "--data", address, "--json").json
        assert {row["sex"]: round(row[asked["value"]], -2) for row in asked["rows"]} == {"F": 400, "M": 200}
    finally:
        session.sql("DROP TABLE people")
        session.stop()
