"""T26 under attack: families that free previews name are judged in bytes before they are built or kept."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpxplain.explanation.family_choice import FAMILY_BYTES
from dpxplain.phases.dataset import KEPT_FAMILIES
from dpxplain.server.config import Config
from dpxplain.server.limits import Sizes
from server_fixture import RunningServer, running_server

AT = "/datasets/people"
NAMES, VALUES = "abcdefhijkl", 8
SQL = "SELECT g, COUNT(*) FROM people GROUP BY g"
SCHEMA = '[table]\nname = "people"\nsource = "people.parquet"\n[privacy]\nrho = 10.0\n' + "".join(
    f"[columns.{name}]\nvalues = {list(range(VALUES))}\n" for name in ("g", *NAMES)
)
SERVER = """
import json, sys
sys.path[:0] = json.loads(sys.argv[1])
from pathlib import Path
from test_threat_memory import config
from server_fixture import running_server
with running_server(config(Path(sys.argv[2]))) as server:
    print(json.dumps([server.url, server.token("alice")]), flush=True)
    sys.stdin.read()
"""


def config(folder: Path) -> Config:
    """Eleven columns of eight values each, beside the one that is grouped by."""
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table({name: [0, 1, 2] for name in ("g", *NAMES)}), folder / "people.parquet")
    (folder / "people.toml").write_text(SCHEMA, encoding="utf-8")
    limits = {"requests_per_minute": 10**6, "anonymous_per_minute": 10**6}
    server = {"datasets": str(folder), "port": 0}
    return Config.load({"server": server, "analysts": {"default_rho": 5.0}, "limits": limits})


def either(columns: tuple[str, ...], value: int) -> str:
    return " OR ".join(f"{name} = {value}" for name in columns)


def many_columns(number: int) -> list[str]:
    """Conditions on six columns each, all on different ones: 9^6 cells for each."""
    return [either(columns, 1) for columns in itertools.islice(itertools.combinations(NAMES, 6), number)]


def preview(client: httpx.Client, route: str = "explain", **family: Any) -> httpx.Response:
    answer = client.post(f"{AT}/query", json={"sql": SQL, "rho": 0.1}).json()["id"]
    body = {"answer": answer, "rho": 0.1, "family": family}
    if route == "explain":
        weights = [{"group": [0], "weight": 1}, {"group": [1], "weight": -1}]
        body |= {"weights": weights, "k": 1, "mechanism": "one-shot"}
    return client.post(f"{AT}/{route}/preview", json=body)


def families_of(server: RunningServer) -> Any:
    """The conditions that the data set keeps for its callers."""
    return server.state.datasets.get("people").families


@pytest.fixture
def server_process(tmp_path: Path) -> Iterator[Any]:
    here = Path(__file__).parent
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER, json.dumps([str(here), str(here.parent)]), str(tmp_path / "data")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    url, token = json.loads(process.stdout.readline())
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=f"{url}api/v1", headers=headers, timeout=300) as client:
        yield client, process.pid
    process.kill()
    process.communicate()


def megabytes(pid: int, line: str) -> float:
    """Memory that a process has (VmRSS), or had at most (VmHWM)."""
    status = Path(f"/proc/{pid}/status").read_text("utf-8")
    return next(int(words.split()[1]) / 1_000 for words in status.splitlines() if words.startswith(line))


@pytest.mark.process
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_t26_a_preview_over_many_columns_pins_no_memory(server_process: Any) -> None:
    client, pid = server_process
    assert preview(client, predicates=many_columns(1)).status_code == 200
    before = megabytes(pid, "VmRSS")
    for route in ("prepare", "explain"):
        refused = preview(client, route, predicates=many_columns(170))
        assert (refused.status_code, "32 MB" in refused.json()["message"]) == (400, True)
    assert megabytes(pid, "VmHWM") - before < 150


def test_t26_kept_families_are_few_bytes_for_each_caller_and_for_all(tmp_path: Path) -> None:
    with running_server(config(tmp_path / "data")) as server:
        families = families_of(server)
        columns = list(itertools.combinations(NAMES, 6))
        for number in range(14):
            conditions = [either(columns[number], value) for value in range(VALUES)]
            client = server.client(f"caller-{min(number, 10)}")
            assert preview(client, predicates=conditions).status_code == 200
            assert families.bytes <= KEPT_FAMILIES
        kept = list(families._results.values())
        of_last = sum(family.bytes for family in kept if family.holder == "caller-10")
        assert FAMILY_BYTES / 2 < of_last <= FAMILY_BYTES  # who asked four times
        assert {family.holder for family in kept} > {"caller-10"}


def test_t26_what_was_refused_is_not_kept(tmp_path: Path) -> None:
    with running_server(config(tmp_path / "data")) as server:
        client, families = server.client(), families_of(server)
        refusals = [
            preview(client, predicates=many_columns(170)),  # tables too large
            preview(client, "prepare", predicates=many_columns(1)),  # too many cells to release
            preview(client, conjuncts=11),  # too many predicates
        ]
        server.state.sizes = Sizes(groups=10**6, cells=1_000, ranked=10**9)
        refusals.append(preview(client, predicates=many_columns(1)))  # too many cells for one pass
        assert [refused.status_code for refused in refusals] == [400] * 4
        assert len({refused.json()["message"] for refused in refusals}) == 4
        assert families.bytes == 0


def test_t26_a_refused_story_or_report_is_not_kept(tmp_path: Path) -> None:
    with running_server(config(tmp_path / "data")) as server:
        client, families = server.client(), families_of(server)
        answer = client.post(f"{AT}/query", json={"sql": SQL, "rho": 0.1}).json()["id"]
        weights = [{"group": [0], "weight": 1}, {"group": [1], "weight": -1}]
        body = {"answer": answer, "weights": weights}
        refusals = [
            client.post(f"{AT}/story", json=body | {"levels": 2}),  # not prepared
            client.post(f"{AT}/report", json=body | {"rho": 0.1, "family": {"conjuncts": 2}}),  # not asked
        ]
        assert [refused.status_code // 100 for refused in refusals] == [4, 4]
        assert families.bytes == 0
