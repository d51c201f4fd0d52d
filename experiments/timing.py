"""Measures run times through the public path, with private noise. Nothing else may run meanwhile.

The clock starts after Phase 1, as in the paper, and stops when the table is there. Counts of earlier
questions are dropped first, so every figure includes its own pass over the rows.
"""

from __future__ import annotations

import time
from itertools import count
from typing import Any

from dpxplain.phases.concurrency import SizedMemo
from dpxplain.phases.dataset import KEPT_PASSES
from dpxplain.phases.explain import true_scores
from dpxplain.phases.plan import ExplanationOptions
from dpxplain.privacy.mechanisms.noise import add_gaussian
from dpxplain.privacy.mechanisms.ranking import bound_ranks, select_top_k
from experiments import tables
from experiments.questions import QUESTIONS, PaperQuestion
from experiments.trials import CONFIDENCE, DEFAULT_RHOS, RHO_QUERY, K

_open: dict[Any, Any] = {}
_prices = count(1)


def _session(data: str, rows: int, columns: tuple[str, ...] | None) -> Any:
    key = data, rows, columns
    if key not in _open:
        for session in _open.values():
            session.close()
        _open.clear()  # one table at a time
        _open[key] = tables.open_session(data, rows, seed=None, columns=columns)
    return _open[key]


def _ask(asked: PaperQuestion, session: Any, rho: float = RHO_QUERY) -> Any:
    answer = session.query(asked.sql, rho=rho)
    session._dataset.passes = SizedMemo(KEPT_PASSES, KEPT_PASSES)
    return answer


def explanations(
    *, question: str, rows: int, k: int = K, conjuncts: int = 1, mechanism: str = "auto", attributes: int = 0,
    repeats: int = 3,
) -> list[dict[str, Any]]:  # fmt: skip
    """Seconds from an answer to its explanation table (Phases 2 and 3). `attributes` limits the columns."""
    asked = QUESTIONS[question]
    columns = _columns(asked, attributes) if attributes else None
    session = _session(asked.data, rows, columns)
    seconds, busy_seconds, table = [], [], None
    for _ in range(repeats):
        answer = _ask(asked, session)
        start, busy = time.perf_counter(), time.process_time()
        why = answer.why(asked.contrast, at_least=0)
        # Each price is above all before: a preparation for the same price would answer for free.
        rho = sum(DEFAULT_RHOS) * (1 + 1e-6 * next(_prices))
        table = why.explain(k=k, rho=rho, mechanism=mechanism, conjuncts=conjuncts)
        seconds.append(time.perf_counter() - start)
        busy_seconds.append(time.process_time() - busy)
    return [
        {
            "question": question, "rows": rows, "k": k, "l": conjuncts, "attributes": attributes,
            "asked": mechanism, "mechanism": table.mechanism, "repeats": repeats,
            "seconds": min(seconds), "slowest": max(seconds), "cpu_seconds": min(busy_seconds),
        }
    ]  # fmt: skip


def _columns(asked: PaperQuestion, attributes: int) -> tuple[str, ...]:
    """The query's columns, and further columns up to the number of attributes."""
    names = list(tables.schema(asked.data)["columns"])
    used = [name for name in names if name in asked.sql]
    others = [name for name in names if name not in used]
    return (*used, *others[: attributes - 1])


def steps(*, question: str, rows: int, repeats: int = 3) -> list[dict[str, Any]]:
    """Seconds of each step of the corrected one-shot mechanism, which has the paper's steps."""
    asked = QUESTIONS[question]
    session = _session(asked.data, rows, None)
    best: dict[str, float] = {}
    for _ in range(repeats):
        clock = time.perf_counter()
        taken: dict[str, float] = {}

        def lap(name: str, taken: dict[str, float] = taken) -> None:
            nonlocal clock
            now = time.perf_counter()
            taken[name], clock = now - clock, now

        answer = _ask(asked, session)
        clock = time.perf_counter()
        why = answer.why(asked.contrast, at_least=0)
        lap("noise quantification")
        plan = why.plan_explain(
            ExplanationOptions(asked.choice(), K, sum(DEFAULT_RHOS), "one-shot", CONFIDENCE)
        ).plan
        shares, noise = plan.one_shot, why._dataset.noise
        lap("planning")
        scores = true_scores(plan.terms, plan.scoring, why._dataset)
        lap("influences of all predicates")
        chosen = select_top_k(scores, k=K, sensitivity=shares.sensitivity, rho=shares.rho_select, noise=noise)
        lap("selection")
        values = scores.map(lambda family, chosen=chosen: family.scores_of(chosen))
        add_gaussian(values, sensitivity=shares.influence_sensitivity, rho=shares.rho_influence, noise=noise)
        lap("influence intervals")
        bound_ranks(
            scores, chosen, sensitivity=shares.sensitivity, rho=shares.rho_rank, confidence=CONFIDENCE,
            noise=noise,
        )  # fmt: skip
        lap("rank intervals")
        best = {name: min(best.get(name, seconds), seconds) for name, seconds in taken.items()}
    return [{"question": question, "step": name, "seconds": seconds} for name, seconds in best.items()]


def pandas_loop(*, question: str, rows: int) -> list[dict[str, Any]]:
    """Seconds of the straightforward way, run once: for every predicate, the query on the rows without it."""
    from benchmarks.pandas_loop import explain_by_loop

    asked = QUESTIONS[question]
    frame = tables.table(asked.data, rows).to_pandas()
    words = asked.sql.split()
    group, measured = words[-1], words[2].removeprefix("AVG(").removesuffix(")")
    domains = {
        name: column["values"]
        for name, column in tables.schema(asked.data)["columns"].items()
        if "values" in column and name != group
    }
    start = time.perf_counter()
    explain_by_loop(frame, domains, group, measured, tuple(asked.contrast))
    seconds = time.perf_counter() - start
    return [
        {"question": question, "rows": rows, "mechanism": "pandas loop", "repeats": 1, "seconds": seconds}
    ]
