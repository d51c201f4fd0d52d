"""Discovery through a server: priced, on the analyst's own allowance, and of everybody's δ."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpxplain as dpx
from dpxplain.errors import BadRequest, BudgetExhausted, QueryRefused
from dpxplain.ledger.protocol import exhausted_delta
from dpxplain.phases import measure
from dpxplain.phases.measure import discovery_key as key
from server_fixture import RunningServer, config_of, running_server

SCHEMA = """[table]
name = "towns"
source = "towns.parquet"

[privacy]
rho = 10.0
delta = 1e-6

[columns.sex]
values = ["F", "M"]

[columns.city]
values = "discover"

[columns.street]
values = "discover"
"""
SQL = "SELECT city, COUNT(*) FROM towns GROUP BY city"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    config = config_of(tmp_path / "data")
    cities = ["Rome"] * 900 + ["Oslo"] * 400 + ["Secret"]
    table = pa.table({"sex": ["F"] * 1301, "city": cities, "street": cities})
    pq.write_table(table, tmp_path / "data" / "towns.parquet")
    (tmp_path / "data" / "towns.toml").write_text(SCHEMA, encoding="utf-8")
    with running_server(config) as running:
        yield running


def test_an_analyst_discovers_on_their_own_allowance_and_everybody_may_ask_then(
    server: RunningServer,
) -> None:
    address = f"{server.url}towns"
    with dpx.connect(address, token=server.token("alice")) as alice:
        preview = alice.preview_discover("city", rho=1)
        assert preview.price.rho == 1
        assert alice.budget.spent == 0
        with pytest.raises(QueryRefused, match="not known yet"):
            alice.query(SQL, rho=1)
        with pytest.raises(BudgetExhausted):
            alice.discover("city", rho=5.5)  # the server's default allowance is 5
        found = alice.discover("city", rho=1)
        assert found.values == ("Oslo", "Rome")
        assert alice.budget.spent == 1
        assert alice.discover("city", rho=1).free
        assert {row.label for row in alice.query(SQL, rho=1).rows} == {"Oslo", "Rome"}
    with dpx.connect(address, token=server.token("bob")) as bob:
        assert "Secret" not in str(bob.schema.model_dump())
        assert bob.query(SQL, rho=1).rows
        with pytest.raises(BadRequest, match="already discovered"):
            bob.discover("city", rho=1)
        assert bob.budget.spent == 1
        assert bob.budget.discovered_delta == found.delta


def test_delta_is_of_the_data_set_and_not_of_an_analyst(server: RunningServer) -> None:
    ask = {"column": "city", "rho": 1, "delta": 6e-7}
    shown = server.curator().post("/datasets/towns/discover", json=ask).json()
    assert [row["value"] for row in shown["values"]] == ["Oslo", "Rome"]
    assert (shown["kind"], shown["delta"], shown["budget"]["rho"]["spent"]) == ("discovery", 6e-7, 1)
    bob = server.client("bob")
    assert "Discovering values has spent up to δ = 6e-07 as well." in shown["budget"]["explained"]
    assert shown["budget"]["total_delta"] == bob.get("/datasets/towns/budget").json()["total_delta"] == 1.6e-6
    for path in ("discover/preview", "discover"):
        refused = bob.post(f"/datasets/towns/{path}", json=ask | {"column": "street", "delta": 4.5e-7})
        assert refused.status_code == 400
        assert exhausted_delta(1e-6).problem in refused.json()["message"]
    assert bob.get("/datasets/towns/budget").json()["rho"]["spent"] == 0
    assert bob.post("/datasets/towns/discover", json=ask | {"column": "street", "delta": 4e-7}).json()[
        "values"
    ]


def test_what_cannot_be_discovered_is_refused_and_costs_nothing(server: RunningServer) -> None:
    alice = server.client("alice")
    for body in (
        {"column": "sex", "rho": 1},
        {"column": "nothing", "rho": 1},
        {"column": "city", "rho": 1, "delta": 0.5},
    ):
        assert alice.post("/datasets/towns/discover", json=body).status_code == 400
    assert alice.post("/datasets/towns/discover", json={"column": "city", "rho": "1"}).status_code == 400
    assert alice.get("/datasets/towns/budget").json()["rho"]["spent"] == 0


def test_no_analyst_can_use_up_the_delta_of_other_columns(server: RunningServer) -> None:
    alice, path = server.client("alice"), "/datasets/towns/discover"
    ask = {"column": "city", "rho": 1e-6}
    assert "city may spend at most δ" in alice.post(path, json=ask | {"delta": 9.9e-7}).json()["message"]
    assert alice.post(path, json=ask | {"delta": 4e-7}).json()["values"] == []
    for delta in (None, 4e-7):  # nor in parts
        assert "city may spend at most δ" in alice.post(path, json=ask | {"delta": delta}).json()["message"]
    bob = server.client("bob")
    assert bob.post(path, json={"column": "street", "rho": 1}).json()["values"]
    assert bob.post(path, json={"column": "city", "rho": 1, "delta": 0.5e-7}).json()["values"]


def test_quality_bought_before_a_discovery_charges_no_later_query_in_vain(server: RunningServer) -> None:
    address, per_sex = f"{server.url}towns", "SELECT sex, COUNT(*) FROM towns GROUP BY sex"
    alice, bob = server.client("alice"), server.client("bob")
    assert alice.post("/datasets/towns/quality", json={"rho": 0.5}).status_code == 200
    assert bob.post("/datasets/towns/discover", json={"column": "city", "rho": 1}).json()["values"]
    for place, sql in enumerate((per_sex, SQL, "SELECT COUNT(*) FROM towns WHERE city = 'Rome'")):
        answered = alice.post("/datasets/towns/query", json={"sql": sql, "rho": 0.1 + place / 100})
        assert answered.status_code == 200, answered.json()
    again = alice.post("/datasets/towns/query", json={"sql": per_sex, "rho": 0.1}).json()
    assert any("% of " in sentence for sentence in again["shaped_by"])
    with dpx.connect(address, token=server.token("alice")) as session:
        shares = " ".join(session.query(per_sex, rho=0.1).shaped_by)
        assert "% of " in shares
        assert "% of " not in " ".join(session.query(SQL, rho=0.11).shaped_by)
        again = session.quality(rho=0.5)  # of one column more, so it is another request
        assert {row.column for row in again} == {"sex", "city"}
        assert session.quality(rho=0.5).free
        assert "% of " in " ".join(session.query(SQL, rho=0.11).shaped_by)


def test_what_everybody_asks_looks_up_few_of_many_discoveries_that_found_nothing(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = server.client("alice"), server.client("bob")
    looked_up: list[str] = []

    def noted(*asked: Any) -> str:
        looked_up.append(key(*asked))
        return looked_up[-1]

    monkeypatch.setattr(measure, "discovery_key", noted)
    for _ in range(100):
        ask = {"column": "city", "rho": 1e-6, "delta": 1e-12}
        shown = alice.post("/datasets/towns/discover", json=ask).json()
        assert (shown["values"], shown["free"]) == ([], False)
    looked_up.clear()
    assert bob.get("/datasets/towns/budget").status_code == 200
    assert len(looked_up) < 40
    ask = {"column": "city", "rho": 1, "delta": 4e-7}
    shown = alice.post("/datasets/towns/discover", json=ask).json()
    assert len(shown["values"]) == 2
