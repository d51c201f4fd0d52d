"""Measures noise for many cells, by our sampler and by OpenDP's own, and preparing an answer end to end."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.contenders import COMPARED, Contenders, K
from benchmarks.tables import Shape
from benchmarks.timing import Figure, alternate, constant
from dpxplain.model.confidential import Confidential
from dpxplain.privacy.mechanisms.noise import NoiseSource, OpenDPNoise, VectorisedNoise, add_gaussian

CELLS = 100_000
_DRAWING_SECONDS, _PREPARING_SECONDS = 0.15, 1.0
_SENSITIVITY, _RHO = 1.0, 0.1
_ATTRIBUTES = ("race", "marst", "citizen", "educ", "age")  # their triples times sex give some 100,000 cells


def run(rounds: int, cells: int) -> list[Figure]:
    """Measures discrete Gaussian noise for a vector of counts."""
    counts = Confidential(np.arange(cells, dtype=np.int64))

    def draw(noise: NoiseSource) -> None:
        add_gaussian(counts, sensitivity=_SENSITIVITY, rho=_RHO, noise=noise)

    timings = alternate(
        {
            "ours": partial(partial, draw, VectorisedNoise()),
            "OpenDP": partial(partial, draw, OpenDPNoise()),
        },
        rounds,
    )
    name, conditions = f"{cells:,} noisy cells", f"sensitivity 1, ρ = {_RHO:g}, exact discrete Gaussian"
    return [
        Figure(name, conditions, timings["ours"], constant(_DRAWING_SECONDS), "a promised time", 1.0),
        Figure(name, conditions, timings["ours"], timings["OpenDP"], "OpenDP's own sampler"),
    ]


def prepare(shape: Shape, rows: int, rounds: int) -> list[Figure]:
    """Measures `answer.prepare` of some 100,000 cells, and the first free explanation from it."""
    contenders = Contenders(shape.make(rows), shape.schema)
    cells = contenders.answer().preview_prepare(_RHO, attributes=_ATTRIBUTES, conjuncts=3).plan.cells

    def preparing() -> Callable[[], object]:
        answer = contenders.answer()
        return lambda: answer.prepare(_RHO, attributes=_ATTRIBUTES, conjuncts=3)

    def explaining() -> Callable[[], object]:
        answer = contenders.answer()
        answer.prepare(_RHO, attributes=_ATTRIBUTES, conjuncts=3)
        return lambda: answer.why(*COMPARED).explain(k=K, attributes=_ATTRIBUTES, conjuncts=3)

    timings = alternate({"preparing": preparing, "explaining": explaining}, rounds)
    contenders.close()
    promise, conditions = constant(_PREPARING_SECONDS), f"{shape.name}, rows {shape.rows_kind}"
    name = f"an answer of {cells:,} cells, counts and sums"
    return [
        Figure(f"preparing {name}", conditions, timings["preparing"], promise, "a promised time", 1.0),
        Figure(f"a free explanation from {name}", conditions, timings["explaining"], promise, "a second"),
    ]
