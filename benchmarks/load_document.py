"""Writes docs/load.md: the tables of a run between two marks, and how the figures were taken."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import load_latency, load_throughput
from benchmarks.load_growth import Growth
from benchmarks.load_servers import ROOT
from benchmarks.machine import description

DOCUMENT = ROOT / "docs" / "load.md"
_FIGURES = re.compile(r"(?s)<!-- figures -->\n.*<!-- /figures -->")
_EXPLAINED = """\
# Load, crashes and response times

Measured by `make load` (`python -m benchmarks.load`), over real HTTP on loopback, with servers started by
`dpxplain serve` and the load made by processes of its own. Numbers of answers and amounts of ρ are exact;
milliseconds are this machine's, with everything on it: the server, the database and the load.

- **Many analysts**: all at the same moment, each with a token of their own, on one data set whose limit
  allows exactly {answers} answers of ρ = 0.1. Who gets 503 comes back; who got an answer asks again and must
  get the same one for free. Spent and limit are whole units of 10⁻¹² ρ, summed from the ledger's lines.
- **Killed servers**: `kill -9` at a random moment under six analysts who ask without a pause, queries and
  explanations. After each restart everything that had been delivered must be served again, identical and
  free, and the audit log must verify. Interrupted entries were charged and never released: budget wasted, as
  promised, never budget regained.
- **Response times**: {rate:g} requests a second on Adult (48,842 rows) from {analysts} analysts, at random
  moments (a Poisson process) for {seconds:g} seconds, whether or not earlier ones were answered; each latency
  counts from the moment the request was due. Fresh queries all differ, so each scans the data; stored ones
  are asked of a ledger grown by them.
- **Throughput**: stored answers by their number, asked without a pause over {connections} connections for
  {seconds:g} seconds, of one server process and of two on one PostgreSQL ledger. The database and the load
  take CPU time of the same {cores} cores, so the CPU milliseconds of each per answer are given too, and the
  rate that they allow on {cores} cores.
- **Outages**: PostgreSQL is stopped for {seconds:g} seconds, in turn in an orderly way and as by a crash,
  under six analysts who repeat each request until it is answered, and started again. Charges without a
  release are budget wasted; a release that is lost, or charged twice, would break the promise.
- **Growth**: the same requests by an analyst whose own history has so many lines, sent in turn to a server
  on a ledger of each length; of each kind the fastest tenth of 30, and in brackets of the server's CPU time.
  The lines are copies of a real one with keys, totals and an audit log of their own that verifies.

"""


@dataclass(frozen=True)
class Line:
    what: str
    where: str
    found: str
    promised: str
    kept: bool


def write(
    lines: Sequence[Line],
    growth: Mapping[str, Sequence[Growth]],
    *,
    answers: int,
    seconds: float,
    path: Path = DOCUMENT,
) -> None:
    """Replaces the figures; what people wrote below them stays."""
    figures = f"<!-- figures -->\n{_figures(lines, growth, answers, seconds)}<!-- /figures -->"
    before = path.read_text("utf-8") if path.exists() else ""
    after = _FIGURES.sub(lambda _: figures, before) if _FIGURES.search(before) else f"{figures}\n"
    path.write_text(after, encoding="utf-8")


def _figures(
    lines: Sequence[Line], growth: Mapping[str, Sequence[Growth]], answers: int, seconds: float
) -> str:
    explained = _EXPLAINED.format(
        answers=answers,
        rate=load_latency.RATE,
        analysts=load_latency.ANALYSTS,
        seconds=seconds,
        connections=load_throughput.CONNECTIONS,
        cores=os.cpu_count(),
    )
    rows = [
        [line.what, line.where, line.found, line.promised, "yes" if line.kept else "**no**"] for line in lines
    ]
    tables = [_table(["what", "ledger", "found", "promised", "kept"], rows)]
    tables += [growth_table(database, sizes) for database, sizes in growth.items()]
    return explained + "\n".join(tables) + f"\nMachine: {description()}.\n"


def growth_table(database: str, sizes: Sequence[Growth]) -> str:
    """Milliseconds by the length of the history, and the last as a multiple of the first."""
    first, last = sizes[0], sizes[-1]
    rows = [
        [
            kind,
            *(f"{size.times[kind].answered:.1f} ms ({size.times[kind].cpu:.1f})" for size in sizes),
            f"{last.ratio(first, kind):.2f} ({last.cpu_ratio(first, kind):.2f})",
        ]
        for kind in first.times
    ]
    beside = [f"{size.beside_reader_ms:.1f} ms" for size in sizes]
    growth = f"{last.beside_reader_ms / first.beside_reader_ms:.2f}"
    rows.append(["the budget beside one who loops on the history, 95 of 100 within", *beside, growth])
    starts = [f"{size.start_seconds:.2f} s ({size.start_cpu_seconds:.2f})" for size in sizes]
    rows.append(["starting the server", *starts, ""])
    for words, name in (
        ("verifying the whole log", "verify_seconds"),
        ("verifying what is new since then", "verify_again_seconds"),
    ):
        rows.append([words, *(f"{getattr(size, name):.2f} s" for size in sizes), ""])
    heads = [database, *(f"{size.lines:,} lines" for size in sizes), "last / first"]
    return _table(heads, rows)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    every = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(row)} |\n" for row in every)
