"""The report of an explanation as one HTML file: offline, no scripts, for readers new to privacy noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Any

from dpxplain.errors import BadRequest
from dpxplain.model.charge import gaussian_part
from dpxplain.privacy.accounting import epsilon
from dpxplain.render import charts, views_results
from dpxplain.render.layout import TextColumn, TextGrid
from dpxplain.render.notebook import Markup, badge, el, fold, inline_svg, joined, table
from dpxplain.render.views_results import answer_grid, explanation_grid, explanation_grids, of_question
from dpxplain.results.answer import Answer
from dpxplain.results.explanation import Explanation, Story
from dpxplain.results.question import Question
from dpxplain.results.released_answer import AnswerRow, AskedQuestion, ReleasedAnswer
from dpxplain.words import numbers, prices
from dpxplain.words.sentences import (
    GENERAL_USE,
    NOT_PRIVATE,
    caption,
    condition_label,
    question_filter,
    row_sentence,
    source_text,
)

MOST_GROUPS = 30
GroupOrder = Callable[[AnswerRow], Any]  # a key to sort by
# Forbids fetching and scripts, in case a text is ever not escaped.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def save_report(explanation: Explanation, path: str | Path, story: Story | None = None) -> Path:
    """Write the report, with a story if there is one, and return its path. Spends nothing."""
    target = Path(path)
    remedy = "Name a file in an existing folder that you may write to."
    if not target.parent.is_dir():
        raise BadRequest(f"The report cannot be written: there is no folder {target.parent}.", remedy=remedy)
    page = report(explanation, story)  # before the file is opened: a failure leaves an older file as it is
    try:
        target.write_text(page, encoding="utf-8")
    except OSError as error:
        raise BadRequest(
            f"The report cannot be written to {target}: {error.strerror}.", remedy=remedy
        ) from None
    return target


def report(explanation: Explanation, story: Story | None = None, order: GroupOrder | None = None) -> str:
    """The page as HTML text. Groups are in the order of the answer, or sorted by the key `order`."""
    question = explanation.question
    title = question_filter(question.title, question.answer.statement, question.answer.schema)
    private = explanation.private and question.answer.private
    name = numbers.clean(explanation.plan.family.schema.table.name)
    head = joined(
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
        Markup('<meta name="color-scheme" content="light dark">'),
        el("title", f"{title} · DPXPlain"),
        Markup(f"<style>\n{files('dpxplain.render').joinpath('report.css').read_text('utf-8')}</style>"),
    )
    main = el(
        "main",
        _opening(explanation, title, name),
        _explanation(explanation),
        None if story is None else _story(story),
        _question(question),
        _answer(question, order),
        _cost(explanation, story),
        _notes(explanation),
        _how_to_read(explanation, story),
        _closing(explanation, story),
    )
    warning = None
    if not private:
        marks = " ".join(["NOT PRIVATE"] * 3)
        warning = joined(
            el("div", marks, class_="watermark", aria_hidden="true"),
            el("p", NOT_PRIVATE, class_="warning", role="alert"),
        )
    body = el("body", warning, main)
    return f'<!doctype html>\n<html lang="en">\n{el("head", head)}\n{body}\n</html>\n'


def _opening(explanation: Explanation, title: str, name: str) -> Markup:
    """The page header: the question, then the finding that answers it."""
    finding, question = explanation.finding, explanation.question
    return el(
        "header",
        el("p", "DPXPlain", el("span", f" · a private explanation of {name}"), class_="brand"),
        el("p", badge(question.verdict), " ", title, class_="asked"),
        el("h1", finding.headline),
        el("p", finding.support, class_="lead") if finding.support else None,
        el("p", finding.caveat, class_="quiet"),
        el("p", numbers.clean(question.note), class_="note") if question.note else None,
    )


def _how_to_read(explanation: Explanation, story: Story | None) -> Markup:
    schema, name = explanation.plan.family.schema, explanation.question.measured
    example = "sex = Female"
    if explanation.rows:
        example = condition_label(explanation.rows[0].predicate, schema)
    items = (
        (
            "Noise on purpose.",
            "Every number here carries random noise, so that this page reveals little about "
            f"{_protected(explanation)}. How little is measured under “What it cost”. This is differential "
            "privacy.",
        ),
        (
            "Dots and lines.",
            "A dot is the noisy number. The true number lies somewhere on the line through "
            f"it, with {_confidence(explanation, story)}. A short line means little noise.",
        ),
        (
            "Filled or hollow.",
            "A hollow dot is unclear: its line crosses the bold one, so noise alone may explain it.",
        ),
        (
            "Conditions.",
            f"A condition picks out rows, such as {example}. The chart shows what leaving these rows out "
            f"does to the {name}. Each condition is left out alone, so the effects do not add up.",
        ),
        ("What it does not say.", f"{_covered(explanation)} A large effect is not proof of cause."),
    )
    return el(
        "aside",
        el("h2", "How to read this", id="how"),
        el("ul", *(el("li", el("strong", head), " ", text) for head, text in items)),
        class_="how",
        aria_labelledby="how",
    )


def _confidence(explanation: Explanation, story: Story | None) -> str:
    """The confidence of all intervals, or that of each section where they differ."""
    question = explanation.question
    sections = {
        "What explains it": explanation.confidence,
        "Is it more than noise": question.confidence,
        "The answer": question.answer.confidence,
    }
    if story is not None:
        sections["Step by step"] = story.confidence
    if len(set(sections.values())) == 1:
        return f"{numbers.level(explanation.confidence)} confidence"
    *parts, last = (f"{numbers.level(value)} in “{name}”" for name, value in sections.items())
    return f"a confidence of {', '.join(parts)} and {last}"


def _covered(explanation: Explanation) -> str:
    question = explanation.question
    if question.in_general is None and not _has_general_column(question.answer):
        return "Intervals cover privacy noise only, not sampling: another sample of people may differ."
    return "Intervals cover privacy noise only, except where it says “in general”: those cover sampling too."


def _has_general_column(answer: ReleasedAnswer) -> bool:
    return isinstance(answer, Answer) and answer.population and not answer.not_general


def _notes(explanation: Explanation) -> Markup:
    """A folded section that says how the numbers were counted."""
    answer = explanation.question.answer
    general = (answer.general_basis, GENERAL_USE) if _has_general_column(answer) else ()
    notes = tuple(dict.fromkeys((*explanation.finding.notes, *general)))
    return _section("Notes", fold("How these numbers were counted", notes))


def _answer(question: AskedQuestion, order: GroupOrder | None) -> Markup:
    answer = question.answer
    assert isinstance(answer, Answer)
    of_question = {answer.groups.key(index) for index in question.contrast.groups}
    rows = list(answer.rows) if order is None else sorted(answer.rows, key=order)
    visible_rows = _visible_groups(answer, rows, of_question)
    caption_of_table = "Noisy value and interval of each group"
    left_out = [row for row in rows if row not in visible_rows]
    alt = f"{answer.value_name} of each group with its interval; the table below has the numbers."
    return _section(
        "The answer",
        el("pre", el("code", answer.sql.strip())),
        _figure(
            lambda width: charts.answer_chart(answer, rows=visible_rows, highlight=of_question, width=width),
            alt,
            "Noisy values. The groups in the question are in colour.",
        ),
        table(replace(answer_grid(answer, visible_rows), more=""), caption_of_table),
        el(
            "details",
            el("summary", f"The other {numbers.counted(len(left_out), 'group')}"),
            table(replace(answer_grid(answer, left_out), more=""), caption_of_table),
        )
        if left_out
        else None,
        *(el("p", numbers.clean(note), class_="quiet") for note in answer.notes),
    )


def _visible_groups(answer: Answer, rows: Sequence[AnswerRow], of_question: set[Any]) -> list[AnswerRow]:
    """The first groups, and all groups of the question, even those that LIMIT left out of the answer."""
    visible_rows = list(rows[:MOST_GROUPS])
    present = {row.group for row in visible_rows}
    listed = [row for row in rows[MOST_GROUPS:] if row.group in of_question]
    hidden = of_question - present - {row.group for row in listed}
    return visible_rows + listed + [answer[key] for key in sorted(hidden, key=str)]


def _question(question: AskedQuestion) -> Markup:
    assert isinstance(question, Question)
    grid = of_question(question).grid
    assert grid is not None
    finding = question.finding
    return _section(
        "Is it more than noise?",
        el("p", str(finding)),
        _figure(
            lambda width: charts.question_chart(question, width=width),
            str(finding),
            "The bold line marks the value that the question compares with.",
        ),
        table(grid, f"The noisy {question.measured} and its interval"),
    )


def _story(story: Story) -> Markup:
    """The story in words, as a chart and as a table."""
    sentences = views_results.sentences(story)
    return _section(
        "Step by step",
        el("ol", *(el("li", sentence) for sentence in sentences), class_="sentences"),
        _figure(
            lambda width: charts.chart(story, width=width),
            " ".join(sentences),
            f"The {story.question.measured} in parts of the rows. The bold line marks its value in all rows.",
        ),
        table(views_results.story_grid(story), "Story table"),
    )


def _explanation(explanation: Explanation) -> Markup:
    """The chart and the table of each condition's effect. A table that is lost in noise is folded."""
    explained, name = explanation.explained, explanation.question.measured
    sentences = [row_sentence(explained, explanation.effect_of(row)) for row in explanation.rows]
    caption = (
        "Influence against a bold zero line, and rank among all conditions."
        if explanation.by_influence
        else f"How much of the {name} goes away without the rows of each condition."
    )
    first, *further = explanation_grids(explanation, most=len(explanation.rows))
    content = joined(
        _figure(lambda width: charts.chart(explanation, width=width), " ".join(sentences), caption),
        table(replace(first, folded=""), "Explanation table"),
        *(el("details", el("summary", grid.folded), table(grid, "Unclear conditions")) for grid in further),
    )
    if first.folded:
        content = el("details", el("summary", first.folded), content)
    influence = None
    if not explanation.by_influence:
        ranked = explanation.sorted_by_influence()
        influence = el(
            "details",
            el("summary", "Influence and rank"),
            _figure(lambda width: charts.influence_chart(ranked, width=width), " ".join(sentences)),
            table(explanation_grid(ranked, ranked.rows), "Influence and rank"),
        )
    order = explanation.order_note
    return _section(
        "What explains it?", content, el("p", order, class_="quiet") if order else None, influence
    )


def _cost(explanation: Explanation, story: Story | None) -> Markup:
    answer, schema = explanation.question.answer, explanation.plan.family.schema
    privacy = schema.privacy
    rows = [("answer", str(spend), f"{spend.rho:.6g}") for spend in answer.spends]
    rows.append(("question", "uses the answer", "free"))
    if explanation.mechanism == "marginals" and explanation.free:
        rows.append(
            ("preparation", "noisy numbers, paid once for all explanations", f"{explanation.rho:.6g}")
        )
        rows.append(("explanation", "uses the preparation", "free"))
    rows += [("explanation", str(spend), f"{spend.rho:.6g}") for spend in explanation.spends]
    releases = [(answer.rho, answer.spends), (explanation.rho, explanation.entry.spends)]
    if story is not None:
        others = [entry for entry in story.entries if entry.id != explanation.id]
        rows += [
            ("story", "noisy numbers, paid once for all stories", f"{entry.rho:.6g}") for entry in others
        ]
        releases += [(entry.rho, entry.spends) for entry in others]
    total = math.fsum(rho for rho, _ in releases)
    gaussian = sum(gaussian_part(rho, spends) for rho, spends in releases)
    shown_epsilon = numbers.at_most(epsilon(total, privacy.delta, gaussian))
    rows.append(("together", "", f"{total:.6g}"))
    grid = TextGrid((TextColumn("step"), TextColumn("mechanism"), TextColumn("ρ", "right")), tuple(rows))
    return _section(
        "What it cost",
        el(
            "p",
            "Each result uses up some of the privacy budget that the data's owner set. The budget is "
            "measured in ρ (rho): smaller is more private, and amounts add up.",
        ),
        table(grid, "Privacy budget spent, by mechanism", class_="sum"),
        el(
            "p",
            f"Together {numbers.rho(total)} of the whole budget of {privacy.rho:.6g}. In other words: "
            f"(ε, δ)-differential privacy with ε = {shown_epsilon} at "
            f"{prices.delta_text(privacy.delta)}, for {_protected(explanation)}.",
        ),
        el("p", prices.discovered_delta(privacy.delta, 2 * privacy.delta)) if schema.discovered else None,
    )


def _protected(explanation: Explanation) -> str:
    unit = explanation.plan.family.schema.privacy.unit
    return "any one row of the data" if unit == "row" else f"all rows of any one {numbers.clean(unit)}"


def _closing(explanation: Explanation, story: Story | None) -> Markup:
    answer = explanation.question.answer
    releases = dict.fromkeys((*explanation.releases, *(story.releases if story is not None else ())))
    return el(
        "footer",
        el("p", caption(answer.schema, explanation.entry, explanation.confidence)),
        el(
            "p",
            f"Read off {source_text(answer.entry, tuple(releases))}. Mechanism {explanation.mechanism}, "
            f"{_confidence(explanation, story)}. "
            f"Saved on {date.today():%d %B %Y}. This file needs no network.",
        ),
    )


def _section(title: str, *parts: str | None) -> Markup:
    return el("section", el("h2", title), joined(*parts))


def _figure(draw: Callable[[int], charts.Spec], alt: str, caption: str = "") -> Markup:
    """The chart twice, for wide and for narrow screens; style sheets show one of them."""
    return el(
        "figure",
        inline_svg(draw(charts.WIDE), alt, "dpx-chart wide"),
        inline_svg(draw(charts.PHONE), alt, "dpx-chart phone"),
        el("figcaption", caption) if caption else None,
    )
