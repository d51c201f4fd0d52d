"""DPXPlain: differentially private answers that explain themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpxplain.errors import (
    BadRequest,
    BudgetExhausted,
    CuratorOnly,
    Denied,
    DPXPlainError,
    ExplanationError,
    InternalError,
    QueryRefused,
    QuestionError,
    SchemaError,
    SourceError,
    Unavailable,
)
from dpxplain.model.contrast import Verdict
from dpxplain.model.display import Finding
from dpxplain.model.expression import plug_in_parser

if TYPE_CHECKING:
    from dpxplain.explanation.custom import CustomInfluence, FormulaInfluence, RatioInfluence
    from dpxplain.explanation.family_choice import differs, either, ranges, thresholds
    from dpxplain.model.expression import Expression
    from dpxplain.model.schema import Schema
    from dpxplain.results.answer import Answer
    from dpxplain.results.answers import Answers
    from dpxplain.results.combination import Combination, exp, log
    from dpxplain.results.explanation import Explanation
    from dpxplain.results.question import Question
    from dpxplain.session import Session, check_schema, connect, example

__version__ = "0.2.0"

__all__ = [
    "Answer",
    "Answers",
    "BadRequest",
    "BudgetExhausted",
    "Combination",
    "CuratorOnly",
    "CustomInfluence",
    "DPXPlainError",
    "Denied",
    "Explanation",
    "ExplanationError",
    "Finding",
    "FormulaInfluence",
    "InternalError",
    "QueryRefused",
    "Question",
    "QuestionError",
    "RatioInfluence",
    "Schema",
    "SchemaError",
    "Session",
    "SourceError",
    "Unavailable",
    "Verdict",
    "check_schema",
    "connect",
    "differs",
    "either",
    "example",
    "exp",
    "log",
    "ranges",
    "thresholds",
]

# OpenDP, DuckDB and friends take most of a second to import, so they wait until they are needed.
_HOMES = {
    "Answer": "dpxplain.results.answer",
    "Answers": "dpxplain.results.answers",
    "Combination": "dpxplain.results.combination",
    "CustomInfluence": "dpxplain.explanation.custom",
    "Explanation": "dpxplain.results.explanation",
    "FormulaInfluence": "dpxplain.explanation.custom",
    "Question": "dpxplain.results.question",
    "RatioInfluence": "dpxplain.explanation.custom",
    "Schema": "dpxplain.model.schema",
    "Session": "dpxplain.session",
    "check_schema": "dpxplain.session",
    "connect": "dpxplain.session",
    "differs": "dpxplain.explanation.family_choice",
    "either": "dpxplain.explanation.family_choice",
    "example": "dpxplain.session",
    "exp": "dpxplain.results.combination",
    "log": "dpxplain.results.combination",
    "ranges": "dpxplain.explanation.family_choice",
    "thresholds": "dpxplain.explanation.family_choice",
}


def _read_expression(text: str, columns: Mapping[str, Any]) -> Expression:
    from dpxplain.sql.expression_parser import read_expression

    return read_expression(text, columns)


plug_in_parser(_read_expression)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'dpxplain' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
