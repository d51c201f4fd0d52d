"""Numbers, intervals and labels as people read them."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

UNKNOWN = "–"  # in place of a value about which nothing is known
NO_ROWS = "may have no rows"  # in place of its interval


def number(value: float, spread: float | None = None) -> str:
    """A number rounded to two digits of its spread; without one, to three digits or to a whole number.

    >>> number(0.40054, 0.0012), number(48842.3, 5100), number(0.25), number(31135.78)
    ('0.4005', '48,800', '0.25', '31,136')
    """
    if not math.isfinite(value):
        return "-" if math.isnan(value) else "∞" if value > 0 else "-∞"
    if spread is not None and math.isfinite(spread) and spread != 0:
        return _rounded(value, _decimals(spread))
    if value == 0:
        return "0"
    return trimmed(_rounded(value, _short_decimals(value)))


def at_most(value: float) -> str:
    """A number rounded up, for amounts that must not be understated, such as ε.

    >>> at_most(1.8001), number(1.8001), at_most(2.0), at_most(99.91), at_most(1234.2), at_most(math.inf)
    ('1.81', '1.8', '2', '100', '1,235', '∞')
    """
    if not math.isfinite(value) or value == 0:
        return number(value)
    unit = Decimal(1).scaleb(-_short_decimals(value))
    return trimmed(f"{Decimal(value).quantize(unit, ROUND_CEILING):,f}")


def as_given(value: float) -> str:
    """A constant with all its digits: rounding could move it across the number it is compared with.

    >>> as_given(50.4647), as_given(31135.78), as_given(0.25), as_given(1 / 3)
    ('50.4647', '31,135.78', '0.25', '1/3')
    """
    parts = round(1 / value) if 1e-6 < value < 1 else 1
    is_even_share = value == 1 / parts and value != float(f"{value:.6g}")  # the usual constant of a share
    return f"1/{parts:,}" if is_even_share else f"{value:,.15g}"


def interval(
    low: float, high: float, unit: str = "", spread: float | None = None, constant: float = 0.0
) -> str:
    """Both ends, rounded to two digits of the width, or of the `spread` that a column has in common.

    Up to four more digits are shown where an end would otherwise be rounded to 0 or `constant`, or across it.

    >>> interval(0.39912, 0.40233), interval(-12_345, 45_678), interval(0.0021, 0.41)
    ('0.3991 to 0.4023', '-12,000 to 46,000', '0.002 to 0.410')
    >>> interval(0.3062, 0.3561), interval(0.3062, 0.3561, constant=0.3061)
    ('0.306 to 0.356', '0.3062 to 0.3561')
    """
    width = high - low
    if not math.isfinite(width) or width == 0:
        return f"{number(low)}{unit} to {number(high)}{unit}"
    decimals = _decimals_that_separate(_decimals(spread or width), low, high, constant)
    return f"{_rounded(low, decimals)}{unit} to {_rounded(high, decimals)}{unit}"


def open_interval(low: float, high: float, constant: float = 0.0, sign: str = "") -> str:
    """An interval whose ends may be infinite; `sign` is that of its unit.

    >>> open_interval(-math.inf, 0.25), open_interval(2.0, math.inf), open_interval(-math.inf, math.inf)
    ('below 0.25', '2 or more', 'unknown')
    """
    if math.isfinite(low) and math.isfinite(high):
        return interval(low, high, constant=constant) + sign
    return _half_open(low, high, lambda end: number(end) + sign, "unknown")


def _half_open(low: float, high: float, write: Callable[[float], str], unknown: str) -> str:
    """An interval with at least one infinite end; `unknown` if both are."""
    if math.isfinite(high):
        return f"below {write(high)}"
    return f"{write(low)} or more" if math.isfinite(low) else unknown


@dataclass(frozen=True)
class Unit:
    """The unit in which a number is written. A difference of shares is written in percentage points.

    >>> POINTS.number(0.40054, 0.0012), POINTS.interval(0.39912, 0.40233), PLAIN.number(48842.3, 5100)
    ('40.05 pp', '39.91 to 40.23 pp', '48,800')
    >>> POINTS.between(0.39912, 0.40233), POINTS.open_interval(-math.inf, 0.25), PLAIN.open_interval(1, 3)
    ('between 39.91 and 40.23 percentage points', 'below 25 pp', '1.0 to 3.0')
    >>> POINTS.open_interval(-0.02, math.inf)
    '-2 pp or more'
    >>> PLAIN.between(-49.3, math.inf), POINTS.between(-math.inf, 0.25), PLAIN.between(-math.inf, math.inf)
    ('from -49.3 up', 'up to 25 percentage points', 'at all')
    """

    factor: int = 1
    sign: str = ""
    words: str = ""
    prefix: str = ""  # a currency sign in sentences: $

    @classmethod
    def declared(cls, unit: str) -> Unit:
        """The unit that a schema declares for a column. Sentences have it; in tables, only the headings do.

        >>> Unit.declared("minutes").about(62.31, 4.0), Unit.declared("$").span(5512, 6790)
        ('62 minutes', '$5,500–6,800')
        """
        text = shortened(clean(unit), 3)
        is_currency = len(text) == 1 and unicodedata.category(text) == "Sc"
        return cls(prefix=text) if is_currency else cls(words=f" {text}" if text else "")

    def about(self, value: float, spread: float | None = None) -> str:
        """The number in a sentence: at most three digits, and only those that its spread supports.

        >>> POINTS.about(0.40083, 0.0006), PLAIN.about(11_610, 130), POINTS.about(0.0101, 0.02)
        ('40.1 percentage points', '11,600', '1 percentage point')
        """
        return self.with_words(self.bare(value, spread))

    def with_words(self, figure: str) -> str:
        """A number that `bare` wrote, with its unit: 1 percentage point, 2 percentage points."""
        if not self.words.startswith(" "):
            return figure
        is_one = figure.lstrip("-") == "1" and self.words == POINTS.words
        return figure + (self.words.removesuffix("s") if is_one else self.words)

    def bare(self, value: float, spread: float | None = None) -> str:
        """Like `about`, without a unit that follows later in the sentence; % and currency signs stay.

        >>> POINTS.bare(0.40083, 0.0006), Unit.declared("$").bare(11_610, 130), PERCENT.bare(0.4, 0.1)
        ('40.1', '$11,600', '40%')
        """
        value *= self.factor
        sign = "" if self.words.startswith(" ") else self.words
        if not math.isfinite(value) or value == 0:
            return self._prefixed(number(value)) + sign
        decimals = _decimals(value, digits=3)
        if spread is not None and 0 < spread < math.inf:
            decimals = min(decimals, _decimals(self.factor * spread, digits=1))
        return self._prefixed(_rounded(value, decimals)) + sign

    def _prefixed(self, figure: str) -> str:
        return f"-{self.prefix}{figure[1:]}" if figure.startswith("-") else f"{self.prefix}{figure}"

    def given(self, constant: float) -> str:
        """A constant to its last digit, see `as_given`.

        >>> PERCENT.given(0.29), PERCENT.given(1 / 3), POINTS.given(0.1), Unit.declared("$").given(50_000)
        ('29%', '1/3', '10 percentage points', '$50,000')
        """
        text = as_given(constant)
        if "/" not in text:
            text = f"{self._prefixed(as_given(self.factor * constant))}{self.words}"
        return text

    def span(self, low: float, high: float, constant: float = 0.0) -> str:
        """An interval in a sentence: two digits of its width, and at most three of its larger end.

        >>> POINTS.span(0.3605, 0.3677), PLAIN.span(-190, 110), POINTS.span(0.40053, 0.40112)
        ('36.0–36.8 percentage points', '-190 to 110', '40.05–40.11 percentage points')
        >>> PLAIN.span(2, math.inf), PLAIN.span(-math.inf, math.inf), Unit(prefix="$").span(-8, 14)
        ('2 or more', 'anything', '-$8 to $14')
        >>> POINTS.span(0.2, math.inf), Unit(prefix="$").span(-math.inf, -2)
        ('20 percentage points or more', 'below -$2')
        """
        low, high, constant = self.factor * low, self.factor * high, self.factor * constant
        if not (math.isfinite(low) and math.isfinite(high)):
            return _half_open(low, high, self._in_full, "anything")
        if high == low:
            return self._in_full(low)
        largest = max(abs(low), abs(high))
        decimals = min(_decimals(high - low), _decimals(largest, digits=3))
        while _rounded(low, decimals) == _rounded(high, decimals):
            decimals += 1
        decimals = _decimals_that_separate(decimals, low, high, constant)
        ends = _rounded(low, decimals), _rounded(high, decimals)
        if low >= 0:
            return f"{self.prefix}{ends[0]}–{ends[1]}{self.words}"
        return f"{self._prefixed(ends[0])} to {self._prefixed(ends[1])}{self.words}"

    def _in_full(self, end: float) -> str:
        return f"{self._prefixed(number(end))}{self.words}"

    def number(self, value: float, spread: float | None = None) -> str:
        return number(self.factor * value, None if spread is None else self.factor * spread) + self.sign

    def interval(self, low: float, high: float, spread: float | None = None) -> str:
        scaled = None if spread is None else self.factor * spread
        return interval(self.factor * low, self.factor * high, spread=scaled) + self.sign

    def open_interval(self, low: float, high: float, constant: float = 0.0) -> str:
        return open_interval(self.factor * low, self.factor * high, self.factor * constant, self.sign)

    def between(self, low: float, high: float, constant: float = 0.0) -> str:
        """The interval for a sentence, after "could be anything"; unit in words, ends may be infinite."""
        low, high = self.factor * low, self.factor * high
        if math.isinf(low) and math.isinf(high):
            return "at all"
        if math.isinf(low):
            return f"up to {number(high)}{self.words}"
        if math.isinf(high):
            return f"from {number(low)}{self.words} up"
        text = interval(low, high, constant=self.factor * constant)
        return f"between {text.replace(' to ', ' and ')}{self.words}"


PLAIN = Unit()
PERCENT = Unit(100, "%", "%")
POINTS = Unit(100, " pp", " percentage points")


def percent(low: float, high: float) -> str:
    """
    >>> percent(0.0612, 0.0678), percent(0.0, 0.0)
    ('6.12% to 6.78%', '0%')
    """
    return f"{number(low * 100)}%" if low == high else interval(low * 100, high * 100, "%")


def ranks(low: int, high: int) -> str:
    """
    >>> ranks(1, 3), ranks(2, 2), ranks(900, 1200)
    ('1 to 3', '2', '900 to 1,200')
    """
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def ordinal(place: int) -> str:
    """
    >>> ordinal(1), ordinal(5), ordinal(12), ordinal(23), ordinal(1000)
    ('first', 'fifth', '12th', '23rd', '1,000th')
    """
    words = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
    if 1 <= place <= len(words):
        return words[place - 1]
    ending = "th" if place % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place:,}{ending}"


def level(confidence: float) -> str:
    """A confidence in percent, not rounded up to 100%.

    >>> level(0.95), level(0.999), level(0.9999999)
    ('95%', '99.9%', '99.99999%')
    """
    text = f"{confidence * 100:.6g}%"
    return text if text != "100%" else f"{confidence * 100:.15g}%"


def rho(value: float) -> str:
    """
    >>> rho(0.1), rho(2.0)
    ('ρ 0.1', 'ρ 2')
    """
    return f"ρ {value:.6g}"


def clean(text: str) -> str:
    """One line without control characters: a declared value must not move the cursor or hide text.

    >>> clean("a\\n  b\\x1b[31m")
    'a b�[31m'
    """
    return "".join(c if c.isprintable() else "�" for c in " ".join(text.split()))


@dataclass(frozen=True)
class Figures:
    """Writes the values of one column with the same decimals, so that they line up.

    >>> shares = Figures.of([(0.441, 0.452), (0.1, 0.3), (0.0521, 0.0602)], percent=True)
    >>> shares.value(0.44605), shares.interval(0.441, 0.452), shares.value(0.2)
    ('44.6%', '44.1% to 45.2%', '20.0%')
    >>> Figures.of([(12.2, 15.9)], whole=True).value(14.2)
    '14'
    """

    decimals: int
    percent: bool = False

    @classmethod
    def of(
        cls, intervals: Sequence[tuple[float, float]], *, whole: bool = False, percent: bool = False
    ) -> Figures | None:
        """Chosen by the median width of the intervals; None if `whole` is not set and none has a width."""
        widths = sorted(high - low for low, high in intervals if 0 < high - low < math.inf)
        if whole:
            return cls(0)
        if not widths:
            return None
        width = widths[len(widths) // 2] * (100 if percent else 1)
        # A person reads percent to one decimal; more only if intervals are that narrow.
        if percent:
            return cls(max(0, min(_decimals(width), max(1, _decimals(width, digits=1)))), True)
        return cls(_decimals(width))

    def value(self, value: float) -> str:
        if not math.isfinite(value):
            return number(value)
        return f"{_rounded(self._scaled(value), self.decimals)}{self._unit}"

    def interval(self, low: float, high: float) -> str:
        low, high = self._scaled(low), self._scaled(high)
        decimals = self.decimals
        while low < high and decimals < 6 and _rounded(low, decimals) == _rounded(high, decimals):
            decimals += 1
        decimals = _decimals_that_separate(decimals, low, high)
        return f"{_rounded(low, decimals)}{self._unit} to {_rounded(high, decimals)}{self._unit}"

    @property
    def _unit(self) -> str:
        return "%" if self.percent else ""

    def _scaled(self, value: float) -> float:
        return value * 100 if self.percent else value


def _decimals(size: float, digits: int = 2) -> int:
    """Decimals that show this many significant digits; negative for tens, hundreds and so on."""
    return min(12, digits - 1 - math.floor(math.log10(abs(size))))


def _short_decimals(value: float) -> int:
    """Decimals that show three significant digits, and every digit of a whole number."""
    return 0 if abs(value) >= 100 else _decimals(value, digits=3)


def trimmed(text: str) -> str:
    """The number without zeros at the end of its decimals."""
    return text.rstrip("0").rstrip(".") if "." in text else text


def _decimals_that_separate(decimals: int, low: float, high: float, constant: float = 0.0) -> int:
    """The decimals, or up to four more to keep both ends from being rounded to 0 or `constant`, or across.

    Rounding a small end to zero would make a real difference look like an unclear one.
    """
    for more in range(4):
        rounded_ends = ((end, round(end, decimals + more)) for end in (low, high))
        if all(_side(end, c) == _side(text, c) for end, text in rounded_ends for c in (0.0, constant)):
            return decimals + more
    return decimals + 4


def _side(value: float, constant: float) -> int:
    return (value > constant) - (value < constant)


def _rounded(value: float, decimals: int) -> str:
    text = f"{value:,.{decimals}f}" if decimals >= 0 else f"{round(value, decimals):,.0f}"
    return text[1:] if text[0] == "-" and not text.strip("-0.,") else text


def whole_percent(share: float) -> int:
    """A share in whole percent; 1 or -1 where a share other than 0 would be rounded to 0.

    >>> whole_percent(0.412), whole_percent(0.001), whole_percent(0.0)
    (41, 1, 0)
    """
    rounded = round(100 * share)
    return rounded or (share > 0) - (share < 0)


def counted(count: int, noun: str) -> str:
    """
    >>> counted(1, "group"), counted(1_200, "entry")
    ('1 group', '1,200 entries')
    """
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def more(count: int, noun: str) -> str:
    """The number of hidden rows, such as … and 480 more groups; empty if all are shown."""
    return f"… and {counted(count, f'more {noun}')}" if count > 0 else ""


def listed(names: Sequence[str], last: str = "and") -> str:
    """
    >>> listed(["a"]), listed(["a", "b", "c"]), listed(["a", "b"], "or")
    ('a', 'a, b and c', 'a or b')
    """
    return f" {last} ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def capitalised(text: str) -> str:
    """The text with its first letter in upper case; the rest, such as a name, unchanged."""
    return text[:1].upper() + text[1:]


def uncapitalised(text: str) -> str:
    """The text as it stands inside a sentence; acronyms keep their capitals.

    >>> uncapitalised("Marital status"), uncapitalised("GDP per head")
    ('marital status', 'GDP per head')
    """
    return text if text[1:2].isupper() else text[:1].lower() + text[1:]


def shortened(text: str, words: int, characters: int = 80) -> str:
    """A name of at most this many words and characters; a cut name ends in "…".

    >>> shortened("ages 40 to 50", 8), shortened("a, b, c and d", 3), shortened("x" * 9, 8, 4)
    ('ages 40 to 50', 'a, b, c…', 'xxx…')

    No bracket stays open:

    >>> shortened("the average pay (capped at 100)", 5)
    'the average pay…'
    """
    cut = " ".join(text.split()[:words])
    cut = cut if len(cut) <= characters else cut[: characters - 1]
    if cut != text and cut.count("(") > cut.count(")"):
        cut = cut[: cut.rindex("(")] or cut
    return text if cut == text else f"{cut.rstrip(' ,;:')}…"


def a_noun(noun: str) -> str:
    """The noun with its article, by its first letter.

    >>> a_noun("origin"), a_noun("tailnum")
    ('an origin', 'a tailnum')
    """
    return f"{'an' if noun[:1].lower() in ('a', 'e', 'i', 'o', 'u') else 'a'} {noun}"
