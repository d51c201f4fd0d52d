"""A request looks up once what is stored; nothing that was found is shown after the data changed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import dpxplain as dpx
from call_counts import Lookups, lookups
from dpxplain.errors import DataChanged
from dpxplain.explanation.family_choice import FamilyChoice
from dpxplain.model.release import PreparedRelease
from dpxplain.phases import explain
from dpxplain.phases.plan import ExplanationOptions
from dpxplain.results.answer import Answer
from dpxplain.results.base import Planned
from dpxplain.results.explanation import PlannedExplanation, PlannedStory
from dpxplain.results.question import Question
from server_fixture import SQL, WEIGHTS, config_of, running_server, write_people

K = 3


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_people(tmp_path)
    long_ago = time.time() - 3600  # a file written just now is digested again at every check
    os.utime(tmp_path / "people.parquet", (long_ago, long_ago))
    return tmp_path


@pytest.fixture
def connect(folder: Path) -> Callable[[], dpx.Session]:
    return lambda: dpx.connect(
        folder / "people.parquet", folder / "people.toml", workspace=folder / "workspace"
    )


@pytest.fixture
def session(connect: Callable[[], dpx.Session]) -> Iterator[dpx.Session]:
    with connect() as opened:
        yield opened


def why(session: dpx.Session) -> Question:
    answer = session.query(SQL, rho=0.1)
    assert isinstance(answer, Answer)
    return answer.why("North", "South")


# -- How often a request looks something up ----------------------------------------------------------------

Request = Callable[[dpx.Session, Question], object]
FREE: dict[str, tuple[Request, Lookups]] = {
    "query": (lambda session, _: session.query(SQL, rho=0.1), Lookups(1, 0, 1)),
    "query.preview": (lambda session, _: session.preview(SQL, rho=0.1), Lookups(2, 0, 1)),
    "why": (lambda _, question: why_again(question), Lookups(3, 0, 2)),
    "prepare": (lambda _, question: answer_of(question).prepare(rho=0.5), Lookups(1, 0, 1)),
    "prepare.preview": (lambda _, question: answer_of(question).preview_prepare(rho=0.5), Lookups(2, 0, 1)),
    "explain": (lambda _, question: question.explain(K), Lookups(1, 0, 2)),
    "explain.preview": (lambda _, question: question.preview(K), Lookups(2, 0, 1)),
    "a ratio, whose preparation nobody looked up yet": (
        lambda _, question: answer_of(question).why_ratio("North", "South").explain(K),
        Lookups(3, 0, 3),
    ),
    "a price that is covered": (lambda _, question: question.explain(K, rho=0.3), Lookups(1, 0, 2)),
    "some attributes": (lambda _, question: question.explain(K, attributes=["age", "sex"]), Lookups(1, 0, 2)),
    "one-shot": (
        lambda _, question: question.explain(K, rho=0.2, mechanism="one-shot"),
        Lookups(1, 0, 1),
    ),
    "the price of a precision": (lambda _, question: question.rho_for(relative=0.1), Lookups(1, 0, 1)),
    "story": (lambda _, question: question.story(levels=1), Lookups(1, 0, 2)),
}


def answer_of(question: Question) -> Answer:
    assert isinstance(question.answer, Answer)
    return question.answer


def why_again(question: Question) -> Question:
    return answer_of(question).why("North", "South")


@pytest.mark.parametrize("name", FREE)
def test_a_free_request_looks_up_no_more_than_it_must(name: str, session: dpx.Session) -> None:
    request, most = FREE[name]
    question = why(session)
    question.explain(K, rho=0.2, mechanism="one-shot")
    answer_of(question).prepare(rho=0.5)
    question = why(session)
    check_at_most(lookups(lambda: request(session, question)), most)
    assert lookups(lambda: request(session, question)).parsed == 0, "a statement is parsed once"


def check_at_most(made: Lookups, most: Lookups) -> None:
    pairs = zip(vars(made).values(), vars(most).values(), strict=True)
    assert all(number <= limit for number, limit in pairs), f"{made}, but at most {most}"


def test_a_paid_request_looks_its_release_up_once_before_it_charges(session: dpx.Session) -> None:
    session.query(SQL, rho=0.1)  # the anchor and the version of the data are new only once
    check_at_most(lookups(lambda: session.query(SQL, rho=0.2)), Lookups(17, 11, 2))


def test_a_request_over_rest_resolves_its_plan_once(folder: Path) -> None:
    with running_server(config_of(folder)) as server:
        client = server.client()

        def post(path: str, body: object) -> dict[str, object]:
            sent = client.post(f"/datasets/people/{path}", json=body, params={"wait": 20})
            assert sent.status_code == 200, sent.text
            body_of: dict[str, object] = sent.json()
            return body_of

        def least(path: str, body: object) -> Lookups:
            """What it looks up in the run in which the server's own threads look up least."""
            return min((lookups(lambda: post(path, body)) for _ in range(4)), key=lambda made: made.reads)

        answer = post("query", {"sql": SQL, "rho": 0.1})["id"]
        post("prepare", {"answer": answer, "rho": 0.5})
        asked = {"answer": answer, "weights": WEIGHTS}
        check_at_most(least("query", {"sql": SQL, "rho": 0.1}), Lookups(7, 0, 2))
        check_at_most(least("why", asked), Lookups(10, 0, 5))
        check_at_most(least("explain/preview", asked | {"k": K}), Lookups(11, 0, 4))
        check_at_most(least("explain", asked | {"k": K}), Lookups(16, 4, 8))
        check_at_most(least("prepare", {"answer": answer, "rho": 0.5}), Lookups(11, 4, 5))

        unmeasured = post("why", asked)["shaped_by"]
        post("quality", {"rho": 0.5})
        assert post("why", asked)["shaped_by"] != unmeasured, "the next request reads the quality"
        check_at_most(least("why", asked), Lookups(11, 0, 6))
        check_at_most(least("explain", asked | {"k": K}), Lookups(17, 4, 9))


def test_the_kept_preparation_is_read_again_only_if_a_more_precise_one_is_stored(
    session: dpx.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    from_json = PreparedRelease.from_json

    def counted(text: str) -> PreparedRelease:
        read.append(text)
        return from_json(text)

    answer_of(why(session)).prepare(rho=0.2)
    monkeypatch.setattr(PreparedRelease, "from_json", staticmethod(counted))
    question = why(session)
    tables = [question.explain(K), question.explain(2, attributes=["sex"])]
    assert len(read) == 1
    answer_of(question).prepare(rho=0.8)
    read.clear()
    better = question.explain(K)
    assert len(read) == 1
    assert [table.rho for table in tables] == [0.2, 0.2]
    assert better.rho == 0.8


def test_auto_plans_no_other_mechanism_if_the_answer_is_prepared(
    session: dpx.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = why(session)
    answer_of(question).prepare(rho=0.5)

    def not_chosen(*_terms: object) -> None:
        raise AssertionError("planned a mechanism that is not chosen")

    for other in ("plan_one_shot", "plan_vector"):
        monkeypatch.setattr(explain, other, not_chosen)
    assert question.explain(K).plan.reason == "prepared before"


# -- What was found is not shown after the data changed ----------------------------------------------------

ONE_SHOT = ExplanationOptions(k=K, rho=0.2, mechanism="one-shot")
Plan = Callable[[dpx.Session], Planned[Any, Any] | PlannedExplanation | PlannedStory]
PLANNED: dict[str, Plan] = {
    "query": lambda session: session.plan(SQL, 0.1),
    "quality": lambda session: session.plan_quality(0.1),
    "tune": lambda session: session.plan_tuning(0.1),
    "prepare": lambda session: answer_of(why(session)).plan_prepare(0.5, FamilyChoice()),
    "explain by one-shot": lambda session: why(session).plan_explain(ONE_SHOT),
    "explain what is prepared": lambda session: why(session).plan_explain(ExplanationOptions(k=K)),
    "story of what is prepared": lambda session: why(session).plan_story(FamilyChoice(), levels=1),
}


def buy_all(session: dpx.Session) -> None:
    session.query(SQL, rho=0.1)
    for plan in PLANNED.values():
        plan(session).run()


@pytest.mark.parametrize("name", PLANNED)
def test_what_was_found_is_not_shown_once_the_data_are_replaced(
    name: str, session: dpx.Session, folder: Path
) -> None:
    buy_all(session)
    planned = PLANNED[name](session)
    assert planned.preview().price.free
    write_people(folder, rows=3003)
    with pytest.raises(DataChanged):
        planned.run()


@pytest.mark.parametrize("name", [name for name in PLANNED if not name.startswith("story")])
def test_a_preview_notices_that_the_data_are_replaced_after_it_found_the_release(
    name: str, session: dpx.Session, folder: Path
) -> None:
    buy_all(session)
    planned = PLANNED[name](session)
    planned.preview()
    write_people(folder, rows=3003)
    with pytest.raises(DataChanged):
        planned.preview()


@pytest.mark.parametrize("name", ["query", "quality", "tune", "prepare", "explain by one-shot"])
def test_a_release_that_is_stored_after_the_preview_is_free(
    name: str, session: dpx.Session, connect: Callable[[], dpx.Session]
) -> None:
    why(session)
    planned = PLANNED[name](session)
    if name != "query":
        assert not planned.preview().price.free
    with connect() as other:
        PLANNED[name](other).run()
        spent = other.budget.spent
    assert planned.run().free
    assert planned.preview().price.free
    assert session.budget.spent == spent
