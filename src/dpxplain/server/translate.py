"""Translates request bodies into calls of a `Session`, and its results into the payloads that are sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from dpxplain.errors import QuestionError
from dpxplain.explanation.recipes import read
from dpxplain.model.schema import Schema
from dpxplain.privacy.mechanisms.one_shot import DEFAULT_SPLIT
from dpxplain.render.snippets import Place
from dpxplain.results.answer import Answer
from dpxplain.results.answers import Answers
from dpxplain.results.explanation import Explanation
from dpxplain.results.question import Question
from dpxplain.server.bodies import Explain, Family, Prepare, Why
from dpxplain.server.problems import Problem, not_found
from dpxplain.session import Session
from dpxplain.wire.payloads import answer_payload, explanation_payload, prepared_payload, question_payload

Payload = dict[str, Any]


def stored_answer(session: Session, number: int, confidence: float) -> Answer | Answers:
    """The stored answer of that number; somebody else's is refused as if it did not exist."""
    answer = session.find_answer(number, confidence=confidence)
    if answer is None:
        raise not_found("answer")
    return answer


def stored_part(session: Session, number: int, of: str | None, confidence: float = 0.95) -> Answer:
    """The stored answer of that number, or of several aggregates the one named `of`."""
    answer = stored_answer(session, number, confidence)
    if isinstance(answer, Answers):
        if of is None:
            raise QuestionError(
                "This answer has several aggregates.", remedy=f"Say which one is meant: {list(answer.names)}."
            )
        return answer[of]
    if of not in (None, answer.value_name, str(answer.statement.query.aggregate)):
        raise QuestionError(
            f"{of!r} is not an aggregate of this answer.", remedy=f"It is about {answer.value_name!r}."
        )
    return answer


def question_of(session: Session, why: Why) -> Question:
    answer = stored_part(session, why.answer, why.of, why.confidence)
    weights: dict[object, float] = {}
    for part in why.weights:
        group = tuple(part.group) if isinstance(part.group, list) else part.group
        if group in weights:
            raise QuestionError("A group is named twice.", remedy="Give each group one weight.")
        weights[group] = part.weight
    return answer.why(weights, at_least=why.at_least, confidence=why.confidence, method=why.method)


def family_arguments(family: Family, schema: Schema) -> dict[str, Any]:
    """As the library takes them; it checks them."""
    given = family.predicates
    return {
        "attributes": family.attributes,
        "conjuncts": family.conjuncts,
        "exclude": family.exclude,
        "predicates": None if given is None else [read(text, schema) for text in given],
    }


def explain_arguments(body: Explain, schema: Schema) -> dict[str, Any]:
    split: Any = body.split
    if not isinstance(split, str):
        split = DEFAULT_SPLIT if split is None else tuple(split)
    return {
        "k": body.k,
        "rho": body.rho,
        "mechanism": body.mechanism,
        "confidence": body.explain_confidence,
        "split": split,
        "sensitivity": body.sensitivity,
        **family_arguments(body.family, schema),
    }


def explain(session: Session, body: Explain) -> Explanation:
    question = question_of(session, body)
    table: Explanation = question.explain(**explain_arguments(body, session.schema))
    return table


def check_stored(session: Session, body: Explain) -> None:
    """Refuses what would have to be measured."""
    question = question_of(session, body)
    price = question.preview(**explain_arguments(body, session.schema)).price
    if not price.free and price.rho > 0:
        raise Problem(409, "not_stored", "This explanation was not asked yet.", "Ask it with explain first.")


def prepare(session: Session, body: Prepare) -> Payload:
    answer = stored_part(session, body.answer, body.of)
    preparation = answer.prepare(body.rho, **family_arguments(body.family, session.schema))
    return _plain(prepared_payload(preparation, answer, session.budget))


def show_answer(session: Session, answer: Answer | Answers, place: Place, chart_width: int | None) -> Payload:
    """The payload, with code that asks the same at `place`."""
    payload = _plain(answer_payload(answer, session.budget, place=place))
    if chart_width is not None:
        from dpxplain.render.charts import answer_chart, answers_chart

        chart = (
            answer_chart(answer, width=chart_width)
            if isinstance(answer, Answer)
            else answers_chart(answer, width=chart_width)
        )
        payload["chart"] = chart.to_dict()
    return payload


def show_question(question: Question, chart_width: int | None) -> Payload:
    payload = _plain(question_payload(question))
    if chart_width is not None:
        from dpxplain.render.charts import question_chart

        payload["chart"] = question_chart(question, width=chart_width).to_dict()
    return payload


def show_explanation(session: Session, table: Explanation, place: Place, chart_width: int | None) -> Payload:
    payload = _plain(explanation_payload(table, session.budget, place=place))
    if chart_width is not None:
        from dpxplain.render.charts import explanation_chart

        payload["chart"] = explanation_chart(table, width=chart_width).to_dict()
    return payload


def _plain(payload: Mapping[str, Any]) -> Payload:
    return cast(Payload, payload)
