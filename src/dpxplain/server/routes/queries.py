"""Phases 1 and 2: what is declared, prices, answers, and whether a difference is real."""

from __future__ import annotations

from typing import Any

from anyio.to_thread import run_sync
from fastapi import APIRouter
from starlette.responses import JSONResponse, Response

from dpxplain.results.answer import Answer
from dpxplain.results.answers import Answers
from dpxplain.server import catalog, size_limits, translate
from dpxplain.server.authenticate import AnyCaller
from dpxplain.server.bodies import Ask, ChartQuery, ConfidenceQuery, EntryId, Why
from dpxplain.server.caller_session import NotStored
from dpxplain.server.context import AccessDep, ServerDep
from dpxplain.server.openapi import answers
from dpxplain.server.problems import not_found
from dpxplain.server.response_shapes import DatasetPayload, Datasets, ReleasePayload
from dpxplain.session import Session
from dpxplain.sql.parse import parse
from dpxplain.wire.payloads import budget_payload, history_payload, history_records, preview_payload
from dpxplain.wire.query_form import query_form
from dpxplain.wire.shapes import (
    AnswerPayload,
    BudgetPayload,
    HistoryPayload,
    PreviewPayload,
    QuestionPayload,
)

router = APIRouter(tags=["Asking"])


@router.get("/datasets", responses=answers(Datasets))
def datasets(caller: AnyCaller, server: ServerDep) -> Any:
    """Every data set, with your budget on it."""
    account = server.account(caller)
    listed = [catalog.summary(d.schema, account.budget(d.name)) for d in server.datasets.all]
    return JSONResponse({"datasets": listed})


@router.get("/datasets/{dataset}", responses=answers(DatasetPayload))
def dataset(access: AccessDep) -> Any:
    """What is declared about it, and questions to begin with. All of it is public."""
    return JSONResponse(catalog.details(access.dataset.schema, access.account.budget(access.name)))


@router.get("/datasets/{dataset}/budget", responses=answers(BudgetPayload))
def budget(access: AccessDep) -> Any:
    """What you may spend, have spent and have left."""
    return JSONResponse(budget_payload(access.account.budget(access.name)))


@router.post("/datasets/{dataset}/preview", responses=answers(PreviewPayload))
def preview(access: AccessDep, body: Ask) -> Any:
    """What a query would cost and how noisy its answer would be. Spends nothing."""
    session, schema = access.read_only_session(), access.dataset.schema
    payload = preview_payload(size_limits.priced_query(session, body, access.server.sizes))
    return JSONResponse(payload | {"form": query_form(parse(body.sql, schema), schema)})


@router.post("/datasets/{dataset}/query", responses=answers(AnswerPayload, "The answer.", 409, 500, 503))
async def query(access: AccessDep, body: Ask) -> Any:
    """Phase 1: a noisy answer for every declared group, for rho. Asking the identical thing again is free."""

    def answered(session: Session) -> Any:
        answer = session.query(body.sql, body.rho, confidence=body.confidence)
        return translate.show_answer(session, answer, access.place, body.chart_width)

    schema = access.dataset.schema

    def stored() -> Response | None:
        """In one visit to another thread, each of which waits for whoever computes."""
        if size_limits.group_count(schema, body.sql) > size_limits.MANY_GROUPS:
            return None
        return JSONResponse(answered(access.read_only_session()))

    try:
        shown = await run_sync(stored)  # what is stored does not wait for passes
        return shown or await access.plan(lambda: JSONResponse(answered(access.read_only_session())))
    except NotStored:
        size_limits.check_query(schema, body.sql, access.server.sizes)
    return await access.measure(lambda task: JSONResponse(answered(access.measuring_session(task))))


@router.get("/datasets/{dataset}/answers/{entry}", responses=answers(AnswerPayload, "The answer.", 503))
async def answer(
    access: AccessDep, entry: EntryId, confidence: ConfidenceQuery = 0.95, chart_width: ChartQuery = None
) -> Any:
    """A stored answer, at any confidence. Free."""
    session = access.read_only_session()

    def show(stored: Answer | Answers) -> Response:
        return JSONResponse(translate.show_answer(session, stored, access.place, chart_width))

    def found() -> Response | Answer | Answers:
        """Rendered at once, unless its many groups would keep others waiting."""
        stored = translate.stored_answer(session, entry, confidence)
        return stored if stored.groups.size > size_limits.MANY_GROUPS else show(stored)

    shown = await run_sync(found)
    if isinstance(shown, Response):
        return shown
    return await access.plan(lambda: show(shown))


@router.post("/datasets/{dataset}/why", responses=answers(QuestionPayload))
def why(access: AccessDep, body: Why) -> Any:
    """Phase 2: is the difference real, or privacy noise? Free."""
    question = translate.question_of(access.read_only_session(), body)
    return JSONResponse(translate.show_question(question, body.chart_width))


@router.get("/datasets/{dataset}/history", responses=answers(HistoryPayload))
def history(access: AccessDep) -> Any:
    """What you asked so far, and what others share with you, each with its price."""
    return JSONResponse(history_payload(access.account.history(access.name)))


@router.get("/datasets/{dataset}/releases/{entry}", responses=answers(ReleasePayload))
def release(access: AccessDep, entry: EntryId) -> Any:
    """A release as it was stored."""
    found = access.account.get(access.name, entry)
    if found is None:
        raise not_found("release")
    return JSONResponse({"entry": history_records([found[0]])[0], "release": found[1]})
