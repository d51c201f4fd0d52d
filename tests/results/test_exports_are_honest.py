"""What leaves as JSON or CSV: read by any program, run by none, and marked where it is not private."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dpxplain as dpx

FORMULAS = ["=1+1", "+A1", "-A1", "@SUM(1)", "\tx"]
SCHEMA = {
    "table": {"name": "t"},
    "privacy": {"rho": 1e6},
    "columns": {"g": {"values": [*FORMULAS, "-5", "a"]}, "pay": {"bounds": [0, 10], "step": 1}},
}
ROWS = pa.table({"g": ["a"] * 60 + ["-5"] * 40, "pay": [1, 2] * 50})
COUNT = "SELECT g, COUNT(*) AS n FROM t GROUP BY g"
NO_GROUP = "SELECT g, {} FROM t GROUP BY g HAVING COUNT(*) > 100000"


def opened(workspace: Path, **options: Any) -> dpx.Session:
    return dpx.connect(ROWS, SCHEMA, workspace=workspace, **options)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpx.Session]:
    with opened(tmp_path_factory.mktemp("exports"), curator=True) as session:
        yield session


def strict(text: str) -> Any:
    """JSON as other programs read it: without NaN and Infinity."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_json_has_null_where_a_number_is_not_finite(session: dpx.Session) -> None:
    ratios = session.query("SELECT g, SUM(pay) / COUNT(*) AS mean FROM t GROUP BY g", rho=0.01)
    assert isinstance(ratios, dpx.Answers)
    for result in (ratios, ratios["mean"], ratios.truth(), ratios["mean"].truth()):
        assert len(strict(result.to_json())["rows"]) == 7
    assert {row["noise_scale"] for row in strict(ratios["mean"].to_json())["rows"]} == {None}


def test_json_tells_the_confidence_of_its_intervals(session: dpx.Session) -> None:
    assert strict(session.query(COUNT, rho=1.0, confidence=0.8).to_json())["confidence"] == 0.8


@pytest.mark.parametrize(
    "values", ["COUNT(*) AS n", "COUNT(*) AS n, AVG(pay)", "SUM(pay) / COUNT(*) AS mean"]
)
def test_a_table_without_rows_has_its_columns(session: dpx.Session, values: str) -> None:
    empty = session.query(NO_GROUP.format(values), rho=1e4)
    full = session.query(NO_GROUP.format(values).replace("> 100000", "> -100000"), rho=1e4)
    assert len(empty) == 0 < len(full)
    assert empty.to_csv().splitlines() == full.to_csv().splitlines()[:1]
    assert list(empty.to_pandas()) == list(full.to_pandas())


def test_columns_of_ours_never_replace_those_of_the_query(session: dpx.Session) -> None:
    sql = "SELECT g AS interval_low, COUNT(*) AS low FROM t GROUP BY g"
    (first, *_) = session.query(sql, rho=0.5).records()
    assert list(first) == ["interval_low", "low", "interval_interval_low", "high", "noise_scale"]
    sql = "SELECT g, COUNT(*) AS n, AVG(pay) AS n_in_general FROM t GROUP BY g"
    (first, *_) = session.query(sql, rho=0.5, population=True).records()
    assert len(first) == 1 + 2 * 5


def test_texts_in_a_csv_file_are_no_formulas(session: dpx.Session) -> None:
    answer = session.query(COUNT, rho=0.5)
    assert isinstance(answer, dpx.Answer)
    rows = table(answer.to_csv())
    assert [row["g"] for row in rows] == [*(f"'{text}" for text in FORMULAS), "-5", "a"]
    assert [float(row["n"]) for row in rows] == [row.estimate for row in answer]
    assert [float(row["low"]) for row in rows] == [row.interval[0] for row in answer]
    renamed = session.query('SELECT g, COUNT(*) AS "=cmd" FROM t GROUP BY g', rho=0.5)
    assert "'=cmd" in renamed.to_csv().splitlines()[0].split(",")


def test_what_is_not_private_is_marked_in_every_file(tmp_path: Path) -> None:
    with opened(tmp_path / "a", curator=True) as session, opened(tmp_path / "b", insecure_seed=1) as seeded:
        answer = session.query(COUNT, rho=1.0)
        marked = [answer.truth(), seeded.query(COUNT, rho=1.0), dpx.check_schema(ROWS, SCHEMA)]
        for result in marked:
            assert strict(result.to_json())["private"] is False
            assert {row["not_private"] for row in table(result.to_csv())} == {"true"}
            assert result.to_pandas().attrs["private"] is False
            assert result.to_arrow().schema.metadata[b"private"] == b"false"
        assert "private" not in strict(answer.to_json())
        assert "private" not in answer.to_pandas().attrs
        assert b"private" not in (answer.to_arrow().schema.metadata or {})
        assert "not_private" not in answer.to_csv()
