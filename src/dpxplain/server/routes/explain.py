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
from dpxplain.server import size_limits as admitting
from dpxplain.server import translate as asking
from dpxplain.server.authenticate import AnyCaller
from dpxplain.server.bodies import Explain, JobId, Prepare, Wait
from dpxplain.server.context import AtDesk, Desk, Running, desk_of
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
async def preview_prepare(desk: AtDesk, body: Prepare) -> Any:
    """What preparing an answer would cost. Spends nothing."""

    return JSONResponse(await desk.planned(lambda: preview_payload(_priced(desk, body))))


@router.post("/datasets/{dataset}/prepare", responses=_JOB)
async def prepare(desk: AtDesk, body: Prepare, wait: Wait = 0.0) -> Any:
    """Spend rho once, and every later explanation of this answer is free."""
    return await _started(desk, "prepare", body, wait)


@router.post("/datasets/{dataset}/explain/preview", responses=answers(PreviewPayload, "Price.", 503))
async def preview_explain(desk: AtDesk, body: Explain) -> Any:
    """What an explanation would cost and how precise it would be. Spends nothing."""

    return JSONResponse(await desk.planned(lambda: preview_payload(_priced(desk, body))))


@router.post("/datasets/{dataset}/explain", responses=_JOB)
async def explain(desk: AtDesk, body: Explain, wait: Wait = 0.0) -> Any:
    """Phase 3: the k predicates that matter most. Without rho it must be prepared, and is free."""
    return await _started(desk, "explain", body, wait)


@router.post(
    "/datasets/{dataset}/report",
    responses={200: {"content": {"text/html": {"schema": {"type": "string"}}}}, **failures(409, 503)},
    response_class=HTMLResponse,
)
async def report(desk: AtDesk, body: Explain) -> Response:
    """The whole story as one HTML file, of an explanation that is stored or free."""
    from dpxplain.render.report import report as written

    def work() -> str:
        session = desk.looking()
        asking.check_stored(session, body)
        return written(asking.explained(session, body))

    # The report brings its own, stricter policy for its inline style.
    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; sandbox"
    headers = {
        "Content-Security-Policy": policy,
        "Content-Disposition": 'attachment; filename="dpxplain-report.html"',
    }
    return HTMLResponse(await desk.planned(work), headers=headers)


def _own_job(server: Running, caller: AnyCaller, job: JobId) -> Job:
    """Another's job is as unknown as none."""
    found = server.jobs.get(job)
    if found.owner != caller.name:
        raise not_found("job")
    return found


OwnJob = Annotated[Job, Depends(_own_job)]


@router.get("/jobs/{job}", responses={**answers(JobPayload, "Ended.", 503), **_GOING_ON})
async def job(request: Request, server: Running, caller: AnyCaller, job: OwnJob, wait: Wait = 0.0) -> Any:
    """How far a job is; with its result, once it is done."""
    if wait and job.state not in FINISHED:
        await server.jobs.wait(job.id, wait)
    return await _told(await run_sync(desk_of, request, server, caller, job.dataset), job.id)


@router.delete("/jobs/{job}", responses={**answers(JobPayload, "Ended.", 503), **_GOING_ON})
async def cancel(request: Request, server: Running, caller: AnyCaller, job: OwnJob) -> Any:
    """Ask a job to stop. If its budget was reserved already, the charge stays."""
    await run_sync(server.jobs.cancel, job.id)
    await server.jobs.wait(job.id, 1.0)
    return await _told(await run_sync(desk_of, request, server, caller, job.dataset), job.id)


async def _started(desk: Desk, kind: str, body: Prepare | Explain, wait: float) -> Response:
    """What would be refused anyway is, before a job is written down."""
    jobs = desk.server.jobs
    request = body.model_dump(mode="json")
    await desk.planned(lambda: _check_affordable(desk, body))

    def work(task: Task) -> asking.Payload:
        return _done(desk, desk.measuring(task), body)

    id = await run_sync(jobs.start, desk.name, desk.caller.name, kind, request, work)
    if wait:
        await jobs.wait(id, wait)
        here = jobs.here(id)
        if here is not None and here.problem is not None and here.task.entry is None:
            raise here.problem  # it never began to cost anything: a refusal like any other
    return await _told(desk, id)


def _priced(desk: Desk, body: Prepare | Explain) -> ExplanationPreview | PreparationPreview:
    session, sizes = desk.looking(), desk.server.sizes
    if isinstance(body, Prepare):
        return admitting.priced_preparation(session, desk.dataset, body, sizes)
    return admitting.priced_explanation(session, desk.dataset, body, sizes)


def _check_affordable(desk: Desk, body: Prepare | Explain) -> None:
    price = _priced(desk, body).price
    if not price.free and price.rho > 0:
        desk.account.check_affordable(desk.name, price.rho)


def _done(desk: Desk, session: Session, body: Prepare | Explain) -> asking.Payload:
    if isinstance(body, Prepare):
        return asking.prepared(session, body)
    return asking.show_explanation(session, asking.explained(session, body), desk.place, body.chart_width)


async def _told(desk: Desk, id: str) -> Response:
    """The job's state, and its result from this process's memory or from what is stored."""
    jobs = desk.server.jobs
    job = await run_sync(jobs.get, id)
    here, charge, state, error = jobs.here(id), 0.0, job.state, job.error
    if here is not None:
        charge = here.task.charged
    elif job.entry is not None:
        charge = await run_sync(_charge, desk, job.entry)
    if state == "lost":
        released = None if job.entry is None else await run_sync(desk.account.get, desk.name, job.entry)
        # A process may die after the release is stored and before it could tell.
        state, error = ("done", None) if released is not None else ("lost", lost().shape)
    result: asking.Payload | None = None
    if state == "done":
        known = here.result if here is not None else None
        result = known if known is not None else await _again(desk, job, charge)
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


async def _again(desk: Desk, job: Job, charge: float) -> asking.Payload:
    """What another process released, from the ledger; nothing of it can cost anything."""
    request: Mapping[str, Any] = job.request
    body: Prepare | Explain = (Prepare if job.kind == "prepare" else Explain).model_validate(request)
    result = await desk.planned(lambda: _done(desk, desk.looking(), body))
    return result | {"free": charge == 0}


def _charge(desk: Desk, entry: int) -> float:
    return next((line.rho for line in desk.account.history(desk.name) if line.id == entry), 0.0)
