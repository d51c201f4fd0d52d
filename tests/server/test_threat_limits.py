"""T22 to T28: what time, size, floods, large requests and metrics tell or cost."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prometheus_client.parser import text_string_to_metric_families
from slow_engine import slow_down

from dpxplain.privacy.mechanisms.noise import VectorisedNoise, gaussian_measurement
from dpxplain.server import pool
from dpxplain.server.pool import end_time
from opened import connection_of
from server_fixture import COUNT, SCHEMA, SQL, WEIGHTS, config_of, running_server

AT = "/datasets/people"
MANY = {"requests_per_minute": 10**6, "anonymous_per_minute": 10**6}


def ask(client: httpx.Client, sql: str = SQL, rho: float = 0.1) -> httpx.Response:
    return client.post(f"{AT}/query", json={"sql": sql, "rho": rho})


def spent(client: httpx.Client) -> float:
    told: float = client.get(f"{AT}/budget").json()["rho"]["spent"]
    return told


def test_t22_with_padding_every_pass_takes_whole_steps(tmp_path: Path) -> None:
    step = 0.2
    with running_server(config_of(tmp_path, limits=MANY | {"pad_seconds": step})) as server:
        client, padded = server.client(), server.padded()

        def seconds(method: str, path: str, body: Any) -> float:
            started = time.monotonic()
            client.request(method, path, json=body)
            return time.monotonic() - started

        answer = ask(client).json()["id"]
        why = {"answer": answer, "weights": WEIGHTS, "k": 2, "rho": 0.1}
        passes = [
            seconds("POST", f"{AT}/query", {"sql": COUNT, "rho": 0.1}),
            seconds("POST", f"{AT}/explain?wait=60", why),
            seconds("POST", f"{AT}/query", {"sql": SQL, "rho": 50}),  # refused for its price
        ]
        engine = slow_down(server)
        engine.go.set()
        engine.fail = True  # and failures
        passes.append(seconds("POST", f"{AT}/query", {"sql": COUNT.replace("sex", "region"), "rho": 0.1}))
        assert client.get(f"{AT}/history").json()["entries"][-1]["state"] == "reserved"
        assert min(passes) >= step
        assert len(padded) == 1 + len(passes)
        client.get(f"{AT}/answers/{answer}").raise_for_status()
        assert len(padded) == 1 + len(passes)  # what reads no data does not wait


def test_t22_by_default_passes_end_at_times_of_a_public_series(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most a quarter later. What a busy machine adds when the thread wakes up is not looked at."""
    limits = config_of(tmp_path).limits
    assert (limits.pad_seconds, limits.pad_ratio) == (0, 1.25)
    with running_server(config_of(tmp_path, limits=MANY)) as server:
        end_time, ends = pool.end_time, []

        def noted(elapsed: float, step: float, ratio: float) -> float:
            end = end_time(elapsed, step, ratio)
            if ratio == limits.pad_ratio:  # of the pool that reads data
                ends.append((elapsed, end))
            return end

        monkeypatch.setattr(pool, "end_time", noted)
        ask(server.client()).raise_for_status()
    series = [0.01 * 1.25**power for power in range(60)]
    assert len(ends) == 2, "its time limit and its end"
    for elapsed, end in ends:
        assert end in series
        assert elapsed <= end <= max(0.01, 1.25 * elapsed * (1 + 1e-12))


@pytest.mark.parametrize("ratio", [1.01, 1.25, 2.0, 10.0])
def test_t22_every_time_has_an_end_not_before_it_and_not_far_behind(ratio: float) -> None:
    series = [0.01 * ratio**power for power in range(2000) if power * math.log(ratio) < 20]
    ends = np.array([*series, series[-1] * ratio])
    around = [end * (1 + error) for end in series for error in (-1e-15, 0, 1e-15, 1e-9)]
    for seconds in [0.0, 1e-9, *around]:
        end = end_time(seconds, 0.0, ratio)
        assert end >= seconds
        assert end <= max(0.01, seconds * ratio * (1 + 1e-9))
        assert np.abs(end / ends - 1).min() < 1e-12


@pytest.mark.draws
def test_t22_gaussian_noise_is_drawn_before_it_meets_the_values() -> None:
    """By construction: the sampler is given a scale and a number of samples, so its work is the same."""
    drawn = []
    for values in (np.zeros(500, dtype=np.int64), np.full(500, 2**61), np.arange(500) * -(10**15)):
        taken: list[int] = []
        stream = np.random.Philox(3)

        def words(count: int, stream: Any = stream, taken: list[int] = taken) -> Any:
            taken.append(count)
            return stream.random_raw(count)

        noisy = VectorisedNoise(words).gaussian(gaussian_measurement(70_000.5), values, 70_000.5)
        drawn.append(((noisy - values).tolist(), taken))
    assert drawn[0] == drawn[1] == drawn[2]


def test_t23_sizes_follow_from_declarations_not_from_data(tmp_path: Path) -> None:
    everyone = {"region": ["North"] * 40, "sex": ["F"] * 40, "age": [30] * 40, "pay": [5] * 40}
    shapes = []
    for name, rows in (("few", 1), ("many", 40), ("none", 0)):
        config = config_of(tmp_path / name, limits=MANY)
        types = {"region": pa.string(), "sex": pa.string(), "age": pa.int64(), "pay": pa.int64()}
        columns = {key: pa.array(values[:rows], types[key]) for key, values in everyone.items()}
        pq.write_table(pa.table(columns), tmp_path / name / "people.parquet")
        with running_server(config) as server:
            client = server.client()
            answer = ask(client).json()
            why = {"answer": answer["id"], "weights": WEIGHTS, "k": 4, "rho": 0.1}
            tables = [
                client.post(f"{AT}/explain?wait=60", json=why | {"mechanism": one}).json()["result"]["rows"]
                for one in ("one-shot", "vector", "marginals")
            ]
            shapes.append(([row["region"] for row in answer["rows"]], [len(table) for table in tables]))
    assert shapes == [(["North", "South", "West"], [4, 4, 4])] * 3


def test_t24_guessing_and_asking_without_end_are_slowed_down(tmp_path: Path) -> None:
    few = {"requests_per_minute": 8, "anonymous_per_minute": 5}
    with running_server(config_of(tmp_path, limits=few)) as server:
        server.stop_refilling()
        greedy, modest = server.client("greedy"), server.client("modest")
        assert modest.get("/datasets").status_code == 200
        answers = [greedy.get("/datasets") for _ in range(12)]
        assert [one.status_code for one in answers] == [200] * 8 + [429] * 4
        last = answers[-1]
        assert (last.status_code, last.json()["code"]) == (429, "too_many_requests")
        assert int(last.headers["retry-after"]) >= 1
        assert modest.get("/datasets").status_code == 200

        def guess(number: int) -> httpx.Response:
            text = f"dpx_{number:012x}_{'A' * 43}"
            return server.anonymous({"Authorization": f"Bearer {text}"}).get("/datasets")

        guesses = [guess(number) for number in range(10)]
        assert [one.status_code for one in guesses] == [401] * 5 + [429] * 5
        by_form = server.anonymous().post("/session", json={"token": "guess"})
        assert (by_form.status_code, "retry-after" in by_form.headers) == (429, True)
        assert modest.get("/datasets").status_code == 200  # guessers do not lock out who is known


def test_t25_large_deep_and_numberless_bodies_are_refused(tmp_path: Path) -> None:
    with running_server(config_of(tmp_path, limits=MANY | {"body_bytes": 20_000})) as server:
        client = server.client()
        as_json = {"Content-Type": "application/json"}

        def status(content: Any) -> int:
            response = client.post(f"{AT}/query", content=content, headers=as_json)
            assert response.json().keys() == {"code", "message", "remedy", "position"}
            return response.status_code

        large = json.dumps({"sql": "x" * 30_000, "rho": 0.1}).encode()

        def in_pieces() -> Iterator[bytes]:  # without saying beforehand how long it is
            yield from (large[at : at + 1_000] for at in range(0, len(large), 1_000))

        assert status(large) == 413
        assert status(in_pieces()) == 413
        sql = json.dumps(SQL)
        for wrong in (
            f'{{"sql": {sql}, "rho": NaN}}',
            f'{{"sql": {sql}, "rho": Infinity}}',
            f'{{"sql": {sql}, "rho": -Infinity}}',
            f'{{"sql": {sql}, "rho": 1e999}}',
            f'{{"sql": {sql}, "rho": {"9" * 5_000}}}',
            f'{{"sql": {sql}, "rho": 0.1, "hidden": 1}}',
            f'{{"sql": {sql}, "rho": true}}',
            f'{{"sql": {sql}, "rho": 0}}',
            f'{{"sql": {sql}, "rho": -1}}',
            "[" * 9_000 + "]" * 9_000,
            '{"a":' * 3_000 + "1" + "}" * 3_000,
            json.dumps({"sql": f"SELECT {'(' * 3_000}1{')' * 3_000}", "rho": 0.1}),
            json.dumps({"sql": "\x00", "rho": 0.1}),
            "",
        ):
            assert status(wrong) == 400, wrong[:60]
        assert status(b"\xff\xfe") == 400
        assert spent(client) == 0
        assert ask(client).status_code == 200  # and the server is well


def test_t26_what_is_too_large_is_refused_before_it_is_charged(tmp_path: Path) -> None:
    with running_server(config_of(tmp_path, limits=MANY)) as server:
        client = server.client()
        answer = ask(client).json()["id"]
        why = {"answer": answer, "weights": WEIGHTS, "k": 2, "rho": 0.1}
        too_large = [
            why | {"family": {"conjuncts": 99}},
            why | {"k": 10**6},
            why | {"family": {"predicates": ["age > 1 AND " * 500 + "age > 2"]}},
        ]
        for body in too_large:
            assert client.post(f"{AT}/explain?wait=60", json=body).status_code == 400
        assert (
            ask(client, "SELECT region, " + "COUNT(*), " * 2_000 + "SUM(pay) FROM people").status_code == 400
        )
        assert spent(client) == pytest.approx(0.1)  # declarations were enough to refuse all of these


def test_t26_time_and_memory_of_a_query_are_limited_and_the_charge_stays(tmp_path: Path) -> None:
    with running_server(config_of(tmp_path, limits=MANY | {"memory": "700MB"})) as server:
        client, engine = server.client(), slow_down(server)
        engine.out_of_time = True
        late = ask(client, COUNT)
        assert (late.status_code, late.json()["code"]) == (500, "failed_after_charge")
        assert spent(client) == pytest.approx(0.1)
        real = connection_of(engine.real)
        limit, temporary = real.execute(
            "SELECT current_setting('memory_limit'), current_setting('temp_directory')"
        ).fetchone()
        assert "667" in limit  # 700 MB in MiB
        assert temporary == ""  # more is refused, not written to a file


def test_t27_a_full_server_refuses_before_it_charges(tmp_path: Path) -> None:
    with running_server(config_of(tmp_path, limits=MANY | {"running": 1, "waiting": 1})) as server:
        clients = [server.client(f"guest-{n}") for n in range(2)]
        late, engine = server.client("late"), slow_down(server)
        with ThreadPoolExecutor(2) as threads:
            inside = [threads.submit(ask, client, COUNT) for client in clients]
            try:
                assert engine.entered.acquire(timeout=60)
                while server.state.pool.admitted < 2:
                    time.sleep(0.01)
                for path, body in (
                    ("/query", {"sql": SQL, "rho": 0.1}),
                    ("/query", {"sql": COUNT, "rho": 0.1}),
                ):
                    refused = late.post(f"{AT}{path}", json=body)
                    assert (refused.status_code, refused.json()["code"]) == (503, "busy")
                    assert int(refused.headers["retry-after"]) >= 1
                assert spent(late) == 0
                assert late.get(f"{AT}/history").json()["entries"] == []
                assert late.get("/health").status_code == 200
            finally:
                engine.go.set()
            assert [one.result().status_code for one in inside] == [200, 200]
        assert ask(late).status_code == 200


def test_t28_metrics_are_for_curators_and_count_requests_and_rho_only(tmp_path: Path) -> None:
    config = config_of(tmp_path, limits=MANY)
    (tmp_path / "people.toml").write_text(SCHEMA, "utf-8")
    with running_server(config) as server:
        analyst, curator = server.client("t28-name"), server.curator()
        answer = ask(analyst).json()["id"]
        analyst.get(f"{AT}/answers/{answer}")
        analyst.get("/nowhere/t28-secret")
        assert analyst.get("/metrics").status_code == 403
        assert server.anonymous().get("/metrics").status_code == 401
        text = curator.get("/metrics").text
        assert not any(word in text for word in ("t28-name", "t28-secret", "SELECT", "region", "North"))
        allowed = {
            "dpxplain_requests": {"method", "route", "status"},
            "dpxplain_request_seconds": {"method", "route", "le"},
            "dpxplain_refusals": {"status"},
            "dpxplain_jobs": {"state"},
            "dpxplain_pool_inside": set(),
            "dpxplain_rho_limit": {"dataset"},
            "dpxplain_rho_spent": {"dataset"},
            "dpxplain_ledger_up": set(),
            "dpxplain_ledger_errors": {"kind"},
            "dpxplain_charges_without_release": {"dataset", "ending"},
            "dpxplain_authentication_failures": {"reason"},
        }
        told = text_string_to_metric_families(text)
        families = {family.name: family for family in told if not family.name.endswith("_created")}
        assert families.keys() == allowed.keys()
        for name, family in families.items():
            assert all(set(sample.labels) <= allowed[name] for sample in family.samples), name
        routes = {sample.labels["route"] for sample in families["dpxplain_requests"].samples}
        assert not any(character.isdigit() for route in routes for character in route.removeprefix("/api/v1"))
        figures = {
            name: families[name].samples[0].value for name in ("dpxplain_rho_limit", "dpxplain_rho_spent")
        }
        assert figures == {"dpxplain_rho_limit": 10.0, "dpxplain_rho_spent": 0.1}
