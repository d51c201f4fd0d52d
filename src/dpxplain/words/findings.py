"""The answer first: the finding of each result, chosen from its intervals by one rule per kind of result.

Each rule takes plain facts and returns a `Finding`; tests/words/test_findings.py has a table of situations
for each. Nothing is decided from a point estimate alone, and shares of conditions are never added up, because
conditions overlap.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from dpxplain.model.contrast import Verdict
from dpxplain.model.display import Finding
from dpxplain.model.groups import ALL_ROWS
from dpxplain.words.numbers import (
    PLAIN,
    Unit,
    capitalised,
    clean,
    counted,
    level,
    listed,
    shortened,
    uncapitalised,
    whole_percent,
)

Interval = tuple[float, float]
EffectName = Literal["shrinks", "widens", "unclear"]

MOST_WORDS = 25  # of a headline
MOST_NAME_WORDS = 8  # of a condition or group within a sentence; longer names are cut
ASSOCIATION = "Holds for these data only. Association, not cause."
THESE_DATA = "Holds for these data only, at {level} confidence."
NOTHING_ELSE = "Nothing else clearly shrinks it."
ALONE = "Each condition is left out alone, so the effects do not add up."
_MOSTLY = 0.4  # of the gap: from here on a condition that stands out explains it "mostly"
_SURELY = 0.2  # of the gap: a condition "accounts for it" only if it removes at least so much for certain
_MOST = 0.5  # of the gap: the support says what remains if it is at least so much
_ALL = 0.75  # of the gap: from here on, if nothing clear remains, a condition "accounts for it"
_MUCH = 2.0  # a value whose margin is more than this many times the usual one is named as the least certain
_SIMILAR = 1.5  # shares whose ends differ by less than this factor are written as one fraction
_FRACTIONS = (
    (0.05, "a twentieth"), (0.1, "a tenth"), (0.2, "a fifth"), (0.25, "a quarter"), (1 / 3, "a third"),
    (0.5, "half"), (2 / 3, "two thirds"), (0.75, "three quarters"),
)  # fmt: skip
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass(frozen=True)
class AskedComparison:
    """The groups of a question, and the released numbers about them."""

    groups: tuple[str, ...]  # the two groups of a gap, or the groups of a ratio, share or value
    estimate: float
    interval: Interval
    verdict: Verdict
    confidence: float
    measured: str = "gap"  # gap, value, ratio or share
    constant: float = 0.0
    unit: Unit = PLAIN
    value: str = ""  # the name of the values: "Share with high income"
    general: tuple[Interval, Verdict] | None = None  # in the population; None if nobody asked about it
    general_refusal: str = ""  # why there is no interval for the population

    @property
    def is_gap(self) -> bool:
        """Whether two groups are compared with each other, not with a number."""
        return self.measured == "gap" and self.constant == 0 and len(self.groups) == 2


def comparison_finding(asked: AskedComparison, caveat: str = "", notes: Sequence[str] = ()) -> Finding:
    """Whether a gap is real or may be privacy noise; `caveat` takes the place of the usual one."""
    if asked.verdict is not Verdict.UNCLEAR:
        low, high = asked.interval
        turned = (-high, -low) if asked.is_gap and asked.verdict is Verdict.REVERSED else (low, high)
        span = asked.unit.span(*turned, asked.constant)
        support = f"The real {_difference(asked)} is {span}; privacy noise cannot account for it."
    else:
        support = f"{_unclear_range(asked)}; privacy noise alone could explain what you see."
    general = in_general(asked)
    return Finding(
        headline=_verdict_sentence(asked),
        support=f"{support} {general}".rstrip(),
        caveat=caveat or THESE_DATA.format(level=level(asked.confidence)),
        notes=tuple(notes),
    )


def _unclear_range(asked: AskedComparison) -> str:
    """Where an unclear number may lie, without a full stop. Of two groups, either may be higher."""
    low, high = asked.interval
    if asked.is_gap and math.isfinite(low) and math.isfinite(high) and low < 0.0 < high:
        first, second = (shortened(name, MOST_NAME_WORDS) for name in asked.groups)
        lower, higher = (
            asked.unit.with_words(_size_text(asked, abs(end), (high - low) / 10)) for end in (low, high)
        )
        return f"{first} may be up to {lower} below {second} or up to {higher} above it"
    return f"The real {_difference(asked)} {_range_clause(asked, asked.interval)}"


def _difference(asked: AskedComparison) -> str:
    return "difference" if asked.measured == "gap" else asked.measured


def _verdict_sentence(asked: AskedComparison, ending: str = "") -> str:
    """The verdict as a sentence; `ending` goes before the full stop."""
    if not asked.is_gap:
        (name, names), constant = _named_value(asked), asked.unit.given(asked.constant)
        template = {
            Verdict.UNCLEAR: f"It is not clear whether {name} is above {{constant}}{{ending}}.",
            Verdict.REAL: f"{capitalised(name)} is above {{constant}}{{ending}}.",
            Verdict.REVERSED: f"{capitalised(name)} is below {{constant}}{{ending}}.",
        }[asked.verdict]
        return _headline(template, *names, constant=constant, ending=ending)
    template = {
        Verdict.UNCLEAR: "It is not clear whether {} is higher for {} than for {}{ending}.",
        Verdict.REAL: "{} is higher for {} than for {}, by {size}{ending}.",
        Verdict.REVERSED: "It is the other way round: {} is lower for {} than for {}, by {size}{ending}.",
    }[asked.verdict]
    value = _in_sentence(asked.value or "Value")
    value = _at_start(value) if asked.verdict is Verdict.REAL else value
    size = _size_text(asked, abs(asked.estimate))
    return _headline(template, value, *asked.groups, size=asked.unit.with_words(size), ending=ending)


def _named_value(asked: AskedComparison) -> tuple[str, tuple[str, ...]]:
    """The number of a question about one value, as a template with its names: the ratio of {} to {}."""
    match asked.measured, asked.groups:
        case "ratio", (_, _):
            return "the ratio of {} to {}", asked.groups
        case "share", (_,):
            return "the share of {}", asked.groups
        case "gap", (_, _):
            return "the lead of {} over {}", asked.groups
        case "value", (group,) if asked.value:
            value = asked.value if asked.verdict is not Verdict.UNCLEAR else uncapitalised(asked.value)
            value, _, more = value.partition(", ")
            return ("{} for {}, {}," if more else "{} for {}"), (value, group, *filter(None, [more]))
    return "the value", ()


def _headline(template: str, *names: str, **parts: str) -> str:
    """The template with its parts; its names are shortened until it has at most 25 words.

    >>> _headline("{} is above {}, by {size}.", "a", "{b}", size="7")
    'a is above {b}, by 7.'
    """
    return _fitting(
        template.format(*(shortened(name, most) for name in names), **parts)
        for most in range(MOST_NAME_WORDS, 0, -1)
    )


def _fitting(texts: Iterable[str]) -> str:
    """The first text that is short enough for a headline, or else the last."""
    for text in texts:
        if len(text.split()) <= MOST_WORDS:
            break
    return text[:-1] if text.endswith("….") else text


def _range_clause(asked: AskedComparison, interval: Interval) -> str:
    """The interval of an unclear number: "is between 1 and 3", or "could be 2 or more"."""
    span = asked.unit.span(*interval, asked.constant)
    if not all(map(math.isfinite, interval)):
        return f"could be {span}"
    return f"is between {span.replace('–', ' and ', 1).replace(' to ', ' and ', 1)}"


def _size_text(asked: AskedComparison, value: float, spread: float | None = None) -> str:
    """A gap in the digits of its interval, without its unit; a gap that is not 0 is never written as 0."""
    text = asked.unit.bare(value, spread or asked.interval[1] - asked.interval[0])
    return text if any(digit in text for digit in "123456789") else asked.unit.bare(value)


def in_general(asked: AskedComparison) -> str:
    """The interval for the population, as a sentence; empty if nobody asked about it."""
    if asked.general is None:
        return asked.general_refusal
    interval, verdict = asked.general
    span = asked.unit.span(*interval, asked.constant)
    if verdict is Verdict.UNCLEAR:
        return (
            f"In general it {_range_clause(asked, interval)}, so sampling error could explain what you see."
        )
    return f"In general it is {span}, sampling error included."


@dataclass(frozen=True)
class Effect:
    """The effect of leaving out the rows of one condition."""

    name: str  # a phrase: "cause Storm"
    effect: EffectName
    influence: Interval
    share: Interval | None = None  # of the gap that it removes
    without: Interval | None = None  # the gap without these rows
    middle: float | None = None  # the estimated share
    is_first: bool = False  # its rank is 1 for certain


def effect_name(share: Interval | None, influence: Interval, verdict: Verdict) -> EffectName:
    """The effect of leaving out a condition's rows, by the share removed or else by the influence.

    An influence above 0 lowers the number that is asked about, which widens a gap below the constant.

    >>> effect_name((0.1, 0.2), (-1, 1), Verdict.REAL), effect_name(None, (1, 2), Verdict.REVERSED)
    ('shrinks', 'widens')
    >>> effect_name(None, (1, 2), Verdict.UNCLEAR)
    'unclear'
    """
    if verdict is Verdict.UNCLEAR:
        return "unclear"
    low, high = influence if verdict is Verdict.REAL else (-influence[1], -influence[0])
    if share is not None:
        low, high = share
    return "shrinks" if low > 0.0 else "widens" if high < 0.0 else "unclear"


@dataclass(frozen=True)
class Explained:
    """A question with the conditions that were measured for it, in the order shown."""

    asked: AskedComparison
    gap: float | None  # that the shares are shares of; None if only influences were released
    effects: tuple[Effect, ...]
    advice: str = ""  # what to try if nothing is clear

    @property
    def has_gaps_without(self) -> bool:
        """Whether the gap without each condition was released."""
        return self.gap is not None and all(effect.without is not None for effect in self.effects)

    def with_effect(self, kind: EffectName) -> list[Effect]:
        """The conditions with this effect, in the order shown."""
        return [effect for effect in self.effects if effect.effect == kind]


def explanation_finding(table: Explained, caveat: str = "", notes: Sequence[str] = ()) -> Finding:
    """The conditions that explain a gap, by the share that each removes, or else by influence.

    `caveat` takes the place of the usual one.
    """
    headline, support = _explanation(table)
    if len(table.with_effect("shrinks")) > 1 and ALONE not in support:
        notes = (ALONE, *notes)
    return Finding(headline, support, caveat or ASSOCIATION, tuple(notes))


def _explanation(table: Explained) -> tuple[str, str]:
    asked = table.asked
    if asked.verdict is not Verdict.REAL:
        return _nothing_to_explain(asked)
    shrinking, widening = table.with_effect("shrinks"), table.with_effect("widens")
    if not shrinking and not widening:
        return f"Nothing measured here clearly explains {_the_gap(asked)}.", table.advice
    if not shrinking:
        return _widening_only(table, widening)
    if not table.has_gaps_without:
        return _by_influence(table, shrinking)
    sufficient = [effect for effect in shrinking if _is_sufficient(effect, asked)]
    first = standing_out(shrinking, table.effects)
    if sufficient and (first in sufficient or first is None):
        return _accounted_for(table, sufficient, shrinking)
    if first is not None:
        return _largest_effect(table, first, [effect for effect in shrinking if effect is not first])
    return _several_effects(table, shrinking)


def standing_out(clear: Sequence[Effect], effects: Sequence[Effect]) -> Effect | None:
    """The condition that lies above every other one shown: by share, by what remains, or by influence."""

    def ends(effect: Effect) -> Interval:
        if all(other.share is not None for other in clear):
            return effect.share or (-math.inf, math.inf)
        if all(other.without is not None for other in clear):
            low, high = effect.without or (-math.inf, math.inf)
            return -high, -low
        return effect.influence

    first = max(clear, key=lambda effect: ends(effect)[0])
    others = [ends(effect)[1] for effect in effects if effect is not first]
    is_ahead = ends(first)[0] > max(others, default=-math.inf)
    return first if is_ahead and (len(effects) > 1 or first.is_first) else None


def _nothing_to_explain(asked: AskedComparison) -> tuple[str, str]:
    if asked.verdict is Verdict.REVERSED:
        if not asked.is_gap:
            return _verdict_sentence(asked), "Ask about a lower number."
        first, second = (shortened(name, MOST_NAME_WORDS) for name in asked.groups)
        return _verdict_sentence(asked), f"To see why, ask why {second} is above {first}."
    return (
        _verdict_sentence(asked, ", so there may be nothing to explain"),
        f"{_unclear_range(asked)}.",
    )


def _is_sufficient(effect: Effect, asked: AskedComparison) -> bool:
    """Whether nothing clear remains of the gap without its rows, and most of it is estimated to go."""
    if effect.without is None:
        return False
    if effect.middle is None:  # for a ratio, which has no shares
        return effect.without[1] < asked.constant
    is_sure = effect.share is not None and effect.share[0] >= _SURELY
    return is_sure and effect.without[0] <= asked.constant and effect.middle >= _ALL


def _accounted_for(table: Explained, sufficient: list[Effect], shrinking: list[Effect]) -> tuple[str, str]:
    asked, first = table.asked, sufficient[0]
    assert first.without is not None
    after = "would be below" if first.without[1] < asked.constant else "is no longer clearly above"
    after = f"{{}} {after} {{}}" if asked.is_gap else f"it {after} {{constant}}"
    groups = asked.groups if asked.is_gap else ()
    if len(sufficient) == 1:
        headline = _headline(
            f"{_rows(first.name)} account for {_the_gap(asked)}: without them {after}.",
            first.name,
            *groups,
            constant=asked.unit.given(asked.constant),
        )
    else:
        count = _count_word(len(sufficient))
        headline = _with_names(
            f"Each of {count} kinds of rows accounts for {_the_gap(asked)} alone: {{}}.",
            [effect.name for effect in sufficient],
        )
    rest = _gap_without(table, first)
    rest = f"between {rest.replace(' to ', ' and ', 1)}" if " to " in rest else rest
    support = f"Without {these_rows(first)}, {_the_gap(asked)} falls from {_gap_size(table)} to {rest}."
    others = [effect.name for effect in shrinking if effect not in sufficient]
    also = (
        f"Leaving out {_short_names(others, 'or')} instead shrinks it too."
        if others
        else _nothing_else(table)
    )
    return capitalised(headline), f"{support} {also}".rstrip()


def _largest_effect(table: Explained, first: Effect, others: list[Effect]) -> tuple[str, str]:
    asked, is_most = table.asked, first.share is not None and first.share[0] >= _MOSTLY
    begin = f"Mostly {uncapitalised(_rows(first.name))}" if is_most else f"{_rows(first.name)} stand out"
    headline = _headline(
        f"{begin}: without them the {{measured}} of {{gap}} falls to {{without}}.",
        first.name,
        measured=asked.measured,
        gap=_gap_size(table),
        without=_gap_without(table, first),
    )
    whole = f"what exceeds {asked.unit.given(asked.constant)}" if asked.constant else "it"
    removed = f"That removes {share_text(first.share)} of {whole}. " if first.share is not None else ""
    names = [effect.name for effect in others]
    also = (
        f"Leaving out {_short_names(names, 'or')} shrinks it too, but less."
        if names
        else _nothing_else(table)
    )
    return capitalised(headline), f"{removed}{also}".rstrip()


def _several_effects(table: Explained, shrinking: list[Effect]) -> tuple[str, str]:
    asked, largest = table.asked, shrinking[0]
    if len(shrinking) == 1:
        rows = uncapitalised(_rows(largest.name))
        headline = _headline(
            f"Without {rows}, {{the_gap}} is clearly smaller: {{without}} instead of {{gap}}.",
            largest.name,
            the_gap=_the_gap(asked),
            gap=_gap_size(table),
            without=_gap_without(table, largest),
        )
        return headline, "Other conditions may matter as much."
    shares = [effect.share for effect in shrinking if effect.share is not None]
    fraction = _common_fraction(shares) if shares else ""
    order = _open_order(table, len(shrinking))
    remaining = 1.0 - max((high for _, high in shares), default=math.inf)
    # With a constant, the share is of what exceeds it.
    if len(shares) == len(shrinking) and remaining >= _MOST and asked.constant == 0.0:
        return _parts_of_the_gap(asked, shrinking, fraction), f"{_what_remains(remaining)} {order}"
    names = [
        effect.name if fraction or effect.share is None else f"{effect.name} (by {share_text(effect.share)})"
        for effect in shrinking
    ]
    return _leaving_out_any(asked, names, f" by about {fraction}" if fraction else ""), f"{ALONE} {order}"


def _parts_of_the_gap(asked: AskedComparison, shrinking: Sequence[Effect], fraction: str) -> str:
    """Several conditions, none of which removes half of the gap."""
    count, size = capitalised(_count_word(len(shrinking))), f"about {fraction}" if fraction else "part"
    names = [
        effect.name if fraction or effect.share is None else f"{effect.name} ({share_text(effect.share)})"
        for effect in shrinking
    ]
    return _with_names(f"{count} conditions each explain {size} of {_the_gap(asked)}: {{}}.", names)


def _what_remains(remaining: float) -> str:
    """The part of the gap that remains whichever condition is left out."""
    return f"Without any one, at least {math.floor(100 * remaining)}% of it remains."


def _open_order(table: Explained, clear: int) -> str:
    """Which conditions may matter most: the first two or three if the intervals rule out all others shown."""
    shares = [effect.share for effect in table.effects if effect.share is not None]
    best = max((low for low, _ in shares), default=-math.inf)
    may_be_first = [high >= best for _, high in shares]
    first = sum(may_be_first)
    if not 1 < first <= min(3, clear) or not all(may_be_first[:first]):
        return "Which condition matters most is not certain."
    which = _count_word(first) if first == clear else f"first {_count_word(first)}"
    return f"Which of the {which} matters {'more' if first == 2 else 'most'} is not certain."


def _leaving_out_any(asked: AskedComparison, names: Sequence[str], by: str = "") -> str:
    which, count = "either" if len(names) == 2 else "any one", _count_word(len(names))
    return _with_names(
        f"Leaving out {which} of {count} kinds of rows shrinks {_the_gap(asked)}{by}: {{}}.", names
    )


def _by_influence(table: Explained, shrinking: list[Effect]) -> tuple[str, str]:
    """Only influences were released, so the effect of a condition is known but not its size."""
    asked, names = table.asked, [effect.name for effect in shrinking]
    first = standing_out(shrinking, table.effects)
    unmeasured = "How far it falls was not measured."
    if first is not None or len(names) == 1:
        best = first or shrinking[0]
        others = [effect.name for effect in shrinking if effect is not best]
        claim = "have the largest influence" if first is not None else "have a clear effect"
        headline = _headline(
            f"{_rows(best.name)} {claim}: without them {{the_gap}} is smaller.",
            best.name,
            the_gap=_the_gap(asked),
        )
        also = f"Leaving out {_short_names(others, 'or')} shrinks it too." if others else _nothing_else(table)
        return capitalised(headline), f"{unmeasured} {also}".rstrip() if first is not None else unmeasured
    headline = _leaving_out_any(asked, names)
    return headline, f"Which condition matters most is not certain. {unmeasured}"


def _widening_only(table: Explained, widening: list[Effect]) -> tuple[str, str]:
    asked, first = table.asked, widening[-1]
    template = (
        f"Without {uncapitalised(_rows(first.name))}, {{the_gap}} would be larger, not smaller{{change}}."
    )
    change = ""
    if first.without is not None and table.gap is not None:
        change = f": {_gap_without(table, first)} instead of {_gap_size(table)}"
    headline = _headline(template, first.name, the_gap=_the_gap(asked), change=change)
    others = [effect.name for effect in widening if effect is not first]
    also = f" The same is true without {_short_names(others)}." if others else ""
    return headline, f"Nothing measured here clearly shrinks it.{also}"


def _nothing_else(table: Explained) -> str:
    """A sentence about the other conditions in the table; empty if there are none."""
    return "Nothing else in the table clearly shrinks it." if len(table.effects) > 1 else ""


def _the_gap(asked: AskedComparison) -> str:
    """The question's number within a sentence: the gap, the ratio, the share or the value."""
    return f"the {asked.measured}"


def _rows(condition: str) -> str:
    """The subject of a headline, with a place for the condition: "Rows with {}"."""
    # An analyst's own condition begins with "rows where" already.
    return "{}" if condition.startswith("rows ") else "Rows with {}"


def these_rows(effect: Effect) -> str:
    """The rows of a condition, within a sentence."""
    return uncapitalised(_rows(effect.name)).format(shortened(effect.name, MOST_NAME_WORDS))


def _gap_size(table: Explained) -> str:
    assert table.gap is not None
    return _size_text(table.asked, table.gap)


def _gap_without(table: Explained, effect: Effect) -> str:
    assert effect.without is not None
    return table.asked.unit.span(*effect.without, table.asked.constant)


def share_text(share: Interval) -> str:
    """A share of the gap in whole percent. More than 100% has no meaning.

    >>> share_text((0.412, 0.533)), share_text((0.21, 2.4)), share_text((0.081, 0.0841))
    ('41–53%', 'at least 21%', '8%')
    >>> share_text((1.2, 1.4))
    '100% or more'
    """
    low, high = share
    if low >= 1.0:
        return "100% or more"
    if high >= 1.0:
        return f"at least {whole_percent(low)}%"
    least, most = whole_percent(low), whole_percent(high)
    return f"{least}%" if least == most else f"{least}–{most}%"


def _common_fraction(shares: Sequence[Interval]) -> str:
    """One fraction of the gap that fits all conditions; empty if none does.

    >>> _common_fraction([(0.08, 0.1), (0.09, 0.11)]), _common_fraction([(0.032, 0.049), (0.09, 0.109)])
    ('a tenth', '')
    """
    low, high = min(low for low, _ in shares), max(high for _, high in shares)
    middle = (low + high) / 2
    fraction, word = min(_FRACTIONS, key=lambda known: abs(math.log(known[0] / middle)))
    return word if high < _SIMILAR * low and 0.87 < fraction / middle < 1.15 else ""


def _count_word(count: int) -> str:
    return _NUMBERS[count] if count < len(_NUMBERS) else f"{count:,}"


def _with_names(template: str, names: Sequence[str]) -> str:
    """The template with as many names as a headline has room for.

    >>> _with_names("Two shrink it: {}.", ["a", "b"])
    'Two shrink it: a and b.'
    >>> _with_names("Many do: {}.", ["a name of eight words, as long as possible"] * 9)
    'Many do: a name of eight words, as long as…, a name of eight words, as long as…, …'
    """
    texts = [template.format(_short_names(names))]
    short = [shortened(name, MOST_NAME_WORDS) for name in names]
    texts += [template.format(f"{', '.join(short[:count])}, …") for count in range(len(names) - 1, 0, -1)]
    return _fitting(texts)


def _short_names(names: Sequence[str], last: str = "and") -> str:
    """The names, each shortened, as a list within a sentence."""
    return listed([shortened(name, MOST_NAME_WORDS) for name in names], last)


@dataclass(frozen=True)
class AnsweredGroup:
    """One group's value; `interval` holds together with those of all groups."""

    name: str
    estimate: float
    interval: Interval
    text: str  # the value as the table writes it
    margin: float = 0.0  # half the width of the interval that the table shows beside it


def answer_finding(
    value: str,
    groups: Sequence[AnsweredGroup],
    *,
    unknown: int = 0,
    hides_groups: bool = False,
    unit: Unit = PLAIN,
    caveat: str = "",
    notes: Sequence[str] = (),
) -> Finding:
    """Which groups are highest and lowest, as far as their intervals tell them apart.

    `value` is what is measured, `unknown` the number of groups without a known value, `unit` that of margins.
    """
    headline = _group_headline(clean(value), groups, unknown, "Of the groups shown, " if hides_groups else "")
    support = [accuracy] if (accuracy := _accuracy(groups, unit)) else []
    if groups and unknown:
        support.append(f"{counted(unknown, 'group')} may be empty, so {_BLANK[unknown == 1]}.")
    return Finding(headline, " ".join(support), caveat, tuple(notes))


def _accuracy(groups: Sequence[AnsweredGroup], unit: Unit) -> str:
    """The margin of the values. Names a group that is much less certain than most."""
    ordered = sorted(groups, key=lambda group: group.margin)
    if len(ordered) < 2 or not math.isfinite(usual := ordered[len(ordered) // 2].margin):
        return ""
    worst = ordered[-1]
    if worst.margin <= _MUCH * usual:
        return f"Each value is accurate to about ±{unit.about(worst.margin, worst.margin)}."
    most = f"Most values are accurate to about ±{unit.about(usual, usual)}"
    if not math.isfinite(worst.margin):
        return f"{most}."
    name = shortened(worst.name, MOST_NAME_WORDS)
    return f"{most}; the least certain, {name}, to ±{unit.about(worst.margin, worst.margin)}."


_BLANK = {True: "its value is left blank", False: "their values are left blank"}


def _group_headline(value: str, groups: Sequence[AnsweredGroup], unknown: int, among: str) -> str:
    if not groups:
        return "Every group may be empty, so no value is known." if unknown else "No group is shown."
    if len(groups) == 1:
        (only,) = groups
        if only.name == ALL_ROWS:
            return _headline("{}: {text}.", value, text=only.text)
        return _headline("{}, {}: {text}.", only.name, uncapitalised(value), text=only.text)
    highest, lowest = _extremes(groups, 1), _extremes(groups, -1)
    if len(highest) == len(groups) or len(lowest) == len(groups):
        count = f"{len(groups):,}"
        return _headline("{}: the {count} groups cannot be told apart at this precision.", value, count=count)
    value = _in_sentence(value)
    value = value if among else _at_start(value)
    return _fitting(
        f"{among}{shortened(value, most + 2)} is highest for {_candidates(highest, most, named)} "
        f"and lowest for {_candidates(lowest, most, named)}."
        for named in (3, 1)
        for most in range(MOST_NAME_WORDS, 0, -1)
        if most > 2 or named == 1  # names of two words say less than how many groups there are
    )


def _in_sentence(value: str) -> str:
    """The name of the values within a sentence, with an article. A name from the query stays as it is.

    >>> _in_sentence("Average income, capped at 200,000"), _in_sentence("rate")
    ('the average income (capped at 200,000)', 'rate')
    """
    name, cap, bound = value.partition(", capped at ")
    name = f"the {uncapitalised(name)}" if name[:1].isupper() else name
    return f"{name} (capped at {bound})" if cap else name


def _at_start(value: str) -> str:
    """The name of the values at the start of a sentence. A name from the query keeps its spelling."""
    return capitalised(value) if value.startswith("the ") else value


def _candidates(groups: Sequence[AnsweredGroup], most: int, named: int) -> str:
    """The groups that may be the highest; `named` of them by names of at most so many words."""
    names = [shortened(group.name, most) for group in groups[: named + 1]]
    if len(names) == 1:
        return f"{names[0]} ({groups[0].text})"
    if len(names) <= named:
        return f"{', '.join(names[:-1])} or {names[-1]} (too close to call)"
    return f"one of {len(groups):,} groups"


def _extremes(groups: Sequence[AnsweredGroup], sign: int) -> list[AnsweredGroup]:
    """The groups that may be the highest (sign 1) or the lowest (-1), by their intervals."""

    def ends(group: AnsweredGroup) -> Interval:
        low, high = group.interval
        return (low, high) if sign > 0 else (-high, -low)

    reach = max(ends(group)[0] for group in groups)
    return [group for group in groups if ends(group)[1] >= reach]


@dataclass(frozen=True)
class StoryStep:
    """One step of a story: the rows with its condition, and the gap among them and without them."""

    name: str
    inside: Interval
    rest: Interval


def story_finding(
    asked: AskedComparison,
    gap: float,
    steps: Sequence[StoryStep],
    *,
    ends_in_noise: bool,
    advice: str = "",
    differs: str = "",
    caveat: str = "",
    notes: Sequence[str] = (),
) -> Finding:
    """The conditions behind a gap, step by step, and the gap that remains.

    `differs` says in what the table beside it differs, if it does.
    """
    caveat = caveat or ASSOCIATION
    if asked.verdict is not Verdict.REAL:
        headline, support = _nothing_to_explain(asked)
        return Finding(headline, support, caveat, tuple(notes))
    whole = _size_text(asked, gap)
    if not steps:
        headline = f"Nothing measured here clearly explains {_the_gap(asked)}."
        return Finding(headline, advice, caveat, tuple(notes))
    first, *others = steps
    headline = _headline(
        f"{_rows(first.name)} come first: without them the {{measured}} of {{whole}} would be {{rest}}.",
        first.name,
        measured=asked.measured,
        whole=whole,
        rest=asked.unit.span(*first.rest, asked.constant),
    )
    headline = capitalised(headline)
    sentences = [_among_them(asked, first.inside, gap)]
    if others:
        names = (shortened(step.name, MOST_NAME_WORDS) for step in others)
        sentences.append(f"Next, within them: {', then '.join(names)}.")
    elif ends_in_noise:
        sentences.append(NOTHING_ELSE)
    if differs:
        sentences.append(differs)
    return Finding(headline, " ".join(sentences), caveat, tuple(notes))


def _among_them(asked: AskedComparison, inside: Interval, gap: float) -> str:
    """The gap among the rows of a step, unless it is unclear by more than the whole gap."""
    low, high = inside
    if low <= asked.constant <= high and high - low > abs(gap - asked.constant):
        return f"Among them {_the_gap(asked)} is too noisy to tell."
    return f"Among them it is {asked.unit.span(*inside, asked.constant)}."
