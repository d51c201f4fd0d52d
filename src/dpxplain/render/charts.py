"""Charts of answers, questions and explanations as Vega-Lite: dots with intervals, never bars.

Colours are told apart with any colour vision and on light or dark paper; what is unclear is also hollow
and labelled, so that nothing depends on colour alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from functools import singledispatch
from typing import Any

from dpxplain.model.contrast import Verdict
from dpxplain.render import words
from dpxplain.render.layout import label_lines, span, text_lines
from dpxplain.results import formats
from dpxplain.results.answer import Answer, AnswerRow
from dpxplain.results.answers import Answers
from dpxplain.results.explanation import Explanation
from dpxplain.results.links import AnswerLike
from dpxplain.results.question import Question
from dpxplain.results.sentences import footnotes

MOST_GROUPS = 40
_PERCENT = ".3~%"  # 12.5%, as d3 writes it
WIDE, PHONE, NARROW = 500, 320, 420  # plot widths; up to a narrow one the labels stand above their rows

# Mid-tones with a contrast of at least 3 to both white and near-black (blue and orange, as Okabe and Ito).
ABOVE, BELOW, QUIET, INK, PAPER = "#2b7bba", "#c9641c", "#7d8590", "#24292f", "#ffffff"
# Of the same widths everywhere: texts are also measured where they will not be drawn.
FONT = "'Helvetica Neue', Arial, 'Liberation Sans', sans-serif"

# Plain values, as Vega-Lite's JSON has them: a server sends them on and nobody waits for a charting library.
Spec = dict[str, Any]
Position = Callable[[str], Spec]  # where on the x axis a field stands


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
    """One row per group, at most so many: its released value and interval on a common axis."""
    return _styled(_dots(answer, answer.rows if rows is None else rows, highlight, width, most))


@chart.register
def answers_chart(answers: Answers, *, width: int = WIDE) -> Spec:
    """The same for each of several aggregates, below each other: they have no axis in common."""
    parts = [_dots(part, part.rows, (), width) for part in answers.answers]
    return _styled({"vconcat": parts, "spacing": 24})


def _dots(
    answer: Answer,
    rows: Sequence[AnswerRow],
    highlight: Collection[tuple[object, ...]],
    width: int,
    most: int = MOST_GROUPS,
) -> Spec:
    visible_rows = list(rows)[:most]
    figures = words.answer_figures(answer)
    write = figures.interval if figures else formats.interval
    values = [
        _mark(row.interval, row.estimate, write=write)
        | {"color": ABOVE if not highlight or row.group in highlight else QUIET}
        for row in visible_rows
    ]
    title = f"{formats.clean(answer.value_heading)}, with {formats.level(answer.confidence)} intervals"
    if left_out := len({row.group for row in answer.rows} - {row.group for row in visible_rows}):
        title += f" (… and {left_out:,} more groups)"
    low, high = span([row.interval for row in visible_rows])
    axis = _x_axis(_PERCENT if figures and figures.percent else None)
    x = _x(_with_footnotes(title, answer, width), _padded(low, high), axis)
    labels = [_group_text(answer, row) for row in visible_rows]
    rows_data = _Rows(labels, values, width)
    zero = [rows_data.line(0.0, x)] if low < 0 < high else []
    return rows_data.plot([*zero, *rows_data.whiskers(x), *rows_data.labels()], width)


def _group_text(answer: Answer, row: AnswerRow) -> str:
    """The group as tables name it: with what each value stands for."""
    columns = [answer.schema.column(name) for name in answer.groups.columns]
    return ", ".join(c.text(value) for c, value in zip(columns, row.group, strict=True)) or row.label


@chart.register
def question_chart(question: Question, *, width: int = WIDE) -> Spec:
    """The interval of the gap against the constant asked about, which is a bold line."""
    constant = question.contrast.at_least
    general = question.in_general
    marks = [_verdict_mark(question.interval, question.estimate, question.verdict)]
    if general is not None:
        marks.append(_verdict_mark(general.interval, question.estimate, general.verdict))
    name = f"{question.measured}, with its {formats.level(question.confidence)} interval"
    intervals = [question.interval, *([] if general is None else [general.interval])]
    ends = _padded(*span(intervals, constant), 0.09)
    title = _with_footnotes(f"{name}; bold line at {formats.number(constant)}", question.answer, width)
    x = _x(title, ends, _x_axis())
    names = [question.measured] if general is None else ["in these data", "in general"]
    rows = _Rows(names, marks, width)
    label = _layer(
        {"type": "text", "dy": -17, "fontSize": 14, "fontWeight": "bold"},
        x=x("estimate"),
        text=_nominal("text"),
        color=_COLOR,
    )
    layers = [_line(constant, x), *rows.whiskers(x), label]
    if general is None:
        return _styled(rows.plot(layers, width, height=64))
    return _styled(rows.plot([*layers, *rows.labels()], width, height=128))


@chart.register
def explanation_chart(table: Explanation, *, width: int = WIDE) -> Spec:
    """Forest plot of influences against a bold zero line, beside the rank intervals.

    On a phone's width the ranks are texts at the end of each label.
    """
    if width <= NARROW:
        return _styled(_forest(table, width))
    forest, ranks = round(width * 0.58), round(width * 0.3)  # the rest is for the rank texts
    parts = [_forest(table, forest, width), _ranks(table, ranks, width)]
    return _styled({"hconcat": parts, "spacing": 20})


def gap_chart(table: Explanation, *, width: int = WIDE) -> Spec:
    """What the question's number would be without each predicate's rows, against what it is."""
    gap = table.release.gap
    assert gap is not None
    estimates = {line.predicate: line.gap_without for line in table.release.lines}
    visible_rows = [row for row in table.rows if words.gap_without_text(table, row) != "unknown"]
    values = []
    for row in visible_rows:
        estimate = estimates[row.index]
        assert row.gap_without is not None
        assert estimate is not None
        unclear = words.is_unclear(row)
        color = QUIET if unclear else ABOVE if row.influence[0] > 0 else BELOW
        values.append(_mark(row.gap_without, estimate, unclear) | {"color": color})
    name = table.question.measured
    ends = _padded(*span([row.gap_without for row in visible_rows if row.gap_without], gap))
    title = f"{name} without them; bold line: the {name} is {words.gap_text(table)}"
    x = _x(_with_footnotes(title, table.question.answer, width), ends, _x_axis(ticks=5))
    rows = _Rows([row.predicate.label for row in visible_rows], values, width)
    return _styled(rows.plot([rows.line(gap, x), *rows.whiskers(x), *rows.labels()], width))


def _with_footnotes(title: str | list[str], answer: AnswerLike, width: int) -> list[str]:
    """The axis title, and below it what the numbers are of: a chart is passed on without its text."""
    limit = width // 7  # letters that have room below the plot
    titles = [title] if isinstance(title, str) else title
    lines = [line for text in titles for line in text_lines(text, width // 6)]
    first = True
    for note in dict.fromkeys(n for q in answer.statement.queries for n in footnotes(q, answer.schema)):
        joined = f"{lines[-1]} · {note}"
        if first or len(joined) > limit:
            lines.extend(text_lines(note, limit))
        else:
            lines[-1] = joined
        first = False
    return lines


def _forest(table: Explanation, width: int, whole: int = 0) -> Spec:
    divisor = table.question.relative_to or 1.0
    values = []
    for row in table.rows:
        low, high = (end / divisor for end in row.influence)
        unclear = words.is_unclear(row)
        values.append(
            _mark((low, high), row.estimate / divisor, unclear)
            | {
                "color": QUIET if unclear else ABOVE if low > 0 else BELOW,
                "interval": words.influence_text(row),
                "text": "unclear" if unclear else "",
                "aside": f"rank {formats.ranks(*row.rank)}",
            }
        )
    low, high = span([(v["low"], v["high"]) for v in values], 0.0)
    low, high = _padded(low, high)
    if any(v["unclear"] for v in values):
        high += (high - low) * 60 / width  # room for the word "unclear" at the end of an interval
    narrows, widens = words.short_effects(table.question)
    name = "relative influence" if table.relative else "influence"
    axis = _x_axis(_PERCENT if table.relative else ",.4~r", ticks=5)
    title = [name, f"leaving out:  ← {widens} · {narrows} →"]
    if width <= NARROW and not whole:
        title.append(f"ranks are out of {table.family_size:,}")
    x = _x(_with_footnotes(title, table.question.answer, width), (low, high), axis)
    rows = _Rows([row.predicate.label for row in table.rows], values, whole or width)
    unclear_text = _layer(
        {"type": "text", "align": "left", "dx": 7, "fontSize": 11, "fontStyle": "italic"},
        x=x("high"),
        text=_nominal("text"),
        color=_COLOR,
    )
    layers = [rows.line(0.0, x), *rows.whiskers(x), unclear_text, *rows.labels(aside=width)]
    return rows.plot(layers, width)


def _ranks(table: Explanation, width: int, whole: int) -> Spec:
    values = [
        {"low": row.rank[0], "high": row.rank[1], "text": formats.ranks(*row.rank)} for row in table.rows
    ]
    size = table.family_size
    axis = _x_axis(",d", ticks=[1, size] if size > 1 else [1])
    x = _x(f"rank, out of {size:,}", (1, max(2, size)), axis)
    rows = _Rows([row.predicate.label for row in table.rows], values, whole)
    bar = _layer(
        {"type": "rule", "strokeWidth": 7, "strokeCap": "round", "color": QUIET},
        x=x("low"),
        x2={"field": "high"},
    )
    # In a column of its own at the right: beside its interval a label could leave the plot.
    text = _layer(
        {"type": "text", "align": "left", "fontSize": 12, "color": INK},
        x={"value": width + 14},
        text=_nominal("text"),
    )
    return rows.plot([bar, text], width)


class _Rows:
    """Labelled rows of one chart: their data, their height, and the marks that every chart shares."""

    def __init__(self, labels: Sequence[str], values: Sequence[dict[str, Any]], width: int) -> None:
        self.phone = width <= NARROW
        # Zero-width spaces keep rows apart that people would read the same.
        lines = [label_lines(formats.clean(text), 34 if self.phone else 32) for text in labels]
        self.data = [
            value | {"row": "\u200b" * i, "label": "\n".join(text), "lines": len(text)}
            for i, (text, value) in enumerate(zip(lines, values, strict=True))
        ]
        self.most_lines = max((len(text) for text in lines), default=1)
        self.height = (30 + 15 * self.most_lines) if self.phone else max(28, 12 + 15 * self.most_lines)

    def plot(self, layers: list[Spec], width: int, height: int | None = None) -> Spec:
        """The layers over each other; a layer with data of its own is not about the rows."""
        tall: Any = {"step": self.height} if height is None else height
        return {"data": {"values": self.data}, "layer": layers, "width": width, "height": tall}

    def line(self, value: float, x: Position) -> Spec:
        """The bold reference line; on a phone it stops where row names stand in its way."""
        if not self.phone:
            return _line(value, x)
        mark = {"type": "tick", "size": 20, "thickness": 3, "opacity": 1, "color": INK}
        return _layer(mark, {"calculate": repr(value), "as": "at"}, x=x("at"))

    def whiskers(self, x: Position) -> list[Spec]:
        """Interval lines with end caps, and dots: filled where clear, hollow where not."""
        tip = [_nominal("label", title="of"), _nominal("interval", title="interval")]
        cap = {"type": "tick", "size": 9, "thickness": 2, "opacity": 1}
        dot, hollow = ({"type": "circle", "size": size, "opacity": 1} for size in (70, 26))
        return [
            _layer(
                {"type": "rule", "strokeWidth": 2.5},
                x=x("low"),
                x2={"field": "high"},
                color=_COLOR,
                tooltip=tip,
            ),
            *(_layer(cap, x=x(end), color=_COLOR) for end in ("low", "high")),
            _layer(dot, x=x("estimate"), color=_COLOR, tooltip=tip),
            _layer(hollow, {"filter": "datum.unclear"}, x=x("estimate"), color={"value": PAPER}),
        ]

    def labels(self, aside: int = 0) -> list[Spec]:
        """Row names, left of the plot or, on a phone, above their rows with `aside` at the right end."""
        text: Spec = {"type": "text", "fontSize": 13, "lineHeight": 15, "lineBreak": "\n", "color": INK}
        # A text of several lines hangs from its first one, so each number of lines is lifted by itself.
        lifted = [(n, {"filter": f"datum.lines == {n}"}) for n in range(1, self.most_lines + 1)]
        if not self.phone:
            return [
                _layer(
                    text | {"align": "right", "dy": -7 * (n - 1)},
                    of_lines,
                    x={"value": -14},
                    text=_nominal("label"),
                )
                for n, of_lines in lifted
            ]
        halo = text | {"stroke": PAPER, "strokeWidth": 5, "strokeJoin": "round"}  # over the grid behind it
        ends = [("left", 0, "label"), *([("right", aside, "aside")] if aside else [])]
        return [
            _layer(
                style | {"align": align, "dy": -18 - 15 * (n - 1)},
                of_lines,
                x={"value": at},
                text=_nominal(field),
            )
            for n, of_lines in lifted
            for align, at, field in ends
            for style in (halo, text)
        ]


def _verdict_mark(interval: tuple[float, float], estimate: float, verdict: Verdict) -> dict[str, Any]:
    """The interval of a question's number, coloured and labelled by what it says."""
    unclear = verdict is Verdict.UNCLEAR
    color = {Verdict.REAL: ABOVE, Verdict.REVERSED: BELOW, Verdict.UNCLEAR: QUIET}[verdict]
    text = formats.number(estimate, interval[1] - interval[0]) + (" · unclear" if unclear else "")
    return _mark(interval, estimate, unclear) | {"color": color, "text": text}


def _mark(
    interval: tuple[float, float],
    estimate: float,
    unclear: bool = False,
    write: Callable[[float, float], str] = formats.interval,
) -> dict[str, Any]:
    """JSON has no infinity: an unbounded end is drawn at the estimate."""
    low, high = (end if math.isfinite(end) else estimate for end in interval)
    return {
        "low": low,
        "estimate": estimate,
        "high": high,
        "unclear": unclear,
        "color": ABOVE,
        "interval": write(*interval),
    }


def _nominal(field: str, **options: Any) -> Spec:
    return {"field": field, "type": "nominal", **options}


_ROW = _nominal("row", sort=None, axis=None)
_COLOR = _nominal("color", scale=None, legend=None)


def _layer(mark: Spec, *transforms: Spec, **encoding: Any) -> Spec:
    """One mark per row, after the transforms."""
    layer = {"mark": mark, "encoding": {"y": _ROW, **encoding}}
    return layer | {"transform": list(transforms)} if transforms else layer


def _line(value: float, x: Position) -> Spec:
    """The bold reference line."""
    return {
        "data": {"values": [{"at": value}]},
        "mark": {"type": "rule", "strokeWidth": 3, "color": INK},
        "encoding": {"x": x("at")},
    }


def _x(title: str | list[str], ends: tuple[float, float], axis: Spec) -> Position:
    """Positions on one x axis; every layer says the same about it, so that they share it."""
    scale = {"domain": list(ends), "nice": False, "zero": False}
    return lambda field: {
        "field": field,
        "type": "quantitative",
        "title": title,
        "scale": scale,
        "axis": axis,
    }


def _padded(low: float, high: float, share: float = 0.04) -> tuple[float, float]:
    margin = (high - low) * share
    return low - margin, high + margin


def _x_axis(form: str | None = None, ticks: int | list[int] = 6) -> Spec:
    options: Spec = {"values": ticks} if isinstance(ticks, list) else {"tickCount": ticks}
    if form is not None:
        options["format"] = form
    return {"domain": False, "ticks": False, "labelPadding": 6, "titlePadding": 10, **options}


def _styled(chart: Spec) -> Spec:
    """Calm, without frames, and on whatever paper it is put."""
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
