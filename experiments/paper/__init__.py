"""The paper's experiments, one module each, with its cells, chart and claims."""

from __future__ import annotations

from types import ModuleType

from experiments.paper import (
    adult,
    budgets,
    case_studies,
    confidence,
    coverage,
    full_ranking,
    run_time,
    selection,
    taxi,
    ten_questions,
    validation,
)

EXPERIMENTS: dict[str, ModuleType] = {
    module.NAME: module
    for module in (
        adult,
        ten_questions,
        case_studies,
        validation,
        selection,
        budgets,
        confidence,
        full_ranking,
        run_time,
        taxi,
        coverage,
    )
}
