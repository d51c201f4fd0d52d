"""`dpxplain discover`, and joins with public tables, at the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

SQL = "SELECT town, COUNT(*) FROM people GROUP BY town"


@pytest.fixture
def towns(dpxplain: Any, folder: Path) -> Any:
    rows = ["Rome,F"] * 500 + ["Oslo,M"] * 300 + ["Nowhere,F"]
    (folder / "people.csv").write_text("\n".join(["town,sex", *rows]) + "\n")
    (folder / "countries.csv").write_text("sex,word\nF,Frau\nM,Mann\n")
    (folder / "dpxplain.toml").write_text(
        '[table]\nname = "people"\nsource = "people.csv"\n[privacy]\nrho = 5.0\n'
        '[columns.town]\nvalues = "discover"\n[columns.sex]\nvalues = ["F", "M"]\n'
        '[tables.words]\nsource = "countries.csv"\nkey = "sex"\npublic = true\n'
    )
    return dpxplain


def test_values_are_priced_discovered_and_asked_about(towns: Any) -> None:
    assert "dpxplain discover" in towns("query", SQL, "--rho", "1").err
    dry = towns("discover", "town", "--rho", "0.5", "--dry-run", "--json").json
    assert (dry["kind"], dry["rho"], dry["free"]) == ("preview", 0.5, False)
    found = towns("discover", "town", "--rho", "0.5", "--json").json
    assert [row["value"] for row in found["values"]] == ["Oslo", "Rome"]
    assert (found["delta"] <= 1e-6, found["budget"]["rho"]["spent"]) == (True, 0.5)
    assert "Oslo" in towns("query", SQL, "--rho", "1").out
    again = towns("discover", "town", "--rho", "2")
    assert "Price: free" in again.err
    assert "2 values" in again.out
    assert [entry["kind"] for entry in towns("history", "--json").json["entries"]] == ["discover", "query"]
    assert "Nowhere" not in found["column"] + again.out


def test_what_cannot_be_discovered_is_refused_with_code_2(towns: Any) -> None:
    assert towns("discover", "sex", "--rho", "0.5").code == 2
    assert towns("discover", "town", "--rho", "0.5", "--delta", "1").code == 2
    assert towns("discover", "town", "--rho", "50").code == 3


def test_a_public_table_is_joined(towns: Any) -> None:
    sql = "SELECT word, COUNT(*) FROM people JOIN words USING (sex) GROUP BY word"
    answer = towns("query", sql, "--rho", "1", "--notes")
    assert "Frau" in answer.out
    said, shaped_by = (
        " ".join(answer.out.split()),
        towns("query", sql, "--rho", "1", "--json").json["shaped_by"],
    )
    assert "words" in shaped_by[0]
    assert all(sentence in said for sentence in shaped_by)
    assert "word" in towns("schema", "check").out
    why = towns("why", "Frau", "Mann")
    assert why.code == 0


def test_a_public_table_with_a_discovered_key_is_joined_from_any_folder(
    towns: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = folder / "declared"
    declared.mkdir()
    schema = (folder / "dpxplain.toml").read_text()
    for table in ("people.csv", "countries.csv"):
        (folder / table).rename(declared / table)
    (declared / "lands.csv").write_text("town,land\nRome,Italy\nOslo,Norway\n")
    lands = '[tables.lands]\nsource = "lands.csv"\nkey = "town"\npublic = true\n'
    (declared / "towns.toml").write_text(schema + lands)
    at = ("--schema", "declared/towns.toml")
    found = towns("discover", "town", "--rho", "0.5", *at)
    assert (found.code, "2 values" in found.out) == (0, True), found.err
    assert "It also takes δ 1e-6." in " ".join(found.err.split())
    joined = "SELECT land, COUNT(*) FROM people JOIN lands USING (town) GROUP BY land"
    asked = towns("query", joined, "--rho", "1", *at)
    assert (asked.code, "Norway" in asked.out) == (0, True), asked.err
    assert towns("why", "Italy", "Norway", *at).code == 0
