"""T1 to T5: true values stay where they are."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from slow_engine import SECRET, slow_down
from truth_search import TruthSearch, stored_rows

import dpxplain as dpx
from dpxplain.explanation.family_choice import FamilyChoice
from dpxplain.ledger.ledger import open_ledger
from dpxplain.privacy.mechanisms.noise import SeededNoise
from opened import dataset_of
from server_fixture import COUNT, SCHEMA, SQL, WEIGHTS, RunningServer, config_of, running_server

AT = "/datasets/people"
MANY = {"requests_per_minute": 10**6, "anonymous_per_minute": 10**6}
QUERIES = (
    SQL,
    COUNT,
    "SELECT region, SUM(pay) FROM people GROUP BY region",
    "SELECT region, COUNT(*), SUM(pay), AVG(pay) FROM people WHERE sex = 'F' GROUP BY region",
)
MECHANISMS = ("one-shot", "vector", "marginals", "auto")


def write_crowd(folder: Path) -> None:
    """So many people that each group's count and each cell's sum has six digits or more."""
    chance, size = np.random.default_rng(11), 600_011
    region = chance.choice(["North", "South", "West"], size, p=[0.31, 0.36, 0.33])
    pay = chance.integers(0, 700, size) + np.where(region == "North", 277, 0)
    table = pa.table(
        {
            "region": region,
            "sex": chance.choice(["F", "M"], size, p=[0.47, 0.53]),
            "age": chance.integers(1, 80, size),
            "pay": pay,
        }
    )
    pq.write_table(table, folder / "people.parquet")


class Heard(logging.Handler):
    """Every log line of the process but the client's own."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if not record.name.startswith(("httpx", "httpcore")):
            self.lines.append(f"{record.name} {self.format(record)} {record.args!r}")


@pytest.fixture
def heard() -> Iterator[Heard]:
    handler, root = Heard(), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield handler
    root.setLevel(level)
    root.removeHandler(handler)


class Visit:
    """An analyst who asks everything, and remembers every response whole."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self.said: list[str] = []

    def __call__(self, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
        response = self._client.request(method, path, json=body, **more)
        self.said.append(f"{response.status_code}\n{response.headers.raw!r}\n{response.text}")
        return response


def visited(visit: Visit) -> list[dict[str, Any]]:
    """A whole visit; what was asked of phase 3."""
    for path in ("/me", "/datasets", AT, f"{AT}/budget", "/metrics", "/openapi.json", "/docs"):
        visit("GET", path)
    asked = []
    for sql in QUERIES:
        body = {"sql": sql, "rho": 1e-6, "chart_width": 500}
        visit("POST", f"{AT}/preview", body)
        answer = visit("POST", f"{AT}/query", body).json()
        visit("POST", f"{AT}/query", body)
        visit("GET", f"{AT}/answers/{answer['address']}?confidence=0.5&chart_width=300")
        visit("GET", f"{AT}/answers/{answer['address']}/truth")
        weights = [{"group": ["F"], "weight": 1}, {"group": ["M"], "weight": -1}] if sql == COUNT else WEIGHTS
        for part in answer["parts"]:
            why = {"answer": answer["address"], "of": part["name"], "weights": weights, "chart_width": 400}
            visit("POST", f"{AT}/why", why)
            visit("POST", f"{AT}/why/truth", why)
            asked.append(why)
            if part["aggregate"] != "avg" and len(answer["parts"]) > 1:
                continue
            for mechanism in MECHANISMS:
                explain = why | {"k": 3, "rho": 2e-6, "mechanism": mechanism}
                visit("POST", f"{AT}/explain/preview", explain)
                assert visit("POST", f"{AT}/explain?wait=60", explain).json()["state"] == "done"
                visit("POST", f"{AT}/explain/truth", explain)
            visit("POST", f"{AT}/report", explain)
            prepare = {"answer": answer["address"], "of": part["name"], "rho": 3e-6}
            visit("POST", f"{AT}/prepare/preview", prepare)
            visit("POST", f"{AT}/prepare?wait=60", prepare)
            visit("POST", f"{AT}/explain?wait=60", why | {"k": 4})
    for wrong in (
        "SELECT pay FROM people",
        "SELECT region, AVG(wage) FROM people GROUP BY region",
        "nonsense",
    ):
        visit("POST", f"{AT}/query", {"sql": wrong, "rho": 0.1})
    visit("POST", f"{AT}/query", {"sql": SQL, "rho": 100})
    visit("POST", f"{AT}/query", {"sql": SQL, "rho": "much"})
    visit("POST", f"{AT}/why", {"answer": 1, "weights": [{"group": ["East"], "weight": 1}]})
    visit("POST", f"{AT}/explain?wait=60", {"answer": 1, "weights": WEIGHTS, "rho": 1e-6, "k": 500})
    visit("GET", f"{AT}/answers/999")
    visit("GET", "/nowhere")
    for line in visit("GET", f"{AT}/history").json()["entries"]:
        visit("GET", f"{AT}/releases/{line['id']}")
    visit("GET", f"{AT}/budget")
    return asked


def true_values(folder: Path, asked: list[dict[str, Any]], answers: dict[int, str]) -> list[float]:
    """By the library's own curator's view, at the same data: every group, every cell, every influence."""
    found: list[Any] = []
    with dpx.connect(
        folder / "people.parquet", folder / "people.toml", workspace=folder / "w", curator=True
    ) as s:
        for why in asked:
            answer = s.query(answers[why["answer"]], 1e-6)
            found += [row["true"] for row in answer.truth().rows]
            part = answer if not isinstance(answer, dpx.Answers) else answer[why["of"]]
            question = part.why({tuple(w["group"]): w["weight"] for w in why["weights"]})
            found += [row["influence"] for row in question.truth().rows]
            query, dataset = part.statement.query, dataset_of(s)
            totals, family = dataset.totals(query), dataset.family(query, FamilyChoice())
            groups = tuple(range(len(totals.reveal().count)))
            cells = dataset.question_cells(query, family, groups).reveal()
            counted = [(totals.reveal().count, totals.reveal().total)]
            counted.append((cells.predicate_count.ravel(), cells.predicate_total.ravel()))
            for count, total in counted:
                occupied = count > 0
                found += [*count[occupied].tolist(), *total[occupied].tolist()]
                found += (total[occupied] / count[occupied]).tolist()
    return found


@pytest.mark.slow
def test_t01_no_true_value_is_in_any_response_log_line_or_stored_row(tmp_path: Path, heard: Heard) -> None:
    folder, ledger = tmp_path / "data", tmp_path / "ledger.sqlite"
    config = config_of(folder, limits=MANY | {"seconds_per_request": 300.0})
    write_crowd(folder)
    book = open_ledger(ledger)
    with running_server(config, book) as server:
        server.state.datasets.get("people").noise = SeededNoise(3)  # so that chance finds the same every time
        visit = Visit(server.client())
        asked = visited(visit)
        answers = {e.id: e.description for e in book.history("people") if e.kind == "query"}
        curator = Visit(server.curator())
        curator("GET", "/metrics")
        curator("GET", "/admin/audit?limit=5000")
        log, stored = "\n".join(heard.lines), stored_rows(ledger)
        revealed = curator("GET", f"{AT}/answers/{asked[0]['answer']}/truth").json()
        revealing = [json.dumps(revealed["rows"])]
        revealing += [curator("POST", f"{AT}/why/truth", why).text for why in (asked[0], asked[1])]
    book.close()
    search = TruthSearch(true_values(folder, asked, answers))

    said = "\n".join((*visit.said, *curator.said[:2]))
    assert len(visit.said) > 100
    assert "access" in log
    assert "noisy" in stored
    for where, text in (("responses", said), ("log", log), ("ledger", stored)):
        assert search.found_in(text) == [], where

    # The search is able to find: in what the curator may see, and in every way a number is written.
    assert len(search.whole) > 30
    assert len(search.other) > 50
    for text in revealing:
        assert search.found_in(text), text[:200]
    count, mean = next(iter(search.whole)), search.other[-1]
    for planted in (
        f'{{"n":{count}}}',
        f"{count:,} rows",
        f"[1,{count}.0,2]",
        f"{count:.10e}",
        f"x={mean!r};",
        f"{mean:.9g}",
    ):
        assert search.found_in(f"{said[:1000]} {planted} {said[:1000]}"), planted


def test_t02_an_error_says_nothing_of_what_went_wrong_inside(tmp_path: Path, heard: Heard) -> None:
    with running_server(config_of(tmp_path, limits=MANY)) as server:
        client, engine = server.client(), slow_down(server)
        engine.go.set()
        engine.fail = True
        after_charge = client.post(f"{AT}/query", json={"sql": SQL, "rho": 0.1})
        assert (after_charge.status_code, after_charge.json()["code"]) == (500, "failed_after_charge")

        def broken(_name: str) -> Any:
            raise RuntimeError(SECRET)

        server.state.datasets.get = broken
        before_charge = client.post(f"{AT}/query", json={"sql": SQL, "rho": 0.1})
        assert (before_charge.status_code, before_charge.json()["code"]) == (500, "internal")
    for response in (after_charge, before_charge):
        assert response.json().keys() == {"code", "message", "remedy", "position"}
        assert not any(word in response.text for word in (SECRET, "4711", "RuntimeError", "Traceback", ".py"))
    log = "\n".join(heard.lines)
    assert SECRET not in log
    assert "RuntimeError at " in log  # the kind and the place, for whoever mends it


# What one person's row may hold without anybody noticing from outside.
_DECLARED = SCHEMA.replace("step = 1\n", "step = 0.5\n")
_ODD: dict[str, list[Any]] = {
    "region": ["North", "Nowhere", None, "South", ""],
    "sex": ["F", "X", None, "M", "F"],
    "age": [30.0, float("nan"), float("inf"), -5.0, 1e300],
    "pay": [float("inf"), float("nan"), None, 1e308, -1e308],
}
_NONE: dict[str, list[Any]] = {name: [] for name in _ODD}
_USUAL: dict[str, list[Any]] = {
    "region": ["North", "South", "West", "North"] * 50,
    "sex": ["F", "M", "M", "F"] * 50,
    "age": [10.0, 30.0, 50.0, 70.0] * 50,
    "pay": [100.0, 200.5, 300.0, 999.0] * 50,
}


def shape_of(told: Any) -> Any:
    """All that is not a released number: keys, lengths, kinds."""
    if isinstance(told, dict):
        return {key: shape_of(value) for key, value in told.items()}
    if isinstance(told, list):
        return [shape_of(value) for value in told]
    # The average of a group that may be empty is blank: noisy values decide that, not the data.
    is_number = told is None or (isinstance(told, int | float) and not isinstance(told, bool))
    return "number or blank" if is_number else type(told).__name__


def answers_on(folder: Path, rows: dict[str, list[Any]]) -> list[tuple[int, Any]]:
    """Statuses and shapes of everything asked of data sets with these rows."""
    config = config_of(folder, limits=MANY)
    types = {"region": pa.string(), "sex": pa.string(), "age": pa.float64(), "pay": pa.float64()}
    columns = {name: pa.array(values, types[name]) for name, values in rows.items()}
    pq.write_table(pa.table(columns), folder / "people.parquet")
    (folder / "people.toml").write_text(_DECLARED, "utf-8")
    told: list[tuple[int, Any]] = []
    with running_server(config) as server:
        client = server.client()
        for sql in QUERIES:
            response = client.post(f"{AT}/query", json={"sql": sql, "rho": 0.01})
            told.append((response.status_code, shape_of(response.json()["rows"])))
            if sql != SQL:
                continue
            why = {"answer": response.json()["id"], "weights": WEIGHTS, "k": 4, "rho": 0.01}
            question = client.post(f"{AT}/why", json={name: why[name] for name in ("answer", "weights")})
            told.append((question.status_code, sorted(question.json())))
            for mechanism in MECHANISMS:
                done = client.post(f"{AT}/explain?wait=60", json=why | {"mechanism": mechanism})
                result = done.json()["result"]
                told.append(
                    (done.status_code, (len(result["rows"]), [sorted(row) for row in result["rows"]]))
                )
        spent = client.get(f"{AT}/budget").json()["rho"]["spent"]
        told.append((200, spent))
    return told


def test_t03_whether_a_request_fails_does_not_depend_on_the_data(tmp_path: Path) -> None:
    usual = answers_on(tmp_path / "usual", _USUAL)
    assert {status for status, _ in usual} == {200}
    assert answers_on(tmp_path / "odd", _ODD) == usual
    assert answers_on(tmp_path / "none", _NONE) == usual


def test_t04_the_truth_is_for_curators_marked_never_cached_and_audited(server: RunningServer) -> None:
    analyst, curator = server.client("truth-seeker"), server.curator()
    answer = analyst.post(f"{AT}/query", json={"sql": SQL, "rho": 0.1}).json()["address"]
    why = {"answer": answer, "weights": WEIGHTS}
    explain = why | {"k": 2, "rho": 0.1, "mechanism": "one-shot"}
    assert analyst.post(f"{AT}/explain?wait=60", json=explain).json()["state"] == "done"
    doors: list[tuple[str, str, Any]] = [
        ("GET", f"{AT}/answers/{answer}/truth", None),
        ("POST", f"{AT}/why/truth", why),
        ("POST", f"{AT}/explain/truth", explain),
    ]
    looked = len(truth_views(server))
    for method, path, body in doors:
        refused = analyst.request(method, path, json=body)
        assert (refused.status_code, refused.json()["code"]) == (403, "curator_only")
    assert len(truth_views(server)) == looked
    for method, path, body in doors:
        shown = curator.request(method, path, json=body)
        assert shown.status_code == 200, shown.text
        assert shown.headers["x-dpxplain-private"] == "false"
        assert shown.headers["cache-control"] == "no-store"
        assert (shown.json()["private"], bool(shown.json()["rows"])) == (False, True)
    seen = truth_views(server)[looked:]
    assert [record.actor for record in seen] == ["carol"] * 3


def truth_views(server: RunningServer) -> list[Any]:
    return [record for record in server.ledger.audit(limit=5_000) if record.action == "truth viewed"]


def test_t05_nothing_tells_an_analyst_where_the_data_lie(tmp_path: Path) -> None:
    folder = tmp_path / "hidden-folder"
    with running_server(config_of(folder, limits=MANY)) as server:
        client = server.client()
        # The specification shows an example of a source, which is nobody's.
        for path in ("/openapi.json", "/docs"):
            assert "hidden-folder" not in client.get(path).text
        paths = ("/datasets", AT, f"{AT}/budget", f"{AT}/history", "/datasets/absent")
        said = [client.get(path).text for path in paths]
        said += [client.get(path).text for path in ("/admin/datasets", "/admin/datasets/people")]
        said.append(client.post("/admin/schema/check", json={"toml": ""}).text)
        said.append(
            client.post(f"{AT}/query", json={"sql": "SELECT COUNT(*) FROM 'other.csv'", "rho": 1}).text
        )
        (folder / "people.parquet").unlink()
        (folder / "people.toml").write_text(SCHEMA + "\n# edited\n", "utf-8")
        said.append(client.get(AT).text)
        said.append(client.post(f"{AT}/query", json={"sql": SQL, "rho": 0.1}).text)
        for text in said:
            assert not any(word in text for word in ("hidden-folder", ".parquet", str(tmp_path))), text
