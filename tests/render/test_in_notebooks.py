"""In a notebook: schema, history and budget as tables, refusals as sentences. One test runs a real kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

import dpxplain as dpx
from dpxplain.render.terminal import as_text

SQL = "SELECT sex, COUNT(*) FROM adult GROUP BY sex"


@pytest.fixture(scope="module")
def session() -> dpx.Session:
    session = dpx.example("adult")
    session.query(SQL, rho=0.1)
    return session


def test_schema_history_and_budget_print_and_render(session: dpx.Session) -> None:
    for shown, words in (
        (session.schema, ("Schema of adult", "marital_status", "Married-civ-spouse", "0 to 1 by 1")),
        (session.history, ("History", "COUNT(*)", "0.1")),
        (session.budget, ("Privacy budget", "0.1", "4.9")),
    ):
        assert str(shown) == repr(shown)
        for word in words:
            assert word in str(shown)
            assert word in shown._repr_html_()


def test_what_is_displayed_is_still_what_it_was(session: dpx.Session) -> None:
    assert isinstance(session.history, list)
    assert [entry.kind for entry in session.history] == ["query"]
    assert dpx.Schema.load(session.schema) == session.schema
    assert str(dpx.example("adult").history) == as_text([])


def test_a_declared_name_cannot_inject_markup() -> None:
    schema = dpx.Schema.load(
        {"table": {"name": "<b>"}, "privacy": {"rho": 1}, "columns": {"<i>": {"values": ["<script>"]}}}
    )
    assert not any(tag in schema._repr_html_() for tag in ("<b>", "<i>", "<script>"))


def test_a_refusal_is_its_sentences_and_a_bug_keeps_its_traceback(session: dpx.Session) -> None:
    with pytest.raises(dpx.QueryRefused) as refused:
        session.query("SELECT AVG(sallary) FROM adult", rho=0.1)
    what, sql, caret, remedy, line = refused.value._render_traceback_()
    assert what.startswith("QueryRefused: line 1, column 12:")
    assert sql[caret.index("^") : caret.rindex("^") + 1] == "sallary"
    assert remedy
    assert "session.query(" in line
    assert hasattr(dpx.BudgetExhausted("", remedy=""), "_render_traceback_")
    assert not hasattr(dpx.InternalError(""), "_render_traceback_")


@pytest.mark.slow
@pytest.mark.process
def test_a_notebook_shows_tables_and_the_sentence_of_a_refusal(tmp_path: Path) -> None:
    cells = [
        "import dpxplain as dpx\nsession = dpx.example('adult')",
        "import pandas as pd\nframe = pd.DataFrame({'g': ['a'], 'x': [1]})\n"
        "schema = {'table': {'name': 't'}, 'privacy': {'rho': 1}, 'columns': {'g': {'values': ['a']}}}\n"
        "dpx.connect(frame, schema=schema).close()",
        "session.schema",
        "session.history",
        "session.budget",
        f"session.query({SQL!r}, eps=1.0)",
        f"session.query({SQL!r}, rho=99)",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = nbclient.NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        allow_errors=True,
        resources={"metadata": {"path": tmp_path}},
    )
    client.execute()
    outputs: list[Any] = [cell.outputs[0] if cell.outputs else None for cell in notebook.cells]
    notice = outputs.pop(1)
    assert notice["name"] == "stdout", "a notebook shows what is written to stderr in a red box"
    assert "is new" in notice["text"]
    for output, word in zip(
        outputs[1:4], ("Schema of adult", "Nothing was asked yet", "Privacy budget"), strict=True
    ):
        assert word in output["data"]["text/html"]
        assert word in output["data"]["text/plain"]
    for output, name, words in zip(
        outputs[4:], ("BadRequest", "BudgetExhausted"), ("epsilon", "99"), strict=True
    ):
        assert output["ename"] == name
        assert words in "\n".join(output["traceback"])
        assert "Traceback" not in "\n".join(output["traceback"])
        assert len(output["traceback"]) <= 4
