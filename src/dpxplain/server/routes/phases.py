"""Phases 1 to 3 and the quality of a data set: what is declared, prices, answers, verdicts and explanations.

Each kind of release has one record. A route shows the price of a kind (`price_response`), or measures it
while the client waits (`result_response`). Preparations and explanations take longer, so they are jobs. A
story has no release of its own, but reads a preparation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

from anyio.to_thread import run_sync
from fastapi import APIRouter, Depends, Request
from starlette.responses import HTMLResponse, Response

from dpxplain.errors import BadRequest, DataChanged
from dpxplain.ledger.protocol import Job
from dpxplain.model.charge import Entry, EntryId, HistoryPage, ReadPage
from dpxplain.phases.prepare import preparation_subject
from dpxplain.results.answer import Answer
from dpxplain.results.answers import Answers, PlannedQuery, level_of, query_margin
from dpxplain.results.explanation import PlannedExplanation, PlannedStory
from dpxplain.results.preview import PlannedPreparation
from dpxplain.results.quality import PlannedDiscovery, PlannedQuality, bought_quality
from dpxplain.server import limits, records, requests
from dpxplain.server.authenticate import PREFIX, AnyCaller
from dpxplain.server.context import AccessDep, DatasetAccess, ServerDep, access_of
from dpxplain.server.limits import Sizes
from dpxplain.server.pool import FINISHED, Task
from dpxplain.server.problems import lost, not_found, other_plan, stopping
from dpxplain.server.records import (
    BoughtQuality,
    ClientRelease,
    DatasetPayload,
    Datasets,
    JobLine,
    JobList,
    JobPayload,
    OwnBudget,
    PreparationsOfQuery,
    PricedPreview,
    RecordResponse,
    ReleasePayload,
    answers,
    failures,
)
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
    Explain,
    FindQuery,
    Form,
    JobId,
    KeyQuery,
    KindQuery,
    MeasureQuality,
    PageSize,
    Payload,
    PopulationQuery,
    Prepare,
    PreviewExplanation,
    PreviewQuery,
    PreviewStory,
    Report,
    SubjectQuery,
    TellStory,
    Wait,
    Why,
)
from dpxplain.wire.payloads import (
    AnswerColumns,
    StoryPayload,
    prepared_payload,
    preview_payload,
    quality_payload,
)
from dpxplain.wire.shapes import (
    AnswerPayload,
    DiscoveryPayload,
    HistoryPayload,
    PreviewPayload,
    QualityPayload,
    QuestionPayload,
    budget_payload,
    discovery_payload,
    history_line,
    history_payload,
    query_form,
)
from dpxplain.words.prices import Price

# -- Kinds of release ------------------------------------------------------------------------------------

PlanAt = Callable[[float], Any]  # the plan of a request at another ρ
# The fields of a body that give the price or follow from it.
_PRICE_FIELDS = ("rho", "epsilon", "relative", "ranks", "precision", "expected_key")


@dataclass(frozen=True)
class ReleaseKind:
    """How the server plans, prices and shows a kind of release, which has its own body, plan and result."""

    name: str
    """As in the address of its route, and as the kind of its jobs."""
    plan: Callable[[DatasetAccess, Any], Any]
    """The plan of a body. Raises if the request is wrong."""
    show: Callable[[DatasetAccess, Any, Any, str], Mapping[str, Any]]
    """The payload of a body's result. The last argument is the form, "shown" or, for a query, "columns"."""
    price: Callable[[Any, Sizes], Any] = lambda planned, _sizes: planned.preview()
    """The preview of a plan. Raises if the plan is too large for this server."""
    check_unstored: Callable[[Any, Sizes], None] = lambda _planned, _sizes: None
    """Raises if the plan, whose result is not stored, is too large to measure. Jobs use `price` instead."""
    margin: Callable[[Any, Any], str] | None = None
    """How far off a plan's result may be, in words. A kind that has it compares prices in its previews."""
    hints: Callable[[PlanAt, Any, Any], tuple[str, str]] = lambda _plan_at, _body, _planned: ("", "")
    """What can be learnt at the price, and a warning if that is little; from a body and its plan."""


async def price_response(kind: ReleaseKind, access: DatasetAccess, body: Any) -> Response:
    """The price and precision of a request. Spends nothing."""

    def price() -> Response:
        with access.dataset.keep_families_if_accepted(access.caller.name):
            planned = kind.plan(access, body)
            priced = kind.price(planned, access.server.sizes)
            payload: Payload = {**preview_payload(priced)}
            if kind is QUERY:
                joined = planned.schema.joined
                payload["form"] = None if joined else query_form(planned.statement, planned.schema)
            if kind.margin is not None:
                payload |= _price_comparison(kind, access, body, planned, priced.price.rho)
            return RecordResponse(payload)

    return await access.plan(price)


def _price_comparison(
    kind: ReleaseKind, access: DatasetAccess, body: Any, planned: Any, rho: float
) -> Payload:
    """What each price in the body would buy, how well ρ protects, and whether ρ is enough."""
    assert kind.margin is not None

    def plan_at(price: float) -> Any:
        other_price = {name: None for name in _PRICE_FIELDS if name in type(body).model_fields} | {
            "rho": price
        }
        return kind.plan(access, body.model_copy(update=other_price))

    plans = [(plan, plan.preview()) for plan in map(plan_at, body.prices)]
    tells, doubt = kind.hints(plan_at, body, planned)
    return {
        "levels": [level_of(preview.price, kind.margin(plan, preview)) for plan, preview in plans],
        "protection": records.protections(rho, access.account.budget(access.name)),
        "tells": tells,
        "doubt": doubt,
    }


async def result_response(kind: ReleaseKind, access: DatasetAccess, body: object, form: str) -> Response:
    """The stored result of a request, or else a result that is measured now."""

    def show(result: Any) -> Response:
        return RecordResponse(payload_of(kind, access, body, result, form))

    def find_stored() -> tuple[Any, Response | None]:
        planned = kind.plan(access, body)
        stored = planned.find()
        if stored is None:
            kind.check_unstored(planned, access.server.sizes)
        return planned, None if stored is None else show(stored)

    planned, response = await access.plan(find_stored)
    if response is not None:
        return response
    return await access.measure(lambda task: show(planned.run(access.measuring_dataset(task))))


def payload_of(kind: ReleaseKind, access: DatasetAccess, body: object, result: Any, form: str) -> Payload:
    """A result as the page shows it, or as the stored release for a remote client."""
    if form != "release":
        return dict(kind.show(access, body, result, form))
    release = requests.show_release(result)
    if kind is QUERY:
        release["preparations"] = preparations_of(access, result)
    return release


def check_same_plan(body: Ask | MeasureQuality | Discover | Prepare | Explain, key: str) -> None:
    """Raises if the client expects another key for the request than the server has planned."""
    if body.expected_key not in (None, key):
        raise other_plan()


# -- Queries ---------------------------------------------------------------------------------------------


def _plan_query(access: DatasetAccess, body: Ask) -> PlannedQuery:
    planned = access.read_only_session().plan(
        body.sql, body.rho, epsilon=body.epsilon, confidence=body.confidence, population=body.population
    )
    check_same_plan(body, planned.key)
    return planned


def _show_answer(access: DatasetAccess, body: Ask, answer: Answer | Answers, form: str) -> Payload:
    session = access.read_only_session()
    return requests.show_answer(session, answer, access.place, body.chart_width, form=form)


def preparations_of(access: DatasetAccess, answer: Answer | Answers) -> list[PreparationsOfQuery]:
    """The preparations of each aggregate, so that the client need not ask for them."""
    parts = answer.answers if isinstance(answer, Answers) else (answer,)
    dataset = access.read_only_dataset.joining(answer.schema.joined)
    subjects = [preparation_subject(part.statement.query, dataset) for part in parts]
    return [
        PreparationsOfQuery(
            subject=subject, entries=list(map(history_line, access.ledger.preparations(access.name, subject)))
        )
        for subject in subjects
    ]


QUERY = ReleaseKind(
    "query",
    plan=_plan_query,
    show=_show_answer,
    price=limits.price_query,
    check_unstored=limits.check_query,
    margin=query_margin,
    hints=lambda plan_at, _body, planned: records.query_hints(plan_at, planned.plan.rho),
)


# -- Data quality and discoveries ------------------------------------------------------------------------


def _plan_quality(access: DatasetAccess, body: MeasureQuality) -> PlannedQuality:
    planned = access.read_only_session().plan_quality(
        body.rho, epsilon=body.epsilon, confidence=body.confidence
    )
    check_same_plan(body, planned.plan.key(access.dataset))
    return planned


QUALITY = ReleaseKind(
    "quality",
    plan=_plan_quality,
    show=lambda access, _body, quality, _form: quality_payload(quality, access.account.budget(access.name)),
)


def _plan_discovery(access: DatasetAccess, body: Discover) -> PlannedDiscovery:
    planned = access.read_only_session().plan_discovery(
        body.column, body.rho, epsilon=body.epsilon, delta=body.delta
    )
    check_same_plan(body, planned.key)
    if planned.find() is None:
        planned.check(only_share=not access.caller.is_curator)
    return planned


DISCOVERY = ReleaseKind(
    "discover",
    plan=_plan_discovery,
    show=lambda access, _body, discovery, _form: discovery_payload(
        discovery, access.account.budget(access.name)
    ),
)


# -- Preparations, explanations and stories --------------------------------------------------------------


PREPARATION = ReleaseKind(
    "prepare",
    plan=lambda access, body: requests.plan_preparation(access.read_only_session(), body),
    show=lambda access, _body, prepared, _form: prepared_payload(
        prepared, prepared.answer, access.account.budget(access.name)
    ),
    price=limits.price_preparation,
)


def _explanation_hints(
    plan_at: PlanAt, body: PreviewExplanation, planned: PlannedExplanation
) -> tuple[str, str]:
    rho = body.rho if body.epsilon is None else planned.plan.terms.rho
    return "", "" if rho is None else records.explanation_doubt(plan_at, rho)


EXPLANATION = ReleaseKind(
    "explain",
    plan=lambda access, body: requests.plan_explanation(access.read_only_session(), body),
    show=lambda access, body, table, _form: requests.show_explanation(
        access.read_only_session(), table, access.place, body.chart_width
    ),
    price=limits.price_explanation,
    margin=lambda _planned, preview: records.explanation_margin(preview),
    hints=_explanation_hints,
)


def _story_hints(plan_at: PlanAt, _body: object, planned: PlannedStory) -> tuple[str, str]:
    preparation = planned.plan.preparation
    return "", "" if preparation is None else records.story_doubt(plan_at, preparation.rho)


STORY = ReleaseKind(
    "story",
    plan=lambda access, body: requests.plan_story(access.read_only_session(), body),
    show=lambda access, body, story, _form: requests.show_story(
        access.read_only_session(), story, body.chart_width
    ),
    price=limits.price_story,
    margin=lambda _planned, preview: records.story_margin(preview),
    hints=_story_hints,
)


# -- Asking ----------------------------------------------------------------------------------------------

asking = APIRouter(tags=["Asking"], prefix=PREFIX)
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


@asking.get("/datasets", responses=answers(Datasets))
def datasets(caller: AnyCaller, server: ServerDep) -> Any:
    """Every data set, with your budget on it."""
    return RecordResponse({"datasets": server.summaries(caller)})


@asking.get("/datasets/{dataset}", responses=answers(DatasetPayload))
def dataset(access: AccessDep) -> Any:
    """The declarations of a data set, and questions to begin with. All of it is public."""
    role: Literal["analyst", "curator"] = "curator" if access.caller.is_curator else "analyst"
    details = records.details(access.dataset.schema, access.account.budget(access.name), role)
    details["failures"] = access.failure_count()
    details["lost"] = access.lost_requests()
    with suppress(DataChanged):  # the declarations are shown anyway
        latest = _latest_release(access, "quality")
        details["quality"] = None if latest is None else _release_payload(*latest)
    return RecordResponse(details)


@asking.get("/datasets/{dataset}/budget", responses=answers(OwnBudget))
def budget(access: AccessDep) -> Any:
    """What you may spend, have spent and have left, and what became of your request for more."""
    request = access.server.ledger.analysts.newest_request(
        access.name, access.caller.logged_name, access.server.config.analysts.default_rho
    )
    figures = budget_payload(access.account.budget(access.name))
    return RecordResponse(OwnBudget(**figures, request=request))


@asking.post("/datasets/{dataset}/preview", responses=answers(PricedPreview, "Price.", 409, 503))
async def preview(access: AccessDep, body: PreviewQuery) -> Any:
    """What a query would cost and how noisy its answer would be. Spends nothing."""
    return await price_response(QUERY, access, body)


@asking.post("/datasets/{dataset}/query", responses=_ANSWER)
async def query(access: AccessDep, body: Ask, form: AskForm = "shown") -> Any:
    """Phase 1: a noisy answer for every declared group, for rho. Repeating the request is free."""
    return await result_response(QUERY, access, body, form)


@asking.get("/datasets/{dataset}/answers/{entry}", responses=_STORED_ANSWER)
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


@asking.post("/datasets/{dataset}/why", responses=answers(QuestionPayload, "The verdict.", 409, 503))
async def why(access: AccessDep, body: Why) -> Any:
    """Phase 2: is the difference real, or privacy noise? Free."""

    def verdict() -> Response:
        question = requests.question_of(access.read_only_session(), body)
        return RecordResponse(requests.show_question(question, body.chart_width))

    return await access.plan(verdict)


@asking.get("/datasets/{dataset}/history", responses=answers(HistoryPayload, "A page.", 503))
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


@asking.get(
    "/datasets/{dataset}/releases/{entry}", responses=answers(ReleasePayload, "The stored result.", 409, 503)
)
async def release(access: AccessDep, entry: EntryNumber) -> Any:
    """A release as it was stored."""
    return await access.plan(lambda: _release_response(access, access.ledger.get(access.name, entry)))


@asking.get("/datasets/{dataset}/releases", responses=_RELEASE)
async def find_release(access: AccessDep, key: KeyQuery = None, kind: KindQuery = None) -> Any:
    """The release of a request by its key, or the latest one of a kind."""

    def find() -> Response:
        if key is not None:
            stored = access.ledger.find(access.name, key)
        else:
            stored = None if kind is None else _latest_release(access, kind)
        return _release_response(access, stored)

    return await access.plan(find)


@asking.get("/datasets/{dataset}/preparations", responses=answers(HistoryPayload, "Its entries.", 409))
def preparations(access: AccessDep, subject: SubjectQuery) -> Any:
    """The preparations of one query."""
    entries = access.ledger.preparations(access.name, subject)
    return RecordResponse(history_payload(HistoryPage(entries, None)))


def _latest_release(access: DatasetAccess, kind: str) -> tuple[Entry, str] | None:
    latest = access.ledger.latest(access.name, kind)
    return None if latest is None else access.ledger.get(access.name, latest.id)


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


@asking.post("/datasets/{dataset}/quality/preview", responses=answers(PreviewPayload, "Price.", 409, 503))
async def preview_quality(access: AccessDep, body: MeasureQuality) -> Any:
    """What measuring the quality would cost and how noisy its counts would be. Spends nothing."""
    return await price_response(QUALITY, access, body)


@asking.get("/datasets/{dataset}/quality", responses=answers(BoughtQuality, "The shares, or null.", 409, 503))
async def stored_quality(access: AccessDep, confidence: ConfidenceQuery = 0.95) -> Any:
    """The data quality that you measured last under the present schema, or null. Free."""

    def read() -> Response:
        measured = bought_quality(access.read_only_dataset, confidence)
        budget = access.account.budget(access.name)
        return RecordResponse({"quality": None if measured is None else quality_payload(measured, budget)})

    return await access.plan(read)


@asking.post("/datasets/{dataset}/quality", responses=_QUALITY)
async def quality(access: AccessDep, body: MeasureQuality, form: Form = "shown") -> Any:
    """Private shares of rows that are capped or left out, for rho. Repeating the request is free."""
    return await result_response(QUALITY, access, body, form)


@asking.post("/datasets/{dataset}/discover/preview", responses=answers(PreviewPayload, "Price.", 409, 503))
async def preview_discover(access: AccessDep, body: Discover) -> Any:
    """What discovering a column's values would cost, and how many units a value needs. Spends nothing."""
    return await price_response(DISCOVERY, access, body)


@asking.post("/datasets/{dataset}/discover", responses=_DISCOVERY)
async def discover(access: AccessDep, body: Discover, form: Form = "shown") -> Any:
    """The values of a column that enough privacy units have, for rho and δ. Then anybody can query it."""
    return await result_response(DISCOVERY, access, body, form)


# -- History search --------------------------------------------------------------------------------------
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


# -- Explaining ------------------------------------------------------------------------------------------
#
# Preparing and explaining are jobs.

explaining = APIRouter(tags=["Explaining"], prefix=PREFIX)
PlannedJob = PlannedPreparation | PlannedExplanation
_JOB_KINDS = {kind.name: kind for kind in (PREPARATION, EXPLANATION)}
_UNFINISHED: Any = {202: {"model": JobPayload, "description": "Not finished yet. Ask for the job again."}}
_JOB: Any = {**answers(JobPayload, "Ended.", 409, 500, 503), **_UNFINISHED}


@explaining.post("/datasets/{dataset}/prepare/preview", responses=answers(PreviewPayload, "Price.", 409, 503))
async def preview_prepare(access: AccessDep, body: Prepare) -> Any:
    """What preparing an answer would cost. Spends nothing."""
    return await price_response(PREPARATION, access, body)


@explaining.post("/datasets/{dataset}/prepare", responses=_JOB)
async def prepare(access: AccessDep, body: Prepare, wait: Wait = 0.0, form: Form = "shown") -> Any:
    """Spend rho once; then every explanation of this answer is free."""
    return await _start_job(PREPARATION, access, body, wait, form)


@explaining.post("/datasets/{dataset}/explain/preview", responses=answers(PricedPreview, "Price.", 409, 503))
async def preview_explain(access: AccessDep, body: PreviewExplanation) -> Any:
    """What an explanation would cost and how precise it would be. Spends nothing."""
    return await price_response(EXPLANATION, access, body)


@explaining.post("/datasets/{dataset}/explain", responses=_JOB)
async def explain(access: AccessDep, body: Explain, wait: Wait = 0.0, form: Form = "shown") -> Any:
    """Phase 3: the k conditions that matter most. Free without rho, if the answer is prepared."""
    return await _start_job(EXPLANATION, access, body, wait, form)


@explaining.post("/datasets/{dataset}/story/preview", responses=answers(PricedPreview, "Price.", 409, 503))
async def preview_story(access: AccessDep, body: PreviewStory) -> Any:
    """What a story would cost as a whole, and how precise it would be. Spends nothing: what is shown is paid
    for by `prepare`, with nested conjunctions of as many conditions as the story has levels (usually 2)."""
    return await price_response(STORY, access, body)


@explaining.post("/datasets/{dataset}/story", responses=answers(StoryPayload, "The story.", 409, 503))
async def story(access: AccessDep, body: TellStory) -> Any:
    """Breaks a gap down step by step. Free, if the answer is prepared for it."""

    def tell() -> Response:
        with access.dataset.keep_families_if_accepted(access.caller.name):
            story = STORY.plan(access, body).run()
            return RecordResponse(payload_of(STORY, access, body, story, "shown"))

    return await access.plan(tell)


@explaining.post(
    "/datasets/{dataset}/report",
    responses={200: {"content": {"text/html": {"schema": {"type": "string"}}}}, **failures(409, 503)},
    response_class=HTMLResponse,
)
async def report(access: AccessDep, body: Report) -> Response:
    """One HTML file with the answer, question, explanation and, if requested, story. Free."""
    # The report brings its own, stricter policy for its inline style.
    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; sandbox"
    headers = {
        "Content-Security-Policy": policy,
        "Content-Disposition": 'attachment; filename="dpxplain-report.html"',
    }

    def write() -> str:
        with access.dataset.keep_families_if_accepted(access.caller.name):
            return requests.stored_report(access.read_only_session(), body)

    return HTMLResponse(await access.plan(write), headers=headers)


def _own_job(server: ServerDep, caller: AnyCaller, job: JobId) -> Job:
    """The caller's job. Returns 404 for another caller's job."""
    stored_job = server.jobs.get(job)
    if stored_job.owner != caller.name:
        raise not_found("job")
    return stored_job


OwnJob = Annotated[Job, Depends(_own_job)]


@explaining.get("/datasets/{dataset}/jobs", responses=answers(JobList, "Your jobs.", 503))
async def jobs(access: AccessDep) -> Any:
    """Your jobs on a data set in the last day, running and finished, the newest first."""
    server = access.server

    def line(job: Job) -> JobLine:
        return JobLine(**vars(job) | {"stage": server.jobs.stage(job)})

    def listed() -> Response:
        own_jobs = server.ledger.jobs.of_owner(access.caller.name, access.name)
        return RecordResponse(JobList(jobs=[line(job) for job in own_jobs]))

    return await access.plan(listed)  # in the planning pool, because requests may be long


@explaining.get("/jobs/{job}", responses={**answers(JobPayload, "Ended.", 409, 503), **_UNFINISHED})
async def job(
    request: Request,
    server: ServerDep,
    caller: AnyCaller,
    job: OwnJob,
    wait: Wait = 0.0,
    form: Form = "shown",
) -> Any:
    """The state of a job, with its result once it is done."""
    if wait and job.state not in FINISHED:
        await server.jobs.wait(job.id, wait)
    access = await run_sync(access_of, request, server, caller, job.dataset)
    return await _job_response(access, job.id, form)


@explaining.delete("/jobs/{job}", responses={**answers(JobPayload, "Ended.", 409, 503), **_UNFINISHED})
async def cancel(request: Request, server: ServerDep, caller: AnyCaller, job: OwnJob) -> Any:
    """Ask a job to stop. If it was already charged, the charge stays."""
    await run_sync(server.jobs.cancel, job.id)
    await server.jobs.wait(job.id, 1.0)
    access = await run_sync(access_of, request, server, caller, job.dataset)
    return await _job_response(access, job.id, "shown")


async def _start_job(
    kind: ReleaseKind, access: DatasetAccess, body: Prepare | Explain, wait: float, form: Form
) -> Response:
    """Plans and starts a job. A request that the plan refuses never becomes a job."""
    jobs = access.server.jobs
    planned = await access.plan(lambda: _plan_affordable(kind, access, body))

    def work(task: Task) -> requests.Payload:
        result = planned.run(access.measuring_dataset(task))
        return payload_of(kind, access, body, result, form)

    # In ρ, because the same ε could be another ρ after the declared δ changes.
    priced = body.model_copy(update={"rho": _asked_rho(body, planned)})
    request = priced.model_dump(mode="json", by_alias=True, exclude={"epsilon"})
    id = await run_sync(jobs.start, access.name, access.caller.name, kind.name, request, work)
    if wait:
        await jobs.wait(id, wait)
        local = jobs.local(id)
        if local is not None and local.problem is not None and local.task.entry is None:
            raise local.problem  # nothing was charged: a refusal like any other
    return await _job_response(access, id, form)


def _asked_rho(body: Prepare | Explain, planned: PlannedJob) -> float | None:
    """The requested price in ρ; None if an explanation is computed from a preparation."""
    if body.epsilon is None:
        return body.rho
    return planned.plan.rho if isinstance(planned, PlannedPreparation) else planned.plan.terms.rho


def _plan(kind: ReleaseKind, access: DatasetAccess, body: Prepare | Explain) -> tuple[PlannedJob, Price]:
    """The plan and its price. Raises if the request is wrong or too large."""
    with access.dataset.keep_families_if_accepted(access.caller.name):
        planned = kind.plan(access, body)
        return planned, kind.price(planned, access.server.sizes).price


def _plan_affordable(kind: ReleaseKind, access: DatasetAccess, body: Prepare | Explain) -> PlannedJob:
    planned, price = _plan(kind, access, body)
    check_same_plan(body, planned.key)
    if not price.free and price.rho > 0:
        access.account.check_affordable(access.name, price.rho, planned.key)
    return planned


async def _job_response(access: DatasetAccess, id: str, form: Form) -> Response:
    """The job's state, and its result from this process's memory or from the stored release."""
    jobs = access.server.jobs
    job = await run_sync(jobs.get, id)
    local, entry, state, error = jobs.local(id), None, job.state, job.error
    if job.entry is not None and (local is None or state == "lost"):
        entry = await run_sync(access.account.at_row, access.name, job.entry)
    charge = local.task.charged_rho if local is not None else 0.0 if entry is None else entry.rho
    if state == "lost":
        release = None if entry is None else await run_sync(access.ledger.get, access.name, entry.id)
        # Its process may have stored the release and ended before it could store the job's state.
        state, error = ("done", None) if release is not None else ("lost", lost().shape)
    result: requests.Payload | None = None
    if state == "done":
        await run_sync(access.dataset.check_data)
        if local is not None and _has_form(local.result, form):
            result = local.result
        else:
            result = await _stored_result(access, job, charge, form)
    payload = {
        "id": id,
        "kind": job.kind,
        "dataset": job.dataset,
        "state": state,
        "stage": jobs.stage(job),
        "rho": charge,
        "stopping": "" if state in FINISHED else stopping(charge, await run_sync(access.failure_count)),
        "result": result,
        "error": error,
    }
    return RecordResponse(payload, 200 if state in FINISHED else 202)


def _has_form(result: Mapping[str, Any] | None, form: Form) -> bool:
    return result is not None and ("release" in result) == (form == "release")


async def _stored_result(access: DatasetAccess, job: Job, charge: float, form: Form) -> requests.Payload:
    """A finished job's result, rebuilt from the stored release. Free."""
    kind = _JOB_KINDS[job.kind]
    body: Prepare | Explain = (Prepare if kind is PREPARATION else Explain).model_validate(job.request)

    def work() -> requests.Payload:
        planned, _price = _plan(kind, access, body)
        return payload_of(kind, access, body, planned.run(), form)

    return await access.plan(work) | {"free": charge == 0}


ROUTERS = (asking, explaining)
