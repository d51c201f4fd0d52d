"""The commands of the three phases, their prices and their forms."""

from __future__ import annotations

import csv
import io
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from dpxplain.cli.workspace import AnswerChoice
from dpxplain.model.contrast import Verdict
from dpxplain.privacy.accounting import rho_for_epsilon
from dpxplain.words.findings import AskedComparison, in_general

BY_SEX = "SELECT sex, AVG(pay) FROM people GROUP BY sex"
BY_BOTH = "SELECT sex, race, COUNT(*) FROM people GROUP BY sex, race"


def spent(dpxplain: Any) -> float:
    amount: float = dpxplain("budget", "--json").json["rho"]["spent"]
    return amount


def test_a_query_shows_its_price_on_stderr_and_its_answer_on_stdout(dpxplain: Any) -> None:
    outcome = dpxplain("query", BY_SEX, "--rho", "0.5")
    assert outcome.code == 0
    for figure in ("ρ 0.5", "ε 4.89", "ρ 5", "ρ 4.5"):
        assert figure in outcome.err
    assert "Female" in outcome.out
    assert "Price" not in outcome.out


def test_a_query_as_json_carries_rows_price_and_budget(dpxplain: Any) -> None:
    answer = dpxplain("query", BY_SEX, "--rho", "0.5", "--json").json
    assert answer["kind"] == "answer"
    assert [row["sex"] for row in answer["rows"]] == ["Female", "Male"]
    assert {"AVG(pay)", "low", "high", "noise_scale"} <= answer["rows"][0].keys()
    assert answer["budget"]["rho"] == {"limit": 5.0, "spent": 0.5, "remaining": 4.5}
    assert (answer["free"], answer["private"]) == (False, True)


def test_format_json_and_json_say_the_same(asked: Any) -> None:
    short = asked("query", BY_SEX, "--rho", "0.5", "--json").out
    assert asked("query", BY_SEX, "--rho", "0.5", "--format", "json").out == short


def test_a_query_as_csv_can_be_read_back(dpxplain: Any) -> None:
    rows = list(csv.DictReader(io.StringIO(dpxplain("query", BY_BOTH, "--rho", "1", "--format", "csv").out)))
    assert len(rows) == 8
    assert rows[0]["race"] == "White"


def test_a_query_is_read_from_stdin(dpxplain: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(BY_SEX))
    assert dpxplain("query", "-", "--rho", "0.5", "--json").json["sql"] == BY_SEX


def test_a_repeated_query_is_free_and_needs_no_data(asked: Any, folder: Path) -> None:
    first = asked("query", BY_SEX, "--rho", "0.5", "--json").json
    (folder / "people.csv").unlink()
    again = asked("query", BY_SEX, "--rho", "0.5", "--json")
    assert "Price: free" in again.err
    assert again.json == first
    assert first["free"]
    assert spent(asked) == 0.5


@pytest.mark.parametrize("words", [("query", BY_BOTH, "--rho", "1"), ("explain", "Male", "Female")])
def test_a_dry_run_shows_the_price_spends_nothing_and_reads_no_data(
    asked: Any, folder: Path, words: tuple[str, ...]
) -> None:
    (folder / "people.csv").unlink()
    outcome = asked(*words, "--dry-run", "--json")
    assert outcome.code == 0
    assert outcome.json["kind"] == "preview"
    assert outcome.json["affordable"]
    assert asked(*words, "--dry-run").code == 0
    assert spent(asked) == 0.5


def test_preview_takes_a_query_or_two_groups(asked: Any) -> None:
    query = asked("preview", BY_BOTH, "--rho", "0.2", "--json").json
    assert (query["rho"], query["rows"][0]["group_size"]) == (0.2, None)
    explanation = asked("preview", "Male", "Female", "--json").json
    assert (explanation["rho"], explanation["rows"][0]["k"]) == (0.5, 5)
    assert spent(asked) == 0.5


def test_why_is_free_and_reads_no_data(asked: Any, folder: Path) -> None:
    (folder / "people.csv").unlink()
    question = asked("why", "Male", "Female", "--json").json
    assert question["verdict"] in ("real", "unclear", "reversed")
    assert question["answer"] == 1
    assert len(question["interval"]) == 2
    assert "Male" in asked("why", "Male", "Female").out
    assert spent(asked) == 0.5


def test_why_takes_weights_and_a_constant(asked: Any) -> None:
    question = asked("why", "--weight", "Male=1", "--weight", "Female=-10", "--at-least", "-5", "--json").json
    assert question["weights"] == [{"group": "Male", "weight": 1.0}, {"group": "Female", "weight": -10.0}]
    assert question["at_least"] == -5


def test_why_takes_one_group_with_a_constant(asked: Any) -> None:
    assert asked("why", "Male", "--at-least", "20", "--json").json["weights"] == [
        {"group": "Male", "weight": 1.0}
    ]


@pytest.mark.parametrize(
    ("first", "second", "labels"),
    [
        ("Male, White", "Female, Black or Brown", ["Male, White", "Female, Black or Brown"]),
        ("Male, A / B", "Male, NULL", ["Male, A / B", "Male, NULL"]),
        ("Male / White", "Female / Black or Brown", ["Male, White", "Female, Black or Brown"]),
        ('["Male", "A / B"]', "Male / NULL", ["Male, A / B", "Male, NULL"]),
        ('["Male", null]', '["Female", null]', ["Male, NULL", "Female, NULL"]),
    ],
)
def test_groups_of_several_columns_are_named_as_printed_or_by_a_json_array(
    dpxplain: Any, first: str, second: str, labels: list[str]
) -> None:
    dpxplain("query", BY_BOTH, "--rho", "1")
    question = dpxplain("why", first, second, "--json").json
    assert [weight["group"] for weight in question["weights"]] == labels


def test_null_alone_can_be_compared_with(dpxplain: Any) -> None:
    dpxplain("query", "SELECT race, COUNT(*) FROM people GROUP BY race", "--rho", "1")
    for null in ("NULL", "[null]"):
        weights = dpxplain("why", "White", null, "--json").json["weights"]
        assert [weight["group"] for weight in weights] == ["White", "NULL"]


def test_why_speaks_of_the_answer_asked_last_even_when_it_was_stored(asked: Any) -> None:
    asked("query", BY_BOTH, "--rho", "0.5")
    asked("query", BY_SEX, "--rho", "0.5")
    assert asked("why", "Male", "Female", "--json").json["answer"] == 1
    assert asked("why", "Male / White", "Female / White", "--answer", "2", "--json").json["answer"] == 2


def test_a_lost_or_broken_note_of_the_last_answer_does_no_harm(asked: Any, folder: Path) -> None:
    for content in ("", "[]", '{"people": 99}', '{"people": "x"}'):
        (folder / ".dpxplain" / "last.json").write_text(content)
        assert asked("why", "Male", "Female", "--json").json["answer"] == 1
        assert asked("query", BY_SEX, "--rho", "0.5").code == 0


def test_explain_shows_k_predicates_and_charges_once(asked: Any) -> None:
    words = ("explain", "Male", "Female", "--k", "3", "--rho", "1.5")
    table = asked(*words, "--json").json
    assert len(table["rows"]) == 3
    assert table["predicates"] == 6
    assert table["question"]["answer"] == 1
    assert sum(spend["rho"] for spend in table["spends"]) == pytest.approx(1.5)
    shown = asked(*words).out
    assert table["finding"]["headline"] in " ".join(shown.split())
    assert "rank" not in shown
    assert "rank" in asked(*words, "--influence", "--notes").out.partition("Notes")[0]
    assert spent(asked) == 2.0


def test_a_story_is_priced_told_and_told_again_for_nothing(asked: Any, folder: Path) -> None:
    words = ("story", "Male", "Female")
    assert asked(*words, "--json").code == 2, "nothing is prepared"
    priced = asked(*words, "--rho", "2", "--dry-run", "--json").json
    assert (priced["kind"], priced["rho"], priced["rows"][0]["levels"]) == ("preview", 2.0, 2)
    assert spent(asked) == 0.5
    first = asked(*words, "--rho", "2", "--json").json
    assert (first["kind"], first["free"]) == ("story", False)
    again = asked(*words, "--report", "story.html", "--json").json
    assert again["free"]
    assert again["rows"] == first["rows"]
    assert "Step by step" in (folder / "story.html").read_text(encoding="utf-8")
    told = " ".join(asked(*words, "--population").out.split())
    assert first["finding"]["headline"] in told
    general = asked("why", "Male", "Female", "--population", "--json").json["in_general"]
    held = (general["low"], general["high"]), Verdict(general["verdict"])
    assert in_general(AskedComparison((), 0.0, held[0], held[1], 0.95, general=held)) in told
    assert asked(*words, "--format", "csv").out.startswith("level,condition,predicate")
    assert spent(asked) == 2.5


def test_the_papers_shares_of_rho_can_be_given(asked: Any) -> None:
    words = ("explain", "Male", "Female", "--k", "2", "--rho", "1")
    for split, shares in (("1,2,5", [0.125, 0.25, 0.625]), ("best", None)):
        table = asked(*words, "--split", split, "--lower-share", "0.4", "--json").json
        spends = [spend["rho"] for spend in table["spends"]]
        assert spends == pytest.approx(shares if shares else spends)
        assert sum(spends) == pytest.approx(1.0)
        _, command, _, _, *again = shlex.split(table["code"]["cli"].splitlines()[-1])  # --schema people.toml
        assert again[again.index("--lower-share") + 1] == "0.4"
        assert asked(command, *again, "--json").json["free"], "the code that is shown asks the same"
        preview = asked("preview", *words[1:], "--split", split, "--lower-share", "0.4", "--json").json
        assert preview["free"]
    assert spent(asked) == 2.5


@pytest.mark.parametrize("split", ["1,2", "1,2,x", "", "worst", "0,1,1"])
def test_shares_that_are_none_are_refused(asked: Any, split: str) -> None:
    outcome = asked("explain", "Male", "Female", "--rho", "1", "--split", split, "--json")
    assert outcome.code == 2
    assert spent(asked) == 0.5


def test_explain_takes_attributes_conjuncts_and_the_papers_noise(asked: Any) -> None:
    table = asked(
        "explain", "Male", "Female", "--attributes", "age, race", "--conjuncts", "2",
        "--sensitivity", "paper", "--mechanism", "one-shot", "--confidence", "0.9", "--json",
    ).json  # fmt: skip
    assert (table["predicates"], table["confidence"], table["mechanism"]) == (8, 0.9, "one-shot")
    assert all(" AND " in row["predicate"] for row in table["rows"])


def test_explain_as_csv_has_one_line_per_predicate(asked: Any) -> None:
    text = asked("explain", "Male", "Female", "--k", "2", "--format", "csv").out
    assert [line["rank_low"] != "" for line in csv.DictReader(io.StringIO(text))] == [True, True]


def test_the_curator_sees_the_truth_marked_as_not_private(asked: Any) -> None:
    for words in (
        ("query", BY_SEX, "--rho", "0.5"),
        ("why", "Male", "Female"),
        ("explain", "Male", "Female"),
    ):
        assert "truth" not in asked(*words, "--json").json
        outcome = asked(*words, "--curator", "--json")
        assert outcome.json["truth"]["private"] is False
        assert outcome.json["truth"]["rows"]
        assert "Not private" in outcome.err
    shown = asked("query", BY_SEX, "--rho", "0.5", "--curator")
    assert "Not private" in shown.err
    assert "true" in shown.out


def test_history_lists_requests_with_a_running_total(asked: Any) -> None:
    asked("explain", "Male", "Female", "--rho", "0.7", "--mechanism", "one-shot")
    entries = asked("history", "--json").json["entries"]
    assert [(e["kind"], e["rho"], e["total_rho"]) for e in entries] == [
        ("query", 0.5, 0.5),
        ("explain", 0.7, 1.2),
    ]
    assert "explain" in asked("history").out


def test_history_shows_the_newest_lines_or_all_of_them(asked: Any) -> None:
    for part in (1, 2, 3):
        asked("query", BY_SEX, "--rho", f"0.1{part}", "--yes")
    newest = asked("history", "--limit", "2", "--json").json
    assert [e["rho"] for e in newest["entries"]] == [0.12, 0.13]
    assert newest["older"] == newest["entries"][0]["id"]
    shown = asked("history", "--limit", "2")
    assert "0.13" in shown.out
    assert "0.11" not in shown.out
    assert "history --all" in shown.err
    everything = asked("history", "--all", "--json").json
    assert ([e["rho"] for e in everything["entries"]], everything["older"]) == ([0.5, 0.11, 0.12, 0.13], None)
    whole = asked("history", "--all")
    assert "0.11" in whole.out
    assert "--all" not in whole.err


def test_history_of_nothing_says_so(dpxplain: Any) -> None:
    outcome = dpxplain("history")
    assert (outcome.code, outcome.out) == (0, "")
    assert "Nothing" in outcome.err


def test_budget_speaks_of_rho_and_epsilon(asked: Any) -> None:
    budget = asked("budget", "--json").json
    assert budget["rho"] == {"limit": 5.0, "spent": 0.5, "remaining": 4.5}
    assert 0 < budget["epsilon"]["spent"] < budget["epsilon"]["limit"]
    assert "ρ" in asked("budget").out


def test_the_example_keeps_its_budget_in_the_workspace(dpxplain: Any, folder: Path) -> None:
    words = ("query", "SELECT sex, COUNT(*) FROM adult GROUP BY sex", "--rho", "0.1", "-e", "adult", "--json")
    dpxplain(*words, "--workspace", "elsewhere")
    assert (folder / "elsewhere" / "ledger.sqlite").exists()
    budget = dpxplain("budget", "--example", "adult", "--workspace", "elsewhere", "--json").json
    assert budget["rho"]["spent"] == 0.1


def test_values_that_look_like_markup_are_shown_as_they_are(dpxplain: Any, folder: Path) -> None:
    text = (folder / "dpxplain.toml").read_text().replace('"Female"', '"[bold]x[/bold]"')
    (folder / "dpxplain.toml").write_text(text)
    assert "[bold]x[/bold]" in dpxplain("query", BY_SEX, "--rho", "0.5").out


def test_every_result_as_json_is_strict_json(asked: Any) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    for words in (
        ("query", BY_SEX, "--rho", "0.000001"), ("why", "Male", "Female"), ("preview", BY_SEX),
        ("explain", "Male", "Female", "--rho", "0.000001"), ("history",), ("budget",), ("schema", "check"),
    ):  # fmt: skip
        json.loads(asked(*words, "--json").out, parse_constant=refuse)


def test_suggested_commands_name_the_answer_that_was_named() -> None:
    assert AnswerChoice(answer=1, of="total").words == ("--answer", "1", "--of", "total")
    assert AnswerChoice().words == ()


def test_the_answer_shown_last_is_remembered_where_the_ledger_is_elsewhere(
    dpxplain: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPXPLAIN_LEDGER", str(folder / "other.sqlite"))
    assert dpxplain("ledger", "create").code == 0
    for column in ("sex", "race", "sex"):
        sql = f"SELECT {column}, AVG(pay) FROM people GROUP BY {column}"
        assert dpxplain("query", "--rho", "0.5", sql, "--yes").code == 0
    assert dpxplain("why", "Male", "Female").code == 0


def test_a_query_without_a_price_is_refused_with_three_prices_and_spends_nothing(dpxplain: Any) -> None:
    outcome = dpxplain("query", BY_SEX)
    assert outcome.code == 2
    assert "Rough: ρ 0.02" in " ".join(outcome.err.split())
    assert "--rho 0.1" in " ".join(outcome.err.split())
    assert spent(dpxplain) == 0


def test_a_declared_default_pays_for_a_query_without_a_price(dpxplain: Any, folder: Path) -> None:
    schema = folder / "dpxplain.toml"
    schema.write_text(schema.read_text().replace("rho = 5.0", "rho = 5.0\ndefault_rho = 0.25"))
    assert dpxplain("preview", BY_SEX, "--json").json["rho"] == 0.25
    assert dpxplain("query", BY_SEX, "--json").json["rho"] == 0.25
    assert "A query without a price costs ρ = 0.25." in " ".join(dpxplain("schema", "check").out.split())


@pytest.mark.parametrize(
    "words",
    [
        ("query", BY_BOTH),
        ("prepare",),
        ("preview", BY_BOTH),
        ("preview", "Male", "Female"),
        ("explain", "Male", "Female", "--dry-run"),
        ("story", "Male", "Female", "--dry-run"),
        ("quality",),
        ("schema", "tune"),
    ],
)
def test_every_command_that_spends_takes_epsilon(asked: Any, words: tuple[str, ...]) -> None:
    told = asked(*words, "--epsilon", "0.5", "--json").json
    assert told["rho"] == rho_for_epsilon(0.5, 1e-6, is_gaussian=True)
    assert asked(*words, "--epsilon", "0.5", "--rho", "0.1", "--json").code == 2


def test_a_ratio_is_bought_by_epsilon_and_then_free(asked: Any) -> None:
    assert asked("ratio", "Male", "Female", "--epsilon", "0.5", "--json").json["free"] is False
    assert asked("ratio", "Male", "Female", "--epsilon", "0.5", "--json").json["free"] is True
