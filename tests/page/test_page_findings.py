"""The answer first: every result shows the finding that the server sends, and the rest on request."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from page_axe import assert_accessible
from page_servers import GENEROUS, PLACE, asked, done, explained_place, owner
from page_steps import Visit, ask, finding, group, headline, notes, sign_in, table
from playwright.sync_api import Response, expect

from server_fixture import SCHEMA, RunningServer, config_of, running_server

PARTS = {"answer": "answer", "question": "verdict", "explanation": "explanation", "story": "story"}


def results_of(responses: list[Response]) -> dict[str, dict[str, Any]]:
    """What the server has sent on the place, the newest of each kind; a job holds its result.

    The page also asks about any two groups, to learn whether their answer is prepared.
    """
    results: dict[str, dict[str, Any]] = {}
    for response in responses:
        if not response.ok or "json" not in response.headers.get("content-type", ""):
            continue
        if response.url.endswith("/why") and "Never-married" not in (response.request.post_data or ""):
            continue
        sent = response.json()
        result = sent.get("result") or sent if isinstance(sent, dict) else {}
        if result.get("kind") in PARTS:
            results[result["kind"]] = result
    return results


def test_every_result_shows_what_the_server_found(fresh_adult: RunningServer, visit: Visit) -> None:
    responses: list[Response] = []
    place = explained_place(fresh_adult) + "&story=1"
    page = visit(fresh_adult, place, before=lambda page: page.on("response", lambda r: responses.append(r)))
    expect(finding(page, "story")).to_be_visible()
    expect(table(page)).to_be_visible()
    sent = results_of(responses)
    assert set(sent) == set(PARTS)
    for kind, part in PARTS.items():
        told = sent[kind]["finding"]
        expect(headline(page, part)).to_have_text(told["headline"])
        for note in told["notes"]:
            expect(notes(page, part)).to_contain_text(note)
    # The explanation and the story are what is read now: the answer and its gap have stepped back.
    for part in ("explanation", "story"):
        expect(finding(page, part)).to_contain_text(sent[part]["finding"]["support"])
    expect(page.get_by_text(sent["explanation"]["finding"]["caveat"], exact=True)).to_have_count(1)
    rows = table(page).locator("tbody tr")
    for line, row in zip(rows.all(), sent["explanation"]["rows"], strict=True):
        for text in (row["label"], row["effect_text"]):
            expect(line).to_contain_text(text)
    expect(notes(page, "explanation")).to_contain_text(sent["explanation"]["order_note"])
    page.get_by_role("switch", name="Influence and rank").check()
    ranked = sorted(sent["explanation"]["rows"], key=lambda row: (-row["influence_high"], row["rank_high"]))
    for line, row in zip(rows.all(), ranked, strict=True):
        for text in (row["label"], row["influence_text"], row["rank_text"], row["gap_without_text"]):
            expect(line).to_contain_text(text)
    assert_accessible(page)


def test_conditions_lost_in_noise_are_folded(fresh_adult: RunningServer, visit: Visit) -> None:
    client = owner(fresh_adult)
    answer = asked(client)
    body = {"answer": answer, "rho": 1e-8}
    assert done(client.post("/datasets/adult/prepare", params={"wait": 60}, json=body))["state"] == "done"
    page = visit(fresh_adult, PLACE.format(answer=answer) + "&explain=5")
    expect(headline(page, "explanation")).to_be_visible()
    expect(table(page)).to_be_hidden()
    page.get_by_text("5 candidates, too noisy to tell").click()
    expect(table(page).locator("tbody tr")).to_have_count(5)
    expect(table(page).get_by_role("cell", name="unclear")).to_have_count(5)
    expect(table(page).locator(".bar").first).to_be_visible()
    assert_accessible(page)


def test_the_average_of_an_empty_group_is_blank(tmp_path: Path, servers: ExitStack, visit: Visit) -> None:
    config = config_of(tmp_path, limits=GENEROUS.model_dump())
    schema = SCHEMA.replace('"West"', '"West", "Nowhere"')
    (tmp_path / "people.toml").write_text(schema, encoding="utf-8")
    server = servers.enter_context(running_server(config))
    page = visit(server)
    sign_in(page, server.token("alice"))
    ask(page, "SELECT region, AVG(pay) FROM people GROUP BY region", 0.1)
    expect(page.get_by_role("list", name="Groups").get_by_role("listitem").last).to_contain_text("Nowhere")
    blank, known = group(page, "Nowhere"), group(page, "North")
    expect(blank.locator(".value")).to_have_text("–")
    expect(blank.locator(".dot")).to_have_count(0)
    expect(known.locator(".dot")).to_have_count(1)
