"""Requests as the history keeps them and as a server takes them: plain JSON that asks the same again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from dpxplain.explanation.choice import Predicates
from dpxplain.explanation.recipes import Either, Recipe, written
from dpxplain.model.charge import Request
from dpxplain.model.contrast import Contrast
from dpxplain.model.groups import Groups
from dpxplain.model.schema import DomainValue, label
from dpxplain.phases.plan import ExplanationPlan


class AnswerLike(Protocol):
    """What a request says about the answer that it is on: of an `Answer`, which imports this module."""

    @property
    def id(self) -> int: ...

    @property
    def sql(self) -> str: ...

    @property
    def value_name(self) -> str: ...

    @property
    def groups(self) -> Groups: ...


class QuestionLike(Protocol):
    """What a request says about a question: of a `Question`, which imports this module."""

    @property
    def answer(self) -> AnswerLike: ...

    @property
    def contrast(self) -> Contrast: ...

    @property
    def confidence(self) -> float: ...

    @property
    def method(self) -> str: ...

    @property
    def text(self) -> str: ...


Body = dict[str, Any]


def listed(predicates: Predicates | None) -> Predicates | None:
    """Predicates that can be read more than once, should they come from a generator."""
    if predicates is None or isinstance(predicates, str | Recipe | Either):
        return predicates
    return tuple(predicates) if isinstance(predicates, Iterable) else predicates


def family_request(
    attributes: Sequence[str] | None,
    conjuncts: int | None,
    exclude: Sequence[str],
    predicates: Predicates | None,
) -> Body:
    given = [predicates] if isinstance(predicates, str | Recipe | Either) else predicates
    return {
        "attributes": None if attributes is None else list(attributes),
        "conjuncts": conjuncts,
        "exclude": list(exclude),
        "predicates": None
        if given is None
        else [part if isinstance(part, str) else written(part) for part in given],
    }


def query_asked(sql: str, rho: float) -> Request:
    return Request(sql, {"sql": sql, "rho": rho})


def prepare_asked(answer: AnswerLike, rho: float, family: Body) -> Request:
    return Request(answer.sql, {**_about(answer), "rho": rho, "family": family})


def why_request(question: QuestionLike) -> Body:
    groups, contrast = question.answer.groups, question.contrast
    return {
        **_about(question.answer),
        "weights": [
            {"group": group_request(groups.key(group)), "weight": weight}
            for group, weight in zip(contrast.groups, contrast.weights, strict=True)
        ],
        "at_least": contrast.at_least,
        "confidence": question.confidence,
        "method": question.method,
    }


def explain_asked(question: QuestionLike, plan: ExplanationPlan, family: Body) -> Request:
    """With the mechanism that was taken and its price, whatever `auto` would take another time."""
    request = plan.request
    return Request(
        question.text,
        {
            **why_request(question),
            "k": request.k,
            "rho": request.rho,
            "explain_confidence": request.confidence,
            "mechanism": plan.mechanism,
            "split": plan.split,
            "sensitivity": request.sensitivity,
            "family": family,
        },
    )


def group_request(group: Sequence[DomainValue]) -> list[str | int | bool | None]:
    """A group by its values; bins by their label."""
    return [value if isinstance(value, str | int | bool | None) else label(value) for value in group]


def _about(answer: AnswerLike) -> Body:
    return {"answer": answer.id, "of": answer.value_name}
