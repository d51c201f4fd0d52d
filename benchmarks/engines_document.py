"""The figures of `benchmarks.engines` as tables and charts, for docs/engines-performance.md."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import altair as alt
import pandas as pd

from benchmarks.document import ROOT, markdown
from benchmarks.machine import description
from benchmarks.timing import ratio_text, seconds_text

MOST = {"duckdb": 1.5}  # times the bare query
_MOST_OTHERS = 1.3
_PER_ROW = 1.2  # of the smallest time per row, from ten million rows on
_WALL, _CPU = 0, 1
_EXPLAINED = """\
# Engines, measured

Written by `make bench-engines` (`python -m benchmarks.engines --write`). A pass over the rows is what an
answer or an explanation costs; what comes after it takes milliseconds and does not depend on the rows
([performance.md](performance.md)).

- **Ours** is `Engine.grouped`: planning the statement, encoding the columns that it needs, counting, and
  checking before and after that the files are unchanged. **Bare** is the same counts and sums in the engine
  itself, over the same rows, in the same process, turn by turn: texts are grouped as they are, bins as people
  write them (`CASE`), the family as `GROUPING SETS`. It neither clamps nor rounds nor leaves anything out.
- Rows are generated: independent, uniform columns, so that they hardly repeat; seven texts, a binned number
  and a summed one.
- PostgreSQL has the rows in a table of a server started for the measurement, encoded in every pass or once
  (*stored*: `storage = "memory"`); Spark reads the Parquet file in a cluster on loopback, one or two workers
  of one core each, by Spark Connect. Both are timed by wall clock.
- DuckDB streams from Parquet (`storage = "stream"`) under a memory limit of {memory}.
- Medians of {rounds} turns after one that does not count. Ratios of DuckDB are of **CPU seconds of all
  threads**, because the machine was shared: wall-clock times are listed beside them, and are the longer the
  busier it was.
- *Peak memory* is that of the Python process (`ru_maxrss`) after opening and one pass for each question.
"""


@dataclass(frozen=True)
class Measured:
    """What one engine took for one number of rows."""

    engine: str
    rows: int
    bytes: int
    figures: dict[str, Any]

    @property
    def measure(self) -> int:
        """DuckDB runs in this process; of others only the wall clock tells."""
        return _CPU if self.engine.startswith("duckdb") else _WALL

    def seconds(self, question: str, who: str, measure: int) -> float:
        return median(turn[measure] for turn in self.figures["questions"][question][who])

    def ratio(self, question: str) -> float:
        return self.seconds(question, "ours", self.measure) / self.seconds(question, "bare", self.measure)

    @property
    def questions(self) -> list[str]:
        return list(self.figures["questions"])

    @property
    def most(self) -> float:
        return MOST.get(self.engine, _MOST_OTHERS)


def all_kept(results: list[Measured]) -> bool:
    """Whether the largest table of each engine keeps the promised ratio to its bare query."""
    largest = {measured.engine: measured for measured in sorted(results, key=lambda m: m.rows)}
    return all(m.ratio(question) <= m.most for m in largest.values() for question in m.questions)


def terminal(measured: Measured) -> str:
    lines = [
        f"{measured.engine}, {measured.rows:,} rows, {measured.bytes / 1e6:,.0f} MB: opened in "
        f"{seconds_text(measured.figures['opening'][_WALL])}, peak {measured.figures['megabytes']:,.0f} MB"
    ]
    for question in measured.questions:
        ours, bare = (measured.seconds(question, who, _WALL) for who in ("ours", "bare"))
        lines.append(
            f"  {question:32s} ours {seconds_text(ours):>8s}  bare {seconds_text(bare):>8s}  "
            f"ratio {ratio_text(measured.ratio(question))}"
        )
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
    rows = [header]
    largest = {m.engine: m.rows for m in sorted(results, key=lambda m: m.rows)}
    for m in results:
        for question in m.questions:
            seconds = [m.seconds(question, who, how) for who in ("ours", "bare") for how in (_WALL, _CPU)]
            kept = "yes" if m.ratio(question) <= m.most else "**no**"
            promised = f"≤ {m.most:g}: {kept}" if m.rows == largest[m.engine] else ""
            per_row = m.seconds(question, "ours", m.measure) / m.rows * 1e9
            figures = [*map(seconds_text, seconds), ratio_text(m.ratio(question)), f"{per_row:.1f}"]
            rows.append([m.engine, f"{m.rows:,}", question, *figures, promised])
    return markdown(rows)


def memory_table(results: list[Measured]) -> str:
    rows = [["engine", "rows", "file", "opening", "peak memory of the Python process"]]
    for m in results:
        opening = seconds_text(m.figures["opening"][_WALL])
        rows.append(
            [
                m.engine,
                f"{m.rows:,}",
                f"{m.bytes / 1e6:,.0f} MB",
                opening,
                f"{m.figures['megabytes']:,.0f} MB",
            ]
        )
    return markdown(rows)


def workers_sentence(results: list[Measured]) -> str:
    """How much faster two workers of Spark are than one; nothing if they were not measured."""
    one, two = ([m for m in results if m.engine == f"spark, {n}"] for n in ("1 worker", "2 workers"))
    if not one or not two:
        return ""
    gains = [
        one[0].seconds(question, "ours", _WALL) / two[0].seconds(question, "ours", _WALL)
        for question in one[0].questions
    ]
    return (
        f"Two workers of Spark against one, {one[0].rows:,} rows: {min(gains):.2f} to {max(gains):.2f} times "
        "as fast, by question."
    )


def per_row_sentence(results: list[Measured]) -> str:
    """How far the time per row differs between the two largest tables of DuckDB."""
    ours = sorted((m for m in results if m.engine == "duckdb"), key=lambda m: m.rows)[-2:]
    if len(ours) < 2:
        return ""
    small, large = ours
    changes = {
        question: (large.seconds(question, "ours", _CPU) / large.rows)
        / (small.seconds(question, "ours", _CPU) / small.rows)
        for question in large.questions
    }
    listed = "; ".join(f"{question} {change:.2f}" for question, change in changes.items())
    kept = "yes" if all(1 / _PER_ROW <= change <= _PER_ROW for change in changes.values()) else "**no**"
    return (
        f"CPU time per row at {large.rows:,} rows, as a multiple of that at {small.rows:,}: {listed}. "
        f"Within 20%: {kept}. Fixed costs of some 20 ms a pass weigh more in smaller tables."
    )


def write(results: list[Measured], memory: str, rounds: int, root: Path = ROOT) -> None:
    folder = root / "docs" / "performance"
    _chart(results).save(str(folder / "engines.svg"))
    _memory_chart(results).save(str(folder / "engines-memory.svg"))
    text = "\n".join(
        [
            _EXPLAINED.format(memory=memory, rounds=rounds),
            f"Machine: {description('duckdb', 'pyarrow')}.\n",
            "## Passes\n",
            table(results),
            f"\n{per_row_sentence(results)} {workers_sentence(results)}\n",
            "![CPU seconds over rows](performance/engines.svg)\n",
            "## Memory and opening\n",
            "Opening digests the files and reads every declared column once, so that what cannot be read is\n"
            "refused before anything is charged.\n",
            memory_table(results),
            "\n![Peak memory over rows](performance/engines-memory.svg)\n",
            "[At scale](at-scale.md) computes from formulas what the same takes with ten billion rows.",
            "",
        ]
    )
    (root / "docs" / "engines-performance.md").write_text(text, encoding="utf-8")


def _chart(results: list[Measured]) -> alt.Chart:
    frame = pd.DataFrame(
        [
            {"rows": m.rows, "seconds": m.seconds(question, who, m.measure), "question": question}
            | {"who": f"{m.engine}, {'bare' if who == 'bare' else 'ours'}"}
            for m in results
            for question in m.questions
            for who in ("ours", "bare")
        ]
    )
    return (
        alt.Chart(frame, width=320, height=240)
        .mark_line(point=True)
        .encode(
            x=alt.X("rows:Q", scale=alt.Scale(type="log"), axis=alt.Axis(format="~s")),
            y=alt.Y("seconds:Q", scale=alt.Scale(type="log"), title="seconds"),
            color=alt.Color("question:N", title=None, scale=alt.Scale(scheme="tableau10")),
            strokeDash=alt.StrokeDash("who:N", title=None),
        )
    )


def _memory_chart(results: list[Measured]) -> alt.Chart:
    frame = pd.DataFrame(
        [{"rows": m.rows, "megabytes": m.figures["megabytes"], "engine": m.engine} for m in results]
        + [{"rows": m.rows, "megabytes": m.bytes / 1e6, "engine": "size of the file"} for m in results]
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
