"""Translates request bodies into calls of a `Session`, and its results into the payloads that are sent."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dpxplain.errors import QuestionError
from dpxplain.explanation.family_choice import FamilyChoice
from dpxplain.model.charge import EntryId
from dpxplain.model.schema import Schema
from dpxplain.phases.explain_answer import PrecisionGoal
from dpxplain.phases.plan import ExplanationOptions
from dpxplain.privacy.mechanisms.one_shot import DEFAULT_SPLIT
from dpxplain.privacy.mechanisms.rank_bounds import LOWER_SHARE
from dpxplain.render.charts import answer_chart, answers_chart, chart, influence_chart
from dpxplain.render.snippets import Place
from dpxplain.results.answer import Answer
from dpxplain.results.answers import Answers
from dpxplain.results.discovery import Discovery
from dpxplain.results.explanation import Explanation, PlannedExplanation
from dpxplain.results.formula_answer import computed_answer
from dpxplain.results.prepared import PlannedPreparation, Prepared
from dpxplain.results.quality import Quality
from dpxplain.results.question import Question
from dpxplain.results.released_answer import AnswerRow
from dpxplain.results.story import PlannedStory, Story
from dpxplain.server.bodies import (
    ChartOrder,
    Explain,
    Family,
    Prepare,
    PreviewExplanation,
    PreviewStory,
    Report,
    TellStory,
    Why,
)
from dpxplain.server.problems import Problem, not_found
from dpxplain.server.size_limits import check_formula, check_question
from dpxplain.session import Session
from dpxplain.wire.account_payloads import history_line
from dpxplain.wire.answer_payloads import answer_columns, answer_payload
from dpxplain.wire.payloads import explanation_payload, question_payload, story_payload

Payload = dict[str, Any]
_MOST_DRAWN = 1_000  # groups in a chart that can be exported: as many as an image can hold
_ORDERS: dict[ChartOrder, Callable[[AnswerRow], Any]] = {
    "high": lambda row: -row.estimate,
    "low": lambda row: row.estimate,
    "name": lambda row: _name_order(row.label),
}


def _name_order(label: str) -> list[tuple[int, int, str]]:
    """The sort key of a name, as on the page: numbers in it sort by value, and case is ignored.

    >>> sorted(["zone 10", "Zone 9", "area"], key=_name_order)
    ['area', 'Zone 9', 'zone 10']
    """
    parts = re.split(r"([0-9]+)", label.casefold())
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts if part]


def stored_answer(
    session: Session, number: EntryId, confidence: float, population: bool = False
) -> Answer | Answers:
    """The stored answer with this number. Returns 404 for another caller's answer."""
    answer = session.find_answer(number, confidence=confidence, population=population)
    if answer is None:
        raise not_found("answer")
    return answer


def stored_part(session: Session, number: EntryId, of: str | None, confidence: float = 0.95) -> Answer:
    """The stored answer with this number; if it has several aggregates, the one named `of`."""
    answer = stored_answer(session, number, confidence)
    if of is not None:
        check_formula(of, answer.groups.size)
    if isinstance(answer, Answers):
        if of is None and len(answer.answers) > 1:
            raise QuestionError(
                "This answer has several aggregates.", remedy=f"Name one of them: {list(answer.names)}."
            )
        return answer[answer.names[0] if of is None else of]
    if of not in (None, answer.value_name, answer.expression):
        if (computed := computed_answer(of, [answer])) is not None:
            return computed
        raise QuestionError(
            f"{of!r} is not an aggregate of this answer.",
            remedy=f"This answer is about {answer.value_name!r}.",
        )
    return answer


def question_of(session: Session, why: Why) -> Question:
    """The question in a body, about the stored answer that the body names."""
    check_question(len(why.weights), why.method)
    answer = stored_part(session, why.answer, why.of, why.confidence)
    weights: dict[object, float] = {}
    for part in why.weights:
        group = tuple(part.group) if isinstance(part.group, list) else part.group
        if group in weights:
            raise QuestionError("You named a group twice.", remedy="Give each group one weight.")
        weights[group] = part.weight
    options: Any = {"confidence": why.confidence, "method": why.method, "population": why.population}
    if why.compare == "difference":
        return answer.why(weights, at_least=why.at_least or 0.0, **options)
    expected = [1.0] if why.compare == "share" else [1.0, -1.0]
    if list(weights.values()) != expected:
        raise QuestionError(
            f"A {why.compare} needs {len(expected)} {'group' if len(expected) == 1 else 'groups'}, with "
            f"weight {' and '.join(f'{weight:g}' for weight in expected)}.",
            remedy="Give weight 1 to one group."
            if why.compare == "share"
            else "Give weight 1 to the first group, and -1 to the second.",
        )
    return answer.why_ratio(*weights, at_least=why.at_least, **options)


def family_choice(family: Family, schema: Schema) -> FamilyChoice:
    return FamilyChoice.from_request(family.model_dump(), schema)


def plan_preparation(session: Session, body: Prepare) -> PlannedPreparation:
    answer = stored_part(session, body.answer, body.of)
    return answer.plan_prepare(body.rho, family_choice(body.family, answer.schema), body.epsilon)


def plan_explanation(session: Session, body: Explain) -> PlannedExplanation:
    """The plan of an explanation, at its price or at the lowest price that gives the wanted precision."""
    question = question_of(session, body)
    choice = family_choice(body.family, question.answer.schema)
    if isinstance(body, PreviewExplanation) and body.wants_precision:
        asked = ExplanationOptions(
            choice, body.k, mechanism=body.mechanism, confidence=body.explain_confidence
        )
        return question.plan_for(PrecisionGoal(body.relative, body.ranks, body.precision), asked)
    split: Any = body.split
    if not isinstance(split, str):
        split = DEFAULT_SPLIT if split is None else tuple(split)
    options = ExplanationOptions(
        choice,
        body.k,
        body.rho,
        body.mechanism,
        body.explain_confidence,
        split,
        body.sensitivity,
        body.distinct,
        LOWER_SHARE if body.lower_share is None else body.lower_share,
        body.epsilon,
    )
    return question.plan_explain(options)


def stored_explanation(session: Session, body: Explain) -> Explanation:
    """The explanation, if it spends nothing. Raises if it would have to be measured."""
    planned = plan_explanation(session, body)
    price = planned.preview().price
    if not price.free and price.rho > 0:
        raise Problem(
            409, "not_stored", "This explanation has not been computed yet.", "Request it with explain first."
        )
    return planned.run()


def plan_story(session: Session, body: TellStory) -> PlannedStory:
    """The plan of a story. Without a price, the story comes from a preparation, or is refused."""
    choice = FamilyChoice(body.attributes, None, body.exclude)
    rho, epsilon = (body.rho, body.epsilon) if isinstance(body, PreviewStory) else (None, None)
    return question_of(session, body).plan_story(choice, rho, body.levels, body.story_confidence, epsilon)


def stored_report(session: Session, body: Report) -> str:
    """The report of an explanation that spends nothing, as HTML; with the story if requested."""
    from dpxplain.render.report import report

    table, story = stored_explanation(session, body), None
    if body.story:
        choice = FamilyChoice(body.family.attributes, None, body.family.exclude)
        story = question_of(session, body).plan_story(choice, confidence=body.explain_confidence).run()
    return report(table, story, _ORDERS.get(body.order))


def show_story(session: Session, story: Story, chart_width: int | None) -> Payload:
    return _with_chart(story_payload(story, session.budget), story, chart_width)


def show_release(result: Answer | Answers | Explanation | Prepared | Quality | Discovery) -> Payload:
    """What a remote client needs: the release itself, from which the client makes the same result."""
    entry = result.released.entry if isinstance(result, Prepared) else result.entry
    return {"entry": history_line(entry), "free": result.free, "release": result.release.to_json()}


def show_answer(
    session: Session,
    answer: Answer | Answers,
    place: Place,
    chart_width: int | None,
    order: ChartOrder = "given",
    form: str = "shown",
    order_of: str | None = None,
) -> Payload:
    """The payload, with code for the same query at `place`; `order_of` is the value that orders a chart."""
    if form == "columns":
        payload: Payload = {**answer_columns(answer, session.budget, place)}
    else:
        payload = {**answer_payload(answer, session.budget, place=place)}
    if chart_width is None:
        return payload
    if isinstance(answer, Answer):
        rows = _ordered(answer, order)
        payload["chart"] = answer_chart(answer, rows=rows, width=chart_width, most=_MOST_DRAWN)
    else:
        part = answer[order_of if order_of in answer.names else answer.names[0]]
        groups = [row.group for row in _ordered(part, order)]
        payload["chart"] = answers_chart(answer, groups=groups, width=chart_width, most=_MOST_DRAWN)
    return payload


def _ordered(answer: Answer, order: ChartOrder) -> Sequence[AnswerRow]:
    return answer.rows if order == "given" else sorted(answer.rows, key=_ORDERS[order])


def show_question(question: Question, chart_width: int | None) -> Payload:
    return _with_chart(question_payload(question), question, chart_width)


def show_explanation(session: Session, table: Explanation, place: Place, chart_width: int | None) -> Payload:
    payload = _with_chart(explanation_payload(table, session.budget, place=place), table, chart_width)
    if chart_width is not None:
        ranked = None if table.by_influence else table.sorted_by_influence()
        payload["influence_chart"] = None if ranked is None else influence_chart(ranked, width=chart_width)
    return payload


def _with_chart(payload: Mapping[str, Any], result: object, width: int | None) -> Payload:
    """The payload, with a chart if its width is given."""
    return {**payload} if width is None else {**payload, "chart": chart(result, width=width)}
