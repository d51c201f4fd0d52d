"""Results in a notebook: one HTML fragment with a table and an inline chart, offline and without scripts."""

from __future__ import annotations

from importlib.resources import files

from dpxplain.render.charts import chart
from dpxplain.render.markup import Markup, badge, el, inline_svg, joined, table
from dpxplain.render.views import view


def as_html(result: object) -> str:
    """A self-contained fragment; displaying it reads only what was released."""
    shown = view(result)
    lead = list(shown.lead)
    verdict: Markup | None = None
    if shown.verdict is not None and lead:
        verdict = el("p", badge(shown.verdict), lead.pop(0))
    return el(
        "div",
        Markup(f"<style>{files('dpxplain.render').joinpath('notebook.css').read_text('utf-8')}</style>"),
        el("p", shown.warning, class_="dpx-warning", role="alert") if shown.warning else None,
        el("p", shown.title, class_="dpx-title"),
        el("p", el("code", shown.sql)) if shown.sql else None,
        verdict,
        joined(*(el("p", text) for text in lead)),
        inline_svg(chart(result), shown.alt) if shown.alt else None,
        table(shown.grid, shown.title) if shown.grid is not None else None,
        joined(*(table(grid, shown.title) for grid in shown.further)),
        joined(*(el("p", text, class_="dpx-quiet") for text in shown.notes)),
        class_="dpx",
    )
