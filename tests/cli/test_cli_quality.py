"""`dpxplain quality`: priced, stored, and told by every answer afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

BY_SEX = "SELECT sex, AVG(pay) FROM people GROUP BY sex"


def test_quality_is_priced_bought_and_free_without_the_data(dpxplain: Any, folder: Path) -> None:
    dry = dpxplain("quality", "--rho", "0.5", "--dry-run", "--json").json
    assert (dry["kind"], dry["rho"], dry["free"]) == ("preview", 0.5, False)
    bought = dpxplain("quality", "--rho", "0.5", "--json").json
    assert (bought["kind"], bought["free"], bought["budget"]["rho"]["spent"]) == ("quality", False, 0.5)
    rows = {(row["column"], row["misfit"]): row for row in bought["rows"]}
    assert rows["pay", "above 100: count as 100"]["low"] == 0
    assert bought["units"] is None
    (folder / "people.csv").unlink()
    again = dpxplain("quality", "--rho", "0.5")
    assert "Price: free" in again.err
    assert "Data quality: people" in again.out
    assert [entry["kind"] for entry in dpxplain("history", "--json").json["entries"]] == ["quality"]


def test_answers_tell_what_was_bought(dpxplain: Any) -> None:
    before = dpxplain("query", BY_SEX, "--rho", "0.5", "--json").json["shaped_by"]
    dpxplain("quality", "--rho", "1", "--json")
    after = dpxplain("query", BY_SEX, "--rho", "0.5", "--json").json["shaped_by"]
    assert before != after
    assert after[-1].endswith(" 2.")
