"""How well the data fit the declarations: priced, measured once, stored and free afterwards."""

from __future__ import annotations

from typing import Any

from anyio.to_thread import run_sync
from fastapi import APIRouter
from starlette.responses import JSONResponse, Response

from dpxplain.results.quality import PlannedQuality, Quality
from dpxplain.server import translate
from dpxplain.server.bodies import Form, MeasureQuality
from dpxplain.server.context import AccessDep, DatasetAccess
from dpxplain.server.middleware import PREFIX
from dpxplain.server.openapi import answers
from dpxplain.server.problems import other_plan
from dpxplain.server.response_shapes import ClientRelease
from dpxplain.wire.payloads import preview_payload, quality_payload
from dpxplain.wire.shapes import PreviewPayload, QualityPayload

router = APIRouter(tags=["Asking"], prefix=PREFIX)
_QUALITY: Any = answers(QualityPayload | ClientRelease, "The shares, or their release.", 409, 500, 503)


@router.post("/datasets/{dataset}/quality/preview", responses=answers(PreviewPayload, "Price.", 409))
def preview_quality(access: AccessDep, body: MeasureQuality) -> Any:
    """What measuring the quality would cost and how noisy its counts would be. Spends nothing."""
    return JSONResponse(preview_payload(_plan(access, body).preview()))


@router.post("/datasets/{dataset}/quality", responses=_QUALITY)
async def quality(access: AccessDep, body: MeasureQuality, form: Form = "shown") -> Any:
    """Private shares of rows that are clamped or left out, for rho. Asking the identical thing is free."""

    def show(measured: Quality) -> Response:
        if form == "release":
            return JSONResponse(translate.show_release(measured))
        return JSONResponse(quality_payload(measured, access.account.budget(access.name)))

    def stored() -> tuple[PlannedQuality, Response | None]:
        planned = _plan(access, body)
        found = planned.find()
        return planned, None if found is None else show(found)

    planned, response = await run_sync(stored)
    if response is not None:
        return response
    return await access.measure(lambda task: show(planned.run(access.measuring_dataset(task))))


def _plan(access: DatasetAccess, body: MeasureQuality) -> PlannedQuality:
    planned = access.read_only_session().plan_quality(body.rho, confidence=body.confidence)
    if body.expected_key not in (None, planned.plan.key(access.dataset)):
        raise other_plan()
    return planned
