"""Runs the cells of experiments on several cores, keeps every finished cell on disk, and returns their rows.

A cell is one call of a function in trials.py or timing.py with JSON settings. Its rows are kept under a hash
of function, settings and code, so an interrupted run resumes and experiments share equal cells.
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

# The code and data that decide a cell's figures. Pages and charts do not.
_CODE = (
    "experiments/*_*.json", "experiments/census*", "experiments/credit.py", "experiments/extracts.py",
    "experiments/published.py", "experiments/questions.py", "experiments/tables.py",
    "examples/taxi_imbalance.py", "src/dpxplain/session.py",
    *(f"src/dpxplain/{room}/**/*.py" for room in ("engines", "explanation", "phases", "privacy")),
)  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """A call: the function's name, its settings, and labels that are added to its rows."""

    work: str  # "trials.judgements"
    settings: Row
    labels: Row = field(default_factory=dict)

    @property
    def alone(self) -> bool:
        """Whether the cell takes times, and so must run while nothing else does."""
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
        """The kept rows with the labels, or None if the cell was not computed yet."""
        if not self.kept.exists():
            return None
        return [{**self.labels, **row} for row in json.loads(self.kept.read_text(encoding="utf-8"))]


@dataclass(frozen=True)
class Scale:
    """The size of a run: full tables with the paper's ten repetitions or more, or a short form for tests."""

    runs: int = 10
    many: int = 1000  # where a repetition costs nothing
    rows: int | None = None  # the most rows of a table; None for its own number
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
    """A claim of the paper, our result, and whether they agree."""

    text: str
    published: str
    measured: str
    verdict: str  # reproduced, better, not reproduced
    reason: str


class Experiment(Protocol):
    """What a module of experiments/paper provides."""

    NAME: str
    TITLE: str
    SENTENCES: str

    def cells(self, scale: Scale) -> list[Cell]: ...

    def chart(self, frame: pd.DataFrame) -> Any: ...

    def claims(self, frame: pd.DataFrame) -> list[Claim]: ...


@cache
def code_identity(module: str) -> str:
    """A hash of the code and data that decide the module's figures."""
    digest = hashlib.sha256()
    for pattern in (*_CODE, module):
        for path in sorted(tables.ROOT.glob(pattern)):
            if path.is_file():
                digest.update(path.relative_to(tables.ROOT).as_posix().encode() + _content(path))
    return digest.hexdigest()


def _content(path: Path) -> bytes:
    """The file's bytes, or for Python its code without comments and docstrings, which change no figure."""
    if path.suffix != ".py":
        return path.read_bytes()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            node.body = node.body[1:]
    return ast.dump(tree).encode()


def compute(cell: Cell) -> None:
    """Run a cell in this process and keep its rows."""
    module, function = cell.work.split(".")
    rows = getattr(import_module(f"experiments.{module}"), function)(**cell.settings)
    fresh = cell.kept.with_suffix(f".{os.getpid()}")
    fresh.write_text(json.dumps(rows, default=float), encoding="utf-8")
    fresh.rename(cell.kept)  # atomic: never a partial file


def run(
    cells: Iterable[Cell], *, workers: int, minutes: float, done: Callable[[], None] = lambda: None
) -> list[Cell]:
    """Compute the cells that are not kept yet, and return the cells that there was no time for."""
    end = time.monotonic() + 60 * minutes
    waiting = list({cell.key: cell for cell in cells if cell.rows() is None}.values())
    together = [cell for cell in waiting if not cell.alone]
    if workers > 1 and len(together) > 1:
        # Each process opens a table once, so neighbouring cells in the list share it.
        with ProcessPoolExecutor(workers, get_context("spawn"), _end_with_parent) as pool:
            _run_in(pool, together, workers, end, done)
    else:
        _run_here(together, end, done)
    _run_here([cell for cell in waiting if cell.alone], end, done)
    return [cell for cell in waiting if cell.rows() is None]


def _end_with_parent() -> None:
    """End this worker if its parent is killed. Otherwise it would wait for work forever."""

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
    """Run cells in the pool. Submits only one per worker, because submitted cells cannot be taken back."""
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
    """All computed rows of an experiment."""
    return pd.DataFrame([row for cell in experiment.cells(scale) for row in cell.rows() or []])
