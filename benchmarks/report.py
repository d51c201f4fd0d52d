"""One measured line, and the table of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Line:
    """`seconds` of ours against `baseline` seconds of something honest, and the ratio promised."""

    name: str
    seconds: float
    baseline: float
    promise: str
    kept: bool

    @property
    def ratio(self) -> float:
        return self.seconds / self.baseline


def at_most(name: str, seconds: float, baseline: float, limit: float) -> Line:
    return Line(name, seconds, baseline, f"at most {limit:g}x", seconds <= limit * baseline)


def faster(name: str, seconds: float, baseline: float, factor: float) -> Line:
    return Line(name, seconds, baseline, f"{factor:g}x faster", seconds * factor <= baseline)


def alternate(ours: Callable[[], object], theirs: Callable[[], object], rounds: int) -> tuple[float, float]:
    """Median seconds of both, taken in turns so that a busy machine disturbs them alike.

    The first round warms caches up, and loads what is loaded lazily; it does not count.
    """
    ours()
    theirs()
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for bucket, work in zip(times, (ours, theirs), strict=True):
            started = time.perf_counter()
            work()
            bucket.append(time.perf_counter() - started)
    return median(times[0]), median(times[1])


def show(rows: int, lines: list[Line]) -> None:
    print(f"\n{rows:,} rows\n")
    print(f"{'':58}{'ours':>10}{'baseline':>11}{'ratio':>9}   promise")
    for line in lines:
        ratio = f"{line.ratio:.2f}" if line.ratio > 0.01 else f"1/{1 / line.ratio:,.0f}"
        print(
            f"{line.name:58}{line.seconds:>9.3f}s{line.baseline:>10.3f}s{ratio:>9}   {line.promise}"
            f"{'' if line.kept else '   BROKEN'}"
        )
