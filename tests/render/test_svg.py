"""Charts drawn by ourselves against the same ones drawn by Vega."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter

import pytest
import vl_convert

from dpxplain.render import charts
from dpxplain.render.notebook import text_width, tick_labels, ticks, to_svg


def texts(svg: str) -> list[str]:
    return re.findall(r">([^<>]+)<", svg)


def size(svg: str) -> tuple[float, float]:
    root = ElementTree.fromstring(svg)
    return float(root.attrib["width"]), float(root.attrib["height"])


def colours(svg: str) -> Counter[str]:
    """How many marks there are of each colour; Vega draws the caps of intervals and the dots as paths."""
    body = re.sub(r"<text.*?</text>", "", svg)
    return Counter(re.findall(r'(?:fill|stroke)="(#[0-9a-f]{6})"', body))


@pytest.mark.parametrize("width", [charts.WIDE, charts.PHONE])
def test_every_chart_has_the_texts_marks_and_size_that_vega_gives_it(
    answer, question, table, free_table, blurred, width
):
    results = (answer, question, table, free_table, blurred, blurred.question)
    ranked = charts.influence_chart(free_table.sorted_by_influence(), width=width)
    for spec in (*(charts.chart(result, width=width) for result in results), ranked):
        ours, vegas = to_svg(spec), vl_convert.vegalite_to_svg(spec)
        assert texts(ours) == texts(vegas)
        assert colours(ours) == colours(vegas)
        assert size(ours) == pytest.approx(size(vegas), abs=12)  # texts are measured in other fonts


def test_nothing_stands_outside_of_the_picture(answer, free_table):
    for spec in (charts.chart(answer), charts.chart(free_table)):
        svg = to_svg(spec)
        width, _ = size(svg)
        origin = float(re.search(r"translate\(([\d.]+),", svg)[1])
        longest = max(
            text_width(value["label"], 13)
            for value in (spec.get("data") or spec["hconcat"][0]["data"])["values"]
        )
        assert longest + 14 <= origin < width


@pytest.mark.parametrize(
    ("low", "high", "count"),
    [(-0.02, 0.46, 6), (0.0, 2_600.0, 6), (-36.4, 45.8, 5), (1e-9, 3e-9, 5), (0, 1.2e12, 6)],
)
def test_ticks_and_their_labels_are_vegas(low, high, count):
    axis = {"tickCount": count, "labelOverlap": False}
    scale = {"domain": [low, high], "nice": False, "zero": False}
    spec = {
        "data": {"values": [{"at": low}]},
        "mark": "point",
        "width": 2_000,
        "encoding": {
            "x": {"field": "at", "type": "quantitative", "scale": scale, "axis": axis, "title": None}
        },
    }
    assert tick_labels(ticks(low, high, count)) == texts(vl_convert.vegalite_to_svg(spec))


def test_hostile_labels_are_escaped(answer):
    spec = charts.chart(answer)
    spec["data"]["values"][0]["label"] = '<script>"&'
    assert "<script>" not in to_svg(spec)
    assert "&lt;script&gt;&quot;&amp;" in to_svg(spec)


@pytest.mark.process
def test_reports_and_notebooks_have_their_charts_without_any_charting_package(tmp_path):
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['altair', 'vl_convert', 'scipy']))\n"
        "import dpxplain as dpx\n"
        "session = dpx.example('adult')\n"
        "answer = session.query('SELECT sex, AVG(high_income) FROM adult GROUP BY sex', rho=0.1)\n"
        "table = answer.why('Male', 'Female').explain(k=3, rho=0.5)\n"
        "print(table._repr_html_().count('<svg'), table.save(sys.argv[1]).read_text('utf-8').count('<svg'))\n"
    )
    run = [sys.executable, "-c", code, str(tmp_path / "report.html")]
    notebook, report = subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()
    assert int(notebook) == 1
    assert int(report) >= 6  # each chart for wide and for narrow screens
