"""What programs see: results as plain JSON values, each with its `kind`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpxplain.privacy.accounting import epsilon

if TYPE_CHECKING:
    from dpxplain.answer import Answer
    from dpxplain.answers import Answers
    from dpxplain.curator import Truth
    from dpxplain.ledger.base import Entry
    from dpxplain.model.budget import Budget, Spend
    from dpxplain.preparing import PreparationPreview, Prepared
    from dpxplain.preview import ExplanationPreview, QueriesPreview, QueryPreview
    from dpxplain.question import Question
    from dpxplain.table import Explanation

Payload = dict[str, Any]


def answer_payload(answer: Answer | Answers, budget: Budget, truth: Truth | None = None) -> Payload:
    """Of one aggregate, "value" names its column; of several, "values" names theirs."""
    from dpxplain.answer import Answer

    if isinstance(answer, Answer):
        named: Payload = {"kind": "answer", "value": answer.value_name}
    else:
        named = {"kind": "answers", "values": list(answer.names)}
    return {
        **named,
        "id": answer.id,
        "sql": answer.sql,
        "rho": answer.rho,
        "free": answer.free,
        "private": answer.private,
        "confidence": answer.confidence,
        "columns": list(answer.groups.columns),
        "rows": answer.records(),
        "spends": _spends(answer.spends),
        "budget": _budget(budget),
    } | _truth(truth)


def question_payload(question: Question, truth: Truth | None = None) -> Payload:
    groups, contrast = question.answer.groups, question.contrast
    return {
        "kind": "question",
        "answer": question.answer.id,
        "of": question.answer.value_name,
        "question": question.text,
        "weights": [
            {"group": groups.label(group), "weight": weight}
            for group, weight in zip(contrast.groups, contrast.weights, strict=True)
        ],
        "at_least": contrast.at_least,
        "estimate": question.estimate,
        "interval": list(question.interval),
        "confidence": question.confidence,
        "method": question.method,
        "verdict": question.verdict.value,
        "finding": question.finding,
        "note": question.note,
    } | _truth(truth)


def explanation_payload(table: Explanation, budget: Budget, truth: Truth | None = None) -> Payload:
    return {
        "kind": "explanation",
        "id": table.id,
        "question": question_payload(table.question),
        "mechanism": table.mechanism,
        "reason": table.plan.reason,
        "gap": table.release.gap,
        "gap_interval": table.release.gap_interval,
        "rho": table.rho,
        "free": table.free,
        "private": table.private,
        "confidence": table.confidence,
        "predicates": table.family_size,
        "rows": table.records(),
        "spends": _spends(table.spends),
        "budget": _budget(budget),
    } | _truth(truth)


def prepared_payload(prepared: Prepared, answer: Answer, budget: Budget) -> Payload:
    return {
        "kind": "prepared",
        "id": prepared.id,
        "answer": answer.id,
        "of": answer.value_name,
        "sql": prepared.sql,
        "rho": prepared.rho,
        "free": prepared.free,
        "private": prepared.private,
        "rows": prepared.records(),
        "spends": _spends(prepared.spends),
        "budget": _budget(budget),
    }


def preview_payload(
    preview: QueryPreview | QueriesPreview | ExplanationPreview | PreparationPreview,
) -> Payload:
    price = preview.price
    return {
        "kind": "preview",
        "rho": price.rho,
        "free": price.free,
        "affordable": price.affordable,
        "remaining": price.remaining,
        "remaining_after": price.remaining_after,
        "spends": _spends(price.spends),
        "confidence": preview.confidence,
        "rows": preview.records(),
    }


def budget_payload(budget: Budget) -> Payload:
    return {"kind": "budget"} | _budget(budget)


def history_payload(entries: Sequence[Entry]) -> Payload:
    """Entries with the running total, oldest first."""
    return {"kind": "history", "entries": history_records(entries)}


def history_records(entries: Sequence[Entry]) -> list[Payload]:
    from dpxplain.model.budget import rho_of_units, spend_units

    total, records = 0, []
    for entry in entries:
        total += spend_units(entry.rho) if entry.rho else 0
        records.append(
            {
                "id": entry.id,
                "time": entry.time.isoformat(),
                "kind": entry.kind,
                "state": entry.state,
                "description": entry.description,
                "rho": entry.rho,
                "total_rho": rho_of_units(total),
                "spends": _spends(entry.spends),
            }
        )
    return records


def _budget(budget: Budget) -> Payload:
    amounts = {"limit": budget.limit, "spent": budget.spent, "remaining": budget.remaining}
    epsilons = {name: epsilon(rho, budget.delta) for name, rho in amounts.items()}
    return {"rho": amounts, "epsilon": epsilons, "delta": budget.delta}


def _truth(truth: Truth | None) -> Payload:
    return {} if truth is None else {"truth": {"private": False, "title": truth.title, "rows": truth.rows}}


def _spends(spends: Sequence[Spend]) -> list[Payload]:
    return [{"mechanism": spend.mechanism, "rho": spend.rho} for spend in spends]
