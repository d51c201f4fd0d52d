"""Phases 1 and 2 and the quality of a data set: what is declared, prices, answers, and whether a difference
is real.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any, Literal

from fastapi import APIRouter
from starlette.responses import Response

from dpxplain.errors import BadRequest, DataChanged
from dpxplain.model.charge import Entry, EntryId, HistoryPage, ReadPage
from dpxplain.results.quality import bought_quality
from dpxplain.server import records, release_kinds, requests
from dpxplain.server.authenticate import PREFIX, AnyCaller
from dpxplain.server.context import AccessDep, DatasetAccess, ServerDep
from dpxplain.server.openapi import answers
from dpxplain.server.problems import not_found
from dpxplain.server.records import (
    BoughtQuality,
    ClientRelease,
    DatasetPayload,
    Datasets,
    PricedPreview,
    RecordResponse,
    ReleasePayload,
)
from dpxplain.server.release_kinds import DISCOVERY, QUALITY, QUERY, preparations_of
from dpxplain.server.requests import (
    AnswerForm,
    Ask,
    AskForm,
    BeforeEntry,
    ChartOrder,
    ChartOrderOf,
    ChartQuery,
    ConfidenceQuery,
    Discover,
    EntryNumber,
    FindQuery,
    Form,
    KeyQuery,
    KindQuery,
    MeasureQuality,
    PageSize,
    PopulationQuery,
    PreviewQuery,
    SubjectQuery,
    Why,
)
from dpxplain.wire.payloads import AnswerColumns, quality_payload
from dpxplain.wire.shapes import (
    AnswerPayload,
    BudgetPayload,
    DiscoveryPayload,
    HistoryPayload,
    PreviewPayload,
    QualityPayload,
    QuestionPayload,
    budget_payload,
    history_line,
    history_payload,
)

# -- Routes ------------------------------------------------------------------------------------------------

router = APIRouter(tags=["Asking"], prefix=PREFIX)
_ANSWER: Any = answers(
    AnswerPayload | AnswerColumns | ClientRelease, "The answer, or the stored result alone.", 409, 500, 503
)
_STORED_ANSWER: Any = answers(AnswerPayload | AnswerColumns, "The answer.", 409, 503)
_RELEASE: Any = answers(ReleasePayload, "The stored result.", 409, 503)
_QUALITY: Any = answers(
    QualityPayload | ClientRelease, "The shares, or the stored result alone.", 409, 500, 503
)
_DISCOVERY: Any = answers(
    DiscoveryPayload | ClientRelease, "The values, or the stored result alone.", 409, 500, 503
)


@router.get("/datasets", responses=answers(Datasets))
def datasets(caller: AnyCaller, server: ServerDep) -> Any:
    """Every data set, with your budget on it."""
    account = server.account(caller)
    summaries = [records.summary(d.schema, account.budget(d.name)) for d in server.datasets.all]
    for file in server.datasets.unavailable:
        if file.schema is not None:
            budget = account.budget(file.name)
            summaries.append(records.summary(file.schema, budget, available=False))
    return RecordResponse({"datasets": sorted(summaries, key=lambda summary: summary["name"])})


@router.get("/datasets/{dataset}", responses=answers(DatasetPayload))
def dataset(access: AccessDep) -> Any:
    """The declarations of a data set, and questions to begin with. All of it is public."""
    role: Literal["analyst", "curator"] = "curator" if access.caller.is_curator else "analyst"
    details = records.details(access.dataset.schema, access.account.budget(access.name), role)
    details["failures"] = access.failure_count()
    with suppress(DataChanged):  # the declarations are shown anyway
        details["quality"] = _latest_release(access, "quality")
    return RecordResponse(details)


@router.get("/datasets/{dataset}/budget", responses=answers(BudgetPayload))
def budget(access: AccessDep) -> Any:
    """What you may spend, have spent and have left."""
    return RecordResponse(budget_payload(access.account.budget(access.name)))


@router.post("/datasets/{dataset}/preview", responses=answers(PricedPreview, "Price.", 409, 503))
async def preview(access: AccessDep, body: PreviewQuery) -> Any:
    """What a query would cost and how noisy its answer would be. Spends nothing."""
    return await release_kinds.preview(QUERY, access, body)


@router.post("/datasets/{dataset}/query", responses=_ANSWER)
async def query(access: AccessDep, body: Ask, form: AskForm = "shown") -> Any:
    """Phase 1: a noisy answer for every declared group, for rho. Repeating the request is free."""
    return await release_kinds.measure(QUERY, access, body, form)


@router.get("/datasets/{dataset}/answers/{entry}", responses=_STORED_ANSWER)
async def answer(
    access: AccessDep,
    entry: EntryNumber,
    confidence: ConfidenceQuery = 0.95,
    population: PopulationQuery = False,
    chart_width: ChartQuery = None,
    chart_order: ChartOrder = "given",
    chart_order_of: ChartOrderOf = None,
    form: AnswerForm = "shown",
) -> Any:
    """A stored answer, at any confidence. Free."""

    def read() -> Response:
        session = access.read_only_session()
        stored = requests.stored_answer(session, entry, confidence, population)
        return RecordResponse(
            requests.show_answer(
                session, stored, access.place, chart_width, chart_order, form, chart_order_of
            )
        )

    return await access.plan(read)


@router.post("/datasets/{dataset}/why", responses=answers(QuestionPayload, "The verdict.", 409, 503))
async def why(access: AccessDep, body: Why) -> Any:
    """Phase 2: is the difference real, or privacy noise? Free."""

    def verdict() -> Response:
        question = requests.question_of(access.read_only_session(), body)
        return RecordResponse(requests.show_question(question, body.chart_width))

    return await access.plan(verdict)


@router.get("/datasets/{dataset}/history", responses=answers(HistoryPayload, "A page.", 503))
async def history(
    access: AccessDep, before: BeforeEntry = None, limit: PageSize = 100, find: FindQuery = ""
) -> Any:
    """What you asked, and what others share with you, each with its price: the newest lines, page by page.

    `older` of a page is the `before` of the one that precedes it. With `find`, a page may be short or
    empty and yet have an `older` one, where the search goes on.
    """

    def page() -> HistoryPage:
        if not find:
            return access.account.history_page(access.name, before, limit)
        return search_history(partial(access.account.history_page, access.name), find, before, limit)

    # In the planning pool, so that a caller who reads many pages takes turns with other callers.
    failures, name = access.server.ledger.failures, access.name
    return await access.plan(
        lambda: RecordResponse(history_payload(page(), failures.cancelled(name), failures.kept(name)))
    )


@router.get(
    "/datasets/{dataset}/releases/{entry}", responses=answers(ReleasePayload, "The stored result.", 409, 503)
)
async def release(access: AccessDep, entry: EntryNumber) -> Any:
    """A release as it was stored."""
    return await access.plan(lambda: _release_response(access, access.ledger.get(access.name, entry)))


@router.get("/datasets/{dataset}/releases", responses=_RELEASE)
async def find_release(access: AccessDep, key: KeyQuery = None, kind: KindQuery = None) -> Any:
    """The release of a request by its key, or the latest one of a kind."""

    def find() -> Response:
        ledger = access.ledger
        if key is not None:
            return _release_response(access, ledger.find(access.name, key))
        latest = None if kind is None else ledger.latest(access.name, kind)
        return _release_response(access, None if latest is None else ledger.get(access.name, latest.id))

    return await access.plan(find)


@router.get("/datasets/{dataset}/preparations", responses=answers(HistoryPayload, "Its entries.", 409))
def preparations(access: AccessDep, subject: SubjectQuery) -> Any:
    """The preparations of one query."""
    entries = access.ledger.preparations(access.name, subject)
    return RecordResponse(history_payload(HistoryPage(entries, None)))


def _latest_release(access: DatasetAccess, kind: str) -> ReleasePayload | None:
    latest = access.ledger.latest(access.name, kind)
    stored = None if latest is None else access.ledger.get(access.name, latest.id)
    return None if stored is None else _release_payload(*stored)


def _release_payload(entry: Entry, text: str) -> ReleasePayload:
    return ReleasePayload(entry=history_line(entry), release=text)


def _release_response(access: DatasetAccess, stored: tuple[Entry, str] | None) -> Response:
    """A release; for a query, with its preparations, so that the client need not ask for them."""
    if stored is None:
        raise not_found("release")
    payload = _release_payload(*stored)
    if stored[0].kind == "query":
        with suppress(BadRequest):  # asked under other declarations
            answer = access.read_only_session().find_answer(stored[0].id)
            if answer is not None:
                payload["preparations"] = preparations_of(access, answer)
    return RecordResponse(payload)


@router.post("/datasets/{dataset}/quality/preview", responses=answers(PreviewPayload, "Price.", 409, 503))
async def preview_quality(access: AccessDep, body: MeasureQuality) -> Any:
    """What measuring the quality would cost and how noisy its counts would be. Spends nothing."""
    return await release_kinds.preview(QUALITY, access, body)


@router.get("/datasets/{dataset}/quality", responses=answers(BoughtQuality, "The shares, or null.", 409, 503))
async def stored_quality(access: AccessDep, confidence: ConfidenceQuery = 0.95) -> Any:
    """The data quality that you measured last under the present schema, or null. Free."""

    def read() -> Response:
        measured = bought_quality(access.read_only_dataset(), confidence)
        budget = access.account.budget(access.name)
        return RecordResponse({"quality": None if measured is None else quality_payload(measured, budget)})

    return await access.plan(read)


@router.post("/datasets/{dataset}/quality", responses=_QUALITY)
async def quality(access: AccessDep, body: MeasureQuality, form: Form = "shown") -> Any:
    """Private shares of rows that are capped or left out, for rho. Repeating the request is free."""
    return await release_kinds.measure(QUALITY, access, body, form)


@router.post("/datasets/{dataset}/discover/preview", responses=answers(PreviewPayload, "Price.", 409, 503))
async def preview_discover(access: AccessDep, body: Discover) -> Any:
    """What discovering a column's values would cost, and how many units a value needs. Spends nothing."""
    return await release_kinds.preview(DISCOVERY, access, body)


@router.post("/datasets/{dataset}/discover", responses=_DISCOVERY)
async def discover(access: AccessDep, body: Discover, form: Form = "shown") -> Any:
    """The values of a column that enough privacy units have, for rho and δ. Then anybody can query it."""
    return await release_kinds.measure(DISCOVERY, access, body, form)


# -- History search ----------------------------------------------------------------------------------------
#
# Page by page, because a request reads a limited number of lines.

MOST_LINES = 2_000
"""A request stops after this many lines, whether or not any of them matches."""


def search_history(read: ReadPage, text: str, before: EntryId | None, limit: int) -> HistoryPage:
    """The newest lines below `before` that contain the text, at most `limit`.

    `older` is where the search continues, even if nothing was found so far.
    """
    matches: list[Entry] = []
    position, lines_read = before, 0
    while True:
        page = read(position)
        for entry in reversed(page.entries):
            if not _contains(entry, text.lower()):
                continue
            matches.insert(0, entry)
            if len(matches) == limit:
                return HistoryPage(matches, entry.id)
        lines_read += len(page.entries)
        position = page.older
        if position is None or lines_read >= MOST_LINES:
            return HistoryPage(matches, position)


def _contains(entry: Entry, text: str) -> bool:
    return any(text in part.lower() for part in (entry.description, entry.kind, entry.analyst))
