"""Who has spent everything can still ask again for what a stop of the server ended: it is paid for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from slow_engine import slow_down

from dpxplain.ledger.ledger import open_ledger
from dpxplain.model.charge import Ending
from dpxplain.server import pool
from server_fixture import SQL, WEIGHTS, config_of, running_server

AT = "/datasets/people"


@pytest.mark.parametrize("kind", ["query", "explain"])
def test_the_last_budget_pays_for_a_request_that_a_stop_of_the_server_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(pool, "CLOSING_SECONDS", 0.3)
    config = config_of(tmp_path / "data")
    with closing(open_ledger(tmp_path / "ledger.sqlite")) as ledger:
        with running_server(config, ledger) as server, ThreadPoolExecutor(1) as threads:
            client = server.client()
            ledger.grant("people", "alice", 0.4, reason="study", by="carol")
            answer = client.post(f"{AT}/query", json={"sql": SQL, "rho": 0.1}).json()["id"]
            body: dict[str, Any] = {"rho": 0.3}
            body |= {"query": {"sql": SQL.replace("AVG", "SUM")}}.get(
                kind, {"answer": answer, "weights": WEIGHTS, "k": 2}
            )
            engine = slow_down(server)
            asked = threads.submit(client.post, f"{AT}/{kind}", json=body)
            assert engine.entered.acquire(timeout=60)
            server.state.pool.close()
            asked.result(60)
        assert ledger.failures.endings("people") == {Ending.STOPPED: 1}
        with running_server(config, ledger) as server:
            again = server.client().post(f"{AT}/{kind}?wait=60", json=body)
            assert again.status_code == 200, again.json()
            assert ledger.budget("people").spent == pytest.approx(0.4)
