"""Writes docs/load.md from the stored figures: a section for each part, with both databases in one table."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import load_results
from benchmarks.load_results import Result, Table
from benchmarks.load_servers import ROOT

DOCUMENT = ROOT / "docs" / "load.md"
_FIGURES = re.compile(r"(?s)<!-- figures -->\n.*<!-- /figures -->")


SECTIONS: Mapping[str, tuple[str, str]] = {
    "times": (
        "Response times",
        """{analysts} analysts send {rate:g} requests a second on Adult (48,842 rows) for {seconds:g} seconds,
        at random moments (a Poisson process), whether or not earlier requests were answered. Each time
        counts from the moment at which the request was due. Fresh queries all differ, so each scans the
        data. The promises are for 50 requests a second: a slower stream does not show that they are
        kept.""",
    ),
    "throughput": (
        "Throughput",
        """Clients ask for stored answers by their number, without a pause, over {connections} connections for
        {seconds:g} seconds. The server, the database and the load share the same cores, so the table also
        gives the CPU time of each per answer, and the rate that it allows. A SQLite ledger has one server
        process, which does the database's work too.""",
    ),
    "growth": (
        "Growth to a million lines",
        """An analyst whose own history has that many lines sends the same requests. A server runs on a
        ledger of each length, and each request goes to all of them in turn. The table gives the 10th
        percentile of {times} requests of each kind: the time until the answer and, in brackets, the
        server's CPU time. The lines are copies of a real one with their own keys and totals, and an audit
        log that verifies.""",
    ),
    "crowd": (
        "Many analysts at once",
        """{analysts} analysts ask at the same moment, each with a token of their own, on one data set
        whose limit allows exactly {answers} answers of ρ = 0.1. An analyst who gets 503 comes back. An
        analyst who got an answer asks again and must get the same answer for free. Spent and limit are
        whole units of 10⁻¹² ρ; spent is summed from the ledger's lines.""",
    ),
    "outages": (
        "Outages of the ledger",
        """The ledger is away for {seconds:g} seconds while six analysts repeat each request until it is
        answered. PostgreSQL is stopped, in turn in an orderly way and as by a crash, and started again.
        Another process locks the SQLite file. A charge without a release is wasted budget. A release
        that is lost, or charged twice, would break the promise.""",
    ),
    "kills": (
        "Killed servers",
        """`kill -9` hits the server at a random moment while six analysts ask queries and explanations
        without a pause. After each restart the server must serve everything that it had delivered again,
        identical and free, and the audit log must verify. Interrupted entries were charged and never
        released: that budget is wasted, as promised, and never comes back.""",
    ),
}
"""The title and method of each part, with gaps for the sizes of the measurement."""

_INTRODUCTION = """\
# Load, crashes and response times

Measured by `make load` (`python -m benchmarks.load --write`) over real HTTP on loopback. The servers are
started by `dpxplain serve`, and the load comes from other processes. Numbers of answers and amounts of ρ are
exact. Milliseconds are for this machine, which runs the server, the database and the load. Each part is
measured by itself and gives its date. `--only` measures some parts again.
"""


def write(results: Sequence[Result], path: Path = DOCUMENT) -> None:
    """Replaces the figures in the document. Text that people wrote below them stays."""
    before = path.read_text("utf-8") if path.exists() else ""
    new = figures(results)
    after = _FIGURES.sub(lambda _: new, before) if _FIGURES.search(before) else f"{new}\n"
    path.write_text(after, encoding="utf-8")


def figures(results: Sequence[Result]) -> str:
    """All sections, between the marks by which `write` finds them."""
    sections = [_section(part, [each for each in results if each.part == part]) for part in SECTIONS]
    return "\n".join(["<!-- figures -->", _INTRODUCTION, *filter(None, sections), "<!-- /figures -->"])


def _section(part: str, results: Sequence[Result]) -> str:
    if not results:
        return ""
    in_order = sorted(results, key=lambda result: result.database, reverse=True)  # SQLite first
    title, method = SECTIONS[part]
    rows = [
        [line.what, result.database, line.found, line.promised, "yes" if line.kept else "**no**"]
        for result in in_order
        for line in result.lines
    ]
    parts = [
        f"## {title}\n",
        f"{_paragraph(method.format(**in_order[-1].sizes))}\n",
        _markdown(Table(["what", "ledger", "found", "promised", "kept"], rows)),
        *(_markdown(result.table) for result in in_order if result.table),
        "".join(f"- {result.database}: {result.machine}.\n" for result in in_order),
    ]
    return "\n".join(parts)


def _paragraph(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 110, break_on_hyphens=False, break_long_words=False)


def _markdown(table: Table) -> str:
    every = [table.heads, ["---"] * len(table.heads), *table.rows]
    return "".join(f"| {' | '.join(row)} |\n" for row in every)


if __name__ == "__main__":
    write(load_results.read())
