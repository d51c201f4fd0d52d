"""Writes the figures of an audit into docs/audit.md, and draws their chart.

dpxplain audit privacy --json > audit.json
.venv/bin/python experiments/audit_page.py audit.json "on two cores of ..."
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd

DOCS = Path(__file__).parents[1] / "docs"
PAGE, CHART = DOCS / "audit.md", DOCS / "audit" / "bounds.svg"
HEADING = "## Figures\n"


def row(finding: dict[str, Any]) -> str:
    evidence = finding["evidence"]
    points = [f"{p['delta']:.2f} of {p['allowed']:.2f} at {p['epsilon']:.2f}" for p in evidence["curve"][:2]]
    cells = (
        finding["design"],
        finding["mechanism"],
        f"{finding['unit']}, {finding['neighbours']}",
        f"{evidence['draws']:,}",
        f"{evidence['promised']:.3g}",
        f"{evidence['rho']:.2f}",
        f"{finding['reached']:.2f}",
        "; ".join(points),
        finding["violation"] or "holds",
    )
    return "| " + " | ".join(cells) + " |"


def chart(findings: list[dict[str, Any]]) -> alt.LayerChart:
    """The share of the promise that each design reached."""
    frame = pd.DataFrame(
        [{"design": f["design"], "by": f["mechanism"], "reached": f["reached"]} for f in findings]
    )
    bars = (
        alt.Chart(frame, title="Lower bound of the cost, as a share of the promised ρ")
        .mark_bar(height=7)
        .encode(
            x=alt.X(
                "reached", title="share of the promise (95% confidence)", scale=alt.Scale(domain=[0, 1.1])
            ),
            y=alt.Y("design", sort=None, title=None),
            color=alt.Color("by", title="released by"),
        )
        .properties(width=420, height=alt.Step(13))
    )
    limit = alt.Chart(pd.DataFrame({"limit": [1.0]})).mark_rule(color="firebrick").encode(x="limit")
    return bars + limit


def main() -> None:
    report = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    findings = report["findings"]
    CHART.parent.mkdir(exist_ok=True)
    chart(findings).save(CHART)
    broken = sum(bool(finding["violation"]) for finding in findings)
    lines = [
        f"`dpxplain audit privacy --minutes {report['minutes']:g} --seed {report['seed']}` {sys.argv[2]}: "
        f"{len(findings)} designs, {broken or 'no'} violation{'s' if broken > 1 else ''}.",
        "",
        "![Lower bounds](audit/bounds.svg)",
        "",
        "*At least* is the lower bound of ρ with 95% confidence, and *share* is that bound divided by the "
        "promised ρ. The last two columns hold at the level of alarms. *δ at ε* gives a lower bound of δ, "
        "the δ that the promise allows, and the ε.",
        "",
        "| design | released by | neighbours | releases | promised | at least | share | δ at ε | promise |",
        "|---|---|---|---|---|---|---|---|---|",
        *map(row, findings),
        "",
    ]
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(text[: text.index(HEADING)] + HEADING + "\n" + "\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
