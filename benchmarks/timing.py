"""Wall and CPU seconds of contenders that take turns, and figures with what was promised of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median

SECONDS_EACH = 3.0
"""A contender that has used so much time in all takes no further turns; every contender has at least one."""


@dataclass
class Timing:
    """Seconds of every turn of one contender; the first one warms caches up and is kept apart."""

    first: float = 0.0
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return median(self.wall)

    @property
    def cpu_seconds(self) -> float:
        """Of all threads of this process."""
        return median(self.cpu)


Contender = Callable[[], Callable[[], object]]
"""Called before each turn, untimed; returns the work that is timed."""


def alternate(
    contenders: Mapping[str, Contender], rounds: int, seconds_each: float = SECONDS_EACH
) -> dict[str, Timing]:
    """Timings of contenders that take turns, so that a busy machine disturbs them alike.

    The first round does not count: it loads what is loaded lazily. A contender whose first turn alone takes
    longer than `seconds_each` is not asked again; that turn is then its figure.
    """
    timings = {name: Timing() for name in contenders}
    for name, contender in contenders.items():
        wall, cpu = _timed(contender())
        timings[name].first = wall
        if wall > seconds_each:
            timings[name].wall.append(wall)
            timings[name].cpu.append(cpu)
    for _ in range(rounds):
        for name, contender in contenders.items():
            timing = timings[name]
            if timing.wall and timing.first + sum(timing.wall) > seconds_each:
                continue
            wall, cpu = _timed(contender())
            timing.wall.append(wall)
            timing.cpu.append(cpu)
    return timings


def _timed(work: Callable[[], object]) -> tuple[float, float]:
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


@dataclass(frozen=True)
class Figure:
    """Ours, the baseline of the same run, and how many times the baseline was promised at most."""

    name: str
    conditions: str
    ours: Timing
    baseline: Timing
    baseline_name: str
    most: float | None = None

    @property
    def ratio(self) -> float:
        return self.ours.seconds / self.baseline.seconds

    @property
    def kept(self) -> bool:
        return self.most is None or self.ratio <= self.most


def constant(seconds: float) -> Timing:
    """A baseline that is a promise of so many seconds, not a measurement."""
    return Timing(seconds, [seconds], [seconds])


def seconds_text(seconds: float) -> str:
    """
    >>> seconds_text(0.0123), seconds_text(0.345), seconds_text(12.34)
    ('12 ms', '345 ms', '12.3 s')
    """
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.3g} s"


def ratio_text(ratio: float) -> str:
    """
    >>> ratio_text(0.456), ratio_text(0.0012)
    ('0.46', '1/833')
    """
    return f"{ratio:.2f}" if ratio > 0.02 else f"1/{1 / ratio:,.0f}"
