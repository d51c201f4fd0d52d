"""Drafted edges of dates and timestamps: the shortest of hours to years that gives few bins."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta

_MOST_BINS, _MOST_WEEKS = 24, 9
_DAY = timedelta(days=1)
_MONTHS = {1: "month", 3: "quarter", 12: "year", 60: "5 years", 120: "10 years", 600: "50 years"}
EARLIEST, LATEST = datetime(1000, 1, 1), datetime(9000, 1, 1)
"""Dates beyond them stand for something else: unknown, or for ever."""


def drafted_dates(first: datetime, last: datetime, whole_days: bool) -> tuple[str, list[str]]:
    """What a bin holds, and edges (as ISO text) of bins that hold all moments from `first` to `last`.

    A bin is open at its lower edge, so a month of whole days begins with the last day of the month before.

    >>> drafted_dates(datetime(2013, 1, 1), datetime(2013, 3, 30), whole_days=True)
    ('month', ['2012-12-31', '2013-01-31', '2013-02-28', '2013-03-31'])
    >>> drafted_dates(datetime(2013, 1, 1, 5), datetime(2013, 1, 3, 9), whole_days=False)
    ('day', ['2013-01-01', '2013-01-02', '2013-01-03', '2013-01-04'])
    """
    hour = timedelta(hours=1)
    shift = _DAY if whole_days else timedelta()  # a day is in the bin that its end is in
    # The first moment of a period would be in the bin before: that of all moments is let in by a lower edge.
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
    """The starts of periods of as many months, from before `first` to `last` or later."""
    begin = _month(first) // months
    begin -= _of_month(begin * months) == first
    end = -(-(_month(last) + (_of_month(_month(last)) < last)) // months)
    return [_of_month(number * months) for number in range(begin, end + 1)]


def _month(moment: date) -> int:
    return moment.year * 12 + moment.month - 1


def _of_month(number: int) -> datetime:
    return datetime(number // 12, number % 12 + 1, 1)
