"""An answer by columns says what the answer by rows says, for every group."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dpxplain as dpx
from dpxplain.wire.answer_payloads import AnswerColumns, answer_columns, answer_payload

SCHEMA = {
    "table": {"name": "people"},
    "privacy": {"rho": 100},
    "columns": {
        "sex": {"values": ["F", "M"], "value_labels": {"F": "female", "M": "male"}, "null": True},
        "age": {"edges": [0, 30, 60]},
        "rich": {"bounds": [0, 1], "step": 1, "label": "high income"},
    },
}
ROWS = {"sex": ["F", "M", "F", "M"] * 25, "age": [20, 40, 50, 10] * 25, "rich": [0, 1, 1, 0] * 25}


def by_groups(columns: AnswerColumns) -> list[list[dict[str, Any]]]:
    """What the page makes of it (page/src/lib/api/columns.ts)."""
    names = []
    for number in columns["groups"]:
        codes: list[int] = []
        for domain in reversed(columns["domains"]):
            number, code = divmod(number, len(domain["values"]))
            codes.insert(0, code)
        of = list(zip(columns["domains"], codes, strict=True))
        names.append(
            {
                "group": [domain["values"][code] for domain, code in of],
                "label": ", ".join(domain["labels"][code] for domain, code in of) or "all rows",
                "labels": [domain["texts"][code] for domain, code in of],
            }
        )
    fields = ("estimate", "low", "high", "estimate_text", "interval_text")
    parts = []
    for part in columns["parts"]:
        rows = [name | {field: part[field][i] for field in fields} for i, name in enumerate(names)]
        if (general := part["in_general"]) is not None:
            kept = ("low", "high", "interval_text")
            rows = [r | {"in_general": {f: general[f][i] for f in kept}} for i, r in enumerate(rows)]
        parts.append(rows)
    return parts


@pytest.mark.parametrize("population", [False, True])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM people",
        "SELECT sex, age, AVG(rich) FROM people GROUP BY sex, age",
        "SELECT age, sex, COUNT(*), AVG(rich) AS r, SUM(rich) / COUNT(*) AS q FROM people GROUP BY age, sex "
        "ORDER BY 3 DESC LIMIT 3",
    ],
)
def test_columns_say_what_rows_say(sql: str, population: bool, tmp_path: Path) -> None:
    session = dpx.connect(pa.table(ROWS), SCHEMA, workspace=tmp_path)
    answer = session.query(sql, 1.0, population=population)
    rows, columns = answer_payload(answer, session.budget), answer_columns(answer, session.budget)
    told = [
        [{key: value for key, value in row.items() if key != "noise_scale"} for row in part["rows"]]
        for part in rows["parts"]
    ]
    assert by_groups(columns) == told
    assert {key: value for key, value in rows.items() if key not in ("rows", "parts")} == {
        key: value for key, value in columns.items() if key not in ("domains", "groups", "parts")
    }
    assert [part["percent"] for part in columns["parts"]] == [
        part["expression"] == "AVG(rich)" for part in columns["parts"]
    ]
