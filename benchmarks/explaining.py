"""Measures explanations by every mechanism against the bare grouped query and NumPy's bincount."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from benchmarks.contenders import Contenders
from benchmarks.tables import Shape
from benchmarks.timing import Contender, Timing, alternate

MECHANISMS = ("auto", "one-shot", "vector", "marginals")
BARE, BINCOUNT, BINCOUNT_WIDE = "GROUPING SETS", "bincount", "bincount, wide"
MOST_OF_BARE = {False: 1.5, True: 0.7}  # the promise for the default mechanism, by whether rows repeat


@dataclass(frozen=True)
class Case:
    """One table and number of conjuncts, with the timings of all contenders."""

    shape: str
    repeats: bool
    rows: int
    conjuncts: int
    predicates: int
    chosen: str
    """The mechanism that `auto` chose."""
    timings: dict[str, Timing]

    @property
    def bare(self) -> Timing:
        return self.timings[BARE]

    @property
    def fastest_bincount(self) -> Timing:
        return min((self.timings[name] for name in (BINCOUNT, BINCOUNT_WIDE)), key=lambda t: t.seconds)

    @property
    def most_of_bare(self) -> float:
        return MOST_OF_BARE[self.repeats]

    @property
    def kept(self) -> bool:
        return self.timings["auto"].seconds <= self.most_of_bare * self.bare.seconds


def run(shape: Shape, rows: int, rounds: int) -> Iterator[Case]:
    """Measures cases of one, two and three conjuncts."""
    contenders = Contenders(shape.make(rows), shape.schema)
    try:
        for conjuncts in (1, 2, 3):
            yield measure(contenders, shape, rows, conjuncts, rounds, MECHANISMS)
    finally:
        contenders.close()


def measure_growth(shape: Shape, largest: int, rounds: int) -> Iterator[Case]:
    """Measures the default explanation of pairs at a hundredth, a tenth and all of the largest size."""
    for rows in (largest // 100, largest // 10, largest):
        contenders = Contenders(shape.make(rows), shape.schema)
        try:
            yield measure(contenders, shape, rows, 2, rounds, ("auto",))
        finally:
            contenders.close()


def measure(
    contenders: Contenders,
    shape: Shape,
    rows: int,
    conjuncts: int,
    rounds: int,
    mechanisms: tuple[str, ...],
) -> Case:
    contenders.load_columns()
    previews = {name: contenders.preview(mechanism=name, conjuncts=conjuncts) for name in mechanisms}
    default = previews["auto"]
    assert default is not None
    works: dict[str, Contender] = {
        name: partial(contenders.explain, mechanism=name, conjuncts=conjuncts)
        for name, preview in previews.items()
        if preview is not None
    }
    bare: dict[str, Callable[[int], None]] = {
        BARE: contenders.grouping_sets,
        BINCOUNT: contenders.bincount,
        BINCOUNT_WIDE: contenders.bincount_wide,
    }
    for name, work in bare.items():
        works[name] = partial(partial, work, conjuncts)
    timings = alternate(works, rounds)
    return Case(shape.name, shape.repeats, rows, conjuncts, default.family_size, default.mechanism, timings)
