"""Requests as plain JSON, for the history and the server: sending the JSON asks the same again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpxplain.explanation.family_choice import FamilyChoice
from dpxplain.model.charge import Request
from dpxplain.model.schema import DomainValue, label
from dpxplain.phases.plan import ExplanationPlan
from dpxplain.results.asked_question import AskedQuestion
from dpxplain.results.released_answer import ReleasedAnswer

Body = dict[str, Any]


def query_request(sql: str, rho: float) -> Request:
    return Request(sql, {"sql": sql, "rho": rho})


def prepare_request(answer: ReleasedAnswer, rho: float, choice: FamilyChoice) -> Request:
    return Request(answer.sql, {**_about(answer), "rho": rho, "family": choice.to_request()})


def why_request(question: AskedQuestion) -> Body:
    groups, contrast = question.answer.groups, question.contrast
    compare = {} if question.ratio is None else {"compare": question.measured}
    return {
        **_about(question.answer),
        "weights": [
            {"group": group_request(groups.key(group)), "weight": weight}
            for group, weight in question.asked_weights
        ],
        "at_least": contrast.at_least,
        "confidence": question.confidence,
        "method": question.method,
        **compare,
        **({"population": True} if question.population else {}),
    }


def explain_request(question: AskedQuestion, plan: ExplanationPlan, choice: FamilyChoice) -> Request:
    """The request with the mechanism and price that were used, even if `auto` would choose others later."""
    terms = plan.terms
    return Request(
        question.text,
        {
            **why_request(question),
            "k": terms.k,
            "rho": terms.rho,
            "explain_confidence": terms.confidence,
            "mechanism": plan.mechanism,
            "split": plan.split,
            "lower_share": plan.lower_share,
            "sensitivity": terms.sensitivity,
            "distinct": terms.distinct,
            "family": choice.to_request(),
        },
    )


def group_request(group: Sequence[DomainValue]) -> list[str | int | bool | None]:
    """A group by its values; bins by their label."""
    return [value if isinstance(value, str | int | bool | None) else label(value) for value in group]


def _about(answer: ReleasedAnswer) -> Body:
    return {"answer": answer.id, "of": answer.expression}
