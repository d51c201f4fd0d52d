"""Bad input: one clear sentence with the remedy, the right exit code, nothing spent, no data shown."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from dpxplain.cli.screen import pointer
from dpxplain.errors import QueryRefused

BY_SEX = "SELECT sex, AVG(pay) FROM people GROUP BY sex"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("query", "SELECT AVG(sallary) FROM people", "--rho", "1"), "sallary"),
        (("query", "SELECT 1; DROP TABLE people", "--rho", "1"), ""),
        (("query", BY_SEX, "--rho", "0"), "rho"),
        (("query", BY_SEX, "--rho", "nan"), "rho"),
        (("query", BY_SEX, "--rho", "-1"), "rho"),
        (("query", BY_SEX, "--rho", "1", "--confidence", "1.5"), "onfidence"),
        (("query", BY_SEX, "--rho", "lots"), "--rho"),
        (("query", BY_SEX), "--rho"),
        (("query", BY_SEX, "--rho", "1", "--format", "xml"), "xml"),
        (("query", BY_SEX, "--rho", "1", "--schema", "none.toml"), "none.toml"),
        (("query", BY_SEX, "--rho", "1", "--data", "none.csv"), "none.csv"),
        (("query", BY_SEX, "--rho", "1", "--example", "iris"), "iris"),
        (("query", BY_SEX, "--rho", "1", "--example", "adult", "--data", "people.csv"), "--example"),
        (("why", "Male", "Femal"), "Femal"),
        (("why", "Male", "female"), "Did you mean 'Female'?"),
        (("why", "Male", "Male"), "itself"),
        (("why", "Male"), "two groups"),
        (("why",), "two groups"),
        (("why", "Male", "Female", "Other"), "two groups"),
        (("why", "Male", "Female", "--weight", "Male=1"), "both as A B and with --weight"),
        (("why", "--weight", "Male"), "GROUP=NUMBER"),
        (("why", "--weight", "Male=much"), "GROUP=NUMBER"),
        (("why", "--weight", "Male=1", "--weight", "Male=2"), "GROUP=NUMBER"),
        (("why", "--weight", "Male=nan"), "weight of 'Male'"),
        (("why", '["Male", "White"]', "Female"), "2 were given"),
        (("why", "Male", "Female", "--answer", "99"), "99"),
        (("why", "Male", "Female", "--method", "guess"), "interval method"),
        (("explain", "Male", "Female", "--k", "7"), "k must"),
        (("explain", "Male", "Female", "--k", "0"), "k must"),
        (("explain", "Male", "Female", "--conjuncts", "3"), "conjuncts"),
        (("explain", "Male", "Female", "--attributes", "sex"), "sex"),
        (("explain", "Male", "Female", "--attributes", "agee"), "agee"),
        (("explain", "Male", "Female", "--mechanism", "magic"), "magic"),
        (("explain", "Male", "Female", "--sensitivity", "loose"), "loose"),
        (("explain", "Male", "Female", "--report", "no/such/folder.html"), "folder.html"),
        (("explain", "Male", "Female", "--data", "none.csv"), "none.csv"),
        (("preview",), "two groups"),
        (("demo", "--report", "no/such/folder.html"), "folder.html"),
        (("schema", "init", "none.csv", "--force"), "none.csv"),
        (("schema", "init", "people.csv"), "exists"),
        (("schema", "check", "none.toml"), "none.toml"),
        (("budget", "--workspace", "people.csv"), "people.csv"),
        (("budget", "--schema", "."), "Cannot read"),
        (("why", "Male", "\udcff"), "UTF-8"),
        (("budgets",), "budgets"),
        (("budget", "--colour"), "--colour"),
    ],
)
def test_a_bad_request_exits_with_2_and_spends_nothing(
    asked: Any, words: tuple[str, ...], problem: str
) -> None:
    plain, as_json = asked(*words), asked(*words, "--json")
    assert (plain.code, as_json.code) == (2, 2)
    assert (plain.out, as_json.out) == ("", "")
    assert problem in " ".join(plain.err.split())
    assert as_json.error.keys() >= {"code", "message", "remedy", "position"}
    assert "Traceback" not in plain.err + as_json.err
    assert asked("budget", "--json").json["rho"]["spent"] == 0.5


def test_groups_of_several_columns_are_refused_with_the_way_to_write_them(dpxplain: Any) -> None:
    dpxplain("query", "SELECT sex, race, COUNT(*) FROM people GROUP BY sex, race", "--rho", "1")
    error = dpxplain("why", "Male", "Female", "--json").error
    assert "sex, race" in error["message"]
    assert "'Female, White'" in error["remedy"]
    assert dpxplain("why", '["Male", [1]]', "Female / White").code == 2


def test_an_exhausted_budget_exits_with_3_and_loses_nothing(asked: Any) -> None:
    outcome = asked("query", BY_SEX, "--rho", "4.6")
    assert outcome.code == 3
    assert "ρ 4.5" in outcome.err
    assert asked("explain", "Male", "Female", "--rho", "4.6", "--json").error["code"] == "budget_exhausted"
    assert asked("budget", "--json").json["rho"]["spent"] == 0.5
    assert asked("query", BY_SEX, "--rho", "0.5").code == 0


def test_a_refused_query_points_at_the_words(dpxplain: Any) -> None:
    error = dpxplain("query", "SELECT sex,\n AVG(sallary) FROM people GROUP BY sex", "--rho", "1")
    lines = error.err.splitlines()
    caret = next(i for i, line in enumerate(lines) if "^" in line)
    assert lines[caret - 1][lines[caret].index("^") :].startswith("sallary")
    as_json = dpxplain("query", "SELECT AVG(sallary) FROM people", "--rho", "1", "--json").error
    assert as_json["position"] == {"line": 1, "column": 12, "start": 11, "end": 18}


@pytest.mark.parametrize("width", [20, 40, 80, 200])
@pytest.mark.parametrize("start", [0, 7, 60, 149])
def test_the_caret_stays_below_what_it_points_at_in_a_long_line(width: int, start: int) -> None:
    sql = "日" * 5 + "\t" + "x" * 54 + "BAD" + "y" * 100
    shown = pointer(QueryRefused("no", sql=sql, start=start, end=start + 3), width).plain
    above, below = shown.split("\n")
    from rich.cells import cell_len, set_cell_size

    column = below.index("^")
    assert above[len(set_cell_size(above, column)) if above.isascii() else 0 :] != ""
    if start == 60:
        position = above.index("BAD")
        assert cell_len(above[:position]) == column


def test_a_caret_may_stand_behind_the_end() -> None:
    assert pointer(QueryRefused("no", sql="SELECT", start=6, end=6), 80).plain.endswith(" ^")


def test_an_unforeseen_error_shows_no_text_of_it(dpxplain: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("the salary of Ada is 4242")

    monkeypatch.setattr("dpxplain.session.Session.preview", fail)
    for extra in ((), ("--debug",), ("--json",), ("--json", "--debug")):
        outcome = dpxplain("query", BY_SEX, "--rho", "1", *extra)
        assert outcome.code == 1
        assert "Ada" not in outcome.err
        assert "4242" not in outcome.err
        assert ("ValueError at" in outcome.err) == ("--debug" in extra)
    assert outcome.error["code"] == "internal_error"


def test_ctrl_c_exits_with_130(dpxplain: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dpxplain.session.Session.preview", interrupt)
    outcome = dpxplain("query", BY_SEX, "--rho", "1")
    assert outcome.code == 130
    assert "Interrupted" in outcome.err


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("reply", "code", "spent"), [("y\n", 0, 0.5), ("n\n", 130, 0), ("\n", 130, 0), ("", 130, 0)]
)
def test_a_person_is_asked_before_spending(
    dpxplain: Any, monkeypatch: pytest.MonkeyPatch, reply: str, code: int, spent: float
) -> None:
    monkeypatch.setattr("sys.stdin", _Terminal(reply))
    monkeypatch.setattr("dpxplain.cli.screen.ERR._force_terminal", True)
    assert dpxplain("query", BY_SEX, "--rho", "0.5").code == code
    assert dpxplain("budget", "--json").json["rho"]["spent"] == spent


@pytest.mark.parametrize("extra", ["--yes", "--json"])
def test_a_person_who_said_yes_is_not_asked(
    dpxplain: Any, monkeypatch: pytest.MonkeyPatch, extra: str
) -> None:
    monkeypatch.setattr("sys.stdin", _Terminal("n\n"))
    monkeypatch.setattr("dpxplain.cli.screen.ERR._force_terminal", True)
    assert dpxplain("query", BY_SEX, "--rho", "0.5", extra).code == 0


def test_an_unreadable_file_is_named_without_its_content(dpxplain: Any, folder: Path) -> None:
    (folder / "broken.parquet").write_bytes(b"PAR1 secret PAR1")
    outcome = dpxplain("query", BY_SEX, "--rho", "1", "--data", "broken.parquet")
    assert outcome.code == 2
    assert "broken.parquet" in outcome.err
    assert "secret" not in outcome.err
    assert dpxplain("schema", "init", "broken.parquet", "--force").code == 2


def test_a_schema_that_contradicts_the_source_is_refused(dpxplain: Any, folder: Path) -> None:
    text = (folder / "dpxplain.toml").read_text().replace("[columns.pay]", "[columns.wage]")
    (folder / "dpxplain.toml").write_text(text)
    for words in (("schema", "check"), ("query", "SELECT AVG(wage) FROM people", "--rho", "1")):
        outcome = dpxplain(*words)
        assert outcome.code == 2
        assert "wage" in outcome.err
    assert dpxplain("budget", "--json").json["rho"]["spent"] == 0


def test_without_a_schema_the_ways_to_name_one_are_listed(dpxplain: Any, folder: Path) -> None:
    (folder / "dpxplain.toml").unlink()
    outcome = dpxplain("budget", "--json")
    assert outcome.code == 2
    for way in ("--schema", "DPXPLAIN_SCHEMA", "schema init", "--example adult"):
        assert way in outcome.error["remedy"]


def test_the_schema_can_be_named_in_the_environment(
    dpxplain: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "dpxplain.toml").rename(folder / "people.toml")
    monkeypatch.setenv("DPXPLAIN_SCHEMA", "people.toml")
    assert dpxplain("query", BY_SEX, "--rho", "1").code == 0


@pytest.mark.parametrize(
    "words",
    [
        ("preview", "SELECT sex, COUNT(*) FROM people GROUP BY sex", "--k", "3"),
        ("preview", "SELECT sex, COUNT(*) FROM people GROUP BY sex", "--relative", "0.1"),
        ("preview", "SELECT sex, COUNT(*) FROM people GROUP BY sex", "--mechanism", "vector"),
        ("preview", "SELECT sex, COUNT(*) FROM people GROUP BY sex", "--attributes", "age"),
        ("serve", "server.toml", "--port", "9000"),
        ("serve", "server.toml", "--workspace", "w"),
    ],
    ids=lambda words: " ".join(words[-2:]),
)
def test_options_that_would_not_count_are_refused(
    folder: Path, dpxplain: Any, words: tuple[str, ...]
) -> None:
    (folder / "server.toml").write_text("[server]\n")
    outcome = dpxplain(*words)
    assert outcome.code == 2
    assert "Leave" in outcome.err
