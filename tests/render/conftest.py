"""Small hostile data and the Adult example, released once; every test here only looks at them."""

from __future__ import annotations

import pytest

import dpxplain as dpx
from dpxplain.render.report import report

HOSTILE = "<script>alert(1)</script>"
ADULT_SQL = "SELECT marital_status, AVG(high_income) FROM adult GROUP BY marital_status"


@pytest.fixture(autouse=True)
def usual_width(monkeypatch):
    """Text is laid out for the terminal it is in; here for one of the usual width, wherever tests run."""
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture(scope="session")
def adult():
    with dpx.example("adult", curator=True) as session:
        yield session


@pytest.fixture(scope="session")
def answer(adult):
    return adult.query(ADULT_SQL, rho=0.1)


@pytest.fixture(scope="session")
def question(answer):
    return answer.why("Married-civ-spouse", "Never-married")


@pytest.fixture(scope="session")
def table(question):
    """By the paper's mechanism, which has no gaps without the predicates."""
    return question.explain(k=5, rho=2.0, mechanism="one-shot")


@pytest.fixture(scope="session")
def prepared_answer():
    """An answer that was prepared, in a data set of its own."""
    with dpx.example("adult", curator=True) as session:
        answer = session.query(ADULT_SQL, rho=0.1)
        answer.prepare(rho=0.02)
        yield answer


@pytest.fixture(scope="session")
def free_table(prepared_answer):
    return prepared_answer.why("Married-civ-spouse", "Never-married").explain(k=5)


@pytest.fixture(scope="session")
def report_text(table):
    return report(table)


@pytest.fixture(scope="session")
def blurred(answer):
    """A question whose answer noise may explain, and which therefore has no relative influence."""
    question = answer.why("Married-AF-spouse", "Married-civ-spouse", confidence=0.999999)
    return question.explain(k=2, rho=0.05)


@pytest.fixture(scope="session")
def hostile(tmp_path_factory):
    """Declared values and column names that try to break out of every format."""
    import pyarrow as pa

    groups = [HOSTILE, '"><img src=x onerror=alert(2)>', "[red]bold[/red]\x1b[31m", "a' AND 'b"]
    kinds = ["k & <b>", "{{7*7}} ${x}", "plain"]
    rows = [(g, k) for g in groups for k in kinds for _ in range(30)]
    data = pa.table(
        {
            "grp": [g for g, _ in rows],
            "kind": [k for _, k in rows],
            "pay": [float((i * 7) % 100) for i in range(len(rows))],
        }
    )
    schema = {
        "table": {"name": "people"},
        "privacy": {"rho": 50.0},
        "columns": {"grp": {"values": groups}, "kind": {"values": kinds}, "pay": {"bounds": [0, 100]}},
    }
    session = dpx.connect(data, schema, workspace=tmp_path_factory.mktemp("hostile"))
    yield session.query('SELECT grp AS "<i>g</i>", SUM(pay) AS "<u>p</u>" FROM people GROUP BY grp', rho=1.0)
    session.close()


@pytest.fixture(scope="session")
def hostile_table(hostile):
    return hostile.why(HOSTILE, '"><img src=x onerror=alert(2)>').explain(k=3, rho=1.0)
