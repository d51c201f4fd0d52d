"""Results as HTML for a notebook: a table and an inline SVG chart, offline and without scripts.

Every text is escaped unless it was built here. The report uses the same elements.
"""

from __future__ import annotations

import html
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import pairwise
from typing import Any

from dpxplain.model.contrast import Verdict
from dpxplain.model.display import Finding
from dpxplain.render import charts
from dpxplain.render.charts import Spec, read_labels_in
from dpxplain.render.layout import TextGrid
from dpxplain.render.views import view_of
from dpxplain.words import numbers

# -- Results as HTML ---------------------------------------------------------------------------------------


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
        joined(*(_table_or_fold(grid, content.title) for grid in content.grids)),
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
    charts.INK: "currentColor",
    charts.PAPER: "var(--dpx-paper, var(--jp-layout-color0, var(--vscode-editor-background, #ffffff)))",
    charts.ABOVE: f"var(--dpx-above, {charts.ABOVE})",
    charts.BELOW: f"var(--dpx-below, {charts.BELOW})",
    charts.QUIET: f"var(--dpx-quiet, {charts.QUIET})",
}


def inline_svg(spec: charts.Spec, alt: str, class_: str = "dpx-chart") -> Markup:
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


# -- Charts as SVG -----------------------------------------------------------------------------------------
#
# Drawn from the part of Vega-Lite that `charts` uses, without browser, network or package. A chart looks like
# one of Vega, except that text widths are always those of Arial.

# In thousandths of the font size; other characters are as wide as a digit.
_WIDTHS = {
    letter: width
    for width, letters in {
        0: "\u200b",
        222: "'ijl|",
        278: " !,./:;I[\\]ft·",
        333: '()-r`"*“”',
        500: "Jcksvxyz",
        584: "+<=>~−",
        611: "FTZ",
        667: "&ABEKPSVXY",
        722: "CDHNRUw",
        778: "GOQ",
        833: "Mm",
        1000: "%W@…←→",
    }.items()
    for letter in letters
}
_DIGIT = 556
_TITLE_LINE = 14


def to_svg(spec: Spec) -> str:
    """The chart as an SVG text."""
    config = spec["config"]
    drawing = _drawing(spec, config["axis"])
    padding = config["padding"]
    left, top = math.ceil(padding["left"] - drawing.left), math.ceil(padding["top"] - drawing.top)
    width = math.ceil(left + drawing.right + padding["right"])
    height = math.ceil(top + drawing.bottom + padding["bottom"])
    body = _element(
        "g",
        *drawing.elements,
        transform=f"translate({left},{top})",
        font_family=config["font"],
        fill="none",
    )
    size = {"width": f"{width}", "height": f"{height}", "viewBox": f"0 0 {width} {height}"}
    return _element("svg", body, xmlns="http://www.w3.org/2000/svg", **size)


def text_width(text: str, size: float) -> float:
    """Estimated width of a text in Arial. Combining accents count 0, wide East Asian characters 1 em."""
    letters = (c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))
    wide = (1000 if unicodedata.east_asian_width(c) in "WF" else _WIDTHS.get(c, _DIGIT) for c in letters)
    return sum(wide) * size / 1000


@dataclass
class _Drawing:
    """SVG elements and their bounding box, in the coordinates of one plot or of several."""

    right: float = 0.0
    bottom: float = 0.0
    left: float = 0.0
    top: float = 0.0
    elements: list[str] = field(default_factory=list)

    def include(self, left: float, top: float, right: float, bottom: float) -> None:
        self.left, self.top = min(self.left, left), min(self.top, top)
        self.right, self.bottom = max(self.right, right), max(self.bottom, bottom)

    def add(self, part: _Drawing, x: float, y: float) -> None:
        self.elements.append(_element("g", *part.elements, transform=f"translate({x:g},{y:g})"))
        self.include(part.left + x, part.top + y, part.right + x, part.bottom + y)

    def text(self, lines: list[str], x: float, y: float, size: float, anchor: str, **style: Any) -> None:
        """Adds lines below each other, the first with its baseline at y."""
        line_height = style.pop("line_height", size)
        width = max(text_width(line, size) for line in lines)
        start = x - width * {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor]
        self.include(start, y - 0.8 * size, start + width, y + line_height * (len(lines) - 1) + 0.25 * size)
        spans = [
            _element("tspan", html.escape(line), x="0", dy=f"{line_height if i else 0}")
            for i, line in enumerate(lines)
        ]
        body = spans if len(lines) > 1 else [html.escape(lines[0])]
        at = f"translate({_number(x)},{_number(y)})"
        self.elements.append(
            _element("text", *body, transform=at, text_anchor=anchor, font_size=f"{size:g}px", **style)
        )


def _drawing(spec: Spec, axis_style: Spec) -> _Drawing:
    """A plot, or several beside or below each other."""
    if "layer" in spec:
        return _plot(spec, axis_style)
    whole, beside = _Drawing(), "hconcat" in spec
    for number, part in enumerate(spec["hconcat" if beside else "vconcat"]):
        drawing = _drawing(part, axis_style)
        if number == 0:
            whole.add(drawing, 0, 0)
        elif beside:
            whole.add(drawing, math.ceil(whole.right + spec["spacing"] - drawing.left), 0)
        else:
            whole.add(drawing, 0, math.ceil(whole.bottom + spec["spacing"] - drawing.top))
    return whole


def _plot(spec: Spec, axis_style: Spec) -> _Drawing:
    rows, height = spec["data"]["values"], spec["height"]
    position = {row["row"]: number for number, row in enumerate(rows)}
    tall = height["step"] * len(rows) if isinstance(height, dict) else height
    drawing = _Drawing(right=spec["width"], bottom=tall)
    x = next(layer["encoding"]["x"] for layer in spec["layer"] if "field" in layer["encoding"]["x"])
    _axis(drawing, x, axis_style)
    for layer in spec["layer"]:
        for row in _transformed(layer.get("data", {"values": rows})["values"], layer.get("transform", ())):
            middle = (position[row["row"]] + 0.5) * tall / len(rows) if "row" in row else None
            _draw_mark(drawing, layer, row, middle, spec["width"], tall)
    return drawing


def _transformed(rows: Iterable[Spec], transforms: Iterable[Spec]) -> Iterable[Spec]:
    for transform in transforms:
        if "calculate" in transform:
            rows = [row | {transform["as"]: float(transform["calculate"])} for row in rows]
        else:
            condition = re.fullmatch(r"datum\.(\w+)(?: == (\d+))?", transform["filter"])
            assert condition is not None
            name, value = condition.groups()
            rows = [row for row in rows if (row[name] if value is None else row[name] == int(value))]
    return rows


def _axis(drawing: _Drawing, x: Spec, style: Spec) -> None:
    """Grid lines, tick labels and the title, below the plot."""
    axis, domain, (width, height) = x["axis"], x["scale"]["domain"], (drawing.right, drawing.bottom)
    values = axis["values"] if "values" in axis else ticks(domain[0], domain[1], axis["tickCount"])
    grid = {"stroke": style["gridColor"], "stroke_opacity": style["gridOpacity"], "stroke_width": "1"}
    places = [_place(value, x, width) for value in values]
    for place in places:
        at = f"{round(place) + 0.5:g}"
        drawing.elements.append(_element("line", x1=at, x2=at, y1="0.5", y2=f"{height + 0.5:g}", **grid))

    size, color = style["labelFontSize"], style["labelColor"]
    baseline = height + 0.5 + axis["labelPadding"] + round(0.79 * size)
    for place, label in _without_overlap(places, _axis_labels(values, axis), size):
        anchor = "start" if place < 1 else "end" if place > width - 1 else "middle"
        drawing.text([label], place + 0.5, baseline, size, anchor, fill=color)

    title = x["title"] if isinstance(x["title"], list) else [x["title"]]
    below = (
        height
        + 0.5
        + axis["labelPadding"]
        + size
        + axis["titlePadding"]
        + round(0.79 * style["titleFontSize"])
    )
    drawing.text(
        title,
        width / 2 + 0.5,
        below,
        style["titleFontSize"],
        "middle",
        fill=style["titleColor"],
        line_height=_TITLE_LINE,
    )


def _axis_labels(values: Sequence[float], axis: Spec) -> list[str]:
    """Tick labels in the axis' format, or in its unit if it has one."""
    if "labelExpr" not in axis:
        return tick_labels(values, axis.get("format"))
    factor, form, sign = read_labels_in(axis["labelExpr"])
    return [label + sign for label in tick_labels([factor * value for value in values], form)]


def _without_overlap(places: list[float], labels: list[str], size: float) -> list[tuple[float, str]]:
    """The labels to draw: every second one is dropped until none overlap."""
    ticks = list(zip(places, labels, strict=True))
    while len(ticks) > 1:
        ends = [
            (place - text_width(text, size) / 2, place + text_width(text, size) / 2) for place, text in ticks
        ]
        if all(left[1] < right[0] for left, right in pairwise(ends)):
            break
        ticks = ticks[::2]
    return ticks


def _draw_mark(
    drawing: _Drawing, layer: Spec, row: Spec, middle: float | None, width: float, height: float
) -> None:
    mark, encoding = layer["mark"], layer["encoding"]
    color = _color(encoding.get("color"), row) or mark.get("color", "")
    x = _place(row.get(encoding["x"].get("field")), encoding["x"], width)
    match mark["type"]:
        case "rule":
            y1, y2 = (0.0, height) if middle is None else (middle, middle)
            x2 = _place(row[encoding["x2"]["field"]], encoding["x"], width) if "x2" in encoding else x
            ends = {"x1": _number(x), "x2": _number(x2), "y1": _number(y1), "y2": _number(y2)}
            cap = mark.get("strokeCap")
            stroke = {"stroke": color, "stroke_width": f"{mark['strokeWidth']:g}", "stroke_linecap": cap}
            opacity = mark.get("strokeOpacity")
            drawing.elements.append(_element("line", **stroke, stroke_opacity=opacity, **ends))
        case "tick":
            assert middle is not None
            corner = {"x": _number(x - mark["thickness"] / 2), "y": _number(middle - mark["size"] / 2)}
            size = {"width": f"{mark['thickness']:g}", "height": f"{mark['size']:g}"}
            drawing.elements.append(_element("rect", fill=color, **corner, **size))
        case "circle":
            assert middle is not None
            radius = math.sqrt(mark["size"]) / 2
            at = {"cx": _number(x), "cy": _number(middle), "r": f"{radius:.3f}"}
            drawing.elements.append(_element("circle", fill=color, **at))
            drawing.include(x - radius, middle - radius, x + radius, middle + radius)
        case "text":
            assert middle is not None
            _draw_text(drawing, mark, str(row[encoding["text"]["field"]]), x, middle, color)


def _draw_text(drawing: _Drawing, mark: Spec, text: str, x: float, middle: float, color: str) -> None:
    if not text:
        return
    size = mark["fontSize"]
    drawing.text(
        text.split("\n"),
        x + mark.get("dx", 0),
        middle + mark.get("dy", 0) + round(0.3 * size),
        size,
        {"left": "start", "right": "end"}.get(mark.get("align", ""), "middle"),
        fill=color,
        font_weight=mark.get("fontWeight"),
        font_style=mark.get("fontStyle"),
        stroke=mark.get("stroke"),
        stroke_width=mark.get("strokeWidth"),
        stroke_linejoin=mark.get("strokeJoin"),
        line_height=mark.get("lineHeight", size),
    )


def _place(value: Any, x: Spec, width: float) -> float:
    """Pixels from the plot's left edge."""
    if "value" in x:
        return float(x["value"])
    low, high = map(float, x["scale"]["domain"])
    inside = min(max(float(value), low), high)  # infinite ends are drawn at the edge
    return (inside - low) / (high - low) * width


def _color(encoding: Spec | None, row: Spec) -> str:
    if encoding is None:
        return ""
    return str(encoding["value"] if "value" in encoding else row[encoding["field"]])


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _element(tag: str, *children: str, **attributes: object) -> str:
    """An element; children are markup already."""
    written = "".join(
        f' {name.replace("_", "-")}="{html.escape(str(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    return f"<{tag}{written}>{''.join(children)}</{tag}>"


def ticks(low: float, high: float, count: int) -> list[float]:
    """About `count` multiples of 1, 2 or 5 times a power of ten.

    >>> ticks(-0.02, 0.46, 6), ticks(0.0, 2600.0, 6)
    ([0.0, 0.1, 0.2, 0.3, 0.4], [0.0, 500.0, 1000.0, 1500.0, 2000.0, 2500.0])
    """
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(
        (f for f, least in ((10, 50), (5, 10), (2, 2)) if rough / power >= math.sqrt(least)), 1
    )
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    # Formatting removes rounding errors: 3 · 0.1 is not exactly 0.3.
    return [float(f"{number * step:.12g}") + 0.0 for number in range(first, last + 1)]


def tick_labels(values: Sequence[float], form: str | None = None) -> list[str]:
    """Labels in one of the D3 formats that charts use; without one, with the decimals that the step needs.

    >>> tick_labels([0.0, 0.05, 0.1]), tick_labels([-0.5, 1.0], ".3~%"), tick_labels([1, 4077], ",d")
    (['0.00', '0.05', '0.10'], ['−50%', '100%'], ['1', '4,077'])
    >>> tick_labels([-1500.0, 0.0, 0.25], ",.4~r")
    ['−1,500', '0', '0.25']
    """
    match form:
        case ".3~%":
            texts = [f"{numbers.trimmed(f'{value * 100:.3f}')}%" for value in values]
        case ",.4~r":
            texts = [numbers.trimmed(f"{value:,.{_decimals(value, 4)}f}") for value in values]
        case ",d":
            texts = [f"{round(value):,}" for value in values]
        case _:
            step = min((b - a for a, b in pairwise(values)), default=1.0)
            decimals = max(0, -math.floor(math.log10(step) + 1e-9))
            texts = [f"{value:,.{decimals}f}" for value in values]
    return [text.replace("-", "−") for text in texts]


def _decimals(value: float, digits: int) -> int:
    return max(0, digits - 1 - math.floor(math.log10(abs(value)))) if value else 0
