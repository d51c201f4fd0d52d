"""Writes the figures of `benchmarks.engines` as tables and charts into docs/engines-performance.md."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import altair as alt
import pandas as pd

from benchmarks.document import ROOT, markdown
from benchmarks.machine import description
from benchmarks.timing import ratio_text, seconds_text

STORED = "engines.json"  # in docs/performance: the newest figures of each section
MOST = {"duckdb": 1.5}  # times the bare query, at most
_MOST_OTHERS = 1.3
_PER_ROW = 1.2  # times the time per row in the next smaller table, at most
_MEMORY = 1.2  # times the peak memory with the fewest rows, at most
_WALL, _CPU = 0, 1
_EXPLAINED = """\
# Engines, measured

Written by `make bench-engines` (`python -m benchmarks.engines --write`). An answer or an explanation costs a
pass over the rows. The work after the pass takes milliseconds and does not depend on the rows
([performance.md](performance.md)).

- **Ours** is `Engine.grouped`: planning the statement, encoding, counting, and for files checking before and
  after that they are unchanged. **Bare** computes the same counts and sums in the engine itself, over the
  same rows, turn by turn. It groups texts as they are, bins as people write them (`CASE`), and the family as
  `GROUPING SETS`. It does not clamp, round or leave anything out.
- The rows are generated: seven texts, a binned number and a summed one, in independent, uniform columns, so
  that rows hardly repeat.
- DuckDB streams from Parquet (`storage = "stream"`) under a memory limit of {memory}. PostgreSQL has the
  rows in a table of a server with its own default settings, encoded in every pass or once (*stored*:
  `storage = "memory"`, a temporary table). PostgreSQL reads the temporary table in one process and the bare
  table in several. Spark reads the Parquet file in a cluster on loopback by Spark Connect, with one or two
  workers of one core each. With one worker only ours is timed.
- Figures are medians of {rounds} turns, after one turn that does not count. With Spark three turns do not
  count, because a JVM compiles the code of a new statement, ours or the bare one, while it first runs it. A
  ratio is the median of the ratios of neighbouring turns, because the machine's own speed changes during a
  run.
- *CPU* adds up all threads and processes of the engine. DuckDB's ratios and times per row use CPU time,
  because its wall-clock time says more about the machine. Those of PostgreSQL and Spark use wall-clock time.
- *Peak memory* is that of the Python process (`VmHWM`) after opening and one pass for each question.
"""


@dataclass(frozen=True)
class Measured:
    """The figures of one engine with one number of rows."""

    engine: str
    rows: int
    bytes: int
    figures: dict[str, Any]
    machine: str = field(
        default_factory=lambda: description("duckdb", "pyarrow", "psycopg", "pyspark"), compare=False
    )

    @property
    def measure(self) -> int:
        """The clock for ratios: CPU for DuckDB, which runs in this process, and wall clock for the others."""
        return _CPU if self.engine.startswith("duckdb") else _WALL

    @property
    def is_compared(self) -> bool:
        return all(turns["bare"] for turns in self.figures["questions"].values())

    def seconds(self, question: str, who: str, measure: int) -> float:
        return median(turn[measure] for turn in self.figures["questions"][question][who])

    def ratio(self, question: str) -> float:
        """The median ratio of neighbouring turns, because the machine's own speed changes during a run."""
        turns = self.figures["questions"][question]
        pairs = zip(turns["ours"], turns["bare"], strict=True)
        return median(ours[self.measure] / bare[self.measure] for ours, bare in pairs)

    def per_row(self, question: str) -> float:
        return self.seconds(question, "ours", self.measure) / self.rows

    @property
    def questions(self) -> list[str]:
        return list(self.figures["questions"])

    @property
    def most(self) -> float:
        return MOST.get(self.engine, _MOST_OTHERS)


def broken_promises(results: list[Measured]) -> list[str]:
    """The promises that do not hold, as sentences."""
    broken = [
        f"{m.engine}, {m.rows:,} rows, {question}: {m.ratio(question):.2f} times the bare query, "
        f"promised {m.most:g}"
        for m in _largest(results).values()
        if m.is_compared
        for question in m.questions
        if m.ratio(question) > m.most
    ]
    broken += [
        f"{question}: {change:.2f} times the time per row of the next smaller table, promised {_PER_ROW:g}"
        for question, change in _changes(results).items()
        if change > _PER_ROW
    ]
    growth = _memory_growth(results)
    return broken + ([f"peak memory grew to {growth:.2f} times"] if growth > _MEMORY else [])


def _largest(results: list[Measured]) -> dict[str, Measured]:
    """The figures of each engine with its largest table."""
    return {measured.engine: measured for measured in sorted(results, key=lambda m: m.rows)}


def _of_duckdb(results: list[Measured]) -> list[Measured]:
    return sorted((m for m in results if m.engine == "duckdb"), key=lambda m: m.rows)


def _changes(results: list[Measured]) -> dict[str, float]:
    """DuckDB's time per row in its largest table, as a multiple of that in the next smaller one."""
    sizes = _of_duckdb(results)[-2:]
    if len(sizes) < 2:
        return {}
    small, large = sizes
    return {question: large.per_row(question) / small.per_row(question) for question in large.questions}


def _memory_growth(results: list[Measured]) -> float:
    sizes = _of_duckdb(results)
    return sizes[-1].figures["megabytes"] / sizes[0].figures["megabytes"] if sizes else 1.0


def terminal(measured: Measured) -> str:
    lines = [
        f"{measured.engine}, {measured.rows:,} rows, {measured.bytes / 1e6:,.0f} MB: opened in "
        f"{seconds_text(measured.figures['opening'][_WALL])}, peak {measured.figures['megabytes']:,.0f} MB"
    ]
    for question in measured.questions:
        line = f"  {question:32s} ours {seconds_text(measured.seconds(question, 'ours', _WALL)):>8s}"
        if measured.is_compared:
            bare = seconds_text(measured.seconds(question, "bare", _WALL))
            line += f"  bare {bare:>8s}  ratio {ratio_text(measured.ratio(question))}"
        lines.append(line)
    return "\n".join(lines)


def table(results: list[Measured]) -> str:
    header = [
        "engine",
        "rows",
        "question",
        "ours",
        "CPU",
        "bare",
        "CPU",
        "ours / bare",
        "ns per row",
        "promised",
    ]
    largest = _largest(results)
    rows = [header]
    for m in results:
        for question in m.questions:
            per_row = f"{m.per_row(question) * 1e9:.1f}"
            ours = [seconds_text(m.seconds(question, "ours", how)) for how in (_WALL, _CPU)]
            bare, ratio, promised = ["", ""], "", ""
            if m.is_compared:
                bare = [seconds_text(m.seconds(question, "bare", how)) for how in (_WALL, _CPU)]
                ratio = ratio_text(m.ratio(question))
                kept = "yes" if m.ratio(question) <= m.most else "**no**"
                promised = f"≤ {m.most:g}: {kept}" if m is largest[m.engine] else ""
            rows.append([m.engine, f"{m.rows:,}", question, *ours, *bare, ratio, per_row, promised])
    return markdown(rows)


def memory_table(results: list[Measured]) -> str:
    rows = [["engine", "rows", "file", "opening", "peak memory of the Python process"]]
    for m in results:
        opening, memory = seconds_text(m.figures["opening"][_WALL]), f"{m.figures['megabytes']:,.0f} MB"
        rows.append([m.engine, f"{m.rows:,}", f"{m.bytes / 1e6:,.0f} MB", opening, memory])
    return markdown(rows)


def workers_sentence(results: list[Measured]) -> str:
    """A sentence on how much faster two Spark workers are than one; empty if they were not measured."""
    one, two = ([m for m in results if m.engine == f"spark, {n}"] for n in ("1 worker", "2 workers"))
    if not one or not two or one[0].rows != two[0].rows:
        return ""
    gains = {
        question: one[0].seconds(question, "ours", _WALL) / two[0].seconds(question, "ours", _WALL)
        for question in one[0].questions
    }
    listed = "; ".join(f"{question} {gain:.2f}" for question, gain in gains.items())
    return (
        f"Two Spark workers compared with one, {one[0].rows:,} rows, times as fast: {listed}. The driver, "
        "the Connect server and this process share the machine's cores with the workers."
    )


def per_row_sentence(results: list[Measured]) -> str:
    """A sentence on how DuckDB's time per row differs between its two largest tables."""
    changes = _changes(results)
    if not changes:
        return ""
    small, large = _of_duckdb(results)[-2:]
    listed = "; ".join(f"{question} {change:.2f}" for question, change in changes.items())
    kept = "yes" if all(change <= _PER_ROW for change in changes.values()) else "**no**"
    return (
        f"DuckDB's time per row at {large.rows:,} rows, as a multiple of that at {small.rows:,}: {listed}. "
        f"At most 1.2, so that a row of a larger table takes at most 20% longer: {kept}. A ratio below 1 "
        "does not count as a gain: the fixed costs of each pass weigh less where there are more rows."
    )


def memory_sentence(results: list[Measured]) -> str:
    sizes = _of_duckdb(results)
    if len(sizes) < 2:
        return ""
    first, last = sizes[0], sizes[-1]
    kept = "yes" if _memory_growth(results) <= _MEMORY else "**no**"
    return (
        f"With {last.rows // first.rows:,} times the rows the Python process needs "
        f"{_memory_growth(results):.2f} times the memory. At most {_MEMORY:g}: {kept}."
    )


def _merged(results: list[Measured], stored: Path) -> list[Measured]:
    """The new figures, with the stored ones of all other sections."""
    known: list[dict[str, Any]] = json.loads(stored.read_text("utf-8")) if stored.exists() else []
    sections = {(entry["engine"], entry["rows"]): Measured(**entry) for entry in known}
    sections |= {(measured.engine, measured.rows): measured for measured in results}
    return sorted(sections.values(), key=lambda m: (m.engine, m.rows))


def write(results: list[Measured], memory: str, root: Path = ROOT) -> None:
    """Stores the figures, and writes the document from all stored figures."""
    folder = root / "docs" / "performance"
    folder.mkdir(parents=True, exist_ok=True)
    results = _merged(results, folder / STORED)
    (folder / STORED).write_text(json.dumps([asdict(m) for m in results], indent=1) + "\n", encoding="utf-8")
    _chart(results).save(str(folder / "engines.svg"))
    _memory_chart(results).save(str(folder / "engines-memory.svg"))
    rounds = {len(turns["ours"]) for m in results for turns in m.figures["questions"].values()}
    machines = list(dict.fromkeys(m.machine for m in results))
    text = "\n".join(
        [
            _EXPLAINED.format(memory=memory, rounds=" or ".join(map(str, sorted(rounds)))),
            "Machine, by section:\n",
            *(f"- {', '.join(_sections(results, machine))}: {machine}." for machine in machines),
            "\n## Passes\n",
            table(results),
            f"\n{per_row_sentence(results)}\n\n{workers_sentence(results)}\n",
            "![Seconds of a pass over rows](performance/engines.svg)\n",
            "## Memory and opening\n",
            "Opening files digests them and reads every declared column once, so that a file that cannot be\n"
            "read is refused before anything is charged. Opening a table reads the catalog or stores rows.\n",
            memory_table(results),
            f"\n{memory_sentence(results)}\n",
            "![Peak memory over rows](performance/engines-memory.svg)\n",
            "[At scale](at-scale.md) computes from formulas what the same passes take with ten billion rows.",
            "",
        ]
    )
    (root / "docs" / "engines-performance.md").write_text(text, encoding="utf-8")


def _sections(results: list[Measured], machine: str) -> list[str]:
    return [f"{m.engine} {m.rows:,}" for m in results if m.machine == machine]


def _chart(results: list[Measured]) -> alt.HConcatChart:
    """A chart of DuckDB over rows, beside the other engines with their one number of rows."""
    frame = pd.DataFrame(
        [
            {"rows": m.rows, "seconds": m.seconds(question, who, m.measure), "question": question}
            | {"who": who, "engine": m.engine if who == "ours" else f"{m.engine}, bare"}
            for m in results
            for question in m.questions
            for who in ("ours", "bare")
            if who == "ours" or (m.is_compared and "stored" not in m.engine)
        ]
    )
    color = alt.Color("question:N", title=None, scale=alt.Scale(scheme="tableau10"))
    is_duckdb = frame["engine"].str.startswith("duckdb")
    grown = (
        alt.Chart(frame[is_duckdb], width=300, height=260, title="DuckDB, CPU")
        .mark_line(point=True)
        .encode(
            x=alt.X("rows:Q", scale=alt.Scale(type="log"), axis=alt.Axis(format="~s")),
            y=alt.Y("seconds:Q", scale=alt.Scale(type="log"), title="seconds"),
            color=color,
            strokeDash=alt.StrokeDash("who:N", title=None, sort=["ours", "bare"]),
        )
    )
    others = (
        alt.Chart(frame[~is_duckdb], width=300, height=260, title="Others, wall clock")
        .mark_point(filled=True, size=60)
        .encode(
            x=alt.X("seconds:Q", scale=alt.Scale(type="log")),
            y=alt.Y("engine:N", title=None, axis=alt.Axis(labelLimit=200)),
            color=color,
        )
    )
    return alt.hconcat(grown, others) if not is_duckdb.all() else alt.hconcat(grown)


def _memory_chart(results: list[Measured]) -> alt.Chart:
    frame = pd.DataFrame(
        [{"rows": m.rows, "megabytes": m.figures["megabytes"], "engine": m.engine} for m in results]
        + [
            {"rows": m.rows, "megabytes": m.bytes / 1e6, "engine": "size of the file"}
            for m in _of_duckdb(results)
        ]
    )
    return (
        alt.Chart(frame, width=320, height=200)
        .mark_line(point=True)
        .encode(
            x=alt.X("rows:Q", scale=alt.Scale(type="log"), axis=alt.Axis(format="~s")),
            y=alt.Y("megabytes:Q", title="peak memory, MB"),
            color=alt.Color("engine:N", title=None, scale=alt.Scale(scheme="tableau10")),
        )
    )
