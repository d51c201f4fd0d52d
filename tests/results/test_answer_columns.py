"""An answer by columns says what the answer by rows says, for every group."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dpxplain as dpx
from dpxplain.wire.payloads import AnswerColumns, GeneralColumns, PartColumns, answer_columns, answer_payload
from dpxplain.words.numbers import Figures

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
    parts = []
    for part in columns["parts"]:
        unknown = part["unknown"] or [False] * len(names)
        estimates = part["estimate_text"] or [figures_of(part).value(value) for value in part["estimate"]]
        rows = [
            name
            | {"estimate": part["estimate"][i], "estimate_text": "–" if unknown[i] else estimates[i]}
            | {"unknown": unknown[i]}
            | ends
            for i, (name, ends) in enumerate(zip(names, ends_of(part, part), strict=True))
        ]
        if (general := part["in_general"]) is not None:
            rows = [
                row | {"in_general": ends} for row, ends in zip(rows, ends_of(part, general), strict=True)
            ]
        parts.append(rows)
    return parts


def figures_of(part: PartColumns) -> Figures:
    assert part["decimals"] is not None, "what has no decimals in common has its texts"
    return Figures(part["decimals"], part["percent"])


def ends_of(part: PartColumns, ends: PartColumns | GeneralColumns) -> list[dict[str, Any]]:
    pairs = list(zip(ends["low"], ends["high"], strict=True))
    texts = ends["interval_text"] or [
        "unbounded" if low is None or high is None else figures_of(part).interval(low, high)
        for low, high in pairs
    ]
    unknown = part["unknown"] or [False] * len(pairs)
    return [
        {"low": low, "high": high, "interval_text": "may have no rows" if blank else text}
        for (low, high), text, blank in zip(pairs, texts, unknown, strict=True)
    ]


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


def test_an_average_of_no_rows_is_blank(tmp_path: Path) -> None:
    session = dpx.connect(pa.table(ROWS), SCHEMA, workspace=tmp_path)
    answer = session.query("SELECT sex, AVG(rich) FROM people GROUP BY sex", 1.0, population=True)
    [part] = answer_columns(answer, session.budget)["parts"]
    assert part["unknown"] == [False, False, True]
    assert (part["low"][2], part["high"][2]) == (None, None)
    *_, blank = answer_payload(answer, session.budget)["parts"][0]["rows"]
    assert blank["label"] == "NULL"
    assert (blank["unknown"], blank["estimate_text"], blank["low"], blank["high"]) == (True, "–", None, None)
    assert blank["in_general"]["low"] is None
    counted = session.query("SELECT sex, COUNT(*) FROM people GROUP BY sex", 1.0)
    assert answer_columns(counted, session.budget)["parts"][0]["unknown"] is None


CASES = Path(__file__).parents[2] / "page" / "tests" / "figures.json"


def test_the_page_writes_numbers_as_every_other_face() -> None:
    """The page's own writer is held to the same cases (page/tests/figures.test.ts)."""
    for case in json.loads(CASES.read_text(encoding="utf-8")):
        figures = Figures(case["decimals"], case["percent"])
        assert figures.value(case["low"]) == case["value"], case
        assert figures.interval(case["low"], case["high"]) == case["interval"], case
