"""The curator at work: schemas edited while the server runs, tokens, allowances."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa

from dpxplain.ledger import anchor, audit
from dpxplain.ledger import ledger as ledger_module
from dpxplain.ledger.ledger import open_ledger
from dpxplain.ledger.protocol import AuditReport
from server_fixture import COUNT, SCHEMA, RunningServer, config_of, running_server, write_people

AT = "/datasets/people"


def edited(client: httpx.Client, toml: str, name: str = "people") -> httpx.Response:
    return client.put(f"/admin/datasets/{name}", json={"toml": toml})


def test_a_schema_is_edited_while_the_server_runs(tmp_path: Path) -> None:
    with running_server(config_of(tmp_path)) as running:
        curator, analyst = running.curator(), running.client()
        analyst.post(f"{AT}/query", json={"sql": COUNT, "rho": 0.1}).raise_for_status()
        assert curator.get("/admin/datasets/people").json()["toml"] == SCHEMA
        response = edited(curator, SCHEMA.replace("rho = 10.0", "rho = 4.0").replace("80]", "80, 100]"))
        assert response.status_code == 200, response.text
        told = analyst.get(AT).json()
        assert len(told["columns"][2]["values"]) == 5
        assert (told["budget"]["rho"]["limit"], told["budget"]["shared_remaining"]) in (
            (5.0, 3.9),
            (4.0, 3.9),
        )
        assert told["budget"]["rho"]["spent"] == 0.1  # the history stays under the name
        assert "rho = 4.0" in (tmp_path / "people.toml").read_text()
        assert [path.name for path in tmp_path.iterdir() if "draft" in path.name] == []
        actions = [record["action"] for record in curator.get("/admin/audit").json()["records"]]
        assert "schema edited" in actions
        assert analyst.put("/admin/datasets/people", json={"toml": SCHEMA}).status_code == 403


def test_a_wrong_schema_changes_nothing(tmp_path: Path) -> None:
    (tmp_path.parent / f"{tmp_path.name}-outside.parquet").write_bytes(
        (write_people(tmp_path) / "people.parquet").read_bytes()
    )
    with running_server(config_of(tmp_path)) as running:
        curator = running.curator()
        outside = f"../{tmp_path.name}-outside.parquet"
        wrong = {
            "renamed": SCHEMA.replace('"people"', '"others"'),
            "not TOML": SCHEMA + "[",
            "unknown key": SCHEMA + "\ncolour = 1\n",
            "no such file": SCHEMA.replace("people.parquet", "nothing.parquet"),
            "outside": SCHEMA.replace("people.parquet", outside),
            "absolute": SCHEMA.replace("people.parquet", str(tmp_path.parent / outside[3:])),
            "no source": SCHEMA.replace('source = "people.parquet"\n', ""),
            "no such column": SCHEMA + '\n[columns.city]\nvalues = ["A"]\n',
            "too much": SCHEMA.replace("rho = 10.0", "rho = 1e9"),
        }
        for name, toml in wrong.items():
            response = edited(curator, toml)
            assert response.status_code == 400, name
            assert set(response.json()) == {"code", "message", "remedy", "position"}
        assert (tmp_path / "people.toml").read_text() == SCHEMA
        assert curator.get(f"{AT}/budget").json()["shared_remaining"] in (None, 10.0)
        assert edited(curator, SCHEMA, "nobody").status_code == 404
        checked = curator.post("/admin/schema/check", json={"toml": SCHEMA})
        assert checked.json()["name"] == "people"
        assert curator.post("/admin/schema/check", json={"toml": "x = "}).json()["code"] == "schema_error"


def test_a_curator_holds_a_schema_against_the_rows_before_saving_it(tmp_path: Path) -> None:
    with running_server(config_of(tmp_path)) as running:
        curator, analyst = running.curator(), running.client()
        fits = curator.post("/admin/schema/review", json={"toml": SCHEMA, "dataset": "people"})
        assert fits.status_code == 200, fits.text
        assert fits.headers["X-DPXPlain-Private"] == "false"
        assert fits.json()["private"] is False
        assert fits.json()["rows"] > 0
        narrow = SCHEMA.replace('"North"', '"north"')
        assert narrow != SCHEMA
        review = curator.post("/admin/schema/review", json={"toml": narrow}).json()
        warning = next(w for w in review["warnings"] if w["where"] == "columns.region")
        assert '"North" for "north"' in warning["message"]
        assert narrow.splitlines()[warning["position"]["line"] - 1] == "[columns.region]"
        assert not review["fits"]
        last = curator.get("/admin/audit").json()["records"][-1]
        assert (last["reveals_truth"], last["actor"], last["action"]) == (True, "carol", "truth viewed")
        assert "schema" in last["details"]
        assert last["sentence"].startswith("carol ")
        for toml, status in (("x = ", 400), (SCHEMA.replace("people.parquet", "../x.parquet"), 400)):
            assert curator.post("/admin/schema/review", json={"toml": toml}).status_code == status
        unknown = {"toml": SCHEMA, "dataset": "nobody"}
        assert curator.post("/admin/schema/review", json=unknown).status_code == 404
        assert analyst.post("/admin/schema/review", json={"toml": SCHEMA}).status_code == 403


def test_a_new_schema_is_held_against_the_rows_where_it_would_be_saved(tmp_path: Path) -> None:
    added = write_people(tmp_path / "added", rows=30)
    (added / "people.toml").rename(added / "people.draft")
    places = [str(tmp_path / "fixed" / "people.toml"), str(added)]
    with running_server(config_of(tmp_path / "fixed", server={"datasets": places})) as running:
        new = SCHEMA.replace('name = "people"', 'name = "folk"')
        review = running.curator().post("/admin/schema/review", json={"toml": new})
        assert (review.status_code, review.json()["rows"]) == (200, 30), review.text


def test_data_sets_can_be_added_and_every_process_follows(tmp_path: Path) -> None:
    book = open_ledger(tmp_path / "ledger.sqlite")
    config = config_of(tmp_path / "data")
    with running_server(config, book) as one, running_server(config, book) as two:
        curator = one.curator()
        other = two.anonymous(dict(curator.headers))
        shutil.copy(tmp_path / "data" / "people.parquet", tmp_path / "data" / "folk.parquet")
        more = SCHEMA.replace('"people"', '"folk"').replace("people.parquet", "folk.parquet")
        assert curator.post("/admin/datasets", json={"toml": more}).json()["name"] == "folk"
        assert curator.post("/admin/datasets", json={"toml": more}).status_code == 400
        assert curator.get("/datasets/folk").status_code == 200
        for bad in ("../folk", "a/b", ".hidden", "x" * 99, "fölk"):
            assert (
                curator.post("/admin/datasets", json={"toml": more.replace("folk", bad)}).status_code == 400
            )
        while other.get("/datasets/folk").status_code != 200:
            time.sleep(0.1)
        assert {d["name"] for d in other.get("/datasets").json()["datasets"]} == {"people", "folk"}
        # An edit by hand that is wrong is left aside, told to the curator, and taken over once it is right.
        file = tmp_path / "data" / "folk.toml"
        file.write_text(more + "\ncolour = 1\n", encoding="utf-8")
        assert other.get("/datasets/folk").status_code == 200
        problems = {d["name"]: d["problem"] for d in other.get("/admin/datasets").json()["datasets"]}
        assert problems["people"] is None
        assert "colour" in problems["folk"]["message"]
        file.write_text(more.replace("rho = 10.0", "rho = 2.5"), encoding="utf-8")
        assert other.get("/datasets/folk").json()["schema"]["privacy"]["rho"] == 2.5
    book.close()


def test_tokens_are_made_listed_and_ended_by_curators(server: RunningServer) -> None:
    curator = server.curator()
    made = curator.post(
        "/admin/tokens", json={"name": "dora", "role": "analyst", "expires": "2199-01-01T00:00:00Z"}
    ).json()
    assert made["token"].startswith(f"dpx_{made['id']}_")
    assert server.anonymous({"Authorization": f"Bearer {made['token']}"}).get("/me").json()["name"] == "dora"
    listing = curator.get("/admin/tokens")
    assert made["token"] not in listing.text
    assert "hash" not in listing.text
    assert curator.delete(f"/admin/tokens/{made['id']}").status_code == 204
    assert curator.delete("/admin/tokens/ffffffffffff").status_code == 404
    for wrong in (
        {"name": "", "expires": "2199-01-01T00:00:00Z"},
        {"name": "*", "expires": "2199-01-01T00:00:00Z"},
        {"name": "x", "expires": "2000-01-01T00:00:00Z"},
        {"name": "x", "expires": "2199-01-01T00:00:00"},
        {"name": "x", "expires": 5},
        {"name": "x", "role": "root", "expires": "2199-01-01T00:00:00Z"},
    ):
        assert curator.post("/admin/tokens", json=wrong).status_code == 400, wrong


def test_allowances_are_granted_raised_and_expire(server: RunningServer) -> None:
    curator, analyst = server.curator(), server.client("eve")
    at = f"{AT}/analysts/eve"
    told = curator.put(at, json={"rho": 0.5, "expires": "2199-01-01T00:00:00Z", "reason": "a study"}).json()
    assert (told["limit"], told["by"], told["reason"]) == (0.5, "carol", "a study")
    assert analyst.post(f"{AT}/query", json={"sql": COUNT, "rho": 0.6}).status_code == 409
    more = {"rho": 0.25, "reason": "one more", "analyst": "eve"}
    curator.post(f"{AT}/top-up", json=more).raise_for_status()
    assert analyst.get(f"{AT}/budget").json()["rho"]["limit"] == 0.75
    curator.put(at, json={"rho": 1, "expires": "2001-01-01T00:00:00Z", "reason": "ended"}).raise_for_status()
    assert analyst.get(f"{AT}/budget").json()["rho"]["remaining"] == 0
    assert analyst.post(f"{AT}/query", json={"sql": COUNT, "rho": 0.1}).status_code == 409
    for wrong in (
        {"rho": 1},
        {"rho": -1, "reason": "x"},
        {"rho": 1, "reason": ""},
        {"rho": 1, "reason": " "},
    ):
        assert curator.put(at, json=wrong).status_code == 400
    before = curator.get("/datasets").json()["datasets"][0]["budget"]
    curator.post(f"{AT}/top-up", json={"rho": 2, "reason": "new grant"}).raise_for_status()
    assert server.ledger.budget("people").limit == 12.0
    assert before["rho"]["limit"] <= 12.0


def test_a_server_that_starts_again_verifies_a_long_log_from_where_it_was_last_intact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (anchor, ledger_module):
        monkeypatch.setattr(module, "LONG_LOG", 1)
    whole, verify = Counter[str](), audit.verify

    def counted(connection: sa.Connection, head: str | None) -> AuditReport:
        whole["verifications"] += 1
        return verify(connection, head)

    monkeypatch.setattr(audit, "verify", counted)
    for start in range(3):
        with (
            closing(open_ledger(tmp_path / "ledger.sqlite", anchor=tmp_path / "people.anchor")) as ledger,
            running_server(config_of(tmp_path / "data"), ledger) as running,
        ):
            if start == 2:  # who cannot read the note verifies everything
                (tmp_path / "people.anchor.key").write_text("0" * 64, encoding="ascii")
            report = running.curator().get("/admin/audit/verify").json()
            assert (report["intact"], report["records"]) == (True, ledger.head()[0])
        assert whole["verifications"] == (1, 1, 2)[start]
