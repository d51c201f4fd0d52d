"""The three phases over HTTP, as one analyst walks them."""

from __future__ import annotations

import html
import re
from secrets import token_hex

import httpx
import pytest

import dpxplain as dpx
from dpxplain.privacy.accounting import rho_for_epsilon
from server_fixture import COUNT, SQL, WEIGHTS, RunningServer

AT = "/datasets/people"


def asked(client: httpx.Client, sql: str = SQL, rho: float = 0.1) -> dict[str, object]:
    response = client.post(f"{AT}/query", json={"sql": sql, "rho": rho})
    assert response.status_code == 200, response.text
    answer: dict[str, object] = response.json()
    return answer


def test_data_sets_are_described_without_their_source(server: RunningServer) -> None:
    client = server.client()
    listed = client.get("/datasets").json()["datasets"]
    assert [one["name"] for one in listed] == ["people"]
    told = client.get(AT).json()
    assert "parquet" not in client.get(AT).text
    assert {column["name"]: column["kind"] for column in told["columns"]} == {
        "region": "discrete", "sex": "discrete", "age": "discrete", "pay": "numeric",
    }  # fmt: skip
    assert told["columns"][2]["values"] == ["(0, 20]", "(20, 40]", "(40, 60]", "(60, 80]"]
    for example in told["examples"]:
        assert client.post(f"{AT}/preview", json={"sql": example["sql"], "rho": 0.1}).status_code == 200


def test_epsilon_is_converted_at_the_server_and_limits_are_in_rho(server: RunningServer) -> None:
    client, body = server.client("in epsilon"), {"sql": SQL, "epsilon": 1.0}
    priced = client.post(f"{AT}/preview", json=body).json()
    answer = client.post(f"{AT}/query", json=body).json()
    assert answer["rho"] == priced["rho"] == rho_for_epsilon(1.0, 1e-6, is_gaussian=True)
    assert 0.999 < priced["epsilon"] <= 1.0
    assert client.post(f"{AT}/query", json={"sql": SQL, "rho": answer["rho"]}).json()["free"]
    both = client.post(f"{AT}/query", json=body | {"rho": 0.1})
    assert both.status_code == 400
    assert "rho or epsilon, not both" in both.json()["message"]
    limit = client.post(f"{AT}/budget/requests", json={"epsilon": 1.0, "reason": "more"})
    assert "epsilon: is not a known key; use rho" in limit.json()["message"]


def test_a_query_without_a_price_is_refused_with_three_prices(server: RunningServer) -> None:
    client = server.client("priceless")
    refused = client.post(f"{AT}/query", json={"sql": SQL})
    assert refused.status_code == 400
    assert re.search("Rough: ρ .*Good: ρ .*Sharp: ρ ", refused.json()["message"])


def test_a_preview_tells_the_price_and_spends_nothing(server: RunningServer) -> None:
    client = server.client("previewer")
    told = client.post(f"{AT}/preview", json={"sql": SQL, "rho": 0.5}).json()
    assert (told["rho"], told["free"], told["remaining_after"]) == (0.5, False, 4.5)
    assert client.get(f"{AT}/budget").json()["rho"]["spent"] == 0


def test_an_answer_is_charged_once_and_free_from_then_on(server: RunningServer) -> None:
    client = server.client("asker")
    first, again = asked(client), asked(client)
    assert (first["free"], again["free"]) == (False, True)
    assert first["id"] == again["id"]
    assert first["rows"] == again["rows"]
    assert client.get(f"{AT}/budget").json()["rho"]["spent"] == 0.1
    stored = client.get(f"{AT}/answers/{first['id']}", params={"confidence": 0.5, "chart_width": 300}).json()
    assert stored["confidence"] == 0.5
    assert stored["chart"]["$schema"].startswith("https://vega.github.io")


def test_files_have_all_groups_in_the_order_of_the_screen(server: RunningServer) -> None:
    client = server.client("exporter")
    several = asked(client, "SELECT age, COUNT(*) AS n, AVG(pay) AS pay FROM people GROUP BY age", 0.5)
    order = {"chart_width": 300, "chart_order": "low", "chart_order_of": "pay"}
    charts = client.get(f"{AT}/answers/{several['id']}", params=order).json()["chart"]["vconcat"]
    names = [[row["label"] for row in part["data"]["values"]] for part in charts]
    by_pay = client.get(f"{AT}/answers/{several['id']}").json()["parts"][1]["rows"]
    assert names[0] == names[1] == [row["label"] for row in sorted(by_pay, key=lambda row: row["estimate"])]
    answer = asked(client)
    body = {"answer": answer["id"], "weights": WEIGHTS, "rho": 0.1, "mechanism": "one-shot", "k": 2}
    assert client.post(f"{AT}/explain?wait=30", json=body).json()["state"] == "done"
    ends = {}
    for order_of_groups in ("high", "low"):
        page = client.post(f"{AT}/report", json=body | {"order": order_of_groups}).text
        cells = re.findall(r'<th scope="row">(North|South|West)</th>', page)
        ends[order_of_groups] = cells
    assert ends["high"] == ends["low"][::-1]
    assert len(ends["high"]) == 3


def test_a_story_is_free_once_its_conditions_are_prepared(server: RunningServer) -> None:
    client = server.client("teller")
    answer = asked(client)["id"]
    body = {"answer": answer, "weights": WEIGHTS, "chart_width": 400}
    refused = client.post(f"{AT}/story", json=body)
    assert refused.status_code == 400
    assert '"nested": true' in refused.json()["remedy"]
    family = {"conjuncts": 2, "nested": True}
    price = client.post(f"{AT}/prepare/preview", json={"answer": answer, "rho": 1.0, "family": family}).json()
    assert (price["rho"], price["free"]) == (1.0, False)
    whole = client.post(f"{AT}/story/preview", json=body | {"rho": 1.0, "prices": [0.1, 1.0]}).json()
    assert (whole["rho"], whole["free"]) == (1.0, False)
    assert [level["rho"] for level in whole["levels"]] == [0.1, 1.0]
    assert all(level["margin"].startswith("±") for level in whole["levels"])
    assert whole["protection"]["alone"]["step"] < 5
    rough = client.post(f"{AT}/story/preview", json=body | {"rho": 1e-6}).json()
    assert "larger than the gap itself" in rough["doubt"]
    assert whole["expected"][0].startswith("Up to 2 steps")
    told = client.post(f"{AT}/report", json={"answer": answer, "weights": WEIGHTS, "story": True})
    assert told.status_code == 400
    done = client.post(f"{AT}/prepare?wait=30", json={"answer": answer, "rho": 1.0, "family": family})
    assert done.json()["state"] == "done"
    told = client.post(f"{AT}/story", json=body).json()
    assert (told["kind"], told["free"], told["levels"]) == ("story", True, 2)
    assert told["rows"][0]["rows"] == "all"
    assert told["sentences"][0] == f"{told['finding']['headline']} {told['finding']['support']}".rstrip()
    assert told["chart"]["$schema"].startswith("https://vega.github.io")
    assert [(part["id"], part["rho"]) for part in told["preparations"]] == [(told["id"], 1.0)]
    report = client.post(f"{AT}/report", json={"answer": answer, "weights": WEIGHTS, "story": True}).text
    assert "Step by step" in report
    assert all(html.escape(sentence) in report for sentence in told["sentences"])
    assert client.get(f"{AT}/budget").json()["rho"]["spent"] == pytest.approx(1.1)
    for path in ("story", "story/preview"):
        assert server.client("stranger").post(f"{AT}/{path}", json=body).status_code == 404
    with dpx.connect(f"{server.url}people", token=server.token("teller")) as session:
        story = session.query(SQL, rho=0.1).why("North", "South").story()
        assert sorted(record["gap"] for record in story.records()) == sorted(
            row["gap"] for row in told["rows"]
        )


def test_the_price_of_a_wanted_precision_is_told(server: RunningServer) -> None:
    name = f"thrifty-{token_hex(4)}"  # has prepared nothing yet, also where the test is repeated
    client = server.client(name)
    why = {"answer": asked(client)["id"], "weights": WEIGHTS, "k": 2}
    assert client.post(f"{AT}/explain/preview", json=why | {"precision": 0.5}).status_code == 400
    both = client.post(f"{AT}/explain/preview", json=why | {"relative": 0.1, "rho": 0.1})
    assert both.status_code == 400
    body = why | {"relative": 0.1, "mechanism": "vector"}
    priced = client.post(f"{AT}/explain/preview", json=body).json()
    assert priced["rows"][0]["relative_margin"] == pytest.approx(0.1, rel=1e-2)
    client.post(f"{AT}/prepare?wait=30", json={"answer": why["answer"], "rho": 0.01})
    priced = client.post(f"{AT}/explain/preview", json=why | {"precision": 0.5}).json()
    assert priced["rho"] >= 0
    with dpx.connect(f"{server.url}people", token=server.token(name)) as session:
        question = session.query(SQL, rho=0.1).why("North", "South")
        assert question.rho_for(precision=0.5, k=2) == priced["rho"]
        relative = question.rho_for(relative=0.1, k=2, mechanism="vector")
        assert relative == pytest.approx(client.post(f"{AT}/explain/preview", json=body).json()["rho"])


def test_a_group_of_several_columns_is_named_as_printed(
    server: RunningServer,
) -> None:
    client = server.client("namer")
    sql = "SELECT sex, age, COUNT(*) FROM people GROUP BY sex, age"
    shown = asked(client, sql)["parts"][0]["rows"]  # type: ignore[index]
    labels = [group["label"] for group in shown[:2]]
    assert all("]" in label and ", (" in label for label in labels)
    why = {"answer": asked(client, sql)["id"]}
    weights = [{"group": label, "weight": weight} for label, weight in zip(labels, (1, -1), strict=True)]
    question = client.post(f"{AT}/why", json=why | {"weights": weights}).json()
    assert [weight["group"] for weight in question["weights"]] == labels
    with dpx.connect(f"{server.url}people", token=server.token("namer")) as session:
        assert session.query(sql, rho=0.1).why(*labels).labels == labels


def test_the_whole_story_from_query_to_report(server: RunningServer) -> None:
    client = server.client("reader")
    answer = asked(client)
    why = {"answer": answer["id"], "weights": WEIGHTS}
    question = client.post(f"{AT}/why", json=why).json()
    assert (question["verdict"], question["prepared"]) == ("real", False)

    prepare = {"answer": answer["id"], "rho": 0.05}
    assert client.post(f"{AT}/prepare/preview", json=prepare).json()["rho"] == 0.05
    job = client.post(f"{AT}/prepare", params={"wait": 60}, json=prepare).json()
    assert (job["state"], job["rho"], job["result"]["kind"]) == ("done", 0.05, "prepared")

    preview = client.post(f"{AT}/explain/preview", json=why).json()
    assert preview["free"]
    assert "shown" in preview["expected"][1]  # how good the choice is
    done = client.post(f"{AT}/explain", params={"wait": 60}, json=why | {"k": 2, "chart_width": 400})
    table = done.json()
    assert (done.status_code, table["state"], table["rho"]) == (200, "done", 0)
    assert len(table["result"]["rows"]) == 2
    assert {"chart", "influence_chart"} <= table["result"].keys()
    assert set(table["result"]["finding"]) == {"headline", "support", "caveat", "notes"}
    report = client.post(f"{AT}/report", json=why | {"k": 2})
    assert report.headers["content-type"].startswith("text/html")
    assert "sandbox" in report.headers["content-security-policy"]

    kinds = [(e["kind"], e["analyst"]) for e in client.get(f"{AT}/history").json()["entries"]]
    assert kinds == [("query", "reader"), ("prepare", "reader")]


def test_a_report_of_what_was_not_asked_is_refused_and_charges_nothing(server: RunningServer) -> None:
    client = server.client("hasty")
    why = {"answer": asked(client)["id"], "weights": WEIGHTS, "rho": 0.5}
    response = client.post(f"{AT}/report", json=why)
    assert (response.status_code, response.json()["code"]) == (409, "not_stored")
    assert client.get(f"{AT}/budget").json()["rho"]["spent"] == 0.1


def test_the_history_comes_in_pages_from_the_newest_line_on(server: RunningServer) -> None:
    client = server.client("pager")
    numbers = [asked(client, rho=0.01 * part)["id"] for part in range(1, 6)]
    newest = client.get(f"{AT}/history?limit=2").json()
    assert [line["id"] for line in newest["entries"]] == numbers[3:]
    assert [line["total_rho"] for line in newest["entries"]] == [0.1, 0.15]
    older = client.get(f"{AT}/history?limit=3&before={newest['older']}").json()
    assert [line["id"] for line in older["entries"]] == numbers[:3]
    assert older["older"] is None
    for refused in ("limit=0", "limit=501", "before=0", "before=x"):
        assert client.get(f"{AT}/history?{refused}").status_code == 400


def test_a_history_line_can_be_asked_again_and_is_free(server: RunningServer) -> None:
    client = server.client("repeater")
    answer = asked(client)
    why = {"answer": answer["id"], "weights": WEIGHTS, "k": 2, "rho": 0.3}
    assert client.post(f"{AT}/explain", params={"wait": 60}, json=why).json()["rho"] == 0.3
    for line in client.get(f"{AT}/history").json()["entries"]:
        again = client.post(f"{AT}/{line['kind']}", params={"wait": 60}, json=line["request"]).json()
        told = again.get("result", again)
        assert (told["free"], told["id"]) == (True, line["id"])
    assert client.get(f"{AT}/budget").json()["rho"]["spent"] == pytest.approx(0.4)


def test_a_release_is_given_as_it_was_stored(server: RunningServer) -> None:
    client = server.client("archivist")
    answer = asked(client, COUNT)
    told = client.get(f"{AT}/releases/{answer['id']}").json()
    stored = server.ledger.get("people", told["entry"]["address"])
    assert stored is not None
    assert told["release"] == stored[1]


def test_a_refused_query_says_where_and_charges_nothing(server: RunningServer) -> None:
    client = server.client("mistaken")
    for path in ("preview", "query"):
        response = client.post(
            f"{AT}/{path}", json={"sql": "SELECT region, AVG(salary) FROM people GROUP BY region", "rho": 1}
        )
        told = response.json()
        assert (response.status_code, told["code"]) == (400, "query_refused")
        assert told["position"]["column"] == 20
    assert client.get(f"{AT}/budget").json()["rho"]["spent"] == 0


def test_what_is_more_than_the_allowance_is_refused_with_409(server: RunningServer) -> None:
    client = server.client("spender")
    response = client.post(f"{AT}/query", json={"sql": SQL, "rho": 6})
    assert (response.status_code, response.json()["code"]) == (409, "budget_exhausted")
    answer = asked(client)
    why = {"answer": answer["id"], "weights": WEIGHTS, "k": 2, "rho": 6}
    response = client.post(f"{AT}/explain", params={"wait": 60}, json=why)
    assert (response.status_code, response.json()["code"]) == (409, "budget_exhausted")


def test_several_aggregates_are_told_apart(server: RunningServer) -> None:
    client = server.client("counter")
    answers = asked(client, "SELECT sex, COUNT(*), AVG(pay) FROM people GROUP BY sex")
    assert answers["kind"] == "answers"
    weights = [{"group": "F", "weight": 1}, {"group": "M", "weight": -1}]
    why = {"answer": answers["id"], "weights": weights}
    assert client.post(f"{AT}/why", json=why).json()["code"] == "question_error"
    assert client.post(f"{AT}/why", json=why | {"of": "AVG(pay)"}).json()["of"] == "AVG(pay)"


def test_what_holds_in_general_is_told_where_it_is_asked(server: RunningServer) -> None:
    client = server.client("sampler")
    answer = client.post(f"{AT}/query", json={"sql": SQL, "rho": 0.1, "population": True}).json()
    row = answer["parts"][0]["rows"][0]
    assert row["in_general"]["low"] <= row["low"]
    assert "in_general" not in asked(client)["parts"][0]["rows"][0]  # type: ignore[index]
    stored = client.get(f"{AT}/answers/{answer['id']}", params={"population": True}).json()
    assert stored["parts"] == answer["parts"]
    body = {"answer": answer["id"], "weights": WEIGHTS, "population": True, "chart_width": 300}
    question = client.post(f"{AT}/why", json=body).json()
    assert question["in_general"]["verdict"] in ("real", "unclear", "reversed")
    assert "in_general" not in client.post(f"{AT}/why", json=body | {"population": False}).json()
    assert client.get(f"{AT}/budget").json()["rho"]["spent"] == 0.1


def test_a_ratio_is_asked_explained_and_read_by_the_client(server: RunningServer) -> None:
    client = server.client("divider")
    averages = asked(client)
    body = {"answer": averages["id"], "weights": WEIGHTS, "compare": "ratio", "population": True}
    question = client.post(f"{AT}/why", json=body).json()
    assert (question["compare"], question["measured"], question["at_least"]) == ("ratio", "ratio", 1.0)
    assert "ratio" in question["question"]
    assert question["in_general"]["verdict"]
    refused = client.post(f"{AT}/why", json=body | {"compare": "share"})
    assert refused.status_code == 400
    assert "with weight 1" in refused.json()["message"]
    with dpx.connect(f"{server.url}people", token=server.token("divider")) as session:
        answer = session.query(SQL, rho=0.1)
        assert answer.free
        first, second = (part["group"] for part in WEIGHTS)
        local = answer.why_ratio(tuple(first), tuple(second))
        assert local.estimate == question["estimate"]
        table = local.explain(k=1, rho=0.2)
        assert table.question.measured == "ratio"
        assert len(table) == 1


def test_jobs_are_bought_by_epsilon_and_keep_their_rho(server: RunningServer) -> None:
    client, rho = server.client("jobs in epsilon"), rho_for_epsilon(0.5, 1e-6, is_gaussian=True)
    why = {"answer": asked(client)["id"], "weights": WEIGHTS, "k": 1, "epsilon": 0.5}
    priced = client.post(f"{AT}/explain/preview", json=why | {"prices": [0.1]}).json()
    assert (priced["rho"], priced["levels"][0]["rho"]) == (rho, 0.1)
    body = {"answer": why["answer"], "epsilon": 0.5}
    job = client.post(f"{AT}/prepare", params={"wait": 20}, json=body).json()
    assert (job["state"], job["rho"]) == ("done", rho)
    (line,) = client.get(f"{AT}/jobs").json()["jobs"]
    assert line["request"]["rho"] == rho
    assert "epsilon" not in line["request"]
    explained = client.post(f"{AT}/explain", params={"wait": 20}, json=why).json()
    assert explained["result"]["free"]
