"""Phase 3: preparing and explaining, as jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from anyio.to_thread import run_sync
from fastapi import APIRouter, Depends, Request
from starlette.responses import HTMLResponse, Response

from dpxplain.ledger.protocol import Job
from dpxplain.results.explanation import PlannedExplanation
from dpxplain.results.preview import PlannedPreparation
from dpxplain.server import release_kinds, requests
from dpxplain.server.authenticate import PREFIX, AnyCaller
from dpxplain.server.context import AccessDep, DatasetAccess, ServerDep, access_of
from dpxplain.server.openapi import answers, failures
from dpxplain.server.pool import FINISHED, Task, lost
from dpxplain.server.problems import not_found, stopping
from dpxplain.server.records import JobLine, JobList, JobPayload, PricedPreview, RecordResponse
from dpxplain.server.release_kinds import (
    EXPLANATION,
    PREPARATION,
    STORY,
    ReleaseKind,
    check_same_plan,
    payload_of,
)
from dpxplain.server.requests import (
    Explain,
    Form,
    JobId,
    Prepare,
    PreviewExplanation,
    PreviewStory,
    Report,
    TellStory,
    Wait,
)
from dpxplain.wire.payloads import StoryPayload
from dpxplain.wire.shapes import PreviewPayload
from dpxplain.words.prices import Price

router = APIRouter(tags=["Explaining"], prefix=PREFIX)
Planned = PlannedPreparation | PlannedExplanation
Shown = Literal["shown", "release"]
_KINDS = {kind.name: kind for kind in (PREPARATION, EXPLANATION)}
_GOING_ON: Any = {202: {"model": JobPayload, "description": "Not finished yet. Ask for the job again."}}
_JOB: Any = {**answers(JobPayload, "Ended.", 409, 500, 503), **_GOING_ON}


@router.post("/datasets/{dataset}/prepare/preview", responses=answers(PreviewPayload, "Price.", 409, 503))
async def preview_prepare(access: AccessDep, body: Prepare) -> Any:
    """What preparing an answer would cost. Spends nothing."""
    return await release_kinds.preview(PREPARATION, access, body)


@router.post("/datasets/{dataset}/prepare", responses=_JOB)
async def prepare(access: AccessDep, body: Prepare, wait: Wait = 0.0, form: Form = "shown") -> Any:
    """Spend rho once; then every explanation of this answer is free."""
    return await _start_job(PREPARATION, access, body, wait, form)


@router.post("/datasets/{dataset}/explain/preview", responses=answers(PricedPreview, "Price.", 409, 503))
async def preview_explain(access: AccessDep, body: PreviewExplanation) -> Any:
    """What an explanation would cost and how precise it would be. Spends nothing."""
    return await release_kinds.preview(EXPLANATION, access, body)


@router.post("/datasets/{dataset}/explain", responses=_JOB)
async def explain(access: AccessDep, body: Explain, wait: Wait = 0.0, form: Form = "shown") -> Any:
    """Phase 3: the k conditions that matter most. Free without rho, if the answer is prepared."""
    return await _start_job(EXPLANATION, access, body, wait, form)


@router.post("/datasets/{dataset}/story/preview", responses=answers(PricedPreview, "Price.", 409, 503))
async def preview_story(access: AccessDep, body: PreviewStory) -> Any:
    """What a story would cost as a whole, and how precise it would be. Spends nothing: what is shown is paid
    for by `prepare`, with nested conjunctions of as many conditions as the story has levels (usually 2)."""
    return await release_kinds.preview(STORY, access, body)


@router.post("/datasets/{dataset}/story", responses=answers(StoryPayload, "The story.", 409, 503))
async def story(access: AccessDep, body: TellStory) -> Any:
    """Breaks a gap down step by step. Free, if the answer is prepared for it."""

    def tell() -> Response:
        with access.dataset.keep_families_if_accepted(access.caller.name):
            story = STORY.plan(access, body).run()
            return RecordResponse(payload_of(STORY, access, body, story, "shown"))

    return await access.plan(tell)


@router.post(
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


@router.get("/datasets/{dataset}/jobs", responses=answers(JobList, "Your jobs.", 503))
async def jobs(access: AccessDep) -> Any:
    """Your jobs on a data set in the last day, running and finished, the newest first."""
    server = access.server

    def line(job: Job) -> JobLine:
        return JobLine(**vars(job) | {"stage": server.jobs.stage(job)})

    def listed() -> Response:
        own_jobs = server.ledger.jobs.of_owner(access.caller.name, access.name)
        return RecordResponse(JobList(jobs=[line(job) for job in own_jobs]))

    return await access.plan(listed)  # in the planning pool, because requests may be long


@router.get("/jobs/{job}", responses={**answers(JobPayload, "Ended.", 409, 503), **_GOING_ON})
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


@router.delete("/jobs/{job}", responses={**answers(JobPayload, "Ended.", 409, 503), **_GOING_ON})
async def cancel(request: Request, server: ServerDep, caller: AnyCaller, job: OwnJob) -> Any:
    """Ask a job to stop. If it was already charged, the charge stays."""
    await run_sync(server.jobs.cancel, job.id)
    await server.jobs.wait(job.id, 1.0)
    access = await run_sync(access_of, request, server, caller, job.dataset)
    return await _job_response(access, job.id, "shown")


async def _start_job(
    kind: ReleaseKind, access: DatasetAccess, body: Prepare | Explain, wait: float, form: Shown
) -> Response:
    """Plans and starts a job. A request that the plan refuses never becomes a job."""
    jobs = access.server.jobs
    planned = await access.plan(lambda: _plan_affordable(kind, access, body))

    def work(task: Task) -> requests.Payload:
        result = planned.run(access.measuring_dataset(task))
        return payload_of(kind, access, body, result, form)

    # In ρ, because the same ε could be another ρ after the declared δ changes.
    priced = body.model_copy(update={"rho": _asked_rho(body, planned)})
    request = priced.model_dump(mode="json", exclude={"epsilon"})
    id = await run_sync(jobs.start, access.name, access.caller.name, kind.name, request, work)
    if wait:
        await jobs.wait(id, wait)
        local = jobs.local(id)
        if local is not None and local.problem is not None and local.task.entry is None:
            raise local.problem  # nothing was charged: a refusal like any other
    return await _job_response(access, id, form)


def _asked_rho(body: Prepare | Explain, planned: Planned) -> float | None:
    """The requested price in ρ; None if an explanation is computed from a preparation."""
    if body.epsilon is None:
        return body.rho
    return planned.plan.rho if isinstance(planned, PlannedPreparation) else planned.plan.terms.rho


def _plan(kind: ReleaseKind, access: DatasetAccess, body: Prepare | Explain) -> tuple[Planned, Price]:
    """The plan and its price. Raises if the request is wrong or too large."""
    with access.dataset.keep_families_if_accepted(access.caller.name):
        planned = kind.plan(access, body)
        return planned, kind.price(planned, access.server.sizes).price


def _plan_affordable(kind: ReleaseKind, access: DatasetAccess, body: Prepare | Explain) -> Planned:
    planned, price = _plan(kind, access, body)
    check_same_plan(body, planned.key)
    if not price.free and price.rho > 0:
        access.account.check_affordable(access.name, price.rho, planned.key)
    return planned


async def _job_response(access: DatasetAccess, id: str, form: Shown) -> Response:
    """The job's state, and its result from this process's memory or from the stored release."""
    jobs = access.server.jobs
    job = await run_sync(jobs.get, id)
    local, charge, state, error = jobs.local(id), 0.0, job.state, job.error
    if local is not None:
        charge = local.task.charged
    elif job.entry is not None:
        entry = await run_sync(access.account.at_row, access.name, job.entry)
        charge = 0.0 if entry is None else entry.rho
    if state == "lost":
        entry = None if job.entry is None else await run_sync(access.account.at_row, access.name, job.entry)
        release = None if entry is None else await run_sync(access.ledger.get, access.name, entry.id)
        # Its process may have stored the release and ended before it could store the job's state.
        state, error = ("done", None) if release is not None else ("lost", lost().shape)
    result: requests.Payload | None = None
    if state == "done":
        await run_sync(access.check_data)
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


def _has_form(result: Mapping[str, Any] | None, form: Shown) -> bool:
    return result is not None and ("release" in result) == (form == "release")


async def _stored_result(access: DatasetAccess, job: Job, charge: float, form: Shown) -> requests.Payload:
    """A finished job's result, rebuilt from the stored release. Free."""
    kind = _KINDS[job.kind]
    body: Prepare | Explain = (Prepare if kind is PREPARATION else Explain).model_validate(job.request)

    def work() -> requests.Payload:
        planned, _price = _plan(kind, access, body)
        return payload_of(kind, access, body, planned.run(), form)

    return await access.plan(work) | {"free": charge == 0}
