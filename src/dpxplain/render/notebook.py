"""Results as HTML for a notebook: a table and an inline chart, offline and without scripts.

Every text is escaped unless it was built here. The report uses the same elements.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from importlib.resources import files

from dpxplain.model.contrast import Verdict
from dpxplain.model.display import Finding
from dpxplain.render import chart_rows, charts
from dpxplain.render.layout import TextGrid, View
from dpxplain.render.svg import to_svg
from dpxplain.render.views import view_of


def as_html(result: object) -> str:
    """The result as a self-contained fragment. Displaying it reads only what was released."""
    content = view_of(result)
    finding = content.finding
    return el(
        "div",
        Markup(f"<style>{files('dpxplain.render').joinpath('notebook.css').read_text('utf-8')}</style>"),
        el("p", content.warning, class_="dpx-warning", role="alert") if content.warning else None,
        el("p", content.title, class_="dpx-title" if finding is None else "dpx-quiet"),
        el("p", el("code", content.sql)) if content.sql else None,
        None if finding is None else finding_html(finding, content.verdict),
        joined(*(el("p", text) for text in content.lead)),
        inline_svg(charts.chart(result), content.alt) if content.alt else None,
        joined(*(_table_or_fold(grid, content.title) for grid in _grids(content))),
        joined(*(el("p", text, class_="dpx-quiet") for text in content.lines)),
        el("p", finding.caveat, class_="dpx-quiet") if finding is not None and finding.caveat else None,
        fold("Notes", content.notes),
        class_="dpx",
    )


def finding_html(finding: Finding, verdict: Verdict | None = None) -> Markup:
    """Headline and support, with the verdict's badge before the headline."""
    sign = None if verdict is None else badge(verdict)
    return joined(
        el("p", sign, finding.headline, class_="dpx-headline"),
        el("p", finding.support) if finding.support else None,
    )


def fold(summary: str, sentences: Sequence[str]) -> Markup | None:
    """A folded list of sentences; None if there are none."""
    if not sentences:
        return None
    listed = el("ul", *(el("li", text) for text in sentences))
    return el("details", el("summary", summary), listed, class_="dpx-quiet")


def _grids(content: View) -> list[TextGrid]:
    return [*([content.grid] if content.grid is not None else []), *content.further]


def _table_or_fold(grid: TextGrid, caption: str) -> Markup:
    if not grid.folded:
        return table(grid, caption)
    return el("details", el("summary", grid.folded), table(grid, caption))


class Markup(str):
    """Text that is already HTML. Only this module and its callers' templates create it."""


def el(tag: str, *children: str | None, **attributes: str | None) -> Markup:
    """An element. Children and attributes are escaped, unless a child is Markup.

    >>> el("td", "<b>", class_="x")
    '<td class="x">&lt;b&gt;</td>'
    """
    names = {name: name.rstrip("_").replace("_", "-") for name in attributes}
    opened = "".join(
        f' {names[name]}="{html.escape(value)}"' for name, value in attributes.items() if value is not None
    )
    inner = "".join(c if isinstance(c, Markup) else html.escape(c) for c in children if c is not None)
    return Markup(f"<{tag}{opened}>{inner}</{tag}>")


def joined(*parts: str | None) -> Markup:
    return Markup("\n".join(p if isinstance(p, Markup) else html.escape(p) for p in parts if p))


def table(grid: TextGrid, caption: str, class_: str | None = None) -> Markup:
    """An accessible table: a caption for screen readers, header cells for columns and rows."""
    head = el(
        "tr", *(el("th", c.name, scope="col", class_=_align(grid, i)) for i, c in enumerate(grid.columns))
    )
    body = [
        el(
            "tr",
            *(
                el("th", text, scope="row", class_=_align(grid, i))
                if i == 0
                else el("td", text, class_=_align(grid, i))
                for i, text in enumerate(row)
            ),
        )
        for row in grid.rows
    ]
    element = el("table", el("caption", caption), el("thead", head), el("tbody", *body), class_=class_)
    return joined(
        el("div", element, class_="dpx-scroll"), el("p", grid.more, class_="dpx-more") if grid.more else None
    )


def badge(verdict: Verdict) -> Markup:
    """The verdict by word, shape and colour."""
    symbol = {Verdict.REAL: "●", Verdict.UNCLEAR: "○", Verdict.REVERSED: "◆"}[verdict]
    word = {Verdict.REAL: "not just noise", Verdict.REVERSED: "the other way"}.get(verdict, verdict.value)
    return el("span", f"{symbol} {word}", class_=f"dpx-badge dpx-{verdict.value}")


# CSS values that replace a chart's colours, to adapt them to light and dark pages. The fallbacks of
# --dpx-paper are the background variables of JupyterLab and VS Code.
_THEMED = {
    chart_rows.INK: "currentColor",
    chart_rows.PAPER: "var(--dpx-paper, var(--jp-layout-color0, var(--vscode-editor-background, #ffffff)))",
    chart_rows.ABOVE: f"var(--dpx-above, {chart_rows.ABOVE})",
    chart_rows.BELOW: f"var(--dpx-below, {chart_rows.BELOW})",
    chart_rows.QUIET: f"var(--dpx-quiet, {chart_rows.QUIET})",
}


def inline_svg(spec: chart_rows.Spec, alt: str, class_: str = "dpx-chart") -> Markup:
    """The chart as SVG inside HTML: described in words, as wide as there is room, in the page's colours."""
    svg = to_svg(spec)
    opening, rest = svg.split(">", 1)
    width, height = (re.search(rf'\b{name}="([\d.]+)"', opening) for name in ("width", "height"))
    assert width is not None
    assert height is not None
    for color, themed in _THEMED.items():
        rest = rest.replace(f'="{color}"', f'="{themed}"')
    # The whole chart has a description. Descriptions of single marks would make screen readers repeat it.
    rest = re.sub(r' (?:role|aria-[a-z]+)="[^"]*"', "", rest)
    described = html.escape(alt)
    return Markup(
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{class_}" role="img" aria-label="{described}" '
        f'viewBox="0 0 {width[1]} {height[1]}" width="{width[1]}" height="{height[1]}">{rest}'
    )


def _align(grid: TextGrid, column: int) -> str | None:
    return "dpx-right" if grid.columns[column].align == "right" else None
