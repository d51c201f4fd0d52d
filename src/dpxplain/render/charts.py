"""Charts of answers, questions, explanations and stories as Vega-Lite: dots with intervals, and bars only for
shares of a gap. Notebook users also get them as Altair objects, to change, combine and save.

The colours can be told apart with any colour vision and on light or dark paper. Unclear values are also
drawn hollow, so that nothing depends on colour alone.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Sequence
from functools import cache, partial, singledispatch
from typing import Any

from dpxplain.errors import BadRequest
from dpxplain.model.contrast import Verdict
from dpxplain.render.layout import label_lines, span, text_lines
from dpxplain.render.views_results import answer_figures, tree
from dpxplain.results.answer import Answer
from dpxplain.results.answers import Answers
from dpxplain.results.explanation import Explanation, Story
from dpxplain.results.question import Question
from dpxplain.results.released_answer import AnswerRow, ReleasedAnswer
from dpxplain.words import numbers
from dpxplain.words.declarations import footnotes
from dpxplain.words.sentences import effect_text, relative_text, short_effects

# -- Rows and marks ----------------------------------------------------------------------------------------

WIDE, PHONE, NARROW = 500, 320, 420  # plot widths; up to NARROW, labels are drawn above their rows

# Mid-tones with a contrast of at least 3 to both white and near-black (blue and orange, as Okabe and Ito).
ABOVE, BELOW, QUIET, INK, PAPER = "#2b7bba", "#c9641c", "#7d8590", "#24292f", "#ffffff"
# Fonts with the same letter widths: texts are measured on one machine and drawn on another.
FONT = "'Helvetica Neue', Arial, 'Liberation Sans', sans-serif"

# Vega-Lite's JSON as plain values, which a server can send without loading a charting library.
Spec = dict[str, Any]
Position = Callable[[str], Spec]  # the x position of a field


class ChartRows:
    """Labelled rows of one chart: their data, their height, and the marks that every chart shares."""

    def __init__(self, labels: Sequence[str], values: Sequence[dict[str, Any]], width: int) -> None:
        self.phone = width <= NARROW
        # Different numbers of zero-width spaces keep rows with equal labels apart.
        lines = [label_lines(numbers.clean(text), 34 if self.phone else 32) for text in labels]
        self.data = [
            value | {"row": "\u200b" * i, "label": "\n".join(text), "lines": len(text)}
            for i, (text, value) in enumerate(zip(lines, values, strict=True))
        ]
        self.most_lines = max((len(text) for text in lines), default=1)
        self.height = (30 + 15 * self.most_lines) if self.phone else max(28, 12 + 15 * self.most_lines)

    def plot(self, layers: list[Spec], width: int, height: int | None = None) -> Spec:
        """The layers drawn over each other. A layer with its own data is not drawn per row."""
        tall: Any = {"step": self.height} if height is None else height
        return {"data": {"values": self.data}, "layer": layers, "width": width, "height": tall}

    def line(self, value: float, x: Position) -> Spec:
        """The bold reference line. On a phone it is one tick per row, so that it does not cross labels."""
        if not self.phone:
            return reference_line(value, x)
        mark = {"type": "tick", "size": 20, "thickness": 3, "opacity": 1, "color": INK}
        return layer(mark, {"calculate": repr(value), "as": "at"}, x=x("at"))

    def whiskers(self, x: Position) -> list[Spec]:
        """Interval lines with caps at finite ends, and dots: filled where clear, hollow where not."""
        tip = [nominal("label", title="for"), nominal("interval", title="interval")]
        cap = {"type": "tick", "size": 9, "thickness": 2, "opacity": 1}
        dot, hollow = ({"type": "circle", "size": size, "opacity": 1} for size in (70, 26))
        return [
            layer(
                {"type": "rule", "strokeWidth": 2.5},
                x=x("low"),
                x2={"field": "high"},
                color=COLOR,
                tooltip=tip,
            ),
            *(
                layer(cap, {"filter": f"datum.{end}_is_finite"}, x=x(end), color=COLOR)
                for end in ("low", "high")
            ),
            layer(dot, x=x("estimate"), color=COLOR, tooltip=tip),
            layer(hollow, {"filter": "datum.unclear"}, x=x("estimate"), color={"value": PAPER}),
        ]

    def thin_line(self, x: Position) -> Spec:
        """A thin line for the interval in general, drawn behind the interval for these data."""
        tip = [nominal("label", title="for"), nominal("in_general", title="in general")]
        mark = {"type": "rule", "strokeWidth": 1}
        return layer(mark, x=x("general_low"), x2={"field": "general_high"}, color=COLOR, tooltip=tip)

    def labels(self, aside: int = 0) -> list[Spec]:
        """Row labels: left of the plot or, on a phone, above the rows, with other texts ending at `aside`."""
        text: Spec = {"type": "text", "fontSize": 13, "lineHeight": 15, "lineBreak": "\n", "color": INK}
        # A text is anchored at its first line, so labels are lifted by their number of lines.
        lifted = [(n, {"filter": f"datum.lines == {n}"}) for n in range(1, self.most_lines + 1)]
        if not self.phone:
            return [
                layer(
                    text | {"align": "right", "dy": -7 * (n - 1)},
                    of_lines,
                    x={"value": -14},
                    text=nominal("label"),
                )
                for n, of_lines in lifted
            ]
        halo = text | {"stroke": PAPER, "strokeWidth": 5, "strokeJoin": "round"}  # hides the grid behind it
        ends = [("left", 0, "label"), *([("right", aside, "aside")] if aside else [])]
        return [
            layer(
                style | {"align": align, "dy": -18 - 15 * (n - 1)},
                of_lines,
                x={"value": at},
                text=nominal(field),
            )
            for n, of_lines in lifted
            for align, at, field in ends
            for style in (halo, text)
        ]


def interval_mark(
    interval: tuple[float, float],
    estimate: float,
    domain: tuple[float, float],
    unclear: bool = False,
    write: Callable[[float, float], str] = numbers.open_interval,
) -> dict[str, Any]:
    """An interval and its estimate on an axis with this domain."""
    low, high = _drawn_ends(interval, domain)
    return {
        "low": low,
        "low_is_finite": math.isfinite(interval[0]),
        "estimate": estimate,
        "high": high,
        "high_is_finite": math.isfinite(interval[1]),
        "unclear": unclear,
        "color": ABOVE,
        "interval": write(*interval),
    }


def general_mark(
    interval: tuple[float, float], domain: tuple[float, float], write: Callable[[float, float], str]
) -> dict[str, Any]:
    low, high = _drawn_ends(interval, domain)
    return {"general_low": low, "general_high": high, "in_general": write(*interval)}


def _drawn_ends(interval: tuple[float, float], domain: tuple[float, float]) -> list[float]:
    """The ends of the interval's line. An infinite end is drawn at the end of the axis."""
    return [end if math.isfinite(end) else edge for end, edge in zip(interval, domain, strict=True)]


def nominal(field: str, **options: Any) -> Spec:
    return {"field": field, "type": "nominal", **options}


_ROW = nominal("row", sort=None, axis=None)
COLOR = nominal("color", scale=None, legend=None)


def layer(mark: Spec, *transforms: Spec, **encoding: Any) -> Spec:
    """One mark per row, after the transforms."""
    layer = {"mark": mark, "encoding": {"y": _ROW, **encoding}}
    return layer | {"transform": list(transforms)} if transforms else layer


def reference_line(value: float, x: Position) -> Spec:
    """The bold reference line."""
    return {
        "data": {"values": [{"at": value}]},
        "mark": {"type": "rule", "strokeWidth": 3, "color": INK},
        "encoding": {"x": x("at")},
    }


def x_position(title: str | list[str], ends: tuple[float, float], axis: Spec) -> Position:
    """Positions on one x axis. All layers get the same axis definition, so that they share the axis."""
    scale = {"domain": list(ends), "nice": False, "zero": False}
    return lambda field: {
        "field": field,
        "type": "quantitative",
        "title": title,
        "scale": scale,
        "axis": axis,
    }


def padded(low: float, high: float, share: float = 0.04) -> tuple[float, float]:
    margin = (high - low) * share
    return low - margin, high + margin


_LABELS = re.compile(r"format\((\d+) \* datum\.value, '([^']*)'\) \+ '([^']*)'")


def labels_in(unit: numbers.Unit) -> str:
    """The Vega expression that writes an axis' tick labels in the unit."""
    return f"format({unit.factor} * datum.value, ',.4~r') + '{unit.sign}'"


def read_labels_in(expression: str) -> tuple[int, str, str]:
    """The factor, D3 format and sign of an expression that `labels_in` wrote.

    >>> read_labels_in(labels_in(numbers.POINTS))
    (100, ',.4~r', ' pp')
    """
    written = _LABELS.fullmatch(expression)
    assert written is not None
    return int(written[1]), written[2], written[3]


def x_axis(form: str | None = None, ticks: int | list[int] = 6, unit: numbers.Unit = numbers.PLAIN) -> Spec:
    options: Spec = {"values": ticks} if isinstance(ticks, list) else {"tickCount": ticks}
    if unit != numbers.PLAIN:
        options["labelExpr"] = labels_in(unit)
    if form is not None:
        options["format"] = form
    return {"domain": False, "ticks": False, "labelPadding": 6, "titlePadding": 10, **options}


def styled(chart: Spec) -> Spec:
    """The chart with the common style: no frames and a transparent background."""
    config = {
        "background": "transparent",
        "font": FONT,
        "padding": {"left": 12, "right": 12, "top": 4, "bottom": 4},
        "view": {"stroke": None},
        "axis": {
            "labelColor": INK,
            "titleColor": INK,
            "labelFontSize": 11,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "gridColor": INK,
            "gridOpacity": 0.14,
        },
    }
    return {"$schema": "https://vega.github.io/schema/vega-lite/v6.json", "config": config, **chart}


# -- Charts of results -------------------------------------------------------------------------------------

MOST_GROUPS = 40
_FURTHEST_SHARE = 2.0  # of the gap: intervals are cut at twice the gap
_PERCENT = ".3~%"  # a D3 format, as in 12.5%


@singledispatch
def chart(result: object, *, width: int = WIDE) -> Spec:
    """The chart of a result, by its type; `width` is the plot's, in pixels."""
    raise TypeError(f"There is no chart of {type(result).__name__}.")


@chart.register
def answer_chart(
    answer: Answer,
    *,
    rows: Sequence[AnswerRow] | None = None,
    highlight: Collection[tuple[object, ...]] = (),
    width: int = WIDE,
    most: int = MOST_GROUPS,
) -> Any:
    """One row per group, at most `most`: its released value and interval on a common axis."""
    return styled(_answer_plot(answer, answer.rows if rows is None else rows, highlight, width, most))


@chart.register
def answers_chart(
    answers: Answers,
    *,
    groups: Sequence[tuple[object, ...]] | None = None,
    width: int = WIDE,
    most: int = MOST_GROUPS,
) -> Spec:
    """One answer chart per aggregate, below each other, each with its own axis.

    `groups` is the order of the rows in all of them.
    """
    parts = []
    for part in answers.answers:
        rows: dict[tuple[object, ...], AnswerRow] = {row.group: row for row in part.rows}
        ordered = part.rows if groups is None else [rows[group] for group in groups]
        parts.append(_answer_plot(part, ordered, (), width, most))
    return styled({"vconcat": parts, "spacing": 24})


def _answer_plot(
    answer: Answer,
    rows: Sequence[AnswerRow],
    highlight: Collection[tuple[object, ...]],
    width: int,
    most: int = MOST_GROUPS,
) -> Spec:
    visible_rows = list(rows)[:most]
    figures = answer_figures(answer)
    known_rows = [row for row in visible_rows if not row.is_unknown]
    low, high = _span([(ends, row.estimate) for row in known_rows for ends in (row.interval, row.in_general)])
    domain, write = padded(low, high), _interval_writer(figures)
    values = [
        interval_mark(row.interval, row.estimate, domain, write=write)
        | {"color": ABOVE if not highlight or row.group in highlight else QUIET}
        | ({} if row.in_general is None else general_mark(row.in_general, domain, write))
        for row in visible_rows
    ]
    title = f"{numbers.clean(answer.value_heading)}, with {numbers.level(answer.confidence)} intervals"
    is_general = any(row.in_general is not None for row in visible_rows)
    if is_general:
        title += ": bold in these data, thin in general"
    if left_out := len({row.group for row in answer.rows} - {row.group for row in visible_rows}):
        title += f" (… and {left_out:,} more groups)"
    axis = x_axis(_PERCENT if figures and figures.percent else None)
    x = x_position(_with_footnotes(title, answer, width), domain, axis)
    labels = [_group_text(answer, row) for row in visible_rows]
    rows_data = ChartRows(labels, values, width)
    zero = [rows_data.line(0.0, x)] if low < 0 < high else []
    general = [rows_data.thin_line(x)] if is_general else []
    return rows_data.plot([*zero, *general, *rows_data.whiskers(x), *rows_data.labels()], width)


def _span(
    intervals: Sequence[tuple[tuple[float, float] | None, float]], reference: float | None = None
) -> tuple[float, float]:
    """The ends of an axis that shows all intervals and, as these may be unbounded, their estimates."""
    points = [(estimate, estimate) for _, estimate in intervals]
    return span([*(ends for ends, _ in intervals if ends is not None), *points], reference)


def _interval_writer(figures: numbers.Figures | None) -> Callable[[float, float], str]:
    """The function that writes intervals in tooltips. An infinite end is written in words."""
    if figures is None:
        return numbers.open_interval
    unit = numbers.PERCENT if figures.percent else numbers.PLAIN
    return lambda low, high: (
        figures.interval(low, high) if math.isfinite(high - low) else unit.open_interval(low, high)
    )


def _group_text(answer: Answer, row: AnswerRow) -> str:
    """The group as tables name it, with the declared labels of its values."""
    columns = [answer.schema.column(name) for name in answer.groups.columns]
    return ", ".join(c.text(value) for c, value in zip(columns, row.group, strict=True)) or row.label


@chart.register
def question_chart(question: Question, *, width: int = WIDE) -> Spec:
    """The interval of the gap, and a bold line at the constant asked about."""
    constant = question.contrast.at_least
    general = question.in_general
    unit = question.unit
    intervals = [question.interval, *([] if general is None else [general.interval])]
    ends = padded(*_span([(interval, question.estimate) for interval in intervals], constant), 0.09)
    marks = [_verdict_mark(question, question.interval, question.verdict, ends)]
    if general is not None:
        marks.append(_verdict_mark(question, general.interval, general.verdict, ends))
    name = f"{question.measured}, with its {numbers.level(question.confidence)} interval"
    title = _with_footnotes(f"{name}; bold line at {question.unit.given(constant)}", question.answer, width)
    x = x_position(title, ends, x_axis(unit=unit))
    names = [question.measured] if general is None else ["in these data", "in general"]
    rows = ChartRows(names, marks, width)
    label = layer(
        {"type": "text", "dy": -17, "fontSize": 14, "fontWeight": "bold"},
        x=x("estimate"),
        text=nominal("text"),
        color=COLOR,
    )
    layers = [reference_line(constant, x), *rows.whiskers(x), label]
    if general is None:
        return styled(rows.plot(layers, width, height=64))
    return styled(rows.plot([*layers, *rows.labels()], width, height=128))


@chart.register
def explanation_chart(table: Explanation, *, width: int = WIDE) -> Spec:
    """The share of the gap that each condition removes; or influence and rank if sorted by these."""
    return influence_chart(table, width=width) if table.by_influence else share_chart(table, width=width)


def share_chart(table: Explanation, *, width: int = WIDE) -> Spec:
    """Bars of the share of the gap that each condition removes, from 0, each with its interval."""
    known_rows = [row for row in table.rows if row.share_removed is not None]
    # As in the table, noise is left out if something is clear.
    visible_rows = [row for row in known_rows if not row.is_unclear] or known_rows
    shares = [row.share_removed or (0.0, 0.0) for row in visible_rows]
    ends = padded(
        *span([(max(low, -_FURTHEST_SHARE), min(high, _FURTHEST_SHARE)) for low, high in shares], 0.0)
    )
    values = []
    for row, (low, high) in zip(visible_rows, shares, strict=True):
        drawn = max(low, ends[0]), min(high, ends[1])
        estimate = min(max(row.share_estimate or 0.0, ends[0]), ends[1])
        color = QUIET if row.is_unclear else ABOVE if low > 0 else BELOW
        mark = interval_mark(drawn, estimate, ends, row.is_unclear, numbers.percent)
        values.append(mark | {"color": color, "text": effect_text(table.effect_of(row))})
    name = table.question.measured
    title = f"share of the {name} that goes away without these rows"
    x = x_position(_with_footnotes(title, table.question.answer, width), ends, x_axis(_PERCENT, ticks=5))
    rows = ChartRows([table.label_of(row) for row in visible_rows], values, width)
    bar = layer(
        {"type": "rule", "strokeWidth": 12, "strokeOpacity": 0.3},
        {"calculate": "0", "as": "zero"},
        x=x("zero"),
        x2={"field": "estimate"},
        color=COLOR,
    )
    return styled(rows.plot([bar, rows.line(0.0, x), *rows.whiskers(x), *rows.labels()], width))


def influence_chart(table: Explanation, *, width: int = WIDE) -> Spec:
    """Forest plot of influences against a bold zero line, beside the rank intervals.

    On a phone's width the ranks are texts at the end of each label.
    """
    if width <= NARROW:
        return styled(_forest(table, width))
    forest, ranks = round(width * 0.58), round(width * 0.3)  # the rest is for the rank texts
    parts = [_forest(table, forest, width), _ranks(table, ranks, width)]
    return styled({"hconcat": parts, "spacing": 20})


@chart.register
def story_chart(story: Story, *, width: int = WIDE) -> Spec:
    """The tree from top to bottom: the gap in each part of the rows, with a bold line at the whole gap."""
    branches, name = tree(story), story.question.measured
    gaps = [(branch.gap.interval, branch.gap.estimate) for branch in branches]
    ends = padded(*_span(gaps, story.gap.estimate))
    values = [
        interval_mark(branch.gap.interval, branch.gap.estimate, ends, write=branch.unit.open_interval)
        | {"color": QUIET if branch.is_rest else ABOVE if branch.step else INK}
        for branch in branches
    ]
    title = f"{name} among these rows; bold line: among all rows"
    x = x_position(
        _with_footnotes(title, story.question.answer, width), ends, x_axis(ticks=5, unit=story.question.unit)
    )
    rows = ChartRows([branch.short for branch in branches], values, width)
    return styled(rows.plot([rows.line(story.gap.estimate, x), *rows.whiskers(x), *rows.labels()], width))


def _with_footnotes(title: str | list[str], answer: ReleasedAnswer, width: int) -> list[str]:
    """The axis title, and below it how the numbers were counted: people pass charts on without their text."""
    limit = width // 7  # letters that have room below the plot
    titles = [title] if isinstance(title, str) else title
    lines = [line for text in titles for line in text_lines(text, width // 6)]
    first = True
    for note in dict.fromkeys(n for q in answer.queries for n in footnotes(q, answer.schema)):
        if note.split(", ", 1)[-1] in " ".join(titles):  # the value's own name says "capped at 200,000"
            continue
        joined = f"{lines[-1]} · {note}"
        if first or len(joined) > limit:
            lines.extend(text_lines(note, limit))
        else:
            lines[-1] = joined
        first = False
    return lines


def _forest(table: Explanation, width: int, whole: int = 0) -> Spec:
    divisor = table.question.relative_to or 1.0
    intervals = [(row.influence[0] / divisor, row.influence[1] / divisor) for row in table.rows]
    ends = padded(*span(intervals, 0.0))
    values = []
    for row, (low, high) in zip(table.rows, intervals, strict=True):
        unclear = low <= 0.0 <= high
        values.append(
            interval_mark((low, high), row.estimate / divisor, ends, unclear)
            | {
                "color": QUIET if unclear else ABOVE if low > 0 else BELOW,
                "interval": relative_text(row.influence, row.relative_influence),
                "text": "unclear" if unclear else "",
                "aside": f"rank {numbers.ranks(*row.rank)}",
            }
        )
    low, high = ends
    if any(v["unclear"] for v in values):
        high += (high - low) * 60 / width  # room for the word "unclear" at the end of an interval
    narrows, widens = short_effects(table.question.measured, table.question.verdict)
    name = "relative influence" if table.relative else "influence"
    axis = x_axis(_PERCENT if table.relative else ",.4~r", ticks=5)
    title = [name, f"leaving out:  ← {widens} · {narrows} →"]
    if width <= NARROW and not whole:
        title.append(f"ranks are out of {table.family_size:,}")
    x = x_position(_with_footnotes(title, table.question.answer, width), (low, high), axis)
    rows = ChartRows([table.label_of(row) for row in table.rows], values, whole or width)
    unclear_text = layer(
        {"type": "text", "align": "left", "dx": 7, "fontSize": 11, "fontStyle": "italic"},
        x=x("high"),
        text=nominal("text"),
        color=COLOR,
    )
    layers = [rows.line(0.0, x), *rows.whiskers(x), unclear_text, *rows.labels(aside=width)]
    return rows.plot(layers, width)


def _ranks(table: Explanation, width: int, whole: int) -> Spec:
    values = [
        {"low": row.rank[0], "high": row.rank[1], "text": numbers.ranks(*row.rank)} for row in table.rows
    ]
    size = table.family_size
    axis = x_axis(",d", ticks=[1, size] if size > 1 else [1])
    x = x_position(f"rank, out of {size:,}", (1, max(2, size)), axis)
    rows = ChartRows([table.label_of(row) for row in table.rows], values, whole)
    bar = layer(
        {"type": "rule", "strokeWidth": 7, "strokeCap": "round", "color": QUIET},
        x=x("low"),
        x2={"field": "high"},
    )
    # In its own column at the right, because a label beside its interval could leave the plot.
    text = layer(
        {"type": "text", "align": "left", "fontSize": 12, "color": INK},
        x={"value": width + 14},
        text=nominal("text"),
    )
    return rows.plot([bar, text], width)


def _verdict_mark(
    question: Question, interval: tuple[float, float], verdict: Verdict, domain: tuple[float, float]
) -> dict[str, Any]:
    """An interval of the question's number, coloured and labelled by its verdict."""
    unclear, unit, estimate = verdict is Verdict.UNCLEAR, question.unit, question.estimate
    color = {Verdict.REAL: ABOVE, Verdict.REVERSED: BELOW, Verdict.UNCLEAR: QUIET}[verdict]
    text = unit.number(estimate, interval[1] - interval[0]) + (" · unclear" if unclear else "")
    write = partial(unit.open_interval, constant=question.contrast.at_least)
    mark = interval_mark(interval, estimate, domain, unclear, write)
    return mark | {"color": color, "text": text}


_REMEDY = "pip install 'dpxplain[charts]'. Printed tables and reports have their charts without it."


def altair_chart(result: object) -> Any:
    """The result's chart as an Altair object: a layered or a concatenated chart."""
    try:
        import altair
    except ImportError:
        raise BadRequest("A chart object needs Altair, which is not installed.", remedy=_REMEDY) from None
    spec = chart(result)
    kinds = {"layer": altair.LayerChart, "hconcat": altair.HConcatChart, "vconcat": altair.VConcatChart}
    kind = next(kind for key, kind in kinds.items() if key in spec)
    return _offline(kind).from_dict(spec, validate=False)


@cache
def _offline(kind: type[Any]) -> type[Any]:
    """The chart class, shown as SVG in a notebook: Altair's own display fetches scripts from the network.

    A renderer that the user chose (`altair.renderers.enable`) stays in force.
    """

    def show(self: Any, *args: Any, **options: Any) -> Any:
        import altair
        import vl_convert

        if altair.renderers.active != "default":
            return kind._repr_mimebundle_(self, *args, **options)
        return {"image/svg+xml": vl_convert.vegalite_to_svg(self.to_dict())}

    return type(kind.__name__, (kind,), {"_repr_mimebundle_": show})
