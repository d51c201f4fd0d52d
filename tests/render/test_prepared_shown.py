"""Prepare once, ask freely: how it is said, in a terminal, a notebook and a report."""

from __future__ import annotations

import html

import pytest
from rich.cells import cell_len
from test_html_pages import Page, assert_inert

import dpxplain as dpx
from dpxplain.phases import explain
from dpxplain.render.report import report
from dpxplain.render.terminal import as_text
from dpxplain.render.views import view_of
from dpxplain.render.views_results import gap_without_text
from dpxplain.words.prices import PREPARED, cost, price
from dpxplain.words.sentences import effect_text, row_sentence
from opened import dataset_of


def flat(result: object) -> str:
    return " ".join(str(result).split())


def bought(result: object) -> dict[str, str]:
    grid = view_of(result).grid
    assert grid is not None
    return dict(grid.rows)


def test_preparing_says_what_was_bought_and_for_how_much(prepared_answer):
    preview, prepared = prepared_answer.preview_prepare(rho=0.5), prepared_answer.prepare(rho=0.02)
    for result in (prepared, preview):
        assert bought(result)["groups"] == "7"
        assert "103" in bought(result).values()
        assert bought(result)["noisy cells"] == f"{result.plan.cells:,}"
    assert cost(0.02, prepared.spends) in view_of(prepared).notes
    assert prepared.free
    assert view_of(prepared).title == "Prepared: every explanation of this answer is now free."
    assert view_of(prepared).lead[0] == "It was prepared before, so nothing was spent now."
    assert view_of(preview).title == "Preview of preparing an answer: nothing is spent"
    assert view_of(preview).lead[:-2] == price(preview.price)
    assert view_of(preview).lead[-2].startswith("Afterwards every explanation of this answer is free, ")
    for result in (prepared, preview):
        assert view_of(result).title in flat(result)
        assert all(line in flat(result) for line in view_of(result).lead)


def test_the_table_has_a_column_that_people_understand(free_table):
    grid = view_of(free_table).grid
    assert [column.name for column in grid.columns] == ["condition", "effect on the gap", "gap without them"]
    for row, (_, effect, without) in zip(free_table, grid.rows, strict=True):
        assert without == gap_without_text(free_table, row)
        assert effect == effect_text(free_table.effect_of(row))
    assert any(note.startswith(PREPARED) for note in free_table.finding.notes)


def test_other_weights_make_a_value_rather_than_a_gap(prepared_answer):
    table = prepared_answer.why({"Divorced": 1, "Never-married": -3}, at_least=-0.5).explain(k=2)
    names = [column.name for column in view_of(table).grid.columns]
    assert names == ["condition", "effect on the value", "value without them"]
    assert "gap" not in flat(table)
    margins = [name for name, _ in view_of(table.question.preview(k=2)).grid.rows]
    assert "value without them" in margins


@pytest.mark.parametrize("width", [60, 80, 100])
def test_nothing_prepared_is_wider_than_the_terminal(width, monkeypatch, prepared_answer, free_table):
    monkeypatch.setenv("COLUMNS", str(width))
    small = prepared_answer.why("Married-AF-spouse", "Never-married").explain(k=3)
    for result in (
        prepared_answer.prepare(rho=0.02), prepared_answer.preview_prepare(rho=0.1), free_table, small,
        free_table.question.preview(), free_table.truth(),
    ):  # fmt: skip
        text = as_text(result)
        assert max(map(cell_len, text.splitlines())) <= width
    if width >= 80:
        (row,) = (line for line in as_text(free_table).splitlines() if "= Exec-managerial" in line)
        assert "Occupation = Exec-managerial" in row
        assert ("●" in row) is (width >= 100)


def test_auto_says_why_it_took_a_mechanism(question):
    paid = question.preview(k=3, rho=0.5)
    assert paid.reason == "chosen automatically: it predicts the narrowest table"
    assert any(paid.mechanism in note and paid.reason in note for note in view_of(paid).notes)
    assert ("Every further explanation of it will be free" in flat(paid)) is (paid.mechanism == "marginals")
    assert question.preview(k=3, rho=0.5, mechanism="vector").reason == "asked for by name"
    assert "these options" in question.preview(k=3, rho=0.5, sensitivity="paper").reason


def test_previews_show_the_margin_of_the_gap_and_that_it_is_free(free_table):
    preview = free_table.question.preview()
    text = flat(preview)
    assert "gap without them ±" in text
    assert PREPARED in text
    assert (preview.mechanism, preview.reason) == ("marginals", "prepared before")


def test_a_table_that_prepares_says_that_further_whys_are_free(adult):
    answer = adult.query("SELECT sex, AVG(high_income) FROM adult GROUP BY sex", rho=0.1)
    table = answer.why("Male", "Female").explain(k=2, rho=0.02, mechanism="marginals")
    notes = " ".join(table.finding.notes)
    assert "Every further explanation of this answer is free." in notes
    assert table.plan.reason in notes


def test_fragments_and_report_tell_the_gap(prepared_answer, free_table):
    for result in (prepared_answer.prepare(rho=0.02), prepared_answer.preview_prepare(rho=0.1), free_table):
        assert len(assert_inert(result._repr_html_()).all("table")) == 1
    written = report(free_table)
    page = assert_inert(written)
    for row in free_table:
        assert html.escape(row_sentence(free_table.explained, free_table.effect_of(row))) in written
        assert gap_without_text(free_table, row) in page.text
    for part in ("uses the preparation", "0.12", "Read off answer 1, measurement 2."):
        assert part in page.text
    # The chart of shares, that of influences, the question and the answer, for wide and narrow screens.
    assert len(page.all("svg")) == 8


def test_hostile_values_are_escaped_when_prepared(hostile):
    prepared = hostile.prepare(rho=1.0)
    table = hostile.why("<script>alert(1)</script>", '"><img src=x onerror=alert(2)>').explain(k=3)
    for text in (prepared._repr_html_(), table._repr_html_(), report(table)):
        assert_inert(text)
        assert "<script" not in text.lower()
    assert "k & <b>" in Page(report(table)).text
    assert "\x1b" not in str(prepared) + str(table)


def test_the_curator_sees_the_true_gap_beside_the_interval(free_table):
    truth = free_table.truth().to_pandas().set_index("predicate")
    exec_managerial = truth.loc["occupation = 'Exec-managerial'"]
    assert exec_managerial["true_gap_without"] == pytest.approx(0.3633, abs=0.0001)
    for row in free_table:
        line = truth.loc[str(row.predicate)]
        low, high = row.gap_without
        assert line["gap_without_covered"] == (low <= line["true_gap_without"] <= high)
    assert "true value without them" in flat(free_table.truth())


def test_the_truth_of_a_table_without_gaps_has_no_such_columns(table):
    truth = table.truth()
    assert "true_gap_without" not in truth.rows[0]
    assert "without them" not in flat(truth)


@pytest.mark.parametrize("kind", ["COUNT(*)", "SUM(pay)", "AVG(pay)"])
def test_the_true_gap_is_that_of_the_remaining_rows(kind, tmp_path):
    import pandas as pd

    data = pd.DataFrame(
        {"g": ["a"] * 60 + ["b"] * 40, "h": ["x", "y"] * 30 + ["x"] * 40, "pay": [i % 11 for i in range(100)]}
    )
    schema = {
        "table": {"name": "t"},
        "privacy": {"rho": 100},
        "columns": {
            "g": {"values": ["a", "b"]},
            "h": {"values": ["x", "y", "z"]},
            "pay": {"bounds": [0, 10], "step": 1},
        },
    }
    with dpx.connect(data, schema, workspace=tmp_path, curator=True) as session:
        answer = session.query(f"SELECT g, {kind} FROM t GROUP BY g", rho=20)
        answer.prepare(rho=20, attributes=["h"])
        truth = answer.why("a", "b").explain(k=3, attributes=["h"]).truth()
    for line in truth.rows:
        rest = data[data.h != line["predicate"].split("'")[1]]
        values = {"C": rest.groupby("g").size(), "S": rest.groupby("g").pay.sum()}
        means = rest.groupby("g").pay.mean()
        both = values.get(kind[0], means)
        if "b" in both:
            assert line["true_gap_without"] == pytest.approx(both["a"] - both["b"])
        elif kind[0] == "A":
            assert line["true_gap_without"] is None
            assert line["gap_without_covered"] is None
        else:
            assert line["true_gap_without"] == both["a"]
    assert ("no rows left" in str(truth)) is (kind[0] == "A")


def test_displaying_what_is_prepared_spends_nothing(prepared_answer, free_table, tmp_path):
    ledger = dataset_of(free_table).ledger
    before, entries = ledger.budget("adult"), len(ledger.history("adult"))
    prepared = prepared_answer.prepare(rho=0.02)
    for result in (prepared, prepared_answer.preview_prepare(rho=1.0), free_table, free_table.truth()):
        str(result)
        repr(result)
        result._repr_html_()
        result.to_csv()
    free_table.chart()
    free_table.save(tmp_path / "report.html")
    for pair in (("Divorced", "Widowed"), ("Separated", "Divorced"), ("Widowed", "Never-married")):
        assert prepared_answer.why(*pair).explain(k=2).free
    assert ledger.budget("adult") == before
    assert len(ledger.history("adult")) == entries


def test_without_a_price_nothing_is_ever_spent(prepared_answer, monkeypatch):
    """What the preparation does not know needs a price; what is too large to prepare unasked does not."""
    question = prepared_answer.why("Divorced", "Widowed")
    for options in ({"sensitivity": "paper"}, {"split": (1, 1, 1)}, {"mechanism": "vector"}):
        with pytest.raises(dpx.errors.ExplanationError, match="needs a price"):
            question.explain(k=2, **options)
    monkeypatch.setattr(explain, "MOST_CELLS_UNASKED", 1)
    assert question.explain(k=2).free
