"""From a request's body to the library's objects, and from those to the payload that is sent.

The same calls as in a notebook: a `Session` on the caller's account does the work.
"""

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


def answer_meant(session: Session, number: int, confidence: float) -> Answer | Answers:
    """A stored answer; another's is told apart from none by nobody."""
    found = session.find_answer(number, confidence=confidence)
    if found is None:
        raise not_found("answer")
    return found


def aggregate_meant(session: Session, number: int, of: str | None, confidence: float = 0.95) -> Answer:
    answer = answer_meant(session, number, confidence)
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


def question_asked(session: Session, why: Why) -> Question:
    answer = aggregate_meant(session, why.answer, why.of, why.confidence)
    weights: dict[object, float] = {}
    for part in why.weights:
        group = tuple(part.group) if isinstance(part.group, list) else part.group
        if group in weights:
            raise QuestionError("A group is named twice.", remedy="Give each group one weight.")
        weights[group] = part.weight
    return answer.why(weights, at_least=why.at_least, confidence=why.confidence, method=why.method)


def family_asked(family: Family, schema: Schema) -> dict[str, Any]:
    """The library's own arguments; it checks them."""
    given = family.predicates
    return {
        "attributes": family.attributes,
        "conjuncts": family.conjuncts,
        "exclude": family.exclude,
        "predicates": None if given is None else [read(text, schema) for text in given],
    }


def explain_arguments(asked: Explain, schema: Schema) -> dict[str, Any]:
    split: Any = asked.split
    if not isinstance(split, str):
        split = DEFAULT_SPLIT if split is None else tuple(split)
    return {
        "k": asked.k,
        "rho": asked.rho,
        "mechanism": asked.mechanism,
        "confidence": asked.explain_confidence,
        "split": split,
        "sensitivity": asked.sensitivity,
        **family_asked(asked.family, schema),
    }


def explained(session: Session, asked: Explain) -> Explanation:
    question = question_asked(session, asked)
    table: Explanation = question.explain(**explain_arguments(asked, session.schema))
    return table


def check_stored(session: Session, asked: Explain) -> None:
    """A refusal, unless explaining it spends nothing."""
    question = question_asked(session, asked)
    price = question.preview(**explain_arguments(asked, session.schema)).price
    if not price.free and price.rho > 0:
        raise Problem(409, "not_stored", "This explanation was not asked yet.", "Ask it with explain first.")


def prepared(session: Session, asked: Prepare) -> Payload:
    answer = aggregate_meant(session, asked.answer, asked.of)
    done = answer.prepare(asked.rho, **family_asked(asked.family, session.schema))
    return _plain(prepared_payload(done, answer, session.budget))


def show_answer(session: Session, answer: Answer | Answers, place: Place, chart_width: int | None) -> Payload:
    """`place` is where the code shown beside it asks the same."""
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
