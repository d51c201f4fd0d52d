"""For curators: true values beside released ones, allowances and shares."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from dpxplain.model.charge import failure_words
from dpxplain.results.base import Truth
from dpxplain.server import requests
from dpxplain.server.authenticate import PREFIX, AnyCaller, Curator
from dpxplain.server.context import AccessDep, DatasetAccess
from dpxplain.server.openapi import Responses, answers, failures
from dpxplain.server.pool import Task
from dpxplain.server.records import AnalystLine, Analysts, BudgetRequests, RecordResponse, Shares, Use
from dpxplain.server.requests import (
    LARGEST_ID,
    AskForBudget,
    ConfidenceQuery,
    EntryNumber,
    Explain,
    Forgive,
    Grant,
    Name,
    ShareBody,
    TopUp,
    WhyTruth,
)
from dpxplain.wire.payloads import truth_payload
from dpxplain.wire.shapes import TruthPayload
from dpxplain.words.audit_sentences import TRUTH_VIEWED

router = APIRouter(tags=["Curating"], prefix=PREFIX)
MOST_ROWS = 10_000
NOT_PRIVATE_HEADERS = {"X-DPXPlain-Private": "false", "Cache-Control": "no-store"}
_TRUTH: Responses = answers(TruthPayload, "True values: not private, never cached.", 409, 503)

RequestId = Annotated[int, Path(ge=1, le=LARGEST_ID, description="The id in the list of requests.")]
ValueQuery = Annotated[
    str | None,
    Query(max_length=2_000, description="One value of the answer, as SQL writes it; leave out for all."),
]
AnalystName = Annotated[Name, Path(description="The analyst's name.")]


@router.get("/datasets/{dataset}/answers/{entry}/truth", responses=_TRUTH)
async def answer_truth(
    access: AccessDep,
    _caller: Curator,
    entry: EntryNumber,
    confidence: ConfidenceQuery = 0.95,
    of: ValueQuery = None,
) -> Any:
    """The true values beside the released ones. Audited."""

    def work(_task: Task) -> Truth:
        session = access.curator_session()
        if of is None:
            answer = requests.stored_answer(session, entry, confidence)
        else:
            answer = requests.stored_part(session, entry, of, confidence)
        _note(access, {"answer": entry})
        return answer.truth()

    return _truth_response(await access.measure(work))


@router.post("/datasets/{dataset}/why/truth", responses=_TRUTH)
async def why_truth(access: AccessDep, _caller: Curator, body: WhyTruth) -> Any:
    """True influence and rank of every condition. Audited."""

    def work(_task: Task) -> Truth:
        session = access.curator_session()
        question = requests.question_of(session, body)
        _note(access, {"answer": body.answer, "question": question.text})
        return question.truth_of(requests.family_choice(body.family, question.answer.schema))

    return _truth_response(await access.measure(work))


@router.post("/datasets/{dataset}/explain/truth", responses=_TRUTH)
async def explain_truth(access: AccessDep, _caller: Curator, body: Explain) -> Any:
    """True influences and ranks beside an explanation that is stored or free. Audited."""

    def work(_task: Task) -> Truth:
        session = access.curator_session()
        table = requests.stored_explanation(session, body)
        _note(access, {"explanation": table.id, "question": table.question.text})
        return table.truth()

    return _truth_response(await access.measure(work))


@router.get("/datasets/{dataset}/analysts", responses=answers(Analysts))
def analysts(access: AccessDep, _caller: Curator) -> Any:
    """What each analyst may spend, and did."""
    return RecordResponse(Analysts(analysts=_allowances(access)))


@router.put("/datasets/{dataset}/analysts/{analyst}", responses=answers(AnalystLine))
def grant(access: AccessDep, caller: Curator, analyst: AnalystName, body: Grant) -> Any:
    """Set what an analyst may spend on the data set in all."""
    access.server.ledger.grant(
        access.name,
        analyst,
        body.rho,
        expires=body.expires,
        reason=body.reason,
        by=access.server.actor(caller),
    )
    return RecordResponse(next(line for line in _allowances(access) if line.analyst == analyst))


@router.post(
    "/datasets/{dataset}/analysts/{analyst}/forgive",
    status_code=204,
    responses=failures(),
    response_class=Response,
)
def forgive(access: AccessDep, caller: Curator, analyst: AnalystName, body: Forgive) -> Response:
    """Unblock an analyst whose charged requests failed too often. The charges stay."""
    access.server.ledger.failures.forgive(
        access.name, analyst, reason=body.reason, by=access.server.actor(caller)
    )
    return Response(status_code=204)


@router.post("/datasets/{dataset}/top-up", responses=answers(Analysts))
def top_up(access: AccessDep, caller: Curator, body: TopUp) -> Any:
    """Add to the data set's limit, or to one analyst's."""
    access.server.ledger.top_up(
        access.name,
        body.rho,
        analyst=body.analyst,
        reason=body.reason,
        by=access.server.actor(caller),
        default_limit=access.server.config.analysts.default_rho,
    )
    return RecordResponse(Analysts(analysts=_allowances(access)))


@router.get("/datasets/{dataset}/use", responses=answers(Use))
def use(access: AccessDep, _caller: Curator) -> Any:
    """What each analyst was charged on each day."""
    return RecordResponse(Use(use=access.server.ledger.analysts.use(access.name)))


@router.post("/datasets/{dataset}/budget/requests", responses=answers(BudgetRequests))
def ask_for_budget(access: AccessDep, caller: AnyCaller, body: AskForBudget) -> Any:
    """Ask the curator for more budget. Returns your waiting requests."""
    name = access.server.actor(caller)
    access.server.ledger.analysts.ask(access.name, name, body.rho, body.reason)
    return RecordResponse(_requests(access, name))


@router.get("/datasets/{dataset}/budget/requests", responses=answers(BudgetRequests))
def budget_requests(access: AccessDep, caller: AnyCaller) -> Any:
    """Waiting requests for more budget: yours or, for a curator, everybody's."""
    return RecordResponse(_requests(access, None if caller.is_curator else access.server.actor(caller)))


@router.post("/datasets/{dataset}/budget/requests/{request}/decline", responses=answers(BudgetRequests))
def decline(access: AccessDep, caller: Curator, request: RequestId, body: Forgive) -> Any:
    """Decline a request; a grant to its analyst answers it too."""
    by = access.server.actor(caller)
    access.server.ledger.analysts.decline(access.name, request, body.reason, by)
    return RecordResponse(_requests(access, None))


@router.get("/datasets/{dataset}/shares", responses=answers(Shares))
def shares(access: AccessDep, _caller: Curator) -> Any:
    """Who may see what others asked."""
    return RecordResponse(_shares(access))


@router.post("/datasets/{dataset}/shares", responses=answers(Shares))
def share(access: AccessDep, caller: Curator, body: ShareBody) -> Any:
    """Let a reader ("*": everyone) see what an analyst asked and will ask."""
    by = access.server.actor(caller)
    access.server.ledger.share(access.name, body.owner, body.reader, reason=body.reason, by=by)
    return RecordResponse(_shares(access))


@router.delete("/datasets/{dataset}/shares", responses={**answers(Shares), **failures()})
def unshare(access: AccessDep, caller: Curator, body: ShareBody) -> Any:
    """Take a share back."""
    by = access.server.actor(caller)
    access.server.ledger.unshare(access.name, body.owner, body.reader, reason=body.reason, by=by)
    return RecordResponse(_shares(access))


def _note(access: DatasetAccess, details: dict[str, Any]) -> None:
    """Records in the audit log what will be looked at. The record holds no true values."""
    access.server.ledger.note(access.server.actor(access.caller), TRUTH_VIEWED, access.name, details)


def _truth_response(truth: Truth) -> Response:
    """True values, at most `MOST_ROWS`, marked as not private."""
    payload = truth_payload(truth)
    if len(payload["rows"]) > MOST_ROWS:
        payload["title"] += f", the first {MOST_ROWS:,}"
        payload["rows"] = payload["rows"][:MOST_ROWS]
    return RecordResponse(payload, headers=NOT_PRIVATE_HEADERS)


def _allowances(access: DatasetAccess) -> list[AnalystLine]:
    default = access.server.config.analysts.default_rho
    limit, lines = access.server.failures, []
    for allowance in access.server.ledger.allowances(access.name, default_limit=default):
        count = limit.counted(access.name, allowance.analyst)
        failures, is_blocked = count.total(), count.total() >= limit.most
        lines.append(
            AnalystLine(**vars(allowance), failures=failures, blocked=is_blocked, why=failure_words(count))
        )
    return lines


def _requests(access: DatasetAccess, analyst: str | None) -> BudgetRequests:
    """Waiting requests of everybody, or of one analyst without ids, which count everybody's requests."""
    waiting = access.server.ledger.analysts.requests(access.name)
    if analyst is None:
        return BudgetRequests(requests=waiting)
    return BudgetRequests(
        requests=[replace(request, id=None) for request in waiting if request.analyst == analyst]
    )


def _shares(access: DatasetAccess) -> Shares:
    return Shares(shares=access.server.ledger.shares(access.name))
