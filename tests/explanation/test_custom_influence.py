"""Custom influences: bounds that hold and nest, stable distances, and the ratio question end to end."""

from __future__ import annotations

import builtins
import functools
import itertools
import math
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpxplain as dpx
from dpxplain.errors import ExplanationError
from dpxplain.explanation.custom import (
    Counts,
    CustomInfluence,
    FormulaInfluence,
    Range,
    RatioInfluence,
    between,
    code_of,
    influence_envelopes,
    rank_envelopes,
    selection_scores,
    thresholds,
    try_out,
)
from dpxplain.explanation.family_choice import FamilyChoice
from dpxplain.explanation.influence import QuestionCells
from dpxplain.model.charge import Request
from dpxplain.model.confidential import Confidential
from dpxplain.model.contrast import Contrast
from dpxplain.model.release import FloatArray
from dpxplain.phases.explain_custom import CustomRelease, plan_custom
from dpxplain.privacy.mechanisms.noise import SeededNoise
from dpxplain.privacy.mechanisms.ranking import Envelope, bound_positions
from dpxplain.render.views import view_of
from dpxplain.wire.payloads import preview_payload
from opened import dataset_of

RATIO = RatioInfluence()
REACH = 12


def _cells(counts: list[int], matching: Any, active: list[int] | None = None) -> QuestionCells:
    a = np.array(matching, dtype=np.int64).reshape(len(counts), -1)
    index = np.arange(a.shape[1]) if active is None else np.array(active, dtype=np.int64)
    return QuestionCells(index, np.array(counts), np.zeros(len(counts), np.int64), a, np.zeros_like(a))


def _true_ratio(a1: int, c1: int, a2: int, c2: int) -> float:
    """Straight from the definition; no code shared with the library."""
    if c2 == 0:
        return 0.0
    share = (c1 + c2) / (a1 + c1 + a2 + c2)
    return share * ((a1 + c1) / (a2 + c2) - c1 / c2)


# --- bounds -------------------------------------------------------------------------------------------


def _on_all_counts(most: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Bounds for every (a1, c1, a2, c2) up to `most` each."""
    low, high = np.empty((2, *[most + 1] * 4))
    for counts in itertools.product(range(most + 1), repeat=4):
        a1, c1, a2, c2 = counts
        (low[counts],), (high[counts],) = RATIO.bounds(_cells([a1 + c1, a2 + c2], [[a1], [a2]]), d)
    return low, high


def _grown(values: np.ndarray, best: Any, empty: float) -> np.ndarray:
    """Best of every entry and its neighbours in the grid: one row more or less."""
    grown = values.copy()
    for axis in range(values.ndim):
        for step in (1, -1):
            moved = np.roll(values, step, axis)
            edge: list[Any] = [slice(None)] * values.ndim
            edge[axis] = 0 if step == 1 else -1
            moved[tuple(edge)] = empty
            grown = best(grown, moved)
    return grown


def test_ratio_bounds_hold_on_all_tables_within_three_rows() -> None:
    most, inner = 7, (slice(0, 5),) * 4  # up to 4 rows of each kind, with room for 3 more
    least = np.array([_true_ratio(*c) for c in itertools.product(range(most + 1), repeat=4)])
    least = least.reshape([most + 1] * 4)
    greatest = least.copy()
    for d in range(4):
        low, high = _on_all_counts(4, d)
        assert np.all(low <= least[inner] + 1e-12)
        assert np.all(high >= greatest[inner] - 1e-12)
        if d == 0:
            assert np.allclose(low, least[inner])
            assert np.array_equal(low, high)
        least, greatest = _grown(least, np.minimum, np.inf), _grown(greatest, np.maximum, -np.inf)


@pytest.mark.slow
def test_ratio_bounds_nest_exactly_between_all_small_neighbours() -> None:
    found = [_on_all_counts(5, d) for d in range(4)]
    for (low, high), (wider_low, wider_high) in itertools.pairwise(found):
        # Not even a rounding error is allowed here: privacy rests on it.
        assert np.all(_grown(wider_low, np.maximum, -np.inf) <= low)
        assert np.all(_grown(wider_high, np.minimum, np.inf) >= high)


def test_ratio_bounds_nest_on_large_tables() -> None:
    seeded = np.random.default_rng(4)
    for _ in range(400):
        a = seeded.integers(0, 10 ** seeded.integers(1, 9, 4), endpoint=True)
        moved = a.copy()
        moved[seeded.integers(4)] += 1
        d = int(seeded.integers(0, 2000))
        here, there = (_cells([x[0] + x[1], x[2] + x[3]], [[x[0]], [x[2]]]) for x in (a, moved))
        for one, other in ((here, there), (there, here)):
            low, high = RATIO.bounds(one, d)
            wider_low, wider_high = RATIO.bounds(other, d + 1)
            assert wider_low[0] <= low[0] <= high[0] <= wider_high[0]


def test_range_arithmetic_contains_and_widens() -> None:
    seeded = np.random.default_rng(5)
    operations = [lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: x / y]
    for _ in range(300):
        x, y, w = np.sort(seeded.integers(-6, 7, (3, 2)), axis=1)
        for operation in operations:
            narrow = operation(Range.of(*x), Range.of(*y))
            wide = operation(Range.of(x[0] - abs(w[0]), x[1]), Range.of(y[0], y[1] + abs(w[1])))
            assert wide.low <= narrow.low <= narrow.high <= wide.high
            for u, v in itertools.product(np.linspace(*x, 3), np.linspace(*y, 3)):
                if v or operation is not operations[3]:
                    assert narrow.low - 1e-12 <= operation(u, v) <= narrow.high + 1e-12
    assert repr(2 - Range.of(0, 1) * 3) == "[-1, 2]"


# --- distances ----------------------------------------------------------------------------------------

KINDS = list(itertools.product((0, 1), [(1, 0, 0), (0, 1, 0), (1, 0, 1), (0, 0, 0)]))  # group, matches
Table = tuple[int, ...]  # kinds of its rows, sorted
SIZE = 5  # three predicates that rows can match, and two that none does


def _table_cells(table: Table) -> QuestionCells:
    counts, matching = [0, 0], np.zeros((2, 3), dtype=np.int64)
    for kind in table:
        group, matches = KINDS[kind]
        counts[group] += 1
        matching[group] += matches
    active = np.flatnonzero(matching.sum(axis=0))
    return _cells(counts, matching[:, active], active.tolist())


def _neighbours(most: int) -> Iterator[tuple[Table, Table]]:
    for rows in range(most):
        for table in itertools.combinations_with_replacement(range(len(KINDS)), rows):
            for kind in range(len(KINDS)):
                yield table, tuple(sorted((*table, kind)))


def _scores(influence: CustomInfluence, cells: QuestionCells) -> np.ndarray:
    """Scores of the whole family for every k, not shifted to the idle ones, by the definition."""
    envelopes = rank_envelopes(influence, cells, list(range(SIZE)), SIZE, REACH)
    return np.array([[max(e.ahead(k + 1) - 1, 0) - e.behind(k) for e in envelopes] for k in range(1, SIZE)])


def _brute_envelopes(influence: CustomInfluence, cells: QuestionCells) -> list[Envelope]:
    """B and b as the paper writes them, every predicate listed."""
    matching = np.zeros((2, SIZE), dtype=np.int64)
    matching[:, cells.active] = cells.predicate_count
    listed = _cells(cells.count.tolist(), matching)
    lowest, highest = np.empty((2, REACH, SIZE), dtype=np.int64)
    for d, p in itertools.product(range(REACH), range(SIZE)):
        low, high = influence.bounds(listed, d)
        lowest[d, p] = 1 + sum(low[q] > high[p] for q in range(SIZE))
        highest[d, p] = SIZE - sum(high[q] < low[p] for q in range(SIZE))
    return [Envelope(lowest[:, p], highest[:, p]) for p in range(SIZE)]


@pytest.mark.slow
def test_every_distance_moves_by_at_most_one_between_all_small_neighbours() -> None:
    cut = FormulaInfluence("cut", RATIO.formula, thresholds(0.1, 2.0, 8))
    measured: dict[Table, np.ndarray] = {}

    def distances(table: Table) -> np.ndarray:
        if table not in measured:
            cells, family = _table_cells(table), list(range(SIZE))
            ranks = rank_envelopes(RATIO, cells, family, SIZE, REACH)
            gaps = influence_envelopes(cut, cells, family, REACH)
            measured[table] = np.array(
                [
                    *([f(t) for e in ranks for f in (e.ahead, e.behind) for t in range(1, SIZE + 1)]),
                    *([f(t) for e in gaps for f in (e.ahead, e.behind) for t in range(1, 19, 3)]),
                    *([max(e.ahead(k + 1) - 1, 0) - e.behind(k) for e in ranks for k in range(1, SIZE)]),
                ]
            )
        return measured[table]

    largest = 0
    for table, neighbour in _neighbours(4):
        change = int(np.abs(distances(table) - distances(neighbour)).max())
        largest = max(largest, change)
    assert largest == 1


@pytest.mark.slow
def test_larger_neighbours_too() -> None:
    seeded = np.random.default_rng(6)
    for _ in range(100):
        table = seeded.integers(0, len(KINDS), seeded.integers(5, 60)).tolist()
        here, there = _table_cells(tuple(table)), _table_cells(tuple(table[1:]))
        assert np.abs(_scores(RATIO, here) - _scores(RATIO, there)).max() <= 1


@pytest.mark.slow
def test_envelopes_and_selection_scores_are_those_of_the_definition_with_idle_predicates_unlisted() -> None:
    seeded = np.random.default_rng(7)
    for _ in range(60):
        table = tuple(seeded.integers(0, len(KINDS), seeded.integers(0, 30)).tolist())
        cells = _table_cells(table)
        brute = _brute_envelopes(RATIO, cells)
        found = rank_envelopes(RATIO, cells, list(range(SIZE)), SIZE, REACH)
        for mine, expected in zip(found, brute, strict=True):
            assert np.array_equal(mine.lowest, expected.lowest)
            assert np.array_equal(mine.highest, expected.highest)
        for k in range(1, SIZE):
            family = selection_scores(RATIO, cells, k, SIZE, REACH)
            whole = _scores(RATIO, cells)[k - 1]
            assert family.scores_of(range(SIZE)).tolist() == (whole - whole[-1]).tolist()


def test_the_true_rank_lies_in_the_envelope_of_every_table_within_its_distance() -> None:
    for table in itertools.combinations_with_replacement(range(len(KINDS)), 2):
        envelopes = rank_envelopes(RATIO, _table_cells(table), list(range(SIZE)), SIZE, 3)
        for d, added in enumerate([(), (0,), (0, 5)]):
            other = _table_cells(tuple(sorted((*table, *added))))
            influence = np.zeros(SIZE)
            influence[other.active] = RATIO.influence(other)
            for p, envelope in enumerate(envelopes):
                above, not_below = np.sum(influence > influence[p]), np.sum(influence >= influence[p])
                assert envelope.lowest[d] <= above + 1
                assert envelope.highest[d] >= not_below


@dataclass(frozen=True)
class _MerelyValid:
    """Bounds that hold and grow with d, but are looser on tables with an odd number of rows."""

    name: str = "merely valid"
    thresholds: tuple[float, ...] = (0.0,)

    def refusal(self, kind: str, contrast: Contrast) -> str:
        return ""

    def influence(self, cells: QuestionCells) -> FloatArray:
        return cells.predicate_count.sum(axis=0).astype(float)

    def bounds(self, cells: QuestionCells, d: int) -> tuple[FloatArray, FloatArray]:
        loose = d + 1000.0 * (cells.count.sum() % 2)
        return self.influence(cells) - loose, self.influence(cells) + loose


def test_bounds_that_merely_hold_are_not_private_and_are_refused() -> None:
    """The paper says that loose bounds will do."""
    here = _cells([40, 0], [[30, 10], [0, 0]])
    there = _cells([41, 0], [[30, 10], [0, 0]])
    omega = [rank_envelopes(_MerelyValid(), c, [0], 2, 50)[0].ahead(2) for c in (here, there)]
    assert omega == [10, 0]
    assert "takes the bounds at distance 0 outside those at 1" in try_out(_MerelyValid(), 2, 0, 0)


def test_one_signed_indicator_would_have_sensitivity_two() -> None:
    """Why each direction has an indicator of its own, and why the selection score subtracts one."""
    weighted = FormulaInfluence("weighted", lambda n: 2 * n.matching(0) + n.matching(1))
    here = _cells([2, 1], [[2, 2, 2], [1, 0, 0]])  # influences 5, 4, 4
    there = _cells([3, 1], [[2, 3, 3], [1, 0, 0]])  # 5, 6, 6: one row that matches the last two
    (one,), (other,) = (rank_envelopes(weighted, cells, [0], 3, 9) for cells in (here, there))
    assert [e.ahead(2) - e.behind(2) for e in (one, other)] == [1, -1]
    assert [e.ahead(2) - e.behind(1) for e in (one, other)] == [1, -1], "so would in or out of the top 1"
    assert [max(e.ahead(2) - 1, 0) - e.behind(1) for e in (one, other)] == [0, -1]


# --- releases -----------------------------------------------------------------------------------------


def _family_cells(seed: int = 8, predicates: int = 24) -> QuestionCells:
    seeded = np.random.default_rng(seed)
    counts = [3000, 2000]
    return _cells(counts, [seeded.integers(0, n // 8, predicates) for n in counts])


@pytest.mark.slow
def test_rank_and_influence_intervals_cover_at_least_as_often_as_they_say() -> None:
    runs, size, confidence = 2000, 40, 0.9
    cells = _family_cells()
    influence = np.zeros(size)
    influence[: len(cells.active)] = RATIO.influence(cells)
    ranks = np.empty(size, dtype=int)
    ranks[np.argsort(-influence, kind="stable")] = np.arange(1, size + 1)
    chosen = [int(np.argmax(influence)), 3, 11, int(np.argmin(influence)), 30]
    for rho in (0.05, 1.0):
        kinds = (
            (rank_envelopes(RATIO, cells, chosen, size, 400), size),
            (influence_envelopes(RATIO, cells, chosen, 400), len(RATIO.thresholds) + 1),
        )
        for which, (envelopes, positions) in enumerate(kinds):
            found = bound_positions(
                Confidential(envelopes * runs),
                size=positions,
                rows=1,
                rho=rho * len(envelopes) * runs,
                confidence=confidence,
                lower_share=0.3,
                noise=SeededNoise(9),
            )
            for i, p in enumerate(chosen):
                mine = found[i :: len(chosen)]
                if which == 0:
                    covered = [low <= ranks[p] <= high for low, high in mine]
                else:
                    covered = [low <= influence[p] <= high for low, high in (between(RATIO, f) for f in mine)]
                assert np.mean(covered) >= confidence, (rho, which, p)
    widths = [high - low for low, high in found[:: len(chosen)]]
    assert np.median(widths) <= 50, "at ρ = 1 a few dozen of 8,192 gaps, each 0.45% wide"


def test_ten_million_idle_predicates_are_never_listed() -> None:
    size, cells = 10_000_000, _family_cells()
    tracemalloc.start()
    family = selection_scores(RATIO, cells, 5, size, 200)
    best = int(np.argmax(RATIO.influence(cells)))
    (top, idle) = rank_envelopes(RATIO, cells, [best, size - 1], size, 200)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < size, "not even a byte for each"
    leader, last = family.scores_of([best, size - 1])
    assert leader > 0 == last
    assert top.highest[0] == 1
    positive = int(np.sum(RATIO.influence(cells) > 0))
    negative = int(np.sum(RATIO.influence(cells) < 0))
    assert (idle.lowest[0], idle.highest[0]) == (positive + 1, size - negative)


def _session(tmp_path: Any, **privacy: Any) -> tuple[Any, Any]:
    seeded = np.random.default_rng(10)
    rows = 6000
    frame = pd.DataFrame(
        {
            "g": seeded.choice(["A", "B"], rows, p=[0.6, 0.4]),
            "zone": seeded.choice(list("pqrstu"), rows),
            "x": seeded.integers(0, 9, rows).astype(float),
        }
    )
    frame.loc[(frame.g == "A") & (seeded.random(rows) < 0.3), "zone"] = "p"  # what makes A large
    schema = {
        "table": {"name": "t"},
        "privacy": {"rho": 100.0, **privacy},
        "columns": {
            "g": {"values": ["A", "B"]},
            "zone": {"values": list("pqrstuvwxyz")},
            "x": {"bounds": [0, 9], "step": 1},
        },
    }
    session = dpx.connect(frame, schema=schema, workspace=tmp_path, insecure_seed=11, trusted_code=True)
    return session, dataset_of(session)


def _plan(session: Any, dataset: Any, influence: Any = RATIO, sql: str = "COUNT(*)", **settings: Any) -> Any:
    question = session.query(f"SELECT g, {sql} FROM t GROUP BY g", rho=1.0).why(
        settings.pop("why", {"A": 1, "B": -1})
    )
    family = dataset.family(question.answer.statement.query, FamilyChoice(["zone"], 1))
    request = {"k": 3, "rho": 1.0, "confidence": 0.95} | settings
    return plan_custom(
        dataset, question.answer.statement.query, question.contrast, family, influence, **request
    )


def test_the_usual_thresholds_are_the_same_on_every_processor() -> None:
    """They identify a request, and the last digits of a power depend on the processor's instructions."""
    positive = thresholds()[4096:]
    for number, threshold in enumerate(positive):
        power = 10.0 ** (8.0 * number / 4094 - 4.0)
        assert {f"{power * (1 + error):.8g}" for error in (-1e-13, 0.0, 1e-13)} == {f"{threshold:.8g}"}
        assert threshold == float(f"{threshold:.8g}")


def test_the_ratio_question_is_explained_paid_once_and_stored(tmp_path: Any) -> None:
    session, dataset = _session(tmp_path)
    plan = _plan(session, dataset)
    assert math.fsum(s.rho for s in plan.spends) == pytest.approx(1.0)
    before = dataset.ledger.budget("t").spent
    first = dataset.find_or_measure(plan, Request("why is A/B so high?"), lambda released: released)
    release, entry, free = first.value, first.entry, first.free
    assert not free
    assert dataset.ledger.budget("t").spent == pytest.approx(before + 1.0)
    assert not release.private
    found = {str(plan.family.predicate(line.predicate)): line for line in release.lines}
    assert len(found) == 3
    line = found["zone = 'p'"]
    assert line.rank[0] == 1
    assert line.rank[1] <= 2
    assert line.influence[0] is not None
    assert line.influence[0] > 0.1
    second = dataset.find_or_measure(plan, Request("why is A/B so high?"), lambda released: released)
    again, same, free = second.value, second.entry, second.free
    assert (again, same, free) == (release, entry, True)
    assert CustomRelease.from_json(release.to_json()) == release
    session.close()


def test_the_table_shows_open_intervals_and_exports_them(tmp_path: Any) -> None:
    session, _ = _session(tmp_path)
    question = session.query("SELECT g, COUNT(*) FROM t GROUP BY g", rho=1.0).why("A", "B")
    chosen: dict[str, Any] = {"k": 3, "influence": RATIO, "attributes": ["zone"]}
    table = question.explain(rho=0.01, **chosen)
    assert [record["rank_high"] for record in table.records()] == [row.rank[1] for row in table]
    assert "Infinity" not in table.to_json()
    assert view_of(table).finding == question.finding
    assert ("zone") in "".join(cell for row in view_of(table).grid.rows for cell in row)  # type: ignore[union-attr]
    with pytest.raises(ExplanationError, match="needs a price"):
        question.explain(**chosen)
    session.close()


def test_the_price_of_a_custom_influence_is_previewed(tmp_path: Any) -> None:
    session, _ = _session(tmp_path)
    question = session.query("SELECT g, COUNT(*) FROM t GROUP BY g", rho=1.0).why("A", "B")
    settings: dict[str, Any] = {"k": 3, "rho": 2.0, "attributes": ["zone"], "influence": RATIO}
    preview = question.preview(**settings)
    assert len(session.history) == 1
    assert (preview.price.rho, preview.price.free, preview.family_size) == (2.0, False, 11)
    assert "ratio of counts" in str(preview)
    assert preview_payload(preview)["rows"][0]["influence_rows"] == preview.influence_rows > 0
    table = question.explain(**settings)
    assert table.spends == preview.price.spends
    assert question.preview(**settings).price.free
    with pytest.raises(ExplanationError, match="its own mechanism"):
        question.preview(**settings, mechanism="vector")
    with pytest.raises(ExplanationError, match="needs a price"):
        question.preview(**settings | {"rho": None})
    session.close()


def test_the_preview_of_all_conditions_promises_that_none_is_missing(tmp_path: Any) -> None:
    session, _ = _session(tmp_path)
    question = session.query("SELECT g, COUNT(*) FROM t GROUP BY g", rho=1.0).why("A", "B")
    preview = question.preview(k=11, rho=2.0, attributes=["zone"], influence=RATIO)
    assert (preview.family_size, preview.shortfall_rows) == (11, 0)
    session.close()


def test_intervals_narrow_with_the_root_of_rho(tmp_path: Any) -> None:
    session, _ = _session(tmp_path)
    question = session.query("SELECT g, COUNT(*) FROM t GROUP BY g", rho=1.0).why("A", "B")
    chosen: dict[str, Any] = {"k": 3, "attributes": ["zone"], "influence": RATIO}
    wide, narrow = (
        np.mean([high - low for low, high in (row.influence for row in question.explain(rho=rho, **chosen))])
        for rho in (4.0, 16.0)
    )
    assert narrow / wide == pytest.approx(0.5, abs=0.15)
    session.close()


def test_replaced_rows_cost_two_changes(tmp_path: Any) -> None:
    session, dataset = _session(tmp_path, neighbours="bounded")
    assert _plan(session, dataset).rows == 2
    session.close()


def test_the_whole_family_in_the_table_needs_no_selection(tmp_path: Any) -> None:
    session, dataset = _session(tmp_path)
    plan = _plan(session, dataset, k=11, rho=4.0)
    assert len(plan.spends) == 2
    release = dataset.find_or_measure(plan, Request("all"), lambda released: released).value
    assert [line.predicate for line in release.lines] == list(range(11))
    session.close()


def _of(function: Any) -> FormulaInfluence:
    return FormulaInfluence("mine", function)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"k": 0}, "k must be a whole number from 1 to the number of conditions"),
        ({"influence": RatioInfluence}, "influence must be an influence function"),
        ({"influence": "ratio"}, "influence must be an influence function"),
        ({"sql": "AVG(x)"}, "the query is not a COUNT"),
        ({"why": {"A": 1}}, "needs two groups"),
        ({"why": {"A": -1, "B": 1}}, "needs two groups"),
        ({"rho": 1e-9}, "is too small for k=3"),
        ({"influence": _MerelyValid()}, "outside those at 1"),
        ({"influence": FormulaInfluence("f", RATIO.formula, (1.0, 1.0))}, "increasing numbers"),
        ({"influence": _of(lambda counts: 1 / 0)}, "it fails on a small table (ZeroDivisionError"),
        ({"influence": _of(lambda counts: counts.all() + float("nan"))}, "finite numbers only"),
    ],
)
def test_refusals_say_what_is_wrong_and_spend_nothing(settings: Any, sentence: str, tmp_path: Any) -> None:
    session, dataset = _session(tmp_path)
    with pytest.raises(ExplanationError) as refused:
        _plan(session, dataset, **settings)
    assert sentence in refused.value.problem
    assert dataset.ledger.budget("t").spent == 1.0
    session.close()


@dataclass(frozen=True)
class _Broken(_MerelyValid):
    kind: str = ""

    def bounds(self, cells: QuestionCells, d: int) -> tuple[FloatArray, FloatArray]:
        value = self.influence(cells)
        if self.kind == "shape":
            return value[:1], value[:1]
        if self.kind == "outside":
            return value + 1, value + 1 + d
        return value - 2 * d - value.max(), value + 2 * d + value.max()


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("shape", "one entry per predicate"),
        ("outside", "outside its own bounds"),
        ("others", "depend on other"),
    ],
)
def test_the_trial_on_made_up_tables_finds_mistakes(kind: str, sentence: str) -> None:
    assert sentence in try_out(_Broken(kind=kind), 2, 0, 0)


@pytest.mark.parametrize(("low", "high"), [(0, 0), (0, 7), (-3, 7)])
def test_our_own_ratio_passes_the_trial(low: int, high: int) -> None:
    assert try_out(RATIO, 2, low, high) == ""


def test_a_formula_of_ones_own_needs_no_proof() -> None:
    lift = FormulaInfluence(
        "lift", lambda n: n.matching(0) / n.all(0).at_least(1) - n.matching(1) / n.all(1).at_least(1)
    )
    assert try_out(lift, 2, 0, 0) == ""
    assert lift.influence(_cells([10, 20], [[5], [5]])).tolist() == [0.25]
    constant = FormulaInfluence("constant", lambda n: Range.of(1, 1))
    assert constant.bounds(_cells([3, 3], [[1, 2], [1, 2]]), 2)[0].tolist() == [1.0, 1.0]
    assert Counts(_cells([3, 4], [[1], [2]]), 2).all().high.tolist() == [9.0]


_LEVEL = 1.0


def _scaled(counts: Counts, by: float = 1.0, *, plus: float = 0.0) -> Range:
    return _LEVEL * by * counts.matching(0) + plus


def _with_defaults(by: float, plus: float) -> Any:
    def formula(counts: Counts, by: float = by, *, plus: float = plus) -> Range:
        return by * counts.matching(0) + plus

    return formula


def test_formulas_that_compute_something_else_are_other_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    def closure(weight: Any) -> Any:
        return lambda counts: weight * counts.matching(0)

    def nested(weight: float) -> Any:
        return lambda counts: (lambda part: weight * part)(counts.matching(0))

    different = [
        closure(1.0),
        closure(-1.0),
        closure(1),
        nested(1.0),
        nested(2.0),
        _with_defaults(1.0, 0.0),
        _with_defaults(2.0, 0.0),
        _with_defaults(1.0, 3.0),
        functools.partial(_scaled, by=2.0),
        functools.partial(_scaled, by=3.0),
        closure(np.array([1.0, 2.0])),
        closure(np.array([1.0, 3.0])),
        _scaled,
    ]
    known = [code_of(_of(formula)) for formula in different]
    assert len(set(known)) == len(known)
    assert known == [code_of(_of(formula)) for formula in different]
    assert code_of(_of(closure(1.0))) == known[0], "made again, it is the same"
    monkeypatch.setitem(globals(), "_LEVEL", 2.0)
    assert code_of(_of(_scaled)) != known[-1]
    assert code_of(_Broken(kind="shape")) != code_of(_Broken(kind="outside")) != code_of(_MerelyValid())
    assert code_of(RatioInfluence()) == ""


def test_helpers_and_constants_of_a_class_are_part_of_its_identity() -> None:
    def made(factor: float, shift: float) -> CustomInfluence:
        class Base:
            factor = 1.0

            def _helper(self, cells: QuestionCells) -> FloatArray:
                return cells.predicate_count.sum(axis=0) + shift

        class Own(Base):
            name = "own"
            thresholds = (0.0,)

            @property
            def _sign(self) -> float:
                return 1.0

            def refusal(self, kind: Any, contrast: Any) -> str:
                return ""

            def influence(self, cells: QuestionCells) -> FloatArray:
                return self._sign * self.factor * self._helper(cells)

            def bounds(self, cells: QuestionCells, d: int) -> tuple[FloatArray, FloatArray]:
                return self.influence(cells) - d, self.influence(cells) + d

        Own.factor = factor
        return Own()

    assert code_of(made(1.0, 0.0)) == code_of(made(1.0, 0.0))
    assert len({code_of(made(1.0, 0.0)), code_of(made(2.0, 0.0)), code_of(made(1.0, 3.0))}) == 3


def test_a_formula_of_what_cannot_be_told_is_refused_before_anything_is_charged(tmp_path: Any) -> None:
    session, dataset = _session(tmp_path)
    hidden = object()
    plan = _plan(session, dataset, influence=_of(lambda counts: counts.matching(0) if hidden else 0))
    with pytest.raises(ExplanationError, match="could not detect changes"):
        dataset.find_or_measure(plan, Request("hidden"), lambda released: released)
    assert dataset.ledger.budget("t").spent == 1.0
    session.close()


def test_a_function_that_calls_itself_is_told_once() -> None:
    def again(counts: Any, depth: int = 0) -> Any:
        return counts.matching(0) if depth else again(counts, 1)

    assert code_of(_of(again)) == code_of(_of(again))


def test_an_influence_at_the_address_of_one_that_is_gone_is_rehearsed_too(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, dataset = _session(tmp_path)
    plans = [_plan(session, dataset, _of(function)) for function in (_matching, _not_matching)]
    monkeypatch.setattr(builtins, "id", lambda _thing: 1)  # as if each had come after the other was gone
    first, second = (plan.shape for plan in plans)
    again = _plan(session, dataset, _of(_matching)).shape
    assert first == again != second
    session.close()


def _matching(counts: Any) -> Any:
    return counts.matching(0)


def _not_matching(counts: Any) -> Any:
    return counts.matching(1)
