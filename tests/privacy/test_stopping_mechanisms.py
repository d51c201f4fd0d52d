"""A request that is to stop ends within a few thousand draws, whatever it is doing; the charge stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import dpxplain as dpx
from chance import follows, uncorrelated
from dpxplain.model.confidential import Confidential
from dpxplain.model.process import Stop, Stopped, stoppable
from dpxplain.privacy.mechanisms import noise as noises
from dpxplain.privacy.mechanisms.noise import (
    DRAWS_AT_ONCE,
    NoiseSource,
    OpenDPNoise,
    SeededNoise,
    add_gaussian,
)
from dpxplain.privacy.mechanisms.ranking import (
    Envelope,
    OneShotPlan,
    VectorPlan,
    bound_positions,
    bound_ranks,
    release_vector,
    select_and_measure,
    select_by_distance,
    select_top_k,
)
from dpxplain.privacy.mechanisms.samplers import FamilyScores
from opened import dataset_of

SIZE, DELTA = 30_000, 2**20
FAMILY = Confidential(FamilyScores(np.arange(0, SIZE, 100), np.arange(300) * 10**4, SIZE))
ENVELOPES = [Envelope(np.array([5]), np.array([5]))] * 3000


class StopsAfter(SeededNoise):
    """Asks to stop after so many draws, and counts those that are made nevertheless."""

    def __init__(self, draws: int, stop: Stop) -> None:
        super().__init__(1)
        self.left, self.stop, self.late = draws, stop, 0

    def _count(self, draws: int) -> None:
        if self.stop.is_requested:
            self.late += draws
        self.left -= draws
        if self.left <= 0:
            self.stop.request()

    def gaussian(self, measurement: Any, values: np.ndarray, scale: float) -> np.ndarray:
        self._count(len(values))
        return super().gaussian(measurement, values, scale)

    def pick(self, scores: list[int], scale: float) -> int:
        self._count(1)
        return super().pick(scores, scale)


def _one_shot(noise: NoiseSource, k: int = 3000) -> object:
    plan = OneShotPlan.share(k=k, family_size=SIZE, sensitivity=DELTA, rho=1.0, split=(1, 1, 2))
    return select_and_measure(FAMILY, plan, 0.95, noise)


def _positions(noise: NoiseSource) -> object:
    return bound_positions(
        Confidential(ENVELOPES),
        size=1000,
        rows=1,
        rho=1.0,
        confidence=0.95,
        lower_share=0.5,
        noise=noise,
    )


MECHANISMS: dict[str, Callable[[NoiseSource], object]] = {
    "a large vector": lambda noise: add_gaussian(
        Confidential(np.zeros(100_000, dtype=np.int64)), sensitivity=1, rho=0.1, noise=noise
    ),
    "a selection": lambda noise: select_top_k(FAMILY, k=3000, sensitivity=DELTA, rho=1.0, noise=noise),
    "a selection by distance": lambda noise: select_by_distance(FAMILY, k=3000, rows=1, rho=1.0, noise=noise),
    "rank bounds": lambda noise: bound_ranks(
        FAMILY, list(range(3000)), sensitivity=DELTA, rho=1.0, confidence=0.95, noise=noise
    ),
    "positions": _positions,
    "one-shot": _one_shot,
    "one-shot of the whole family": lambda noise: _one_shot(noise, SIZE),
    "vector": lambda noise: release_vector(
        FAMILY, VectorPlan(3000, SIZE, DELTA, DELTA, 0.5, 0.5), 0.95, noise
    ),
}


@pytest.mark.parametrize("draws", [1, 2500, 20_000])
@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
def test_a_stop_in_the_middle_ends_it_soon(mechanism: Callable[[NoiseSource], object], draws: int) -> None:
    stop = Stop()
    noise = StopsAfter(draws, stop)
    with stoppable(stop):
        if draws > 3000 and mechanism in (MECHANISMS["a selection"], MECHANISMS["a selection by distance"]):
            mechanism(noise)  # over before it is asked to stop
            return
        with pytest.raises(Stopped) as stopped:
            mechanism(noise)
    assert noise.late <= DRAWS_AT_ONCE
    assert stopped.value.__context__ is None
    assert not stopped.value.args


def test_nothing_begins_after_a_stop() -> None:
    for mechanism in MECHANISMS.values():
        stop = Stop()
        stop.request()
        noise = StopsAfter(10**9, stop)
        with stoppable(stop), pytest.raises(Stopped):
            mechanism(noise)
        assert noise.late == 0


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
def test_a_stop_that_nobody_asks_for_changes_nothing(mechanism: Callable[[NoiseSource], object]) -> None:
    alone = mechanism(SeededNoise(3))
    with stoppable(Stop()):
        assert _plain(mechanism(SeededNoise(3))) == _plain(alone)


def _plain(result: Any) -> object:
    return (result.values.tolist(), result.scale) if hasattr(result, "values") else result


class Recorder(OpenDPNoise):
    def __init__(self) -> None:
        self.runs: list[tuple[Any, int, float]] = []

    def gaussian(self, measurement: Any, values: np.ndarray, scale: float) -> np.ndarray:
        self.runs.append((measurement, len(values), scale))
        return super().gaussian(measurement, values, scale)


@pytest.mark.draws
def test_pieces_are_of_one_measurement_whose_cost_is_asserted_once_for_the_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asserted = []
    real = noises.authorise

    def authorise(build: Any, scale: float, sensitivity: float, rho: float) -> tuple[Any, float]:
        asserted.append(rho)
        return real(build, scale, sensitivity, rho)

    monkeypatch.setattr("dpxplain.privacy.mechanisms.noise.authorise", authorise)
    recorder, count = Recorder(), 2 * DRAWS_AT_ONCE + 7
    values = Confidential(np.arange(count, dtype=np.int64) * 1000)
    released = add_gaussian(values, sensitivity=3.0, rho=0.1, noise=recorder)
    assert asserted == [0.1]
    assert [size for _, size, _ in recorder.runs] == [DRAWS_AT_ONCE, DRAWS_AT_ONCE, 7]
    assert len({(id(measurement), scale) for measurement, _, scale in recorder.runs}) == 1
    off = (released.values - np.arange(count) * 1000) / released.scale
    first, second = off[:DRAWS_AT_ONCE], off[DRAWS_AT_ONCE : 2 * DRAWS_AT_ONCE]
    assert follows(off, stats.norm.cdf)
    assert uncorrelated(first, second)


def test_a_vector_drawn_in_pieces_is_the_vector_drawn_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    values = Confidential(np.arange(3 * DRAWS_AT_ONCE, dtype=np.int64))
    pieces = add_gaussian(values, sensitivity=1, rho=0.1, noise=SeededNoise(5))
    monkeypatch.setattr(noises, "DRAWS_AT_ONCE", 10**9)
    whole = add_gaussian(values, sensitivity=1, rho=0.1, noise=SeededNoise(5))
    assert pieces.values.tolist() == whole.values.tolist()


@pytest.mark.parametrize("mechanism", ["one-shot", "vector", "marginals"])
def test_a_stop_after_the_charge_releases_nothing_and_gives_nothing_back(
    mechanism: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(noises, "DRAWS_AT_ONCE", 100)  # no mechanism has drawn everything at the stop
    columns = {name: {"values": list(range(30))} for name in ("a", "b")}
    schema = {
        "table": {"name": "t"},
        "privacy": {"rho": 10.0},
        "columns": {"g": {"values": ["A", "B"]}, **columns},
    }
    draw = np.random.default_rng(2)
    frame = pd.DataFrame({"g": ["A", "B"] * 500, "a": draw.integers(30, size=1000)})
    with dpx.connect(frame.assign(b=frame.a), schema, workspace=tmp_path) as session:
        question = session.query("SELECT g, COUNT(*) FROM t GROUP BY g", rho=1.0).why("A", "B")
        stop = Stop()
        dataset = dataset_of(question)
        dataset.noise = StopsAfter(1, stop)
        asked = {"k": 900, "rho": 1.0, "conjuncts": 2, "mechanism": mechanism}
        with stoppable(stop), pytest.raises(Stopped):
            question.explain(**asked)
        assert session.budget.spent == 2.0
        assert [entry.state for entry in dataset.ledger.history("t")] == ["released", "reserved"]
        assert len(question.explain(**asked)) == 900  # asked again it is paid again
        assert session.budget.spent == 3.0
