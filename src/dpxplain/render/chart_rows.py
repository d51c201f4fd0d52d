"""The parts that charts are made of: labelled rows with intervals on one axis, in Vega-Lite's JSON."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from dpxplain.render.layout import label_lines
from dpxplain.words import numbers

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
    low, high = _drawn(interval, domain)
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
    low, high = _drawn(interval, domain)
    return {"general_low": low, "general_high": high, "in_general": write(*interval)}


def _drawn(interval: tuple[float, float], domain: tuple[float, float]) -> list[float]:
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
