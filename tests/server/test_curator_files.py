"""A curator's files and people: uploads stay in their folder, and requests for budget reach the curator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from server_fixture import RunningServer, config_of, running_server

CSV = b"city,pay\nSecret-Town,123456\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[RunningServer]:
    limits = {"upload_bytes": 2_000_000, "anonymous_per_minute": 10_000, "requests_per_minute": 10_000}
    with running_server(config_of(folder, limits=limits)) as running:
        yield running


@pytest.fixture(scope="module")
def carol(server: RunningServer) -> httpx.Client:
    return server.client("carol", "curator")


@pytest.fixture(scope="module")
def alice(server: RunningServer) -> httpx.Client:
    return server.client("alice")


def test_an_upload_is_kept_and_only_its_names_are_told(folder: Path, carol: httpx.Client) -> None:
    assert carol.put("/admin/files/towns.csv", content=CSV).json() == {
        "name": "towns.csv",
        "source": "towns.csv",
        "uploaded": True,
    }
    assert (folder / "towns.csv").read_bytes() == CSV
    told = carol.get("/admin/files/towns.csv/columns")
    assert told.json()["columns"] == [{"name": "city", "type": ""}, {"name": "pay", "type": ""}]
    assert "Secret" not in told.text
    assert "towns.csv" in [file["name"] for file in carol.get("/admin/files").json()["files"]]
    assert carol.put("/admin/files/towns.csv", content=b"other").status_code == 409
    assert (folder / "towns.csv").read_bytes() == CSV


def test_a_parquet_file_tells_its_types(folder: Path, carol: httpx.Client) -> None:
    parquet.write_table(pa.table({"age": [33], "name": ["Secret"]}), folder / "kept.parquet")
    carol.put("/admin/files/kept.parquet", content=(folder / "kept.parquet").read_bytes())
    told = carol.get("/admin/files/kept.parquet/columns")
    assert told.json()["columns"] == [{"name": "age", "type": "int64"}, {"name": "name", "type": "string"}]
    assert "Secret" not in told.text


@pytest.mark.parametrize(
    "name", ["..%2Fescaped.csv", ".hidden.csv", "people.toml", "a%5Cb.csv", "x.csv%00.toml", "%2e%2e.csv"]
)
def test_names_that_lead_elsewhere_are_refused(name: str, folder: Path, carol: httpx.Client) -> None:
    before = sorted(folder.rglob("*"))
    assert carol.put(f"/admin/files/{name}", content=CSV).status_code in (400, 404, 405)
    assert carol.get(f"/admin/files/{name}/columns").status_code in (400, 404)
    assert sorted(folder.rglob("*")) == before


def test_uploads_are_bounded_and_leave_nothing_behind(folder: Path, carol: httpx.Client) -> None:
    before = sorted(folder.rglob("*"))

    def endless() -> Iterator[bytes]:
        for _ in range(40):
            yield b"x" * 100_000

    assert carol.put("/admin/files/large.csv", content=b"x" * 2_000_001).status_code == 413
    assert carol.put("/admin/files/large.csv", content=endless()).status_code == 413
    assert carol.put("/admin/files/empty.csv", content=b"").status_code == 400
    assert sorted(folder.rglob("*")) == before


def test_files_are_for_curators_only(alice: httpx.Client) -> None:
    assert alice.put("/admin/files/mine.csv", content=CSV).status_code == 403
    assert alice.get("/admin/files").status_code == 403
    assert alice.get("/admin/files/people.csv/columns").status_code == 403
    assert alice.delete("/admin/files/people.csv").status_code == 403


def test_an_uploaded_file_is_removed_unless_a_data_set_reads_it(folder: Path, carol: httpx.Client) -> None:
    assert carol.put("/admin/files/gone.csv", content=CSV).is_success
    assert carol.delete("/admin/files/gone.csv").status_code == 204
    assert not list(folder.glob("*gone.csv*"))
    assert carol.delete("/admin/files/gone.csv").status_code == 404
    removed = carol.get("/admin/audit").json()["records"][-1]
    assert (removed["actor"], removed["action"]) == ("carol", "data file removed")
    assert removed["details"]["file"] == "gone.csv"
    assert carol.put("/admin/files/read.csv", content=b"city,pay\nRome,1\n").is_success
    toml = (
        '[table]\nname = "cities"\nsource = "read.csv"\n[privacy]\nrho = 1\n[columns.city]\nvalues = ["Rome"]'
    )
    assert carol.post("/admin/datasets", json={"toml": toml}).is_success
    refused = carol.delete("/admin/files/read.csv")
    assert (refused.status_code, refused.json()["code"]) == (409, "file_in_use")
    assert "cities" in refused.json()["message"]
    assert (folder / "read.csv").is_file()


def test_a_file_that_nobody_uploaded_is_not_removed(folder: Path, carol: httpx.Client) -> None:
    (folder / "operators.csv").write_bytes(CSV)
    refused = carol.delete("/admin/files/operators.csv")
    assert (refused.status_code, refused.json()["code"]) == (409, "not_uploaded")
    assert (folder / "operators.csv").is_file()
    assert carol.put("/admin/files/replaced.csv", content=CSV).is_success
    (folder / "new.csv").write_bytes(CSV)
    (folder / "new.csv").replace(folder / "replaced.csv")
    assert carol.delete("/admin/files/replaced.csv").json()["code"] == "not_uploaded"
    assert carol.delete("/admin/files/..%2Fescaped.csv").status_code in (400, 404, 405)


def test_a_header_with_an_endless_name_is_refused(carol: httpx.Client) -> None:
    assert carol.put("/admin/files/wide.csv", content=b"a" * 140_000 + b"\n1\n").is_success
    refused = carol.get("/admin/files/wide.csv/columns")
    assert refused.status_code == 400
    assert "at most 131,072 characters" in refused.text


def test_a_request_for_budget_reaches_the_curator(alice: httpx.Client, carol: httpx.Client) -> None:
    at = "/datasets/people/budget/requests"
    asked = alice.post(at, json={"rho": 0.5, "reason": "One more table."}).json()["requests"]
    assert [(line["rho"], line["reason"]) for line in asked] == [(0.5, "One more table.")]
    assert "id" not in asked[0], "it would tell alice how much others do"
    (seen,) = carol.get(at).json()["requests"]
    assert seen["analyst"] == "alice"
    assert carol.post(f"{at}/{seen['id']}/decline", json={"reason": "Later."}).json() == {"requests": []}
    for number in range(3):
        alice.post(at, json={"rho": 0.5, "reason": f"Again {number}."})
    assert alice.post(at, json={"rho": 0.5, "reason": "Once more."}).status_code == 400
    carol.put("/datasets/people/analysts/alice", json={"rho": 2.0, "reason": "Her study."})
    assert carol.get(at).json() == {"requests": []}
    assert alice.get("/datasets/people/use").status_code == 403


def test_an_analyst_reads_what_became_of_the_newest_request(
    server: RunningServer, carol: httpx.Client
) -> None:
    dora = server.client("dora")
    assert "ρ adds up over requests" in dora.get("/datasets/people/budget").json()["explained"]
    at, budget = "/datasets/people/budget/requests", "/datasets/people/budget"
    assert dora.get(budget).json()["request"] is None
    dora.post(at, json={"rho": 0.25, "reason": "One more table."})
    waiting = dora.get(budget).json()["request"]
    assert (waiting["rho"], waiting["state"], waiting["given"], waiting["reason"]) == (
        0.25,
        "waiting",
        None,
        None,
    )
    assert dora.get("/me").json()["waiting_requests"] == 0
    assert carol.get("/me").json()["waiting_requests"] == 1
    (seen,) = carol.get(at).json()["requests"]
    carol.post(f"{at}/{seen['id']}/decline", json={"reason": "Later."}).raise_for_status()
    declined = dora.get(budget).json()["request"]
    assert (declined["state"], declined["reason"], declined["given"]) == ("declined", "Later.", None)
    assert declined["asked_at"] == waiting["asked_at"] < declined["decided_at"]
    dora.post(at, json={"rho": 0.5, "reason": "Now?"})
    before = dora.get(budget).json()
    assert (before["request"]["rho"], before["request"]["state"]) == (0.5, "waiting")
    more = {"rho": 0.3, "reason": "A part.", "analyst": "dora"}
    carol.post("/datasets/people/top-up", json=more).raise_for_status()
    after = dora.get(budget).json()
    granted = after["request"]
    assert (granted["state"], granted["reason"]) == ("granted", "A part.")
    assert granted["given"] == pytest.approx(0.3) == after["rho"]["limit"] - before["rho"]["limit"]
    carol.put("/datasets/people/analysts/dora", json={"rho": 0.1, "reason": "Less."}).raise_for_status()
    assert dora.get(budget).json()["request"] == granted  # the grant that answered it
    assert carol.get("/me").json()["waiting_requests"] == 0


def test_use_is_told_by_day_and_analyst(alice: httpx.Client, carol: httpx.Client) -> None:
    alice.post("/datasets/people/query", json={"sql": "SELECT COUNT(*) FROM people", "rho": 0.1})
    (line,) = carol.get("/datasets/people/use").json()["use"]
    assert (line["analyst"], line["rho"]) == ("alice", 0.1)
