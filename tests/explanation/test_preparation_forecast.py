"""What a preparation will be able to tell, forecast from released values before it is paid for."""

from __future__ import annotations

import pyarrow as pa
import pytest

import dpxplain as dpx
from dpxplain.render.terminal import as_text
from dpxplain.wire.payloads import preview_payload
from dpxplain.words.prices import preparation_forecast

SQL = "SELECT marital_status, {} FROM adult GROUP BY marital_status"
LARGEST = ("Married-civ-spouse", "Never-married")


@pytest.mark.parametrize("aggregate", ["AVG(high_income)", "COUNT(*)", "SUM(high_income)"])
def test_smaller_changes_stay_unclear_and_larger_ones_do_not(aggregate: str) -> None:
    answer = dpx.example("adult", insecure_seed=22).query(SQL.format(aggregate), rho=0.1)
    assert isinstance(answer, dpx.Answer)
    preview = answer.preview_prepare(rho=0.02)
    smallest = preview.smallest_clear
    assert smallest is not None
    answer.prepare(rho=0.02)
    table = answer.why(*LARGEST).explain(k=103)
    assert table.release.gap is not None
    without = {line.predicate: line.gap_without for line in table.release.lines}
    checked = set()
    for row in table:
        change = abs(table.release.gap - (without[row.index] or 0.0))
        # The forecast is for a condition of few rows: those of nearly all rows have several times the noise.
        if change < 0.9 * smallest:
            assert row.effect == "unclear"
        if change > 5 * smallest:
            assert row.effect != "unclear"
        checked.add(row.effect != "unclear")
    assert checked == {True, False}


def test_the_sentence_names_the_price_the_groups_and_the_share() -> None:
    answer = dpx.example("adult", insecure_seed=22).query(SQL.format("COUNT(*)"), rho=0.1)
    assert isinstance(answer, dpx.Answer)
    preview = answer.preview_prepare(rho=0.001)
    gap, privacy = abs(answer.why(*LARGEST).estimate), answer.schema.privacy
    assert preview.forecast == preparation_forecast(
        preview.smallest_clear, gap, LARGEST, 0.001, privacy, in_percent=False
    )
    assert "311" in preview.forecast
    assert "4.97%" in preview.forecast
    assert preview.forecast in " ".join(as_text(preview).split())
    assert preview_payload(preview)["expected"] == [preview.forecast]
    assert preview.records()[0]["smallest_clear"] == preview.smallest_clear
    hopeless = answer.preview_prepare(rho=1e-6)
    assert hopeless.forecast == preparation_forecast(
        hopeless.smallest_clear, gap, LARGEST, 1e-6, privacy, in_percent=False
    )
    assert hopeless.smallest_clear is not None
    assert hopeless.smallest_clear > gap


def test_rows_per_person_count_and_small_groups_are_told() -> None:
    people = pa.table({
        "person": list(range(300)),
        "town": ["A"] * 200 + ["B"] * 100,
        "job": ["bank", "shop", "farm"] * 100,
        "pay": [1, 2, 3] * 100,
    })  # fmt: skip
    schema = dpx.Schema.load(
        {
            "table": {"name": "people"},
            "privacy": {"rho": 100, "unit": "person", "max_rows": 15},
            "columns": {
                "town": {"values": ["A", "B"]},
                "job": {"values": ["bank", "shop", "farm"]},
                "pay": {"bounds": [0, 4]},
            },
        }
    )
    session = dpx.connect(people, schema, insecure_seed=3)
    counts = session.query("SELECT town, COUNT(*) FROM people GROUP BY town", rho=10)
    assert isinstance(counts, dpx.Answer)
    told = counts.preview_prepare(rho=0.5)
    gap = abs(counts.why("A", "B").estimate)
    assert told.forecast == preparation_forecast(
        told.smallest_clear, gap, ["A", "B"], 0.5, schema.privacy, in_percent=False
    )
    assert told.smallest_clear == pytest.approx(15 * 2.39 * 2**0.5, rel=0.01)
    means = session.query("SELECT town, AVG(pay) FROM people GROUP BY town", rho=10)
    assert isinstance(means, dpx.Answer)
    small = means.preview_prepare(rho=0.01)
    assert small.smallest_clear is None
    assert small.forecast == preparation_forecast(
        None, None, ["A", "B"], 0.01, schema.privacy, in_percent=False
    )
    whole = session.query("SELECT COUNT(*) FROM people", rho=10)
    assert isinstance(whole, dpx.Answer)
    alone = whole.preview_prepare(rho=0.5)
    assert alone.forecast == preparation_forecast(
        alone.smallest_clear, whole.rows[0].estimate, ["all rows"], 0.5, schema.privacy, in_percent=False
    )
