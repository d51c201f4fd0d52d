"""Phase 3: preparing and explaining, as jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from anyio.to_thread import run_sync
from fastapi import APIRouter, Depends, Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from dpxplain.ledger.protocol import Job
from dpxplain.results.prepared import PreparationPreview
from dpxplain.results.preview import ExplanationPreview
from dpxplain.server import size_limits, translate
from dpxplain.server.authenticate import AnyCaller
from dpxplain.server.bodies import Explain, JobId, Prepare, Wait
from dpxplain.server.context import AccessDep, DatasetAccess, ServerDep, access_of
from dpxplain.server.job_runner import FINISHED, lost
from dpxplain.server.openapi import answers, failures
from dpxplain.server.pool import Task
from dpxplain.server.problems import not_found
from dpxplain.server.response_shapes import JobPayload
from dpxplain.session import Session
from dpxplain.wire.payloads import preview_payload
from dpxplain.wire.shapes import PreviewPayload

router = APIRouter(tags=["Explaining"])
_GOING_ON: Any = {202: {"model": JobPayload, "description": "Not done yet; ask for the job again."}}
_JOB: Any = {**answers(JobPayload, "Ended.", 409, 500, 503), **_GOING_ON}


@router.post("/datasets/{dataset}/prepare/preview", responses=answers(PreviewPayload, "Price.", 503))
async def preview_prepare(access: AccessDep, body: Prepare) -> Any:
    """What preparing an answer would cost. Spends nothing."""

    return JSONResponse(await access.plan(lambda: preview_payload(_priced(access, body))))


@router.post("/datasets/{dataset}/prepare", responses=_JOB)
async def prepare(access: AccessDep, body: Prepare, wait: Wait = 0.0) -> Any:
    """Spend rho once, and every later explanation of this answer is free."""
    return await _started(access, "prepare", body, wait)


@router.post("/datasets/{dataset}/explain/preview", responses=answers(PreviewPayload, "Price.", 503))
async def preview_explain(access: AccessDep, body: Explain) -> Any:
    """What an explanation would cost and how precise it would be. Spends nothing."""

    return JSONResponse(await access.plan(lambda: preview_payload(_priced(access, body))))


@router.post("/datasets/{dataset}/explain", responses=_JOB)
async def explain(access: AccessDep, body: Explain, wait: Wait = 0.0) -> Any:
    """Phase 3: the k predicates that matter most. Without rho it must be prepared, and is free."""
    return await _started(access, "explain", body, wait)


@router.post(
    "/datasets/{dataset}/report",
    responses={200: {"content": {"text/html": {"schema": {"type": "string"}}}}, **failures(409, 503)},
    response_class=HTMLResponse,
)
async def report(access: AccessDep, body: Explain) -> Response:
    """The whole story as one HTML file, of an explanation that is stored or free."""
    from dpxplain.render.report import report as written

    def work() -> str:
        session = access.read_only_session()
        translate.check_stored(session, body)
        return written(translate.explain(session, body))

    # The report brings its own, stricter policy for its inline style.
    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; sandbox"
    headers = {
        "Content-Security-Policy": policy,
        "Content-Disposition": 'attachment; filename="dpxplain-report.html"',
    }
    return HTMLResponse(await access.plan(work), headers=headers)


def _own_job(server: ServerDep, caller: AnyCaller, job: JobId) -> Job:
    """Another's job is as unknown as none."""
    found = server.jobs.get(job)
    if found.owner != caller.name:
        raise not_found("job")
    return found


OwnJob = Annotated[Job, Depends(_own_job)]


@router.get("/jobs/{job}", responses={**answers(JobPayload, "Ended.", 503), **_GOING_ON})
async def job(request: Request, server: ServerDep, caller: AnyCaller, job: OwnJob, wait: Wait = 0.0) -> Any:
    """How far a job is; with its result, once it is done."""
    if wait and job.state not in FINISHED:
        await server.jobs.wait(job.id, wait)
    return await _told(await run_sync(access_of, request, server, caller, job.dataset), job.id)


@router.delete("/jobs/{job}", responses={**answers(JobPayload, "Ended.", 503), **_GOING_ON})
async def cancel(request: Request, server: ServerDep, caller: AnyCaller, job: OwnJob) -> Any:
    """Ask a job to stop. If its budget was reserved already, the charge stays."""
    await run_sync(server.jobs.cancel, job.id)
    await server.jobs.wait(job.id, 1.0)
    return await _told(await run_sync(access_of, request, server, caller, job.dataset), job.id)


async def _started(access: DatasetAccess, kind: str, body: Prepare | Explain, wait: float) -> Response:
    """What would be refused anyway is, before a job is written down."""
    jobs = access.server.jobs
    request = body.model_dump(mode="json")
    await access.plan(lambda: _check_affordable(access, body))

    def work(task: Task) -> translate.Payload:
        return _done(access, access.measuring_session(task), body)

    id = await run_sync(jobs.start, access.name, access.caller.name, kind, request, work)
    if wait:
        await jobs.wait(id, wait)
        here = jobs.local(id)
        if here is not None and here.problem is not None and here.task.entry is None:
            raise here.problem  # it never began to cost anything: a refusal like any other
    return await _told(access, id)


def _priced(access: DatasetAccess, body: Prepare | Explain) -> ExplanationPreview | PreparationPreview:
    session, sizes = access.read_only_session(), access.server.sizes
    if isinstance(body, Prepare):
        return size_limits.priced_preparation(session, access.dataset, body, sizes)
    return size_limits.priced_explanation(session, access.dataset, body, sizes)


def _check_affordable(access: DatasetAccess, body: Prepare | Explain) -> None:
    price = _priced(access, body).price
    if not price.free and price.rho > 0:
        access.account.check_affordable(access.name, price.rho)


def _done(access: DatasetAccess, session: Session, body: Prepare | Explain) -> translate.Payload:
    if isinstance(body, Prepare):
        return translate.prepare(session, body)
    return translate.show_explanation(
        session, translate.explain(session, body), access.place, body.chart_width
    )


async def _told(access: DatasetAccess, id: str) -> Response:
    """The job's state, and its result from this process's memory or from what is stored."""
    jobs = access.server.jobs
    job = await run_sync(jobs.get, id)
    here, charge, state, error = jobs.local(id), 0.0, job.state, job.error
    if here is not None:
        charge = here.task.charged
    elif job.entry is not None:
        charge = await run_sync(_charge, access, job.entry)
    if state == "lost":
        released = None if job.entry is None else await run_sync(access.account.get, access.name, job.entry)
        # A process may die after the release is stored and before it could tell.
        state, error = ("done", None) if released is not None else ("lost", lost().shape)
    result: translate.Payload | None = None
    if state == "done":
        known = here.result if here is not None else None
        result = known if known is not None else await _again(access, job, charge)
    payload = {
        "id": id,
        "kind": job.kind,
        "dataset": job.dataset,
        "state": state,
        "stage": jobs.stage(job),
        "rho": charge,
        "result": result,
        "error": error,
    }
    return JSONResponse(payload, 200 if state in FINISHED else 202)


async def _again(access: DatasetAccess, job: Job, charge: float) -> translate.Payload:
    """What another process released, from the ledger; nothing of it can cost anything."""
    request: Mapping[str, Any] = job.request
    body: Prepare | Explain = (Prepare if job.kind == "prepare" else Explain).model_validate(request)
    result = await access.plan(lambda: _done(access, access.read_only_session(), body))
    return result | {"free": charge == 0}


def _charge(access: DatasetAccess, entry: int) -> float:
    return next((line.rho for line in access.account.history(access.name) if line.id == entry), 0.0)
