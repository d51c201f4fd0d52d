"""What people read in a terminal."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

import dpxplain as dpx
from dpxplain.render.charts import chart
from dpxplain.render.layout import Axis, IntervalMark, nice, span
from dpxplain.render.terminal import as_text, history_table, mark_line, renderable
from dpxplain.render.views import view_of
from dpxplain.words import prices
from dpxplain.words.prices import cost
from dpxplain.words.sentences import CURATOR_ONLY, NOT_PRIVATE, influence_note


def shown(result: object, width: int) -> str:
    file = io.StringIO()
    Console(file=file, width=width, force_terminal=True, color_system="truecolor").print(renderable(result))
    return file.getvalue()


def test_an_answer_shows_every_group_with_its_interval_and_price(answer):
    text = str(answer)
    for row in answer:
        assert row.label in text
    assert "95% interval" in text
    assert "●" in text
    assert sum(spend.rho for spend in answer.spends) == pytest.approx(0.1)
    assert cost(0.1, answer.spends) in view_of(answer).notes


def test_an_answer_from_the_ledger_says_that_it_was_free(adult, answer):
    again = adult.query(answer.sql, rho=0.1)
    assert view_of(again).notes[-1] == cost(0.1, answer.spends, free=True)
    assert view_of(answer).notes[-1] == cost(0.1, answer.spends)


def test_a_question_shows_the_sign_of_its_verdict_before_the_headline(question, blurred, answer):
    reverse = answer.why("Never-married", "Married-civ-spouse")
    for asked, sign in ((question, "●"), (blurred.question, "○"), (reverse, "◆")):
        text = " ".join(str(asked).split())
        assert text.startswith(f"{asked.title} {sign} {asked.finding.headline}")


def test_an_explanation_by_influence_shows_ranks_out_of_all_conditions(table):
    text = " ".join(str(table).split())
    assert "rank of 103" in text
    assert "relative influence" in text
    assert table.finding.notes.count(influence_note("avg", "gap", is_relative=True)) == 1
    assert table.label_of(table[0]) in text


def test_a_question_against_the_released_order_has_a_note_of_it(answer, question):
    reverse = answer.why("Never-married", "Married-civ-spouse")
    assert reverse.note
    assert reverse.finding.notes[0] == reverse.note
    assert question.note == ""


def test_without_a_meaningful_gap_absolute_influence_is_shown(blurred):
    assert blurred.question.relative_to is None
    grid = view_of(blurred).grid
    names = [column.name for column in grid.columns]
    assert "influence" in names
    assert not any("%" in row[names.index("influence")] for row in grid.rows)
    assert all(mark.hollow for mark in grid.marks)
    assert [row[names.index("effect")] for row in grid.rows] == ["unclear"] * len(grid.rows)


def test_truths_carry_the_banner_in_str_and_in_repr(answer, question, table):
    for truth in (answer.truth(), question.truth(), table.truth()):
        assert str(truth).startswith(f" {CURATOR_ONLY}")
        assert repr(truth) == str(truth)
    assert "… and 83 more rows" in str(question.truth())


def test_seeded_results_carry_a_warning():
    with dpx.example("adult", insecure_seed=1) as session:
        answer = session.query("SELECT sex, COUNT(*) FROM adult GROUP BY sex", rho=0.1)
        question = answer.why("Male", "Female")
        for result in (answer, question, question.explain(k=2, rho=0.1)):
            assert str(result).startswith(f" {NOT_PRIVATE}")
            assert "NOT PRIVATE" in result._repr_html_()


def test_previews_show_the_price_and_what_is_left(adult, question, answer):
    preview = question.preview(k=3, rho=0.5, mechanism="one-shot")
    too_dear = adult.preview("SELECT COUNT(*) FROM adult", rho=1000)
    for priced in (preview, too_dear):
        text = " ".join(str(priced).split())
        assert "nothing is spent" in text
        assert all(line in text for line in prices.price(priced.price))
    assert (preview.price.affordable, too_dear.price.affordable) == (True, False)
    assert repr(adult.preview("SELECT COUNT(*) FROM adult", rho=0.25)).count("±") == 1
    assert prices.STORED in str(adult.preview(answer.sql, rho=0.1))


def test_the_budget_and_the_history_can_be_read(adult, answer):
    budget = as_text(adult.budget)
    assert "of 5 is spent" in budget
    assert "ε at δ 1e-6" in budget
    assert answer.sql.split()[1] in as_text(adult.history)
    assert as_text([]) == "History\nNothing was asked yet."
    file = io.StringIO()
    Console(file=file, width=100).print(history_table(adult.history))
    assert "time (UTC)" in file.getvalue()


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_nothing_is_wider_than_the_terminal(width, monkeypatch, adult, answer, question, table):
    monkeypatch.setenv("COLUMNS", str(width))
    long = question.explain(k=3, rho=0.05, conjuncts=3)
    results = [answer, question, table, long, table.truth(), question.preview(rho=0.1), adult.budget]
    for result in [*results, adult.history]:
        text = as_text(result)
        assert max(cell_len(line) for line in text.splitlines()) <= width
        assert "\x1b" not in text


def test_plain_text_has_no_colour_codes_even_when_colour_is_forced(monkeypatch, table):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b" not in str(table)
    assert "\x1b[" in shown(table, 100)


def test_hostile_values_are_neither_markup_nor_escape_codes(hostile, hostile_table):
    text = str(hostile)
    assert "[red]bold[/red]�[31m" in text
    assert "\x1b" not in text + str(hostile_table)


def test_five_hundred_groups_are_shown_in_part(tmp_path):
    import pyarrow as pa

    names = [f"g{i}" for i in range(500)]
    schema = {"table": {"name": "t"}, "privacy": {"rho": 5}, "columns": {"g": {"values": names}}}
    with dpx.connect(pa.table({"g": names * 3}), schema, workspace=tmp_path) as session:
        answer = session.query("SELECT g, COUNT(*) FROM t GROUP BY g", rho=1.0)
        text = str(answer)
        assert "… and 480 more groups" in text
        assert "g19 " in text
        assert "g20 " not in text
        html = answer._repr_html_()
        assert "… and 480 more groups" in html


def test_marks_are_drawn_on_a_common_axis():
    axis = Axis(-1.0, 1.0, 0.0, ("-1", "0", "1"))
    assert mark_line(IntervalMark(-1.0, 0.0, 1.0), axis, 11) == "├────●────┤"
    assert mark_line(IntervalMark(0.5, 0.501, 0.502), axis, 11) == "     ┃  ●  "
    assert mark_line(IntervalMark(-float("inf"), 0.4, float("inf")), axis, 11) == "◄────┃─●──►"


def test_axes_have_ends_even_for_degenerate_intervals():
    assert span([]) == (-1.0, 1.0)
    assert span([(5.0, 5.0)]) == (4.5, 5.5)
    assert span([(-float("inf"), 3.0)]) == (2.7, 3.3)
    low, high = nice(4.5, 5.5)
    assert low <= 4.5 < 5.5 <= high


def test_what_cannot_be_shown_or_drawn_is_named():
    with pytest.raises(TypeError, match="no view of complex"):
        view_of(1j)
    with pytest.raises(TypeError, match="no chart of complex"):
        chart(1j)
