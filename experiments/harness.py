"""Runs the cells of experiments on all cores, keeps every finished cell on disk, and hands out their rows.

A cell is one call of a function of trials.py or timing.py with settings that JSON can hold. Its rows are kept
under a hash of function, settings and code, so that an interrupted run resumes and two experiments share it.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any, Protocol

import pandas as pd

from experiments import tables

Row = dict[str, Any]

# What a cell's figures follow from; pages and pictures are not among it.
_CODE = (
    "experiments/*_*.json", "experiments/credit.py", "experiments/extracts.py", "experiments/published.py",
    "experiments/questions.py", "experiments/tables.py",
    "examples/taxi_imbalance.py", "src/dpxplain/datasets/census*", "src/dpxplain/session.py",
    *(f"src/dpxplain/{room}/**/*.py" for room in ("engines", "explanation", "phases", "privacy")),
)  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """A call: the function's name, its settings, and what else its rows shall say."""

    work: str  # "trials.judgements"
    settings: Row
    labels: Row = field(default_factory=dict)

    @property
    def alone(self) -> bool:
        """Times are taken while nothing else runs."""
        return self.work.startswith("timing.")

    @property
    def key(self) -> str:
        module = f"experiments/{self.work.split('.')[0]}.py"
        identity = [self.work, self.settings, code_identity(module), tables.real_files()]
        return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:32]

    @property
    def kept(self) -> Path:
        return tables.cache_folder() / f"{self.key}.json"

    def rows(self) -> list[Row] | None:
        """The rows that were kept, or None."""
        if not self.kept.exists():
            return None
        return [{**self.labels, **row} for row in json.loads(self.kept.read_text(encoding="utf-8"))]


@dataclass(frozen=True)
class Scale:
    """How large a run is: full tables and the paper's ten repetitions or more, or a short form for tests."""

    runs: int = 10
    many: int = 1000  # where a repetition costs nothing
    rows: int | None = None  # of every table; None for its own
    questions: tuple[str, ...] | None = None  # None for all ten
    sparse: bool = False  # only the ends of every sweep

    def rows_of(self, data: str) -> int:
        return min(self.rows or tables.ROWS[data], tables.ROWS[data])

    @property
    def conjuncts(self) -> tuple[int, ...]:
        return (1, 2) if self.sparse else (1, 2, 3)

    def sweep(self, values: Sequence[Any]) -> Sequence[Any]:
        return [values[0], values[-1]] if self.sparse else values


FULL = Scale()
SHORT = Scale(runs=2, many=50, rows=4_000, questions=("I1", "G1"), sparse=True)


@dataclass(frozen=True)
class Claim:
    """What the paper says, what came out here, and whether that is the same."""

    text: str
    published: str
    measured: str
    verdict: str  # reproduced, better, not reproduced
    reason: str


class Experiment(Protocol):
    """A module of experiments/paper."""

    NAME: str
    TITLE: str
    SENTENCES: str

    def cells(self, scale: Scale) -> list[Cell]: ...

    def chart(self, frame: pd.DataFrame) -> Any: ...

    def claims(self, frame: pd.DataFrame) -> list[Claim]: ...


@cache
def code_identity(module: str) -> str:
    """A hash of the code and data that figures of the module follow from."""
    digest = hashlib.sha256()
    for pattern in (*_CODE, module):
        for path in sorted(tables.ROOT.glob(pattern)):
            if path.is_file():
                digest.update(path.relative_to(tables.ROOT).as_posix().encode() + _content(path))
    return digest.hexdigest()


def _content(path: Path) -> bytes:
    """The file, of Python what it does: comments, docstrings and line breaks change no figure."""
    if path.suffix != ".py":
        return path.read_bytes()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            node.body = node.body[1:]
    return ast.dump(tree).encode()


def compute(cell: Cell) -> None:
    """Runs a cell in this process and keeps its rows."""
    module, function = cell.work.split(".")
    rows = getattr(import_module(f"experiments.{module}"), function)(**cell.settings)
    fresh = cell.kept.with_suffix(f".{os.getpid()}")
    fresh.write_text(json.dumps(rows, default=float), encoding="utf-8")
    fresh.rename(cell.kept)  # whole, or not there


def run(
    cells: Iterable[Cell], *, workers: int, minutes: float, done: Callable[[], None] = lambda: None
) -> list[Cell]:
    """Computes the cells that are not kept yet; returns those for which there was no time."""
    end = time.monotonic() + 60 * minutes
    waiting = list({cell.key: cell for cell in cells if cell.rows() is None}.values())
    together = [cell for cell in waiting if not cell.alone]
    if workers > 1 and len(together) > 1:
        # Tables are opened once per process, so neighbours in the list share them.
        with ProcessPoolExecutor(workers, get_context("spawn"), _end_with_parent) as pool:
            _run_in(pool, together, workers, end, done)
    else:
        _run_here(together, end, done)
    _run_here([cell for cell in waiting if cell.alone], end, done)
    return [cell for cell in waiting if cell.rows() is None]


def _end_with_parent() -> None:
    """Ends a worker whose parent was killed: it would wait for work forever."""

    def watch() -> None:
        parent = parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _run_here(cells: list[Cell], end: float, done: Callable[[], None]) -> None:
    for cell in cells:
        if time.monotonic() < end:
            compute(cell)
            done()


def _run_in(
    pool: ProcessPoolExecutor, cells: list[Cell], workers: int, end: float, done: Callable[[], None]
) -> None:
    """Only as many at a time as there are workers: what is handed over cannot be taken back."""
    rest, running = iter(cells), set[Future[None]]()
    while True:
        while len(running) < workers and time.monotonic() < end and (cell := next(rest, None)) is not None:
            running.add(pool.submit(compute, cell))
        if not running:
            return
        finished, running = wait(running, return_when=FIRST_COMPLETED)
        for future in finished:
            future.result()
            done()


def frame_of(experiment: Experiment, scale: Scale) -> pd.DataFrame:
    """All rows of an experiment that were computed."""
    return pd.DataFrame([row for cell in experiment.cells(scale) for row in cell.rows() or []])
