"""Altair charts of answers, questions and explanations: dots with intervals, never bars.

Colours are told apart with any colour vision and on light or dark paper; what is unclear is also hollow
and labelled, so that nothing depends on colour alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from functools import singledispatch
from typing import Any

import altair as alt

from dpxplain.model.contrast import Verdict
from dpxplain.render import words
from dpxplain.render.layout import span
from dpxplain.results import formats
from dpxplain.results.answer import Answer, AnswerRow
from dpxplain.results.answers import Answers
from dpxplain.results.explanation import Explanation
from dpxplain.results.question import Question

MOST_GROUPS = 40
WIDE, PHONE = 500, 320  # plot widths; on a phone the labels stand above their rows

# Mid-tones with a contrast of at least 3 to both white and near-black (blue and orange, as Okabe and Ito).
ABOVE, BELOW, QUIET, INK, PAPER = "#2b7bba", "#c9641c", "#7d8590", "#24292f", "#ffffff"
# Of the same widths everywhere; vl-convert measures texts where they will not be drawn.
FONT = "'Helvetica Neue', Arial, 'Liberation Sans', sans-serif"

Position = Callable[[str], alt.X]


@singledispatch
def chart(result: object, *, width: int = WIDE) -> Any:
    """The chart of a result, by its type; `width` is the plot's, in pixels."""
    raise TypeError(f"There is no chart of {type(result).__name__}.")


@chart.register
def answer_chart(
    answer: Answer,
    *,
    rows: Sequence[AnswerRow] | None = None,
    highlight: Collection[tuple[object, ...]] = (),
    width: int = WIDE,
) -> Any:
    """One row per group: its released value and interval on a common axis."""
    return _styled(_dots(answer, answer.rows if rows is None else rows, highlight, width))


@chart.register
def answers_chart(answers: Answers, *, width: int = WIDE) -> Any:
    """The same for each of several aggregates, below each other: they have no axis in common."""
    return _styled(alt.vconcat(*(_dots(part, part.rows, (), width) for part in answers.answers), spacing=24))


def _dots(
    answer: Answer, rows: Sequence[AnswerRow], highlight: Collection[tuple[object, ...]], width: int
) -> Any:
    visible_rows = list(rows)[:MOST_GROUPS]
    values = [
        _mark(row.interval, row.estimate)
        | {"color": ABOVE if not highlight or row.group in highlight else QUIET}
        for row in visible_rows
    ]
    title = f"{formats.clean(answer.value_name)}, with {formats.level(answer.confidence)} intervals"
    if left_out := len({row.group for row in answer.rows} - {row.group for row in visible_rows}):
        title += f" (… and {left_out:,} more groups)"
    low, high = span([row.interval for row in visible_rows])
    x = _x(title, _padded(low, high), _x_axis())
    rows_data = _Rows([row.label for row in visible_rows], values, width)
    zero = [rows_data.line(0.0, x)] if low < 0 < high else []
    layers = [*zero, *rows_data.whiskers(x), *rows_data.labels()]
    return alt.layer(*layers).properties(width=width, height=alt.Step(rows_data.height))


@chart.register
def question_chart(question: Question, *, width: int = WIDE) -> Any:
    """The interval of the gap against the constant asked about, which is a bold line."""
    constant = question.contrast.at_least
    low, high = question.interval
    unclear = question.verdict is Verdict.UNCLEAR
    color = {Verdict.REAL: ABOVE, Verdict.REVERSED: BELOW, Verdict.UNCLEAR: QUIET}[question.verdict]
    text = formats.number(question.estimate, high - low) + (" · unclear" if unclear else "")
    mark = _mark(question.interval, question.estimate, unclear) | {"color": color, "text": text}
    name = f"{question.measured}, with its {formats.level(question.confidence)} interval"
    ends = _padded(*span([question.interval], constant), 0.09)
    x = _x(f"{name}; bold line at {formats.number(constant)}", ends, _x_axis())
    rows = _Rows([question.measured], [mark], width)
    label = rows.base.mark_text(dy=-17, fontSize=14, fontWeight="bold").encode(
        x=x("estimate"), text="text:N", color=_color()
    )
    layers = [_line(constant, x), *rows.whiskers(x), label]
    return _styled(alt.layer(*layers).properties(width=width, height=64))


@chart.register
def explanation_chart(table: Explanation, *, width: int = WIDE) -> Any:
    """Forest plot of influences against a bold zero line, beside the rank intervals.

    On a phone's width the ranks are texts at the end of each label.
    """
    if width <= PHONE:
        return _styled(_forest(table, width))
    forest, ranks = round(width * 0.58), round(width * 0.3)  # the rest is for the rank texts
    return _styled(alt.hconcat(_forest(table, forest, width), _ranks(table, ranks, width), spacing=20))


def gap_chart(table: Explanation, *, width: int = WIDE) -> Any:
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
    x = _x(title, ends, _x_axis(ticks=5))
    rows = _Rows([row.predicate.label for row in visible_rows], values, width)
    layers = [rows.line(gap, x), *rows.whiskers(x), *rows.labels()]
    return _styled(alt.layer(*layers).properties(width=width, height=alt.Step(rows.height)))


def to_svg(chart: Any) -> str:
    """The chart as an SVG text; needs no browser and no network."""
    import vl_convert

    return str(vl_convert.vegalite_to_svg(chart.to_dict(validate=False)))


def to_png(chart: Any, scale: float = 2.0) -> bytes:
    """The chart as a PNG image; needs no browser and no network."""
    import vl_convert

    return bytes(vl_convert.vegalite_to_png(chart.to_dict(validate=False), scale=scale))


def _forest(table: Explanation, width: int, whole: int = 0) -> Any:
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
    axis = _x_axis(".3~%" if table.relative else ",.4~r", ticks=5)
    title = [name, f"leaving out:  ← {widens} · {narrows} →"]
    if width <= PHONE and not whole:
        title.append(f"ranks are out of {table.family_size:,}")
    x = _x(title, (low, high), axis)
    rows = _Rows([row.predicate.label for row in table.rows], values, whole or width)
    unclear_text = rows.base.mark_text(align="left", dx=7, fontSize=11, fontStyle="italic").encode(
        x=x("high"), text="text:N", color=_color()
    )
    layers = [rows.line(0.0, x), *rows.whiskers(x), unclear_text, *rows.labels(aside=width)]
    return alt.layer(*layers).properties(width=width, height=alt.Step(rows.height))


def _ranks(table: Explanation, width: int, whole: int) -> Any:
    values = [
        {"low": row.rank[0], "high": row.rank[1], "text": formats.ranks(*row.rank)} for row in table.rows
    ]
    size = table.family_size
    axis = _x_axis(",d", ticks=[1, size] if size > 1 else [1])
    x = _x(f"rank, out of {size:,}", (1, max(2, size)), axis)
    rows = _Rows([row.predicate.label for row in table.rows], values, whole)
    bar = rows.base.mark_rule(strokeWidth=7, strokeCap="round", color=QUIET).encode(x=x("low"), x2="high:Q")
    # In a column of its own at the right: beside its interval a label could leave the plot.
    text = rows.base.mark_text(align="left", fontSize=12, color=INK).encode(
        x=alt.value(width + 14), text="text:N"
    )
    return alt.layer(bar, text).properties(width=width, height=alt.Step(rows.height))


class _Rows:
    """Labelled rows of one chart: their data, their height, and the marks that every chart shares."""

    def __init__(self, labels: Sequence[str], values: Sequence[dict[str, Any]], width: int) -> None:
        self.phone = width <= PHONE
        # Zero-width spaces keep rows apart that people would read the same.
        lines = [_broken(formats.clean(text), 34 if self.phone else 32) for text in labels]
        data = [
            value | {"row": "\u200b" * i, "label": "\n".join(text), "lines": len(text)}
            for i, (text, value) in enumerate(zip(lines, values, strict=True))
        ]
        self.most_lines = max((len(text) for text in lines), default=1)
        self.height = (30 + 15 * self.most_lines) if self.phone else max(28, 12 + 15 * self.most_lines)
        self.base = alt.Chart(_data(data)).encode(y=alt.Y("row:N", sort=None, axis=None))

    def line(self, value: float, x: Position) -> Any:
        """The bold reference line; on a phone it stops where row names stand in its way."""
        if not self.phone:
            return _line(value, x)
        pieces = self.base.transform_calculate(at=repr(value))
        return pieces.mark_tick(size=20, thickness=3, opacity=1, color=INK).encode(x=x("at"))

    def whiskers(self, x: Position) -> list[Any]:
        """Interval lines with end caps, and dots: filled where clear, hollow where not."""
        base = self.base.encode(color=_color())
        tip = [alt.Tooltip("label:N", title="of"), alt.Tooltip("interval:N", title="interval")]
        caps = (base.mark_tick(size=9, thickness=2, opacity=1).encode(x=x(end)) for end in ("low", "high"))
        dot = base.mark_circle(size=70, opacity=1).encode(x=x("estimate"), tooltip=tip)
        hollow = base.mark_circle(size=26, opacity=1).transform_filter("datum.unclear")
        return [
            base.mark_rule(strokeWidth=2.5).encode(x=x("low"), x2="high:Q", tooltip=tip),
            *caps,
            dot,
            hollow.encode(x=x("estimate"), color=alt.value(PAPER)),
        ]

    def labels(self, aside: int = 0) -> list[Any]:
        """Row names, left of the plot or, on a phone, above their rows with `aside` at the right end."""
        text: dict[str, Any] = {"fontSize": 13, "lineHeight": 15, "lineBreak": "\n", "color": INK}
        # A text of several lines hangs from its first one, so each number of lines is lifted by itself.
        lifted = [
            (n, self.base.transform_filter(f"datum.lines == {n}")) for n in range(1, self.most_lines + 1)
        ]
        if not self.phone:
            return [
                base.mark_text(align="right", dy=-7 * (n - 1), **text).encode(
                    x=alt.value(-14), text="label:N"
                )
                for n, base in lifted
            ]
        halo = text | {"stroke": PAPER, "strokeWidth": 5, "strokeJoin": "round"}  # over the grid behind it
        ends: list[tuple[Any, int, str]] = [
            ("left", 0, "label:N"),
            *([("right", aside, "aside:N")] if aside else []),
        ]
        return [
            base.mark_text(align=align, dy=-18 - 15 * (n - 1), **style).encode(x=alt.value(at), text=field)
            for n, base in lifted
            for align, at, field in ends
            for style in (halo, text)
        ]


def _mark(interval: tuple[float, float], estimate: float, unclear: bool = False) -> dict[str, Any]:
    """JSON has no infinity: an unbounded end is drawn at the estimate."""
    low, high = (end if math.isfinite(end) else estimate for end in interval)
    return {
        "low": low,
        "estimate": estimate,
        "high": high,
        "unclear": unclear,
        "color": ABOVE,
        "interval": formats.interval(*interval),
    }


def _broken(text: str, limit: int) -> list[str]:
    """A long label in at most three lines, one condition each if it has several."""
    if len(text) <= limit:
        return [text]
    lines = text.replace(" and ", " and\n").split("\n")
    if len(lines) > 3:
        lines = [*lines[:2], " ".join(lines[2:])]
    return [line if len(line) <= limit else line[: limit - 1] + "…" for line in lines]


def _line(value: float, x: Position) -> Any:
    """The bold reference line."""
    return alt.Chart(_data([{"at": value}])).mark_rule(strokeWidth=3, color=INK).encode(x=x("at"))


def _data(values: list[dict[str, Any]]) -> Any:
    return alt.Data(values=values)  # type: ignore[no-untyped-call]


def _color() -> alt.Color:
    return alt.Color("color:N", scale=None, legend=None)


def _x(title: str | list[str], ends: tuple[float, float], axis: alt.Axis) -> Position:
    """Positions on one x axis; every layer says the same about it, so that they share it."""
    scale = alt.Scale(domain=list(ends), nice=False, zero=False)
    return lambda field: alt.X(f"{field}:Q", title=title, scale=scale, axis=axis)


def _padded(low: float, high: float, share: float = 0.04) -> tuple[float, float]:
    margin = (high - low) * share
    return low - margin, high + margin


def _x_axis(form: str | None = None, ticks: int | list[int] = 6) -> alt.Axis:
    options: dict[str, Any] = {"values": ticks} if isinstance(ticks, list) else {"tickCount": ticks}
    if form is not None:
        options["format"] = form
    return alt.Axis(domain=False, ticks=False, labelPadding=6, titlePadding=10, **options)


def _styled(chart: Any) -> Any:
    """Calm, without frames, and on whatever paper it is put."""
    return (
        chart.configure(
            background="transparent", font=FONT, padding={"left": 12, "right": 12, "top": 4, "bottom": 4}
        )
        .configure_view(stroke=None)
        .configure_axis(
            labelColor=INK,
            titleColor=INK,
            labelFontSize=11,
            titleFontSize=12,
            titleFontWeight="normal",
            gridColor=INK,
            gridOpacity=0.14,
        )
    )
