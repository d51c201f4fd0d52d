"""Drafted edges, bounds and calendar values: round numbers, whole months, and bins that each hold some
rows.
"""

from __future__ import annotations

import calendar
import math
import re
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from itertools import pairwise

FEW_BINS = 10
_UNEVEN, _THIN, _ENOUGH = 0.35, 0.0025, 0.02  # limits on the share of the rows in one bin
_FEW_VALUES = 20  # with fewer different values, bins of equal width stay, even empty ones
_MOST_YEARS = 60
# The first and last number that a column with this name has, by public knowledge.
_CALENDAR = {
    r"(.*_)?(month|mon|mth)(_?(of_?year|no|nr|num|number))?": [(1, 12)],
    r"(.*_)?(day|dom|mday)(_?of_?month)?": [(1, 31)],
    r"(.*_)?(hour|hr|hh)(_?of_?day)?": [(0, 23), (0, 24)],
    r"(.*_)?(minute|min|mi)": [(0, 59)],
    r"(.*_)?(second|sec)": [(0, 59), (0, 60)],
    r"(.*_)?(weekday|dow|wday|day_?of_?week)": [(0, 6), (1, 7)],
    r"(.*_)?(quarter|qtr)": [(1, 4)],
    r"(.*_)?(week|isoweek|week_?of_?year)": [(1, 53), (0, 53)],
}
_YEAR = re.compile(r"(.*_)?(year|yr|yyyy)", re.IGNORECASE)
_NAMES = (
    list(calendar.day_name),
    list(calendar.day_abbr),
    [calendar.month_name[month] for month in range(1, 13)],
    [calendar.month_abbr[month] for month in range(1, 13)],
)


def calendar_values(name: str, low: float, high: float) -> list[int] | None:
    """All values of the part of the calendar in the column's name, if the column's numbers fit it.

    >>> calendar_values("hour", 5, 23) == list(range(24)), calendar_values("hour", 5, 100)
    (True, None)
    """
    if _YEAR.fullmatch(name) and low >= 1500 and high <= 2200 and high - low < _MOST_YEARS:
        return list(range(int(low), int(high) + 1))
    for pattern, ranges in _CALENDAR.items():
        if re.fullmatch(pattern, name, re.IGNORECASE):
            return next((list(range(a, b + 1)) for a, b in ranges if a <= low and high <= b), None)
    return None


def calendar_names(values: Sequence[object]) -> list[str] | None:
    """All weekdays or months in their order, if the values are some of them.

    >>> calendar_names(["Fri", "Mon"])
    ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun']
    """
    if len(values) < 2:
        return None
    for names in _NAMES:
        for form in (str, str.lower, str.upper):
            listed = [form(name) for name in names]
            if set(values) <= set(listed):
                return listed
    return None


def drafted_edges(low: float, high: float, whole: bool, quantiles: Sequence[float]) -> list[float]:
    """Round edges that cover the whole range: of equal width, or closer together where most rows are."""
    edges = round_edges(low, high, whole)
    if low == 0 and len(edges) > 2 and whole:
        edges[:2] = [-1.0]  # zero joins the first bin, because nobody would write (-10, 0] for it
    if len(set(quantiles)) <= _FEW_VALUES:
        return edges
    even = _without_thin(edges, quantiles)
    uneven = _without_thin(_uneven_edges(low, high, quantiles) or edges, quantiles)
    largest = max(_shares(even, quantiles))
    return uneven if largest > max(_UNEVEN, max(_shares(uneven, quantiles))) else even


def round_edges(low: float, high: float, whole: bool) -> list[float]:
    """Edges of about ten bins at round numbers that cover the whole range. The lowest edge is below `low`,
    because bins exclude their lower edge.

    >>> round_edges(17, 90, whole=True)
    [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0]
    >>> round_edges(0.0, 0.37, whole=False)
    [-0.05, 0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4]
    """
    spread, size = high - low, max(abs(low), abs(high))
    if spread <= 1e-9 * size:  # (nearly) one value only: a single bin from about zero
        width = _round_up(size or 1.0)
    else:
        width = _round_up(max(spread / FEW_BINS, 1.0 if whole else 0.0))
    first = math.ceil(low / width) - 1
    last = max(math.ceil(high / width), first + 1)
    last += last * width < high  # needed if the quotient was rounded to zero
    # Rounding the product to the digits of the width gives 0.3, not 0.30000000000000004.
    digits = 1 - math.floor(math.log10(width))
    edges = [round(i * width, digits) if digits > 0 else float(i * width) for i in range(first, last + 1)]
    return list(dict.fromkeys(0.0 if edge == 0 else edge for edge in edges))


def _round_up(width: float) -> float:
    """The next of 1, 2, 5, 10, 20, 50, ..."""
    power = 10.0 ** math.floor(math.log10(width))
    return float(f"{next(m for m in (1, 2, 5, 10, 20) if m * power >= width * (1 - 1e-9)) * power:.12g}")


def _uneven_edges(low: float, high: float, quantiles: Sequence[float]) -> list[float]:
    """Edges at 0, ±1, ±2, ±5, ±10, ..., so that every bin holds a few percent; empty if this gives one."""
    size = max(abs(low), abs(high))
    powers = range(math.floor(math.log10(size)) - 4, math.floor(math.log10(size)) + 2)
    steps = [float(f"{m * 10.0**p:.12g}") for p in powers for m in (1, 2, 5)]
    marks = sorted([-step for step in steps] + [0.0] + steps)
    start = 0.0 if low < 0 < high else max(mark for mark in marks if mark < low)
    above, below = [start], [start]
    for mark in marks:
        if start < mark < high and min(_shares([above[-1], mark, math.inf], quantiles)) >= _ENOUGH:
            above.append(mark)
    for mark in reversed(marks):
        if low <= mark < start and min(_shares([-math.inf, mark, below[-1]], quantiles)) >= _ENOUGH:
            below.append(mark)
    if start >= low:
        below.append(max(mark for mark in marks if mark < low))
    edges = [*reversed(below[1:]), *above, min(mark for mark in marks if mark >= high)]
    return edges if len(edges) > 2 else []


def _without_thin(edges: list[float], quantiles: Sequence[float]) -> list[float]:
    """The edges, with each bin that has hardly any rows joined to the next bin."""
    kept_edges = [edges[0]]
    for edge in edges[1:-1]:
        if min(_shares([kept_edges[-1], edge, math.inf], quantiles)) >= _THIN:
            kept_edges.append(edge)
    return [*kept_edges, edges[-1]]


def _shares(edges: Sequence[float], quantiles: Sequence[float]) -> list[float]:
    """The share of the rows in each bin, as far as the quantiles tell."""
    return [sum(a < q <= b for q in quantiles) / len(quantiles) for a, b in pairwise(edges)]


_MOST_BINS, _MOST_WEEKS = 24, 9
_DAY = timedelta(days=1)
_MONTHS = {1: "month", 3: "quarter", 12: "year", 60: "5 years", 120: "10 years", 600: "50 years"}
EARLIEST, LATEST = datetime(1000, 1, 1), datetime(9000, 1, 1)
"""Dates outside these have another meaning, such as unknown or for ever."""


def drafted_dates(first: datetime, last: datetime, whole_days: bool) -> tuple[str, list[str]]:
    """The period of a bin, and the edges (as ISO text) of bins that hold all moments from `first` to `last`.

    A bin excludes its lower edge, so for whole days the edge of a month is the last day of the month before.

    >>> drafted_dates(datetime(2013, 1, 1), datetime(2013, 3, 30), whole_days=True)
    ('month', ['2012-12-31', '2013-01-31', '2013-02-28', '2013-03-31'])
    >>> drafted_dates(datetime(2013, 1, 1, 5), datetime(2013, 1, 3, 9), whole_days=False)
    ('day', ['2013-01-01', '2013-01-02', '2013-01-03', '2013-01-04'])
    """
    hour = timedelta(hours=1)
    shift = _DAY if whole_days else timedelta()  # a day belongs to the bin that contains its end
    # The first moment of a period belongs to the bin before. For `first` itself, the lowest edge is lowered.
    after = first + (shift or timedelta(microseconds=1))
    period, starts = _starts(after, max(last + shift, after), least=_DAY if whole_days else hour)
    edges = [start - shift for start in starts]
    if edges[0] == first:
        edges[0] -= hour if period == "hour" else _DAY
    is_dated = all(edge.time() == time() for edge in edges)
    return period, [str(edge.date() if is_dated else edge) for edge in edges]


def _starts(first: datetime, last: datetime, least: timedelta) -> tuple[str, list[datetime]]:
    """The finest period with few enough bins: its starts from before `first` to `last` or later."""
    midnight = datetime.combine(first.date(), time())
    monday = midnight - first.weekday() * _DAY
    for period, start, step, most in (
        ("hour", midnight, timedelta(hours=1), _MOST_BINS),
        ("day", midnight, _DAY, _MOST_BINS),
        ("week", monday, 7 * _DAY, _MOST_WEEKS),
    ):
        if step >= least and last - first <= most * step:
            begin = start + ((first - start) // step) * step
            begin -= step if begin == first else timedelta()
            return period, [begin + n * step for n in range(-(-(last - begin) // step) + 1)]
    bins = {months: _whole_months(first, last, months) for months in _MONTHS}
    months = next((months for months in bins if len(bins[months]) - 1 <= _MOST_BINS), max(bins))
    return _MONTHS[months], bins[months]


def _whole_months(first: datetime, last: datetime, months: int) -> list[datetime]:
    """The starts of periods of `months` months, from before `first` to `last` or later."""
    begin = _month(first) // months
    begin -= _month_start(begin * months) == first
    end = -(-(_month(last) + (_month_start(_month(last)) < last)) // months)
    return [_month_start(number * months) for number in range(begin, end + 1)]


def _month(moment: date) -> int:
    return moment.year * 12 + moment.month - 1


def _month_start(number: int) -> datetime:
    return datetime(number // 12, number % 12 + 1, 1)
