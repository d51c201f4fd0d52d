"""The straightforward way to explain: for every predicate, the query on the data without its rows."""

from __future__ import annotations

import time
from functools import partial

import pandas as pd

from benchmarks.contenders import COMPARED, GROUP, MEASURED, Contenders
from benchmarks.tables import Shape, plain_strings
from benchmarks.timing import Figure, Timing, alternate

MOST = 1 / 500


def run(shape: Shape, rows: int, rounds: int) -> list[Figure]:
    """One conjunct. The loop runs once, as it is slow; columns are text, as pandas reads them from files."""
    table = shape.make(rows)
    contenders = Contenders(table, shape.schema)
    ours = alternate({"ours": partial(contenders.explain, conjuncts=1)}, rounds)["ours"]
    frame: pd.DataFrame = plain_strings(table).to_pandas()
    wall, cpu = time.perf_counter(), time.process_time()
    _explain(frame, contenders)
    loop = Timing(0.0, [time.perf_counter() - wall], [time.process_time() - cpu])
    contenders.close()
    conditions = f"{shape.name}, rows {shape.rows_kind}"
    return [Figure("default explanation, 1 conjunct", conditions, ours, loop, "one pandas scan each", MOST)]


def _explain(frame: pd.DataFrame, contenders: Contenders) -> None:
    first, second = COMPARED
    whole = frame.groupby(GROUP)[MEASURED].agg(["mean", "count"])
    for name in contenders.attributes:
        for value in contenders.schema.domain(name):
            rest = frame[frame[name] != value].groupby(GROUP)[MEASURED].agg(["mean", "count"])
            if not {first, second} <= set(rest.index):
                continue
            change = whole["mean"] - rest["mean"]
            (change[first] - change[second]) * rest["count"].min()
