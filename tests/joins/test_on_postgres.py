"""Joins with public tables and discovery where the data stay in PostgreSQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd
import psycopg
import pytest

import dpxplain as dpx
from opened import dataset_of

WORDS = pd.DataFrame({"sex": ["F", "M"], "word": ["Frau", "Mann"], "weight": [1.5, 2.25]})
PEOPLE = [(f"p{i % 40}", "F" if i % 3 else "M", ["Rome", "Oslo", f"t{i}"][i % 3]) for i in range(1200)]


@pytest.fixture
def people(postgres_address: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The table's address without the password, which is in the environment."""
    with psycopg.connect(postgres_address, autocommit=True) as database:
        database.execute("CREATE SCHEMA dpxplain")  # what the fixture removes
        database.execute("CREATE TABLE dpxplain.people (who text, sex char(3), city varchar)")
        with database.cursor().copy("COPY dpxplain.people FROM STDIN") as copy:
            for row in PEOPLE:
                copy.write_row(row)
    secret = str(psycopg.conninfo.conninfo_to_dict(postgres_address)["password"])
    monkeypatch.setenv("PGPASSWORD", secret)
    return f"{postgres_address.replace(f':{quote(secret)}@', '@')}::dpxplain.people"


def declared(**privacy: Any) -> dict[str, Any]:
    return {
        "table": {"name": "people", "version": "1"},
        "privacy": {"rho": 1e6, "delta": 1e-6, **privacy},
        "columns": {"sex": {"values": ["F", "M"]}, "city": {"values": "discover"}},
        "tables": {"words": {"key": "sex", "public": True}},
    }


def test_both_engines_join_and_discover_alike(people: str, tmp_path: Path) -> None:
    frame = pd.DataFrame(PEOPLE, columns=["who", "sex", "city"])
    answers = []
    for number, source in enumerate((people, frame)):
        with dpx.connect(
            source, declared(), tables={"words": WORDS}, workspace=tmp_path / str(number), curator=True
        ) as session:
            joined = session.query(
                "SELECT word, COUNT(*), SUM(weight) FROM people JOIN words USING (sex) GROUP BY word", rho=1
            )
            found = session.discover("city", rho=1)
            assert found.values == ("Oslo", "Rome")
            by_city = session.query("SELECT city, COUNT(*) FROM people GROUP BY city", rho=1)
            answers.append([r["true"] for answer in (joined, by_city) for r in answer.truth().records()])
    assert answers[0] == answers[1]


@pytest.mark.parametrize("max_rows", [1, 2])
def test_persons_count_for_the_same_values_on_both_engines(
    people: str, tmp_path: Path, max_rows: int
) -> None:
    frame = pd.DataFrame(PEOPLE, columns=["who", "sex", "city"])
    counts = []
    for number, source in enumerate((people, frame)):
        schema = declared(unit="who", max_rows=max_rows)
        with dpx.connect(
            source, schema, tables={"words": WORDS}, workspace=tmp_path / str(number)
        ) as session:
            revealed = dataset_of(session).value_counts("city", 100).reveal()
            counts.append(sorted(zip(revealed.values, revealed.units.tolist(), strict=True)))
    assert counts[0] == counts[1]
    assert sum(units for _, units in counts[0]) <= 40 * max_rows
