"""Charts compile offline, and what is unclear looks unclear without colour."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
import types

import altair as alt
import pytest

from dpxplain.errors import BadRequest
from dpxplain.render import charts
from dpxplain.render.notebook import inline_svg, to_svg


def texts(svg: str) -> str:
    return " ".join(re.findall(r">([^<>]+)<", svg))


def test_charts_compile_to_svg(answer, question, table):
    for result in (answer, question, table):
        svg = to_svg(charts.chart(result))
        assert svg.startswith("<svg")


def test_a_chart_is_plain_json_that_any_vega_lite_takes(answer, question, table, free_table):
    for result in (answer, question, table, free_table):
        for width in (charts.WIDE, charts.PHONE):
            spec = charts.chart(result, width=width)
            assert json.loads(json.dumps(spec, allow_nan=False)) == spec
            alt.Chart.from_dict(spec)  # validates


def test_chart_objects_are_altair_charts_that_can_be_changed_and_saved(answer, question, table, tmp_path):
    for result, kind in ((answer, alt.LayerChart), (question, alt.LayerChart), (table, alt.HConcatChart)):
        assert isinstance(result.chart(), kind)
    question.chart().properties(title="A title").save(tmp_path / "gap.png")
    assert (tmp_path / "gap.png").read_bytes().startswith(b"\x89PNG")


def test_a_notebook_shows_chart_objects_without_a_network(table):
    shown = table.chart().properties(title="A title")._repr_mimebundle_()
    assert shown.keys() == {"image/svg+xml"}
    assert "A title" in texts(shown["image/svg+xml"])


def test_a_renderer_that_the_user_chose_stays_in_force(question):
    with alt.renderers.enable("json"):
        assert "application/json" in question.chart()._repr_mimebundle_()[0]


def test_without_altair_a_sentence_says_what_to_install(question, monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(BadRequest, match=r"pip install 'dpxplain\[charts\]'"):
        question.chart()


def test_an_answer_has_dots_and_intervals_but_no_bars(answer):
    marks = {layer["mark"]["type"] for layer in charts.chart(answer)["layer"]}
    assert marks == {"rule", "tick", "circle", "text"}
    assert all(row.label in texts(to_svg(charts.chart(answer))) for row in answer)


def test_what_holds_in_general_is_drawn_behind_what_holds_in_these_data(adult, answer):
    general = adult.query(answer.sql, rho=answer.rho, population=True)
    spec = charts.chart(general)
    assert "bold in these data, thin in general" in texts(to_svg(spec)).replace("\n", " ")
    drawn = {mark["label"]: mark for mark in spec["data"]["values"]}
    for row in general:
        mark = drawn[row.label]
        assert (mark["general_low"], mark["general_high"]) == row.in_general
        assert mark["general_low"] < mark["low"] < mark["high"] < mark["general_high"]
    strokes = [layer["mark"]["strokeWidth"] for layer in spec["layer"] if layer["mark"]["type"] == "rule"]
    assert strokes == sorted(strokes)
    assert len(strokes) == 2
    assert "general" not in json.dumps(charts.chart(answer))


def test_an_explanation_has_a_bold_zero_line_and_ranks_out_of_all(table):
    chart = charts.chart(table)
    zero = chart["hconcat"][0]["layer"][0]
    assert zero["mark"]["type"] == "rule"
    assert zero["mark"]["strokeWidth"] >= 3
    shown = texts(to_svg(charts.chart(table)))
    assert "rank, out of 103" in shown
    assert "relative influence" in shown
    assert "unclear" not in shown
    assert "ranks are out of 103" in texts(to_svg(charts.explanation_chart(table, width=charts.PHONE)))


def test_on_a_phone_the_zero_line_stops_where_row_names_stand(table):
    labels = ("short", "a condition of " + 20 * "x" + " and another one")
    named = dict(zip((row.index for row in table.rows), labels, strict=False))
    odd = types.SimpleNamespace(
        rows=table.rows[: len(labels)],
        question=table.question,
        relative=True,
        family_size=table.family_size,
        label_of=lambda row: named[row.index],
    )
    chart = charts.influence_chart(odd, width=charts.PHONE)
    marks = [layer["mark"] for layer in chart["layer"]]
    assert marks[0]["type"] == "tick"
    assert marks[0]["thickness"] >= 3
    half = marks[0]["size"] / 2
    for layer in chart["layer"]:
        if layer["mark"]["type"] == "text" and "lineHeight" in layer["mark"]:
            mark, count = layer["mark"], int(layer["transform"][0]["filter"].split("== ")[1])
            bottom = mark["dy"] + mark["lineHeight"] * (count - 1) + mark["fontSize"] / 2
            top = mark["dy"] - mark["fontSize"] / 2
            assert bottom < -half, "a name stands above its own piece of the line"
            assert top > half - chart["height"]["step"], "and below the piece of the row before"


def test_intervals_across_zero_are_hollow_and_labelled(table):
    rows = (table[0], dataclasses.replace(table[1], influence=(-50.0, 20.0), estimate=-15.0))
    odd = types.SimpleNamespace(
        rows=rows,
        question=table.question,
        relative=True,
        family_size=table.family_size,
        label_of=table.label_of,
    )
    svg = to_svg(charts.influence_chart(odd))
    assert texts(svg).count("unclear") == 1
    assert svg.count(f'fill="{charts.PAPER}"') == 1


def test_an_unclear_question_is_hollow_and_labelled(blurred):
    svg = to_svg(charts.chart(blurred.question))
    assert "unclear" in texts(svg)
    assert f'fill="{charts.PAPER}"' in svg


def test_absolute_influence_is_drawn_where_relative_means_nothing(blurred):
    shown = texts(to_svg(charts.chart(blurred)))
    assert "relative influence" not in shown
    assert "influence" in shown


def test_inline_charts_take_the_colours_of_the_page(table):
    svg = inline_svg(charts.chart(table), 'a "quoted" <description>')
    assert 'aria-label="a &quot;quoted&quot; &lt;description&gt;"' in svg
    assert "currentColor" in svg
    assert f'="{charts.INK}"' not in svg
    assert svg.count("aria-") == 1


def test_rows_with_equal_labels_stay_apart(answer):
    row = answer.rows[0]
    chart = charts.answer_chart(answer, rows=[row, row])
    data = chart["data"]["values"]
    assert len({value["row"] for value in data}) == 2


@pytest.mark.process
def test_importing_dpxplain_imports_no_display_library():
    code = (
        "import sys, dpxplain; dpxplain.example; import dpxplain.session;"
        "sys.exit(any(m in sys.modules for m in ('rich', 'altair', 'vl_convert')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
