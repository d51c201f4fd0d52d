"""The statistical audit: it is silent where the promise holds, and raises the alarm where it is broken.

Broken variants exist in this file only. An alarm on intact parts is false with probability 1e-7 at most per
test; what must raise the alarm is far beyond the bounds, so that missing it is rarer still.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpxplain.audit.privacy_audit import DesignFinding, designs, run_design
from dpxplain.model.confidential import Confidential, sealed
from dpxplain.phases import answer_query, explain, explain_custom, prepare
from dpxplain.privacy.mechanisms import noise
from dpxplain.privacy.mechanisms.noise import VectorisedNoise
from dpxplain.privacy.shared_measurement import Measurement

INTACT = ["count", "sum of both signs", "average", "distinct persons", "count, replaced", "prepared count"]
FALSE_ALARM = 1e-7


def audited(name: str, draws: int) -> DesignFinding:
    return run_design(designs()[name], seed=1, draws=draws, false_alarm=FALSE_ALARM)


def costs_more(finding: DesignFinding) -> bool:
    """Whether an alarm is raised because the releases cost more than was promised."""
    return finding.violation != "" and finding.evidence.sure_rho > finding.evidence.promised


@pytest.mark.draws
@pytest.mark.parametrize("name", INTACT)
def test_no_alarm_is_raised_where_the_promise_holds(name: str) -> None:
    finding = audited(name, 2_000)
    assert finding.violation == ""
    assert finding.evidence.promised == pytest.approx(1.0, rel=1e-5)


@pytest.mark.slow
@pytest.mark.draws
def test_a_design_comes_close_to_the_promise() -> None:
    """So that little more than what is promised would be noticed; it is seven standard errors above 0.6."""
    assert audited("count", 10_000).evidence.reached > 0.6


def _smaller(function: Callable[..., float], times: float = 0.7) -> Callable[..., float]:
    return lambda *arguments, **options: times * function(*arguments, **options)


@pytest.mark.draws
@pytest.mark.parametrize(
    "name",
    [
        "count",
        pytest.param("sum, persons", marks=pytest.mark.slow),
        pytest.param("average, replaced", marks=pytest.mark.slow),
    ],
)
def test_sensitivities_of_answers_at_seven_tenths_are_noticed(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(Measurement, "sensitivity", _smaller(Measurement.sensitivity))
    assert costs_more(audited(name, 10_000))


@pytest.mark.slow
@pytest.mark.draws
def test_sensitivities_of_cells_at_seven_tenths_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "count_sensitivity", _smaller(prepare.count_sensitivity))
    assert costs_more(audited("prepared count", 10_000))


@pytest.mark.slow
@pytest.mark.draws
def test_sensitivities_of_influences_at_four_tenths_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each draw is a whole explanation: at seven tenths it would take 8,000 of them."""
    smaller = _smaller(explain.influence_sensitivity, 0.4)
    monkeypatch.setattr(explain, "influence_sensitivity", smaller)
    assert costs_more(audited("influence, count", 1_500))


CUSTOM = ["custom selection, ratio", "custom ranks, ratio", "custom influence, ratio"]


@pytest.mark.slow
@pytest.mark.draws
@pytest.mark.parametrize("name", CUSTOM)
def test_searches_by_distance_that_spend_what_is_promised_raise_no_alarm(name: str) -> None:
    assert audited(name, 100).violation == ""


@pytest.mark.slow
@pytest.mark.draws
def test_a_selection_by_distance_that_spends_far_more_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where its price was taken for ranks and influences too. At half the design's price: so few releases
    can hardly refute a whole one. Searches among positions are too blunt for a test as short as this.
    """
    design = designs()["custom selection, ratio"]
    dearer = _dearer(explain_custom.select_by_distance)
    monkeypatch.setattr(explain_custom, "select_by_distance", dearer)
    finding = run_design(replace(design, rho=design.rho / 2), seed=1, draws=300, false_alarm=FALSE_ALARM)
    assert costs_more(finding)


def _dearer(release: Callable[..., Any]) -> Callable[..., Any]:
    return lambda secret, *, rho, **options: release(secret, rho=32.0 * rho, **options)


@pytest.mark.draws
def test_noise_that_is_used_twice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts and sums get the same noise: together they tell what neither tells alone."""
    kept: list[Any] = []

    def again(_: Any, measurement: Any, values: Any, scale: float) -> Any:
        if kept:
            drawn = kept.pop()
        else:
            drawn = np.random.default_rng().normal(size=len(values))
            kept.append(drawn)
        return values + np.rint(drawn * scale).astype(np.int64)

    monkeypatch.setattr(VectorisedNoise, "gaussian", again)
    assert costs_more(audited("average of an empty group", 1_000))


@pytest.mark.slow
@pytest.mark.draws
def test_a_split_that_was_forgotten_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count and sum are each measured for the whole ρ, which is charged once."""
    whole = property(lambda self: {part.name: self.rho for part in self.parts})
    monkeypatch.setattr(Measurement, "rhos", whole)
    monkeypatch.setattr(Measurement, "check", lambda self: None)
    assert costs_more(audited("average", 10_000))


@pytest.fixture
def broken_gaussian(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Replaces the noise of answers by what a function makes of true values and scale."""

    def install(release: Callable[[Any, Any], Any]) -> None:
        intact = noise.add_gaussian

        @sealed
        def broken(secret: Confidential[Any], **options: Any) -> noise.NoisyValues:
            noisy = intact(secret, **options)
            return noise.NoisyValues(release(secret.reveal(), noisy), noisy.scale)

        monkeypatch.setattr(answer_query, "add_gaussian", broken)

    return install


@pytest.mark.draws
def test_counts_of_empty_groups_without_noise_are_noticed(broken_gaussian: Any) -> None:
    broken_gaussian(lambda true, noisy: np.where(true == 0, 0.0, noisy.values))
    assert costs_more(audited("count of an empty group", 1_000))


@pytest.mark.draws
def test_noise_drawn_in_floating_point_is_noticed(broken_gaussian: Any) -> None:
    random = np.random.default_rng()
    broken_gaussian(lambda true, noisy: true + random.normal(0.0, noisy.scale, len(true)))
    assert "as fine as floating point" in audited("count", 200).violation
