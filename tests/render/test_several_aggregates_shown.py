"""Answers of several aggregates, where people look at them."""

from __future__ import annotations

import pytest

from dpxplain.render.charts import chart
from dpxplain.render.terminal import as_text
from dpxplain.render.views import view_of
from dpxplain.words.prices import cost

SQL = 'SELECT sex AS "<b>", COUNT(*) AS "<i>n</i>", AVG(high_income) FROM adult GROUP BY sex'


@pytest.fixture(scope="module")
def answers(adult):
    return adult.query(SQL, rho=0.2)


def test_the_terminal_shows_a_table_with_a_plot_for_each_aggregate(answers):
    text = str(answers)
    assert text.count("95% interval") == 2  # a header for each
    assert text.count("●") == 4
    for word in (*(answer.value_heading for answer in answers.answers), "Male"):
        assert word in text
    first, second = (answer.finding.headline for answer in answers.answers)
    assert (answers.finding.headline, answers.finding.support) == (first, second)
    assert cost(0.2, answers.spends) in view_of(answers).notes


def test_the_notebook_escapes_names_and_draws_one_chart(answers):
    html = answers._repr_html_()
    assert "<i>n</i>" not in html
    assert "&lt;i&gt;n&lt;/i&gt;" in html
    assert (html.count("<table"), html.count("<svg")) == (2, 1)


def test_the_chart_has_an_axis_for_each_aggregate(answers):
    titles = [part["layer"][0]["encoding"]["x"]["title"] for part in chart(answers)["vconcat"]]
    assert titles == [[f"{answer.value_heading}, with 95% intervals"] for answer in answers.answers]


def test_one_of_them_renders_as_an_answer_and_says_what_all_of_them_cost(answers):
    notes = view_of(answers["AVG(high_income)"]).notes
    assert any(cost(0.2, answers.spends) in note for note in notes)
    assert answers["AVG(high_income)"]._repr_html_()


def test_the_truth_and_the_preview_name_the_aggregate(adult, answers):
    grid = view_of(answers.truth()).grid
    assert [column.name for column in grid.columns] == [
        "<b>",
        "aggregate",
        "value",
        "interval",
        "true",
        "covered",
    ]
    assert "AVG(high_income)" in as_text(adult.preview(SQL, rho=0.5))


def test_displaying_spends_nothing(adult, answers):
    before = adult.budget.spent
    str(answers), answers._repr_html_(), answers.chart()
    assert adult.budget.spent == before
