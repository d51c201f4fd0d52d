"""Labels, units and what values stand for are shown to people; they change no request and no price."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import dpxplain as dpx
from dpxplain.errors import SchemaError
from dpxplain.model.schema import Schema
from dpxplain.server.records import columns

ROWS = pa.table({"origin": ["EWR", "JFK"] * 50, "delay": [1.0, 3.0] * 50, "late": [True, False] * 50})
LABELLED: dict[str, dict[str, Any]] = {
    "origin": {"label": "Airport", "value_labels": {"JFK": "Kennedy"}, "description": "Of departure."},
    "delay": {"label": "Departure delay", "unit": "minutes"},
    "late": {"value_labels": {"true": "late", "false": "on time"}},
}


def declared(labels: dict[str, dict[str, Any]]) -> dict[str, Any]:
    columns = {
        "origin": {"values": ["EWR", "JFK"]},
        "delay": {"bounds": [0, 10], "edges": [0, 5, 10]},
        "late": {"values": [True, False]},
    }
    return {
        "table": {"name": "flights"},
        "privacy": {"rho": 100},
        "columns": {name: column | labels.get(name, {}) for name, column in columns.items()},
    }


def test_tables_and_charts_show_labels_units_and_what_values_stand_for(tmp_path):
    with dpx.connect(ROWS, schema=declared(LABELLED), workspace=tmp_path) as session:
        answer = session.query("SELECT origin, AVG(delay) FROM flights GROUP BY origin", rho=1)
        for text in (str(answer), answer._repr_html_()):
            assert "Airport" in text
            assert "JFK (Kennedy)" in text
            assert answer.value_heading in text
        for part in ("departure delay", "minutes", "10"):
            assert part in answer.value_heading
        chart = str(answer.chart().to_dict())
        assert answer.value_heading in chart
        assert "JFK (Kennedy)" in chart
        late = str(session.query("SELECT late, COUNT(*) FROM flights GROUP BY late", rho=1))
        assert "True (late)" in late
        assert "Departure delay (minutes)" in str(session.schema)
        assert "Airport. Of departure" in str(session.schema)


def test_a_group_is_named_as_it_is_printed_or_by_its_values(tmp_path):
    with dpx.connect(ROWS, schema=declared(LABELLED), workspace=tmp_path) as session:
        answer = session.query("SELECT origin, late, COUNT(*) FROM flights GROUP BY origin, late", rho=1)
        names = ["JFK (Kennedy), False (on time)", "JFK, False (on time)", "JFK, False", ("JFK", False)]
        assert len({answer.why(name, "EWR, True").finding for name in names}) == 1
        with pytest.raises(dpx.QuestionError, match=r"Did you mean 'JFK \(Kennedy\)'"):
            answer.why("JFK (Kenedy), False", "EWR, True")
        with pytest.raises(dpx.QuestionError, match=r"Choose one of: EWR, JFK \(Kennedy\)\.$"):
            answer.why("Zürich, False", "EWR, True")


def test_a_group_is_named_by_what_its_values_stand_for(tmp_path):
    with dpx.connect(ROWS, schema=declared(LABELLED), workspace=tmp_path) as session:
        answer = session.query("SELECT origin, late, COUNT(*) FROM flights GROUP BY origin, late", rho=1)
        assert answer["Kennedy, on time"] == answer["JFK", False]
        assert answer.why(("Kennedy", "on time"), "EWR, late").contrast.groups == (3, 0)
        with pytest.raises(dpx.QuestionError, match="Did you mean 'Kennedy'"):
            answer["kenedy, late"]


def test_a_label_of_several_values_is_refused_and_values_go_before_labels(tmp_path):
    labels = {"origin": {"value_labels": {"JFK": "New York", "EWR": "New York"}}}
    with dpx.connect(ROWS, schema=declared(labels), workspace=tmp_path) as session:
        answer = session.query("SELECT origin, COUNT(*) FROM flights GROUP BY origin", rho=1)
        with pytest.raises(dpx.QuestionError) as caught:
            answer.why("New York", "JFK")
        assert caught.value.problem == "'New York' is the label of several values of origin: EWR, JFK."
        assert caught.value.remedy == "Name the value itself."
    crossed = {"origin": {"value_labels": {"JFK": "EWR"}}}
    with dpx.connect(ROWS, schema=declared(crossed), workspace=tmp_path) as session:
        assert session.query("SELECT origin, COUNT(*) FROM flights GROUP BY origin", rho=1)["EWR"].number == 0


def test_names_given_in_the_query_win_and_exports_keep_the_sql_names(tmp_path):
    with dpx.connect(ROWS, schema=declared(LABELLED), workspace=tmp_path) as session:
        answer = session.query("SELECT origin AS o, AVG(delay) AS d FROM flights GROUP BY origin", rho=1)
        assert "Airport" not in str(answer)
        assert "Departure delay" not in str(answer).replace("Departure delay: ", "")
        assert set(answer.records()[0]) >= {"o", "d"}
        assert answer["JFK"].label == "JFK"


def test_labels_change_neither_what_is_stored_nor_its_price(tmp_path):
    sql = "SELECT origin, COUNT(*) FROM flights GROUP BY origin"
    description = {"origin": {"description": "Of departure."}}
    with dpx.connect(ROWS, schema=declared(description), workspace=tmp_path) as session:
        before = session.query(sql, rho=1)
    with dpx.connect(ROWS, schema=declared(LABELLED), workspace=tmp_path) as session:
        after = session.query(sql, rho=1)
    assert after.free
    assert after["JFK"].estimate == before["JFK"].estimate
    assert Schema.load(declared({})).fingerprint() == Schema.load(declared(LABELLED)).fingerprint()


@pytest.mark.parametrize(("column", "key"), [("origin", "LGA"), ("delay", "5"), ("late", "True")])
def test_a_label_for_a_value_that_is_not_declared_is_refused(column, key):
    with pytest.raises(SchemaError, match="has a label"):
        Schema.load(declared({column: {"value_labels": {key: "x"}}}))


def test_a_derived_column_has_labels_too():
    late = {"expression": "CASE WHEN delay > 5 THEN 'yes' ELSE 'no' END", "value_labels": {"yes": "late"}}
    schema = declared({})
    schema["columns"]["is_late"] = late | {"label": "Late"}
    column = Schema.load(schema).columns["is_late"]
    assert column.text("yes") == "yes (late)"
    assert column.meaning == f"Late. Computed as {late['expression']}"
    assert "Computed as" in columns(Schema.load(schema))[-1]["description"]
    schema["columns"]["is_late"] = late | {"value_labels": {"maybe": "?"}}
    with pytest.raises(SchemaError, match="has a label"):
        Schema.load(schema)
