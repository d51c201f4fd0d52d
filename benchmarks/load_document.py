"""Writes docs/load.md from the stored figures: a section for each part, with both databases in its table."""

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
        """{rate:g} requests a second on Adult (48,842 rows) from {analysts} analysts, at random moments (a
        Poisson process) for {seconds:g} seconds, whether or not earlier ones were answered. Each time
        counts from the moment at which the request was due. Fresh queries all differ, so each scans the
        data. The promises are for 50 requests a second: kept in a slower stream, they are not shown.""",
    ),
    "throughput": (
        "Throughput",
        """Stored answers by their number, asked without a pause over {connections} connections for
        {seconds:g} seconds. The database and the load take CPU time of the same cores, so the CPU time
        of each per answer is given too, and the rate that it allows. A SQLite ledger has one server
        process, which does the database's work too.""",
    ),
    "growth": (
        "Growth to a million lines",
        """The same requests by an analyst whose own history has so many lines. A server runs on a ledger
        of each length, and each request is sent to all of them in turn. Of each kind the fastest tenth
        of {times} is given, until the answer and, in brackets, of the server's CPU time. The lines are
        copies of a real one with keys, totals and an audit log of their own, which verifies.""",
    ),
    "crowd": (
        "Many analysts at once",
        """{analysts} analysts ask at the same moment, each with a token of their own, on one data set
        whose limit allows exactly {answers} answers of ρ = 0.1. Who gets 503 comes back; who got an
        answer asks again and must get the same one for free. Spent and limit are whole units of 10⁻¹²
        ρ, summed from the ledger's lines.""",
    ),
    "outages": (
        "Outages of the ledger",
        """The ledger is away for {seconds:g} seconds under six analysts who repeat each request until it
        is answered: PostgreSQL is stopped, in turn in an orderly way and as by a crash, and started
        again; the SQLite file is locked by another process. Charges without a release are budget
        wasted; a release that is lost, or charged twice, would break the promise.""",
    ),
    "kills": (
        "Killed servers",
        """`kill -9` at a random moment under six analysts who ask queries and explanations without a
        pause. After each restart everything that had been delivered must be served again, identical and
        free, and the audit log must verify. Interrupted entries were charged and never released: budget
        wasted, as promised, never budget regained.""",
    ),
}
"""Title and method of each part, with gaps for the sizes of the measurement."""

_INTRODUCTION = """\
# Load, crashes and response times

Measured by `make load` (`python -m benchmarks.load --write`) over real HTTP on loopback, with servers started
by `dpxplain serve` and the load made by processes of its own. Numbers of answers and amounts of ρ are exact;
milliseconds are this machine's, with everything on it: the server, the database and the load. Each part is
measured by itself and says when; `--only` measures some of them anew.
"""


def write(results: Sequence[Result], path: Path = DOCUMENT) -> None:
    """Replaces the figures; what people wrote below them stays."""
    before = path.read_text("utf-8") if path.exists() else ""
    new = figures(results)
    after = _FIGURES.sub(lambda _: new, before) if _FIGURES.search(before) else f"{new}\n"
    path.write_text(after, encoding="utf-8")


def figures(results: Sequence[Result]) -> str:
    """All sections, between the marks that they are found by."""
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
