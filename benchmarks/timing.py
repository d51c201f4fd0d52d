"""Times contenders that take turns, in wall and CPU seconds, and compares the figures with promises."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median

SECONDS_EACH = 3.0
"""A contender that has used more time than this takes no further turns. Each contender has at least one."""


@dataclass
class Timing:
    """Seconds of every turn of one contender. The first turn warms up caches and is kept separately."""

    first: float = 0.0
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return median(self.wall)

    @property
    def cpu_seconds(self) -> float:
        """The median CPU seconds of all threads of this process."""
        return median(self.cpu)


Contender = Callable[[], Callable[[], object]]
"""Is called before each turn, untimed. Returns the work to be timed."""


def alternate(
    contenders: Mapping[str, Contender], rounds: int, seconds_each: float = SECONDS_EACH
) -> dict[str, Timing]:
    """Timings of contenders that take turns, so that a busy machine disturbs all of them equally.

    The first round does not count, because it does lazy loading. A contender whose first turn alone takes
    longer than `seconds_each` takes no other turn, and that turn is its figure.
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
    """Our timing, the baseline's, and the largest ratio of the two that was promised."""

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
    """A baseline that is a promised number of seconds, not a measurement."""
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
