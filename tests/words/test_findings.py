"""The finding of each situation, and what holds for the finding of any facts."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpxplain.model.contrast import Verdict, judge
from dpxplain.model.display import Finding
from dpxplain.words.findings import (
    ALONE,
    ASSOCIATION,
    MOST_WORDS,
    AnsweredGroup,
    AskedComparison,
    Effect,
    Explained,
    Interval,
    StoryStep,
    answer_finding,
    comparison_finding,
    effect_name,
    explanation_finding,
    standing_out,
    story_finding,
)
from dpxplain.words.numbers import PERCENT, PLAIN, POINTS, Unit
from dpxplain.words.sentences import Circumstances, advice, effect_text, row_sentence

NOISE = "privacy noise cannot account for it."
DOLLARS = Unit.declared("$")
GAP = AskedComparison(
    ("South", "North"), 11_600.0, (11_540, 11_670), Verdict.REAL, 0.95, unit=DOLLARS, value="Pay"
)
UNCLEAR_GAP = replace(GAP, estimate=20.0, interval=(-80, 120), verdict=Verdict.UNCLEAR)
REVERSED_GAP = replace(GAP, estimate=-20.0, interval=(-25, -15), verdict=Verdict.REVERSED)
POINT_GAP = replace(
    GAP,
    groups=("Married", "Single"),
    estimate=0.4008,
    interval=(0.4005, 0.4011),
    unit=POINTS,
    value="Share with high income",
)
RATIO = AskedComparison(("South", "North"), 2.02, (2.015, 2.025), Verdict.REAL, 0.95, "ratio", 1.0)
SHARE = AskedComparison(("South",), 0.668, (0.66, 0.67), Verdict.REAL, 0.95, "share", 1 / 3, PERCENT)
VALUE = AskedComparison(
    ("South",), 51.0, (50.5, 51.5), Verdict.REAL, 0.95, "value", 50.4647, value="Average pay, capped at 100"
)
SUM = AskedComparison(("South", "North", "East"), 8.0, (7.0, 9.0), Verdict.REAL, 0.95, "value", 2.5)
AT_LEAST = replace(GAP, constant=10_000.0)


def effect(name: str, low: float, high: float, asked: AskedComparison = GAP, gap: float = 11_600.0) -> Effect:
    """A condition whose share of the gap is between these, and what remains of the gap by that."""
    without = (
        asked.constant + (gap - asked.constant) * (1 - high),
        asked.constant + (gap - asked.constant) * (1 - low),
    )
    share = (low, high)
    kind = effect_name(share, (0.0, 0.0), asked.verdict)
    return Effect(name, kind, share, share, without, (low + high) / 2)


def influence(name: str, low: float, high: float, *, is_first: bool = False) -> Effect:
    """A condition of which only the influence was released."""
    return Effect(name, effect_name(None, (low, high), Verdict.REAL), (low, high), is_first=is_first)


def ratio_effect(name: str, low: float, high: float) -> Effect:
    """A condition of which the ratio without its rows was released, and no share."""
    return Effect(name, "shrinks", (1.0, 2.0), without=(low, high))


def explained(*effects: Effect, asked: AskedComparison = GAP, advice: str = "") -> Explained:
    gap = asked.estimate if any(e.without is not None for e in effects) else None
    return Explained(asked, gap, effects, advice)


COMPARISONS: dict[str, tuple[AskedComparison, str]] = {
    "real gap": (
        GAP,
        "The pay is higher for South than for North, by $11,600. The real difference is "
        "$11,500–11,700; privacy noise cannot account for it.",
    ),
    "real gap of shares": (
        POINT_GAP,
        "The share with high income is higher for Married than for Single, by 40.1 percentage points. "
        "The real difference is 40.05–40.11 percentage points; privacy noise cannot account for it.",
    ),
    "unclear gap": (
        UNCLEAR_GAP,
        "It is not clear whether the pay is higher for South than for North. South may be up to $80 "
        "below North or up to $120 above it; privacy noise alone could explain what you see.",
    ),
    "unclear gap that is hardly below": (
        replace(UNCLEAR_GAP, interval=(-0.001234, 120.0)),
        "It is not clear whether the pay is higher for South than for North. South may be up to $0.00123 "
        "below North or up to $120 above it; privacy noise alone could explain what you see.",
    ),
    "gap of which nothing is known": (
        replace(UNCLEAR_GAP, interval=(-math.inf, math.inf), unit=PLAIN),
        "It is not clear whether the pay is higher for South than for North. The real difference "
        "could be anything; privacy noise alone could explain what you see.",
    ),
    "half open gap": (
        replace(UNCLEAR_GAP, interval=(-49.3, math.inf), unit=PLAIN),
        "It is not clear whether the pay is higher for South than for North. The real difference "
        "could be -49.3 or more; privacy noise alone could explain what you see.",
    ),
    "reversed gap": (
        REVERSED_GAP,
        "It is the other way round: the pay is lower for South than for North, by $20. The real "
        "difference is $15–25; privacy noise cannot account for it.",
    ),
    "real gap of a capped value": (
        replace(GAP, value="Average pay, capped at 100"),
        "The average pay (capped at 100) is higher for South than for North, by $11,600. The real "
        "difference is $11,500–11,700; privacy noise cannot account for it.",
    ),
    "real gap of a value without a name": (
        replace(GAP, value=""),
        "The value is higher for South than for North, by $11,600. "
        f"The real difference is $11,500–11,700; {NOISE}",
    ),
    "real gap with a lopsided interval": (
        replace(GAP, estimate=30.0, interval=(1.0, 101.0), unit=PLAIN),
        "The pay is higher for South than for North, by 30.0. The real difference is 1–101; privacy "
        "noise cannot account for it.",
    ),
    "ratio": (
        RATIO,
        "The ratio of South to North is above 1. The real ratio is 2.015–2.025; privacy noise cannot "
        "account for it.",
    ),
    "share": (
        SHARE,
        "The share of South is above 1/3. The real share is 66.0–67.0%; privacy noise cannot account "
        "for it.",
    ),
    "unclear share": (
        replace(SHARE, constant=0.665, verdict=Verdict.UNCLEAR),
        "It is not clear whether the share of South is above 66.5%. The real share is between 66.0 "
        "and 67.0%; privacy noise alone could explain what you see.",
    ),
    "value": (
        VALUE,
        "Average pay for South, capped at 100, is above 50.4647. The real value is 50.5–51.5; privacy "
        "noise cannot account for it.",
    ),
    "unclear value": (
        replace(VALUE, verdict=Verdict.UNCLEAR, constant=51.0),
        "It is not clear whether average pay for South, capped at 100, is above 51. The real value is "
        "between 50.5 and 51.5; privacy noise alone could explain what you see.",
    ),
    "weighted sum": (
        SUM, "The value is above 2.5. The real value is 7.0–9.0; privacy noise cannot account for it.",
    ),
    "weighted sum below": (
        replace(SUM, constant=10.0, verdict=Verdict.REVERSED),
        "The value is below 10. The real value is 7.0–9.0; privacy noise cannot account for it.",
    ),
    "at least": (
        AT_LEAST,
        "The lead of South over North is above $10,000. "
        f"The real difference is $11,500–11,700; {NOISE}",
    ),
    "also in the population": (
        replace(GAP, general=((9_000, 14_000), Verdict.REAL)),
        "The pay is higher for South than for North, by $11,600. The real difference is "
        "$11,500–11,700; privacy noise cannot account for it. In general it is $9,000–14,000, "
        "sampling error included.",
    ),
    "not clear in the population": (
        replace(GAP, general=((-900, 24_000), Verdict.UNCLEAR)),
        "The pay is higher for South than for North, by $11,600. The real difference is "
        "$11,500–11,700; privacy noise cannot account for it. In general it is between -$1,000 and "
        "$24,000, so sampling error could explain what you see.",
    ),
    "population that is not told": (
        replace(GAP, general_refusal="Nothing is known in general."),
        "The pay is higher for South than for North, by $11,600. The real difference is "
        "$11,500–11,700; privacy noise cannot account for it. Nothing is known in general.",
    ),
    "names with braces": (
        replace(GAP, groups=("{0} {x}", "{}")),
        "The pay is higher for {0} {x} than for {}, by $11,600. The real difference is "
        "$11,500–11,700; privacy noise cannot account for it.",
    ),
    "a name of nine words": (
        replace(GAP, groups=("one two three four five six seven eight nine", "North")),
        "The pay is higher for one two three four five six seven eight… than for North, by $11,600. "
        "The real difference is $11,500–11,700; privacy noise cannot account for it.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("situation", COMPARISONS)
def test_a_question_says_whether_the_gap_is_real(situation: str) -> None:
    asked, text = COMPARISONS[situation]
    finding = comparison_finding(asked, notes=["more"])
    assert str(finding) == text
    assert finding.caveat == "Holds for these data only, at 95% confidence."
    assert finding.notes == ("more",)


def test_where_groups_are_hidden_the_headline_speaks_of_those_shown() -> None:
    headline = answer_finding("Average pay", groups(A, B), hides_groups=True).headline
    assert headline == "Of the groups shown, the average pay is highest for B (6) and lowest for A (2)."


def test_a_more_urgent_caveat_comes_in_place_of_the_usual_one() -> None:
    assert comparison_finding(GAP, "12–13% of rows are cut.").caveat == "12–13% of rows are cut."
    table = Explained(GAP, None, (influence("x", 1, 2),))
    assert explanation_finding(table, "12–13% of rows are cut.").caveat == "12–13% of rows are cut."


MARRIED, DEGREE, MANAGERS = "marital status Married", "education Bachelors", "occupation Manager"
TENTHS = ((0.09, 0.11), (0.085, 0.105), (0.095, 0.115), (0.1, 0.12), (0.09, 0.1))
EXPLANATIONS: dict[str, tuple[Explained, str, str]] = {
    "one clearly first, most of the gap": (
        explained(effect(MARRIED, 0.41, 0.53), effect(DEGREE, -0.1, 0.2)),
        "Mostly rows with marital status Married: without them the gap of $11,600 falls to "
        "$5,500–6,800.",
        "That removes 41–53% of it. Nothing else in the table clearly shrinks it.",
    ),
    "one clearly first, less than that": (
        explained(effect(MARRIED, 0.3, 0.35), effect(DEGREE, -0.1, 0.2)),
        "Rows with marital status Married stand out: without them the gap of $11,600 falls to "
        "$7,540–8,120.",
        "That removes 30–35% of it. Nothing else in the table clearly shrinks it.",
    ),
    "one clearly first, one other clear": (
        explained(effect(MARRIED, 0.41, 0.53), effect(DEGREE, 0.1, 0.2)),
        "Mostly rows with marital status Married: without them the gap of $11,600 falls to "
        "$5,500–6,800.",
        "That removes 41–53% of it. Leaving out education Bachelors shrinks it too, but less.",
    ),
    "clear first, others open": (
        explained(effect(MARRIED, 0.41, 0.53), effect(DEGREE, 0.1, 0.2), effect(MANAGERS, 0.1, 0.3)),
        "Mostly rows with marital status Married: without them the gap of $11,600 falls to "
        "$5,500–6,800.",
        "That removes 41–53% of it. Leaving out education Bachelors or occupation Manager shrinks it "
        "too, but less.",
    ),
    "first among rows of the analyst's own": (
        explained(effect("rows where age is above 30", 0.3, 0.35), effect(DEGREE, -0.1, 0.2)),
        "Rows where age is above 30 stand out: without them the gap of $11,600 falls to $7,540–8,120.",
        "That removes 30–35% of it. Nothing else in the table clearly shrinks it.",
    ),
    "vanishes": (
        explained(effect("cause Storm", 0.3, 2.4), effect("cause Fire", -0.2, 0.2)),
        "Rows with cause Storm account for the gap: without them South is no longer clearly above "
        "North.",
        "Without rows with cause Storm, the gap falls from $11,600 to between -$16,000 and $8,000. "
        "Nothing else in the table clearly shrinks it.",
    ),
    "vanishes, not above all others": (
        explained(effect("cause Storm", 0.3, 2.4), effect("cause Fire", -0.2, 0.5)),
        "Rows with cause Storm account for the gap: without them South is no longer clearly above "
        "North.",
        "Without rows with cause Storm, the gap falls from $11,600 to between -$16,000 and $8,000. "
        "Nothing else in the table clearly shrinks it.",
    ),
    "turns": (
        explained(effect("cause Storm", 1.2, 1.4), effect("cause Fire", 0.1, 0.2)),
        "Rows with cause Storm account for the gap: without them South would be below North.",
        "Without rows with cause Storm, the gap falls from $11,600 to between -$4,600 and -$2,300. "
        "Leaving out cause Fire instead shrinks it too.",
    ),
    "rows of the analyst's own make it vanish": (
        explained(effect("rows where cause is Ice", 0.9, 1.1), effect("cause Fire", -0.2, 0.2)),
        "Rows where cause is Ice account for the gap: without them South is no longer clearly above "
        "North.",
        "Without rows where cause is Ice, the gap falls from $11,600 to between -$1,200 and $1,200. "
        "Nothing else in the table clearly shrinks it.",
    ),
    "may vanish, but half of it is expected to remain": (
        explained(effect("cause Storm", 0.1, 1.1), effect("cause Fire", -0.2, 0.2)),
        "Without rows with cause Storm, the gap is clearly smaller: -$1,000 to $10,000 instead of "
        "$11,600.",
        "Other conditions may matter as much.",
    ),
    "several vanish": (
        explained(effect("cause Storm", 0.8, 1.2), effect("month May", 0.7, 1.1), effect("age 9", 0.1, 0.2)),
        "Each of two kinds of rows accounts for the gap alone: cause Storm and month May.",
        "Without rows with cause Storm, the gap falls from $11,600 to between -$2,300 and $2,300. "
        "Leaving out age 9 instead shrinks it too.",
    ),
    "may vanish, and noise alone would say so": (
        explained(effect("cause Storm", 0.05, 1.6), effect("month May", 0.03, 1.5)),
        "Leaving out either of two kinds of rows shrinks the gap: cause Storm (by at least 5%) and "
        "month May (by at least 3%).",
        f"{ALONE} Which of the two matters more is not certain.",
    ),
    "several by a common fraction": (
        explained(*(effect(f"job {n}", *share) for n, share in zip("ABCDE", TENTHS, strict=True))),
        "Five conditions each explain about a tenth of the gap: job A, job B, job C, job D and job E.",
        "Without any one, at least 88% of it remains. "
        "Which condition matters most is not certain.",
    ),
    "several by different shares": (
        explained(effect(MARRIED, 0.03, 0.3), effect(DEGREE, 0.09, 0.11), effect("age 40–50", -1, 1)),
        "Two conditions each explain part of the gap: marital status Married (3–30%) and education "
        "Bachelors (9–11%).",
        "Without any one, at least 70% of it remains. "
        "Which condition matters most is not certain.",
    ),
    "several, of which the last is not first": (
        explained(effect(MARRIED, 0.3, 0.4), effect(DEGREE, 0.25, 0.35), effect("age 40–50", 0.1, 0.2)),
        "Three conditions each explain part of the gap: marital status Married (30–40%), education "
        "Bachelors (25–35%) and age 40–50 (10–20%).",
        "Without any one, at least 60% of it remains. "
        "Which of the first two matters more is not certain.",
    ),
    "several, and an unclear one that may be first": (
        explained(
            effect(MARRIED, 0.3, 0.4), effect(DEGREE, 0.25, 0.35), effect("c", 0.1, 0.2), effect("b", -1, 1)
        ),
        "Three conditions each explain part of the gap: marital status Married (30–40%), education "
        "Bachelors (25–35%) and c (10–20%).",
        "Without any one, at least 60% of it remains. "
        "Which condition matters most is not certain.",
    ),
    "several with long names": (
        explained(*(effect(f"a rather long name of condition number {n}", 0.09, 0.11) for n in range(4))),
        "Four conditions each explain about a tenth of the gap: a rather long name of condition "
        "number 0, …",
        "Without any one, at least 89% of it remains. "
        "Which condition matters most is not certain.",
    ),
    "one clear among unclear": (
        explained(effect(MARRIED, 0.1, 0.2), effect(DEGREE, -0.1, 0.3)),
        "Without rows with marital status Married, the gap is clearly smaller: $9,300–10,400 instead "
        "of $11,600.",
        "Other conditions may matter as much.",
    ),
    "only one shown, its rank open": (
        explained(effect(MARRIED, 0.41, 0.53)),
        "Without rows with marital status Married, the gap is clearly smaller: $5,500–6,800 instead of "
        "$11,600.",
        "Other conditions may matter as much.",
    ),
    "only one shown, surely first": (
        explained(replace(effect(MARRIED, 0.41, 0.53), is_first=True)),
        "Mostly rows with marital status Married: without them the gap of $11,600 falls to "
        "$5,500–6,800.",
        "That removes 41–53% of it.",
    ),
    "widens": (
        explained(effect(DEGREE, -0.1, 0.2), effect("hours Part-time", -0.3, -0.2)),
        "Without rows with hours Part-time, the gap would be larger, not smaller: "
        "$13,900–15,100 instead of $11,600.",
        "Nothing measured here clearly shrinks it.",
    ),
    "several widen": (
        explained(effect(DEGREE, -0.2, -0.1), effect("hours Part-time", -0.3, -0.2)),
        "Without rows with hours Part-time, the gap would be larger, not smaller: "
        "$13,900–15,100 instead of $11,600.",
        "Nothing measured here clearly shrinks it. The same is true without education Bachelors.",
    ),
    "nothing is clear": (
        explained(effect(DEGREE, -0.1, 0.2), effect("hours Part-time", -0.3, 0.2), advice="Pay more."),
        "Nothing measured here clearly explains the gap.",
        "Pay more.",
    ),
    "unclear question": (
        explained(effect(MARRIED, 0.4, 0.5), asked=UNCLEAR_GAP),
        "It is not clear whether the pay is higher for South than for North, so there may be nothing "
        "to explain.",
        "South may be up to $80 below North or up to $120 above it.",
    ),
    "reversed question": (
        explained(effect(MARRIED, 0.4, 0.5), asked=REVERSED_GAP),
        "It is the other way round: the pay is lower for South than for North, by $20.",
        "To see why, ask why North is above South.",
    ),
    "reversed value": (
        explained(effect(MARRIED, 0.4, 0.5), asked=replace(VALUE, constant=60.0, verdict=Verdict.REVERSED)),
        "Average pay for South, capped at 100, is below 60.",
        "Ask about a lower number.",
    ),
    "unclear value": (
        explained(effect(MARRIED, 0.4, 0.5), asked=replace(VALUE, constant=51.0, verdict=Verdict.UNCLEAR)),
        "It is not clear whether average pay for South, capped at 100, is above 51, "
        "so there may be nothing to explain.",
        "The real value is between 50.5 and 51.5.",
    ),
    "influence: one clearly first": (
        explained(influence(MARRIED, 5, 6), influence(DEGREE, -1, 2)),
        "Rows with marital status Married have the largest influence: without them the gap is "
        "smaller.",
        "How far it falls was not measured. Nothing else in the table clearly shrinks it.",
    ),
    "influence: first, others open": (
        explained(influence(MARRIED, 5, 6), influence(DEGREE, 1, 2), influence(MANAGERS, 1, 3)),
        "Rows with marital status Married have the largest influence: without them the gap is "
        "smaller.",
        "How far it falls was not measured. Leaving out education Bachelors or occupation Manager "
        "shrinks it too.",
    ),
    "influence: one clear among unclear": (
        explained(influence(MARRIED, 1, 6), influence(DEGREE, -1, 2)),
        "Rows with marital status Married have a clear effect: without them the gap is smaller.",
        "How far it falls was not measured.",
    ),
    "influence: rows of the analyst's own": (
        explained(influence("rows where age is above 30", 1, 6), influence(DEGREE, -1, 2)),
        "Rows where age is above 30 have a clear effect: without them the gap is smaller.",
        "How far it falls was not measured.",
    ),
    "influence: several, order open": (
        explained(influence(MARRIED, 1, 6), influence(DEGREE, 1, 5)),
        "Leaving out either of two kinds of rows shrinks the gap: marital status Married and "
        "education Bachelors.",
        "Which condition matters most is not certain. How far it falls was not measured.",
    ),
    "influence: only one shown, its rank open": (
        explained(influence(MARRIED, 5, 6)),
        "Rows with marital status Married have a clear effect: without them the gap is smaller.",
        "How far it falls was not measured.",
    ),
    "influence: only one shown, surely first": (
        explained(influence(MARRIED, 5, 6, is_first=True)),
        "Rows with marital status Married have the largest influence: without them the gap is "
        "smaller.",
        "How far it falls was not measured.",
    ),
    "influence: widens": (
        explained(influence(DEGREE, -1, 2), influence("hours Part-time", -6, -5)),
        "Without rows with hours Part-time, the gap would be larger, not smaller.",
        "Nothing measured here clearly shrinks it.",
    ),
    "influence: nothing is clear": (
        explained(influence(DEGREE, -1, 2), advice="Pay more."),
        "Nothing measured here clearly explains the gap.",
        "Pay more.",
    ),
    "ratio: clearly first": (
        explained(ratio_effect(MARRIED, 1.2, 1.3), ratio_effect(DEGREE, 1.8, 1.9), asked=RATIO),
        "Rows with marital status Married stand out: without them the ratio of 2.02 falls to "
        "1.20–1.30.",
        "Leaving out education Bachelors shrinks it too, but less.",
    ),
    "ratio: turns": (
        explained(ratio_effect(MARRIED, 0.8, 0.9), ratio_effect(DEGREE, 1.8, 1.9), asked=RATIO),
        "Rows with marital status Married account for the ratio: without them it would be below 1.",
        "Without rows with marital status Married, the ratio falls from 2.02 to 0.80–0.90. Leaving out "
        "education Bachelors instead shrinks it too.",
    ),
    "ratio: may vanish, of which no estimate is told": (
        explained(ratio_effect(MARRIED, 0.8, 1.2), ratio_effect(DEGREE, 1.1, 1.9), asked=RATIO),
        "Leaving out either of two kinds of rows shrinks the ratio: marital status Married and "
        "education Bachelors.",
        f"{ALONE} Which condition matters most is not certain.",
    ),
    "ratio: nothing is clear": (
        explained(influence(DEGREE, -1, 2), asked=RATIO),
        "Nothing measured here clearly explains the ratio.",
        "",
    ),
    "share: several turn": (
        explained(ratio_effect(MARRIED, 0.2, 0.21), ratio_effect(DEGREE, 0.3, 0.31), asked=SHARE),
        "Each of two kinds of rows accounts for the share alone: marital status Married and education "
        "Bachelors.",
        "Without rows with marital status Married, the share falls from 67% to 20.0–21.0%. Nothing "
        "else in the table clearly shrinks it.",
    ),
    "value: first": (
        explained(effect(MARRIED, 0.5, 0.6, VALUE, 51.0), effect(DEGREE, 0.1, 0.2, VALUE, 51.0), asked=VALUE),
        "Mostly rows with marital status Married: without them the value of 51 falls to 50.68–50.73.",
        "That removes 50–60% of what exceeds 50.4647. Leaving out education Bachelors shrinks it too, "
        "but less.",
    ),
    "at least: vanishes": (
        explained(
            effect("cause Storm", 0.8, 1.2, AT_LEAST), effect(DEGREE, -1, 0.2, AT_LEAST), asked=AT_LEAST
        ),
        "Rows with cause Storm account for the gap: without them it is no longer clearly above "
        "$10,000.",
        "Without rows with cause Storm, the gap falls from $11,600 to $9,700–10,300. Nothing else in "
        "the table clearly shrinks it.",
    ),
    "names with braces": (
        explained(effect("kind {0} {x}", 0.41, 0.53), effect("kind {", 0.1, 0.2), effect("kind }", 0.1, 0.2)),
        "Mostly rows with kind {0} {x}: without them the gap of $11,600 falls to $5,500–6,800.",
        "That removes 41–53% of it. Leaving out kind { or kind } shrinks it too, but less.",
    ),
    "several names with braces": (
        explained(effect("kind {0} {x}", 0.1, 0.2), effect("kind {", 0.1, 0.2)),
        "Two conditions each explain part of the gap: kind {0} {x} (10–20%) and kind { (10–20%).",
        "Without any one, at least 80% of it remains. "
        "Which of the two matters more is not certain.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("situation", EXPLANATIONS)
def test_an_explanation_says_what_explains_the_gap(situation: str) -> None:
    table, headline, support = EXPLANATIONS[situation]
    finding = explanation_finding(table, notes=["more"])
    shrinking = table.with_effect("shrinks")
    alone = () if len(shrinking) < 2 or ALONE in support else (ALONE,)
    assert finding == Finding(headline, support, ASSOCIATION, (*alone, "more"))


KNOWN = Circumstances(0.1, 5.0, 103, ("a", "b", "c"), {"a": 2, "b": 3, "c": 4})
CROWDED = replace(KNOWN, columns=("broker", "broker", "a"), values={"broker": 2_000, "a": 2})
NO_PRICE = "The remaining budget is probably too small to make any condition clear."
ADVICE: dict[str, tuple[Circumstances, str]] = {
    "a price within what is left": (
        KNOWN, "Spending about ρ 0.4 of the privacy budget (ρ 5 is left) would probably make one condition "
        "clear.",
    ),
    "a price of all that is left": (
        replace(KNOWN, remaining=0.4),
        "Spending about ρ 0.4 of the privacy budget (ρ 0.4 is left) would probably make one condition "
        "clear.",
    ),
    "a price above what is left": (
        replace(KNOWN, remaining=0.39),
        f"{NO_PRICE} Try fewer columns: attributes=[…].",
    ),
    "the same with few columns": (replace(KNOWN, remaining=0.39, values={"a": 2, "b": 3}), NO_PRICE),
    "a column with many values": (
        CROWDED,
        "Try again without the column broker (exclude=['broker']): by chance alone, its 2,000 values "
        "took 2 of the 3 places in the table.",
    ),
    "a column with many values and nothing else": (
        replace(CROWDED, values={"broker": 2_000}),
        "Spending about ρ 0.4 of the privacy budget (ρ 5 is left) would probably make one condition "
        "clear.",
    ),
    "pairs of conditions": (
        replace(KNOWN, conjuncts=2, conditions=5_000),
        "Single conditions (conjuncts=1) are easier to tell apart than these 5,000 combinations.",
    ),
    "a budget that is not known": (replace(KNOWN, remaining=None), ""),
}  # fmt: skip


@pytest.mark.parametrize("situation", ADVICE)
def test_where_nothing_is_clear_advice_says_what_would_help(situation: str) -> None:
    known, text = ADVICE[situation]
    assert advice([(-1.0, 3.0), (-2.0, 2.5)], known).text == text


def test_advice_names_the_change_that_its_words_propose() -> None:
    unclear = [(-1.0, 3.0), (-2.0, 2.5)]
    assert advice(unclear, CROWDED).exclude == "broker"
    assert advice(unclear, replace(KNOWN, conjuncts=2)).conjuncts == 1
    assert advice(unclear, KNOWN).rho == pytest.approx(0.4)


def test_where_no_budget_would_help_no_price_is_named() -> None:
    assert advice([(-1.0, 1.0), (-2.0, 2.0)], replace(KNOWN, remaining=1e9)).text.startswith(NO_PRICE)


def groups(*known: tuple[str, float, float]) -> list[AnsweredGroup]:
    return [
        AnsweredGroup(name, (low + high) / 2, (low, high), f"{(low + high) / 2:.0f}")
        for name, low, high in known
    ]


A, B, C, D = ("A", 1, 3), ("B", 5, 7), ("C", 9, 11), ("D", 13, 15)
ANSWERS: dict[str, tuple[list[AnsweredGroup], int, str]] = {
    "clear highest and lowest": (
        groups(A, B, C), 0, "The average pay is highest for C (10) and lowest for A (2).",
    ),
    "two groups": (groups(A, B), 0, "The average pay is highest for B (6) and lowest for A (2)."),
    "highest too close to call": (
        groups(A, B, C, ("E", 10, 12)), 0,
        "The average pay is highest for C or E (too close to call) and lowest for A (2).",
    ),
    "both too close to call": (
        groups(A, ("F", 2, 4), B, C, ("E", 10, 12), ("G", 10, 13)), 0,
        "The average pay is highest for C, E or G (too close to call) and lowest for A or F (too "
        "close to call).",
    ),
    "many candidates": (
        groups(A, *((f"E{n}", 10.0 + n / 10, 12.0) for n in range(4))), 0,
        "The average pay is highest for one of 4 groups and lowest for A (2).",
    ),
    "cannot be told apart": (
        groups(("A", 1, 9), ("B", 2, 8), ("C", 3, 10)), 0,
        "Average pay: the 3 groups cannot be told apart at this precision.",
    ),
    "touching intervals": (
        groups(("A", 1, 3), ("B", 3, 5)), 0,
        "Average pay: the 2 groups cannot be told apart at this precision.",
    ),
    "one group": (groups(B), 0, "B, average pay: 6."),
    "all rows": (groups(("all rows", 5, 7)), 0, "Average pay: 6."),
    "no group": ([], 0, "No group is shown."),
    "only blank groups": ([], 2, "Every group may be empty, so no value is known."),
    "names that are too long": (
        groups(*((f"{name} that is a very long name indeed", *ends) for name, *ends in (A, B, C))), 0,
        "The average pay is highest for C that is a very long name… (10) and lowest for A that is a "
        "very long name… (2).",
    ),
    "candidates whose names are too long": (
        groups(*((f"{n} is a very long name indeed", *ends) for n, *ends in (
            ("A", 1, 3), ("B", 2, 4), ("C", 2, 5), ("D", 11, 13), ("E", 11, 14), ("F", 12, 15)
        ))), 0,
        "The average pay is highest for one of 3 groups and lowest for one of 3 groups.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("situation", ANSWERS)
def test_an_answer_says_which_groups_are_highest_and_lowest(situation: str) -> None:
    known, unknown, headline = ANSWERS[situation]
    assert answer_finding("Average pay", known, unknown=unknown).headline == headline


def with_margins(*margins: float) -> list[AnsweredGroup]:
    return [AnsweredGroup(f"g{i}", i, (i, i), str(i), margin) for i, margin in enumerate(margins)]


@pytest.mark.parametrize(
    ("margins", "unknown", "support"),
    [
        ([2], 0, ""),
        ([2, 2, 2], 0, "Each value is accurate to about ±2."),
        ([2, 3, 4], 0, "Each value is accurate to about ±4."),
        ([2, 8, 2], 0, "Most values are accurate to about ±2; the least certain, g1, to ±8."),
        ([2, 2, math.inf], 0, "Most values are accurate to about ±2."),
        ([2, math.inf, math.inf], 0, ""),
        ([2, 2], 1, "Each value is accurate to about ±2. 1 group may be empty, so its value is left blank."),
        ([2], 3, "3 groups may be empty, so their values are left blank."),
    ],
)
def test_an_answer_says_how_accurate_it_is_and_what_is_blank(
    margins: list[float], unknown: int, support: str
) -> None:
    assert answer_finding("x", with_margins(*margins), unknown=unknown).support == support


STORM, MAY, OLD = (
    StoryStep(n, (13_000, 14_000), (5_500, 6_800)) for n in ("cause Storm", "month May", "age 90")
)
FIRST_STEP = "Rows with cause Storm come first: without them the gap of $11,600 would be $5,500–6,800."
STORIES: dict[str, tuple[AskedComparison, list[StoryStep], bool, str, str]] = {
    "one step": (GAP, [STORM], False, FIRST_STEP, "Among them it is $13,000–14,000."),
    "one step, among whose rows nothing is known": (
        GAP, [replace(STORM, inside=(-3_800, 13_000))], False, FIRST_STEP,
        "Among them the gap is too noisy to tell.",
    ),
    "one step, then noise": (
        GAP, [STORM], True, FIRST_STEP, "Among them it is $13,000–14,000. Nothing else clearly shrinks it.",
    ),
    "two steps": (
        GAP, [STORM, MAY], True, FIRST_STEP, "Among them it is $13,000–14,000. Next, within them: month May.",
    ),
    "three steps": (
        GAP, [STORM, MAY, OLD], False, FIRST_STEP,
        "Among them it is $13,000–14,000. Next, within them: month May, then age 90.",
    ),
    "no step": (GAP, [], True, "Nothing measured here clearly explains the gap.", "Pay more."),
    "unclear question": (
        UNCLEAR_GAP, [STORM], False,
        "It is not clear whether the pay is higher for South than for North, so there may be nothing "
        "to explain.",
        "South may be up to $80 below North or up to $120 above it.",
    ),
    "reversed question": (
        REVERSED_GAP, [], True,
        "It is the other way round: the pay is lower for South than for North, by $20.",
        "To see why, ask why North is above South.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("situation", STORIES)
def test_a_story_says_what_comes_first_and_what_remains(situation: str) -> None:
    asked, steps, in_noise, headline, support = STORIES[situation]
    told = story_finding(asked, 11_600.0, steps, ends_in_noise=in_noise, advice="Pay more.", notes=["more"])
    assert told == Finding(headline, support, ASSOCIATION, ("more",))


def test_a_story_has_the_caveat_of_its_answer() -> None:
    assert story_finding(GAP, 1.0, [], ends_in_noise=True, caveat="Many are cut.").caveat == "Many are cut."


# What holds for the findings of any facts.

words = st.text("abcdxyz{}<&'\"%0\u00e9\u6f22", min_size=1, max_size=12)
names = st.lists(words, min_size=1, max_size=8).map(" ".join)
any_names = st.lists(words, min_size=1, max_size=30).map(" ".join)
finite = st.floats(-1e6, 1e6).map(lambda value: round(value, 6))
intervals = st.tuples(finite, finite).map(lambda ends: (min(ends), max(ends)))
shares = st.one_of(
    st.tuples(st.floats(-2, 2), st.floats(-2, 2)),
    st.tuples(st.floats(0.3, 0.6), st.floats(0.6, 1.5)),
    st.just((-math.inf, math.inf)),
).map(lambda ends: (min(ends), max(ends)))
units = st.sampled_from([PLAIN, PERCENT, POINTS, DOLLARS, Unit.declared("minutes per flight and day")])


@st.composite
def comparisons(draw: st.DrawFn, name: st.SearchStrategy[str] = any_names) -> AskedComparison:
    measured, count = draw(
        st.sampled_from([("gap", 2), ("ratio", 2), ("share", 1), ("value", 1), ("value", 3)])
    )
    ends = draw(intervals)
    constant = draw(st.sampled_from([0.0, 0.0, 1.0, 50.4647]))
    return AskedComparison(
        groups=tuple(draw(name) for _ in range(count)),
        estimate=draw(st.floats(0, 1)) * (ends[1] - ends[0]) + ends[0],
        interval=ends,
        verdict=judge(ends, constant),
        confidence=0.95,
        measured=measured,
        constant=constant,
        unit=draw(units),
        value=draw(name),
    )


@st.composite
def effects(draw: st.DrawFn, asked: AskedComparison, told: str, name: st.SearchStrategy[str]) -> Effect:
    influence, share, gap = draw(intervals), draw(shares), asked.estimate - asked.constant
    ends = sorted(asked.constant + gap * (1 - end) for end in share)
    middle = sum(share) / 2 if math.isfinite(share[0]) else 0.0
    return Effect(
        draw(st.one_of(name, name.map("rows where {}".format))),
        effect_name(share if told == "shares" else None, influence, asked.verdict),
        influence,
        share if told == "shares" else None,
        (ends[0], ends[1]) if told != "influence" else None,
        middle if told == "shares" else None,
        draw(st.booleans()),
    )


@st.composite
def tables(draw: st.DrawFn, name: st.SearchStrategy[str] = any_names) -> Explained:
    asked, told = draw(comparisons(name)), draw(st.sampled_from(["shares", "rest", "influence"]))
    shown = draw(st.lists(effects(asked, told, name), min_size=1, max_size=6))
    return Explained(asked, None if told == "influence" else asked.estimate, tuple(shown), "Pay more.")


def word_count(text: str) -> int:
    return len(text.split())


def sentences(text: str) -> int:
    """How many sentences a text has: names here have no full stop, and numbers are followed by no blank."""
    return len(re.findall(r"[.…](?= [A-Z]|$)", text))


def assert_short(finding: Finding) -> None:
    assert word_count(finding.headline) <= MOST_WORDS, finding.headline
    assert sentences(finding.headline) == 1, finding.headline
    assert sentences(finding.support) <= 2, finding.support
    assert word_count(finding.caveat) <= 15
    assert finding.headline[-1] in ".…"
    assert not finding.headline.endswith(("..", "….", ",."))


@given(comparisons())
def test_the_finding_of_any_question_is_short(asked: AskedComparison) -> None:
    assert_short(comparison_finding(asked))
    assert_short(comparison_finding(replace(asked, general=(asked.interval, asked.verdict))))


@given(comparisons(names))
def test_a_clear_gap_is_never_called_nothing(asked: AskedComparison) -> None:
    headline = comparison_finding(asked).headline
    if asked.is_gap and asked.verdict is not Verdict.UNCLEAR and asked.estimate:
        assert re.search("[1-9]", headline.rpartition(", by ")[2])
    assert (asked.verdict is Verdict.UNCLEAR) == headline.startswith("It is not clear whether ")


@settings(max_examples=300)
@given(tables())
def test_the_finding_of_any_table_is_short(table: Explained) -> None:
    assert_short(explanation_finding(table))


@settings(max_examples=500)
@given(tables(names))
def test_no_headline_claims_more_than_its_intervals(table: Explained) -> None:
    asked, headline = table.asked, explanation_finding(table).headline
    clear = [e for e in table.effects if e.effect == "shrinks"]
    claims = [c for c in ("Mostly ", "account", "stand", "matter") if claimed(c, headline)]
    if asked.verdict is not Verdict.REAL or not clear:
        assert not claims
        return
    first = standing_out(clear, table.effects)
    if {"Mostly ", "stand", "matter"} & set(claims):
        assert first is not None
        assert all(bounds(e, clear)[1] < bounds(first, clear)[0] for e in table.effects if e is not first)
    if "Mostly " in claims:
        assert (first.share[0] if first is not None and first.share is not None else 0.0) >= 0.4
    if "account" in claims:
        remaining = [(e.middle, *e.without) for e in clear if e.without is not None]
        assert any(
            high < asked.constant if middle is None else low <= asked.constant and middle >= 0.75
            for middle, low, high in remaining
        )


def claimed(claim: str, headline: str) -> bool:
    patterns = {
        "Mostly ": r"^Mostly ", "account": r" accounts? for the (gap|value|ratio|share)(:| alone)",
        "stand": r" stand out: ", "matter": r" have the largest influence: ",
    }  # fmt: skip
    return re.search(patterns[claim], headline) is not None


def bounds(effect: Effect, clear: list[Effect]) -> Interval:
    if all(e.share is not None for e in clear):
        return effect.share or (-math.inf, math.inf)
    if all(e.without is not None for e in clear):
        low, high = effect.without or (-math.inf, math.inf)
        return -high, -low
    return effect.influence


@given(tables(names))
def test_no_row_contradicts_its_interval(table: Explained) -> None:
    for shown in table.effects:
        low, high = shown.share or shown.influence
        if shown.share is None and table.asked.verdict is Verdict.REVERSED:
            low, high = -high, -low
        text = effect_text(shown)
        expected = "shrinks" if low > 0 else "widens" if high < 0 else "unclear"
        if table.asked.verdict is Verdict.UNCLEAR:
            expected = "unclear"
        assert text.split()[0] == expected
        assert "-" not in text
        sentence = row_sentence(table, shown)
        assert sentence[-1] in ".…"
        assert sentences(sentence) <= 2


@given(
    st.lists(intervals.filter(lambda ends: ends[0] <= 0 <= ends[1]), min_size=1, max_size=5),
    st.floats(1e-6, 1e3),
    st.one_of(st.none(), st.floats(0, 1e6)),
    st.integers(1, 3),
    st.integers(1, 100),
)
def test_no_price_above_what_is_left_is_named(
    unclear: list[Interval], spent: float, left: float | None, conjuncts: int, values: int
) -> None:
    known = Circumstances(spent, left, 500, ("a",) * len(unclear), {"a": values, "b": 2}, conjuncts)
    advised = advice(unclear, known)
    assert sentences(advised.text) <= 2
    assert [advised.exclude, advised.conjuncts, advised.rho].count(None) >= 2
    if advised.rho is not None:
        assert left is not None
        assert spent <= advised.rho * (1 + 1e-5) <= left * (1 + 2e-5)


@settings(max_examples=300)
@given(
    any_names,
    st.lists(st.tuples(any_names, intervals), max_size=8),
    st.integers(0, 3),
    st.lists(st.one_of(st.floats(0, 1e9), st.just(math.inf)), min_size=8, max_size=8),
)
def test_the_finding_of_any_answer_is_short_and_names_only_possible_extremes(
    value: str, known: list[tuple[str, Interval]], unknown: int, margins: list[float]
) -> None:
    shown = [
        AnsweredGroup(f"g{n} {name}", sum(ends) / 2, ends, f"{sum(ends) / 2:.1f} minutes…", margins[n])
        for n, (name, ends) in enumerate(known)
    ]
    finding = answer_finding(value, shown, unknown=unknown, unit=Unit.declared("minutes per flight"))
    assert_short(finding)
    top = re.search(r" is highest for g(\d+).* and lowest for ", finding.headline)
    bottom = re.search(r" and lowest for g(\d+)", finding.headline)
    if top is not None:
        assert shown[int(top[1])].interval[1] >= max(g.interval[0] for g in shown)
    if bottom is not None:
        assert shown[int(bottom[1])].interval[0] <= min(g.interval[1] for g in shown)


@given(comparisons(), st.lists(st.tuples(any_names, intervals, intervals), max_size=4), st.booleans())
def test_the_finding_of_any_story_is_short(
    asked: AskedComparison, steps: list[tuple[str, Interval, Interval]], in_noise: bool
) -> None:
    told = [StoryStep(*step) for step in steps]
    assert_short(story_finding(asked, asked.estimate, told, ends_in_noise=in_noise, advice="Pay more."))
