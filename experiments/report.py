"""Writes the results of a run: a CSV and a chart per experiment, one HTML page, and docs/experiments.md."""

from __future__ import annotations

import html
import os
import platform
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from experiments import tables
from experiments.harness import Claim, Scale

NOT_PRIVATE = "Noise comes from seeds, so the figures repeat. Nothing here is private."
_MARKS = {"reproduced": "✓", "better": "▲", "not reproduced": "✗"}
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2rem auto;padding:0 1rem;color:#1b1f24}
table{border-collapse:collapse;width:100%;margin:1rem 0}td,th{border:1px solid #d0d7de;padding:.4rem .6rem;
text-align:left;vertical-align:top}th{background:#f6f8fa}.reproduced{background:#e6f4ea}
.better{background:#dceefb}
.not{background:#fdecea}svg{max-width:100%;height:auto}figure{margin:1rem 0;overflow-x:auto}
.small{color:#57606a}
"""


@dataclass(frozen=True)
class Section:
    """The results of one experiment."""

    name: str
    title: str
    sentences: str
    frame: pd.DataFrame
    claims: Sequence[Claim]
    chart: Any


def section_of(experiment: Any, frame: pd.DataFrame) -> Section:
    return Section(
        experiment.NAME,
        experiment.TITLE,
        experiment.SENTENCES,
        frame,
        experiment.claims(frame),
        experiment.chart(frame),
    )


def write(sections: Sequence[Section], folder: Path, scale: Scale, minutes: float) -> Path:
    """Write CSVs, charts and a self-contained report.html into the folder; return the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    for section in sections:
        section.frame.to_csv(folder / f"{section.name}.csv", index=False, float_format="%.6g")
        drawing = folder / f"{section.name}.svg"
        section.chart.save(str(drawing))
        drawing.write_text(_slim(drawing.read_text(encoding="utf-8")), encoding="utf-8")
    page = folder / "report.html"
    page.write_text(_html(sections, folder, scale, minutes), encoding="utf-8")
    return page


def _slim(svg: str) -> str:
    """Cut the SVG to a third: drop the description of every point and shorten coordinates."""
    svg = re.sub(r' (?:aria-[a-z]+|role|class|pointer-events|font-family)="[^"]*"', "", svg)
    svg = re.sub(r"(\d+\.\d\d)\d+", r"\1", svg)
    return svg.replace("<svg", '<svg font-family="sans-serif"', 1)


def write_document(
    sections: Sequence[Section], folder: Path, docs: Path, scale: Scale, minutes: float
) -> None:
    """Write docs/experiments.md and copy its charts from the folder that `write` filled."""
    charts = docs / "experiments"
    charts.mkdir(exist_ok=True)
    text = [
        "# Every table and figure of the paper, and ours beside it",
        "",
        f"Made by `make experiments`. {_conditions(scale, minutes)} {NOT_PRIVATE} *As published* is the "
        "paper's mechanism with the paper's sensitivities, rank search and slack. *Corrected one-shot* is "
        "the same mechanism with those of [proofs/sensitivity.md](proofs/sensitivity.md) and "
        "[proofs/rank-bounds.md](proofs/rank-bounds.md). *Vector* and *marginals* are new "
        "([proofs/vector.md](proofs/vector.md), [proofs/marginals.md](proofs/marginals.md)). "
        "`dpxplain experiment list` lists all experiments, and `dpxplain experiment NAME` runs one.",
        "",
        _summary(sections),
        "",
    ]
    for section in sections:
        (charts / f"{section.name}.svg").write_bytes((folder / f"{section.name}.svg").read_bytes())
        text += [f"## {section.title}", "", section.sentences, ""]
        text += ["| claim | published | measured here | | reason |", "|---|---|---|---|---|"]
        text += ["| " + " | ".join(map(_cell, _row(claim))) + " |" for claim in section.claims]
        text += ["", f"![{section.title}](experiments/{section.name}.svg)", ""]
    (docs / "experiments.md").write_text("\n".join(text), encoding="utf-8")


def _row(claim: Claim) -> tuple[str, ...]:
    verdict = f"{_MARKS[claim.verdict]} {claim.verdict}"
    return claim.text, claim.published, claim.measured, verdict, claim.reason


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _conditions(scale: Scale, minutes: float) -> str:
    real = tables.real_files()
    source = (
        f"Real files are used for {', '.join(real)}." if real else "All tables except Adult are generated."
    )
    processor = platform.machine()
    return (
        f"Each figure has {scale.runs} repetitions unless it says otherwise (the paper has 10). {source} "
        f"This run took {minutes:.0f} minutes on {os.cpu_count()} cores ({processor}), not counting cells "
        "kept from earlier runs."
    )


def _summary(sections: Sequence[Section]) -> str:
    counts = Counter(claim.verdict for section in sections for claim in section.claims)
    words = ", ".join(f"{counts[verdict]} {verdict}" for verdict in _MARKS if counts[verdict])
    return f"{sum(counts.values())} claims: {words}."


def _html(sections: Sequence[Section], folder: Path, scale: Scale, minutes: float) -> str:
    body = [
        "<h1>Every table and figure of the paper, and ours beside it</h1>",
        f"<p>{html.escape(_summary(sections))} {html.escape(_conditions(scale, minutes))} {NOT_PRIVATE}</p>",
        "<nav>" + " · ".join(f'<a href="#{s.name}">{html.escape(s.name)}</a>' for s in sections) + "</nav>",
    ]
    for section in sections:
        drawing = (folder / f"{section.name}.svg").read_text(encoding="utf-8")
        body += [
            f'<h2 id="{section.name}">{html.escape(section.title)}</h2>',
            f"<p>{html.escape(section.sentences)}</p>",
            "<table><tr><th>claim<th>published<th>measured here<th>verdict<th>reason</tr>",
        ]
        for claim in section.claims:
            cells = "".join(f"<td>{html.escape(text)}" for text in _row(claim))
            body.append(f'<tr class="{claim.verdict.split()[0]}">{cells}</tr>')
        rows = f"{len(section.frame)} rows in {section.name}.csv"
        body.append(f'</table><figure>{drawing}</figure><p class="small">{rows}</p>')
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>DPXPlain: the paper, reproduced</title>'
        f"<style>{_STYLE}</style>{''.join(body)}</html>"
    )
