"""The kinds of release, one record for each, and what their routes have in common.

A route previews a kind (`preview`), or measures it while the client waits (`measure`). Preparations and
explanations take longer, so jobs measure them (`routes/explain.py`). A story has no release of its own, but
reads a preparation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from dpxplain.phases.prepare import preparation_subject
from dpxplain.results.answer import Answer
from dpxplain.results.answers import Answers, PlannedQuery, level_of, query_margin
from dpxplain.results.explanation import PlannedExplanation, PlannedStory
from dpxplain.results.quality import PlannedDiscovery, PlannedQuality
from dpxplain.server import limits, records, requests
from dpxplain.server.context import DatasetAccess
from dpxplain.server.limits import Sizes
from dpxplain.server.problems import other_plan
from dpxplain.server.records import PreparationsOfQuery, RecordResponse
from dpxplain.server.requests import (
    Ask,
    Discover,
    Explain,
    MeasureQuality,
    Payload,
    Prepare,
    PreviewExplanation,
)
from dpxplain.wire.payloads import prepared_payload, preview_payload, quality_payload
from dpxplain.wire.shapes import discovery_payload, history_line, query_form

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


async def preview(kind: ReleaseKind, access: DatasetAccess, body: Any) -> Response:
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


async def measure(kind: ReleaseKind, access: DatasetAccess, body: object, form: str) -> Response:
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


# -- Queries -----------------------------------------------------------------------------------------------


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
    dataset = access.read_only_dataset().joining(answer.schema.joined)
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


# -- Data quality and discoveries --------------------------------------------------------------------------


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
    show=lambda access, _body, found, _form: discovery_payload(found, access.account.budget(access.name)),
)


# -- Preparations, explanations and stories ----------------------------------------------------------------


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
