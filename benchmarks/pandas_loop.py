"""Measures the straightforward way to explain: for every predicate, run the query without its rows."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from functools import partial

import pandas as pd

from benchmarks.contenders import COMPARED, GROUP, MEASURED, Contenders
from benchmarks.tables import Shape, plain_strings
from benchmarks.timing import Figure, Timing, alternate

MOST = 1 / 500


def run(shape: Shape, rows: int, rounds: int) -> list[Figure]:
    """Measures one conjunct. The slow loop runs once, over text columns, as pandas reads them from files."""
    table = shape.make(rows)
    contenders = Contenders(table, shape.schema)
    ours = alternate({"ours": partial(contenders.explain, conjuncts=1)}, rounds)["ours"]
    frame: pd.DataFrame = plain_strings(table).to_pandas()
    wall, cpu = time.perf_counter(), time.process_time()
    domains = {name: contenders.schema.domain(name) for name in contenders.attributes}
    explain_by_loop(frame, domains, GROUP, MEASURED, COMPARED)
    loop = Timing(0.0, [time.perf_counter() - wall], [time.process_time() - cpu])
    contenders.close()
    conditions = f"{shape.name}, rows {shape.rows_kind}"
    return [Figure("default explanation, 1 conjunct", conditions, ours, loop, "one pandas scan each", MOST)]


def explain_by_loop(
    frame: pd.DataFrame,
    domains: Mapping[str, Iterable[object]],
    group: str,
    measured: str,
    pair: tuple[str, str],
) -> dict[tuple[str, object], float]:
    """The influence on the difference of averages, for every predicate that leaves rows in both groups."""
    first, second = pair
    whole = frame.groupby(group, observed=True)[measured].agg(["mean", "count"])
    influences = {}
    for name, values in domains.items():
        for value in values:
            rest = frame[frame[name] != value].groupby(group, observed=True)[measured].agg(["mean", "count"])
            if not {first, second} <= set(rest.index):
                continue
            change = whole["mean"] - rest["mean"]
            fewest = min(rest["count"][first], rest["count"][second])
            influences[name, value] = (change[first] - change[second]) * fewest
    return influences
