"""Runs designs: draws releases of both tables until the time is up, and weighs them.

It also checks whether released numbers reveal that they were made with floating-point noise. Such noise,
added to a true value, reaches only some of the numbers nearby, and which ones depends on the true value
(Mironov, CCS 2012). Exact samplers release multiples of one public step, far coarser than floating point, and
every true value can reach all of these.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context

import numpy as np
from numpy.typing import NDArray

import dpxplain as dpx
from dpxplain.audit.designs import Design, Releases, answer_designs, explanation_designs
from dpxplain.audit.evidence import Evidence, Sample, weigh

FALSE_ALARM = 1e-6  # probability, for all designs of an audit together
_FEWEST = 100  # releases of each table
_MOST = 20_000  # releases of each table; more would tell little more
_DEARER = 8.0  # times as much time for a design whose questions ask about one copy only
_LESS = 1e-7  # share of ρ: a repeated request is answered from the ledger, so each asks for a little less


@dataclass(frozen=True)
class DesignFinding:
    """The evidence from the releases of one design."""

    design: str
    mechanism: str
    aggregate: str
    unit: str
    neighbours: str
    evidence: Evidence
    lattice: str  # what is wrong with the numbers themselves; empty if nothing
    seconds: float

    @property
    def violation(self) -> str:
        return self.lattice or self.evidence.violation


@cache
def designs() -> dict[str, Design]:
    """Every design by its name."""
    return {design.name: design for design in (*answer_designs(), *explanation_designs())}


class _Tally:
    """Releases of the table and of its neighbour, as they come in."""

    def __init__(self) -> None:
        self._names: tuple[list[str], list[str]] = ([], [])
        self._numbers: tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]] = ([], [])
        self.charged = 0.0

    def add(self, releases: Releases, present: NDArray[np.bool_]) -> None:
        self.charged = max(self.charged, releases.charged)
        for side in (False, True):
            chosen = np.flatnonzero(present == side)
            self._names[side].extend(releases.names[place] for place in chosen.tolist())
            self._numbers[side].append(releases.numbers[chosen])

    def __len__(self) -> int:
        return min(map(len, self._names))

    @property
    def samples(self) -> tuple[Sample, Sample]:
        table, neighbour = (
            Sample(names, np.vstack(numbers))
            for names, numbers in zip(self._names, self._numbers, strict=True)
        )
        return table, neighbour


def audit_privacy(
    names: Sequence[str], *, minutes: float, seed: int, workers: int, begin: Callable[[str], None]
) -> Iterator[DesignFinding]:
    """The findings of the designs, as they come in; `begin` is called with each design's name as it begins.

    Each design runs in a worker process, for a share of the time that is left. The probability of a false
    alarm in any of them is at most `FALSE_ALARM`.
    """
    deadline, level = time.monotonic() + 60.0 * minutes, FALSE_ALARM / len(names)
    # Designs that may end early come first, and leave their time to the others.
    waiting = sorted(names, key=lambda name: _weight(designs()[name]))
    running: dict[Future[DesignFinding], str] = {}
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        while waiting or running:
            while waiting and len(running) < workers:
                seconds_left = deadline - time.monotonic()
                unfinished = [*waiting, *running.values()]
                share = _weight(designs()[waiting[0]]) / sum(_weight(designs()[name]) for name in unfinished)
                name = waiting.pop(0)
                begin(name)
                seconds = max(1.0, seconds_left * share * min(workers, len(unfinished)))
                running[pool.submit(_run_named, name, seed, level, seconds)] = name
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                del running[future]
                yield future.result()


def _weight(design: Design) -> float:
    return _DEARER if design.copies == 1 else 1.0


def _run_named(name: str, seed: int, false_alarm: float, seconds: float) -> DesignFinding:
    return run_design(designs()[name], seed=seed, false_alarm=false_alarm, seconds=seconds)


def run_design(
    design: Design,
    *,
    seed: int,
    false_alarm: float = FALSE_ALARM,
    draws: int = _MOST,
    seconds: float = math.inf,
) -> DesignFinding:
    """Asks until both tables have `draws` releases, or the time is up; then weighs what was released."""
    start, tally = time.monotonic(), _Tally()
    for releases, present in _releases(design, seed):
        tally.add(releases, present)
        is_late = time.monotonic() - start > seconds
        if len(tally) >= draws or (is_late and len(tally) >= _FEWEST):
            break
    table, neighbour = tally.samples
    numbers = np.concatenate([table.numbers.ravel(), neighbour.numbers.ravel()])
    return DesignFinding(
        design=design.name,
        mechanism=design.mechanism,
        aggregate=design.aggregate,
        unit=design.unit,
        neighbours=design.neighbours,
        evidence=weigh(table, neighbour, tally.charged, false_alarm),
        lattice=lattice_problem(numbers) if design.has_lattice else "",
        seconds=time.monotonic() - start,
    )


def _releases(design: Design, seed: int) -> Iterator[tuple[Releases, NDArray[np.bool_]]]:
    """Endless releases, from one table after another, each with the coins that made its table."""
    coins = np.random.default_rng(seed)  # seeded: chooses rows of made-up tables, no noise
    is_present = False
    while True:
        present = coins.random(design.copies) < 0.5
        if design.copies == 1:  # as many of the one table as of the other
            is_present = not is_present
            present = np.array([is_present])
        with tempfile.TemporaryDirectory(prefix="dpxplain-audit-") as workspace:
            session = _open(design, present, workspace)
            with session:
                for number in range(design.per_table):
                    yield design.ask(session, design.rho * (1.0 - _LESS * number)), present


def _open(design: Design, present: NDArray[np.bool_], workspace: str) -> dpx.Session:
    import pyarrow as pa

    columns = {name: pa.string() for name in ("person", *design.schema["columns"])}
    columns |= {
        name: pa.float64() for name, declared in design.schema["columns"].items() if "bounds" in declared
    }
    shape = pa.schema(list(columns.items()))
    rows = [{name: row.get(name) for name in columns} for row in design.table(present)]
    table = pa.Table.from_pylist(rows, schema=shape)
    return dpx.connect(table, design.schema, workspace=workspace, trusted_code=design.trusted_code)


_COARSER = 2**8  # the step must be at least this many times the distance of neighbouring floats


def finest_step(numbers: NDArray[np.float64]) -> float:
    """The largest power of two of which all the numbers are multiples.

    >>> finest_step(np.array([1.5, 2.25])), finest_step(np.array([6.0, 4.0]))
    (0.25, 2.0)
    """
    step = math.inf
    for number in numbers[numbers != 0.0].tolist():
        numerator, denominator = float(number).as_integer_ratio()
        step = min(step, (numerator & -numerator) / denominator)
    return step


def lattice_problem(numbers: NDArray[np.float64]) -> str:
    """What is wrong with the numbers, as a sentence; empty if all are multiples of a coarse step.

    >>> lattice_problem(np.array([3.0, 1.5])), lattice_problem(np.array([3.0, 0.1])) != ""
    ('', True)
    """
    if not np.isfinite(numbers).all():
        return "a released number is not finite"
    largest = float(np.abs(numbers).max(initial=0.0))
    step, spacing = finest_step(numbers), float(np.spacing(max(largest, 1e-300)))
    if step >= _COARSER * spacing:
        return ""
    return (
        f"the released numbers have a common step of only 2^{math.log2(step):.0f}, as fine as floating "
        "point, so the numbers that can occur may depend on the true value"
    )
