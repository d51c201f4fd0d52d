"""The whole story as one HTML file: offline, without scripts, for people who never heard of privacy noise."""

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
from dpxplain.render import chart_rows, charts, story_tree, words
from dpxplain.render.layout import Column, Grid
from dpxplain.render.notebook import Markup, badge, el, inline_svg, joined, table
from dpxplain.render.ranking import doubt_of
from dpxplain.render.views_results import UNCLEAR_MARK, answer_grid, explanation_grid, of_question
from dpxplain.results import formats
from dpxplain.results.answer import Answer, AnswerRow
from dpxplain.results.base import AnswerLike, QuestionLike
from dpxplain.results.explanation import Explanation
from dpxplain.results.question import Question
from dpxplain.results.sentences import NOT_PRIVATE, subject
from dpxplain.results.story import Story
from dpxplain.results.titles import caption, question_title

MOST_GROUPS = 30
GroupOrder = Callable[[AnswerRow], Any]  # a key to sort by
_FREE = "Already asked: free. This is the stored release; it was paid for when it was first asked."
# Nothing may be fetched or run, even if a text were to escape its escaping.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def save_report(explanation: Explanation, path: str | Path, story: Story | None = None) -> Path:
    """Write the report, with a story if there is one, and return where it is. Spends nothing."""
    target = Path(path)
    remedy = "Name a file in an existing folder that you may write to."
    if not target.parent.is_dir():
        raise BadRequest(f"The report cannot be written: there is no folder {target.parent}.", remedy=remedy)
    page = report(
        explanation, story
    )  # before the file is opened, so that a failure leaves an older one as it is
    try:
        target.write_text(page, encoding="utf-8")
    except OSError as error:
        raise BadRequest(
            f"The report cannot be written to {target}: {error.strerror}.", remedy=remedy
        ) from None
    return target


def report(explanation: Explanation, story: Story | None = None, order: GroupOrder | None = None) -> str:
    """The page as a text; groups as asked, or in the order given."""
    question = explanation.question
    title = question_title(question.text, question.answer.statement, question.answer.schema)
    private = explanation.private and question.answer.private
    name = formats.clean(explanation.plan.family.schema.table.name)
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
        _of_what(explanation),
        _how_to_read(explanation, story),
        _answer(question, order),
        _question(question),
        _explanation(explanation, story),
        _cost(explanation, story),
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
    question = explanation.question
    of_explanation = caption(question.answer.schema, explanation.entry, explanation.confidence)
    return el(
        "header",
        el("p", "DPXPlain", el("span", f" · a private explanation of {name}"), class_="brand"),
        el("h1", title),
        el("p", badge(question.verdict), " ", formats.clean(words.here(question)), class_="lead"),
        el("p", formats.clean(question.note), class_="note") if question.note else None,
        _in_general(question),
        el("p", f"Explanation: {of_explanation}", class_="quiet"),
    )


def _in_general(question: QuestionLike) -> Markup | None:
    """The second verdict, on the population, where it was asked."""
    if not question.population:
        return None
    if question.in_general is None:
        return el("p", formats.clean(question.general_finding), class_="note")
    verdict = badge(question.in_general.verdict)
    return el("p", "In general: ", verdict, " ", formats.clean(question.general_finding), class_="lead")


def _how_to_read(explanation: Explanation, story: Story | None) -> Markup:
    example = formats.clean(explanation.rows[0].predicate.label) if explanation.rows else "sex = Female"
    name = explanation.question.measured
    items = (
        (
            "Noise on purpose.",
            "Every number here carries random noise, so that what this page can reveal about "
            f"{_protected(explanation)} is limited by a measured amount (section 4). This is differential "
            "privacy.",
        ),
        (
            "Dots and lines.",
            "A dot is the noisy number that was released. The line through it is where the true number lies, "
            f"with {_confidence(explanation, story)}; a short line means little noise.",
        ),
        (
            "Filled or hollow.",
            "A hollow dot marked “unclear” has a line that crosses the bold one: noise alone may explain it.",
        ),
        (
            "Conditions.",
            f"A condition picks out rows, such as {example}. Its influence says what leaving these rows out "
            f"does to the {name}; its rank is among all {explanation.family_size:,} conditions compared.",
        ),
        (
            "What it does not say.",
            f"{_covered(explanation)} And a high influence is not proof of cause.",
        ),
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
    sections = {"1": question.answer.confidence, "2": question.confidence, "3": explanation.confidence}
    if story is not None and story.confidence != explanation.confidence:
        sections["3 (step by step)"] = story.confidence
    if len(set(sections.values())) == 1:
        return f"{formats.level(explanation.confidence)} confidence"
    *parts, last = (f"{formats.level(value)} in section {name}" for name, value in sections.items())
    return f"a confidence of {', '.join(parts)} and {last}"


def _covered(explanation: Explanation) -> str:
    question = explanation.question
    if question.in_general is None and not _has_general_column(question.answer):
        return "Intervals cover privacy noise only, not sampling: another sample of people may differ."
    return "Intervals cover privacy noise only, except where it says “in general”: those cover sampling too."


def _has_general_column(answer: AnswerLike) -> bool:
    return isinstance(answer, Answer) and answer.population and not answer.not_general


def _of_what(explanation: Explanation) -> Markup:
    return el(
        "aside",
        el("h2", words.OF_WHAT, id="of-what"),
        el("ul", *(el("li", text) for text in explanation.shaped_by)),
        class_="of-what",
        aria_labelledby="of-what",
    )


def _answer(question: QuestionLike, order: GroupOrder | None) -> Markup:
    answer = question.answer
    assert isinstance(answer, Answer)
    of_question = {answer.groups.key(index) for index in question.contrast.groups}
    rows = list(answer.rows) if order is None else sorted(answer.rows, key=order)
    visible_rows = _visible_groups(answer, rows, of_question)
    caption_of_table = "Released value and interval of each group"
    left_out = [row for row in rows if row not in visible_rows]
    alt = f"{answer.value_name} of each group with its interval; the table below has the numbers."
    return _section(
        "The answer",
        el("pre", el("code", answer.sql.strip())),
        _figure(
            lambda width: charts.answer_chart(answer, rows=visible_rows, highlight=of_question, width=width),
            alt,
            "Released values, the groups of the question in colour.",
        ),
        table(replace(answer_grid(answer, visible_rows), more=""), caption_of_table),
        el(
            "details",
            el("summary", f"The other {words.counted(len(left_out), 'group')}"),
            table(replace(answer_grid(answer, left_out), more=""), caption_of_table),
        )
        if left_out
        else None,
        *(el("p", formats.clean(note), class_="quiet") for note in _answer_notes(answer)),
        el("p", _FREE, class_="quiet") if answer.free else None,
    )


def _answer_notes(answer: Answer) -> tuple[str, ...]:
    """What HAVING left out, what the intervals promise, and how to read them in general."""
    promise = words.each_interval(answer.confidence, subject(answer.statement.query, answer.schema))
    return (*answer.notes, promise, *words.population_notes([answer]))


def _visible_groups(answer: Answer, rows: Sequence[AnswerRow], of_question: set[Any]) -> list[AnswerRow]:
    """The first groups, and those asked about wherever they are; LIMIT may even have hidden them."""
    visible_rows = list(rows[:MOST_GROUPS])
    present = {row.group for row in visible_rows}
    listed = [row for row in rows[MOST_GROUPS:] if row.group in of_question]
    hidden = of_question - present - {row.group for row in listed}
    return visible_rows + listed + [answer[key] for key in sorted(hidden, key=str)]


def _question(question: QuestionLike) -> Markup:
    assert isinstance(question, Question)
    grid = of_question(question).grid
    assert grid is not None
    return _section(
        "Is it more than noise?",
        el("p", formats.clean(question.finding)),
        _figure(
            lambda width: charts.question_chart(question, width=width),
            formats.clean(question.finding),
            "The bold line is what the question compares with.",
        ),
        table(grid, f"The released {question.measured} and its interval"),
        el("p", f"Free: it reads only what was released already. {words.scope(question)}", class_="quiet"),
        *(el("p", formats.clean(note), class_="quiet") for note in words.general_notes(question)),
    )


def _story(story: Story) -> Markup:
    """The story in words, as a chart and as a table."""
    sentences = story_tree.sentences(story)
    return joined(
        el("h3", "The same, step by step"),
        el("ol", *(el("li", sentence) for sentence in sentences), class_="sentences"),
        _figure(
            lambda width: charts.chart(story, width=width),
            " ".join(sentences),
            f"The {story.question.measured} among parts of the rows; the bold line is that of all of them.",
        ),
        table(story_tree.story_grid(story), "Story table"),
        *(el("p", note, class_="quiet") for note in story_tree.notes(story)[:2]),
    )


def _explanation(explanation: Explanation, story: Story | None) -> Markup:
    sentences = [words.row_sentence(explanation, row) for row in explanation.rows]
    gaps, name = words.tells_gaps(explanation), explanation.question.measured
    unclear = any(map(words.is_unclear, explanation.rows))
    labels = [formats.clean(row.predicate.label) for row in explanation.rows]
    return _section(
        "What explains it?",
        el("p", el("strong", doubt_of(explanation))) if doubt_of(explanation) else None,
        el("p", words.gap_meaning(explanation)) if gaps else None,
        _figure(
            lambda width: charts.gap_chart(explanation, width=width),
            " ".join(sentences),
            f"What the {name} would be without these rows. The bold line is what it is.",
        )
        if gaps
        else None,
        el("p", formats.clean(words.influence_meaning(explanation))),
        _figure(
            lambda width: charts.explanation_chart(explanation, width=width),
            " ".join(sentences),
            "Influence against a bold zero line, and rank among all conditions.",
        ),
        table(explanation_grid(explanation, most=len(explanation.rows)), "Explanation table"),
        el("p", UNCLEAR_MARK, class_="quiet") if unclear else None,
        el(
            "ol",
            *(el("li", *_emphasised(label, text)) for label, text in zip(labels, sentences, strict=True)),
            class_="sentences",
        ),
        el("p", words.mechanism(explanation), class_="quiet"),
        el("p", _free(explanation), class_="quiet") if explanation.free else None,
        None if story is None else _story(story),
    )


def _emphasised(label: str, text: str) -> tuple[str, ...]:
    before, name, after = text.partition(label)
    return before, el("strong", name), after


def _free(explanation: Explanation) -> str:
    return words.table_cost(explanation) if explanation.mechanism == "marginals" else _FREE


def _cost(explanation: Explanation, story: Story | None) -> Markup:
    answer, schema = explanation.question.answer, explanation.plan.family.schema
    privacy = schema.privacy
    rows = [("answer", str(spend), f"{spend.rho:.6g}") for spend in answer.spends]
    rows.append(("question", "reads the released answer", "free"))
    if explanation.mechanism == "marginals" and explanation.free:
        rows.append(("preparation", "noisy cells, once for every why", f"{explanation.rho:.6g}"))
        rows.append(("explanation", "reads what was prepared", "free"))
    rows += [("explanation", str(spend), f"{spend.rho:.6g}") for spend in explanation.spends]
    releases = [(answer.rho, answer.spends), (explanation.rho, explanation.entry.spends)]
    if story is not None:
        others = [entry for entry in story.entries if entry.id != explanation.id]
        rows += [("story", "noisy cells, once for every story", f"{entry.rho:.6g}") for entry in others]
        releases += [(entry.rho, entry.spends) for entry in others]
    total = math.fsum(rho for rho, _ in releases)
    gaussian = sum(gaussian_part(rho, spends) for rho, spends in releases)
    shown_epsilon = formats.at_most(epsilon(total, privacy.delta, gaussian))
    rows.append(("together", "", f"{total:.6g}"))
    grid = Grid((Column("step"), Column("mechanism"), Column("ρ", "right")), tuple(rows))
    return _section(
        "What it cost",
        el(
            "p",
            "Each release uses up some of the privacy budget that the data's owner set. It is measured in ρ "
            "(rho): smaller is more private, and amounts add up.",
        ),
        table(grid, "Privacy budget spent, by mechanism", class_="sum"),
        el(
            "p",
            f"Together {formats.rho(total)} of the whole budget of {privacy.rho:.6g}. In other words: "
            f"(ε, δ)-differential privacy with ε = {shown_epsilon} at "
            f"δ = {privacy.delta:g}, for {_protected(explanation)}.",
        ),
        el("p", words.discovered_delta(privacy.delta, 2 * privacy.delta)) if schema.discovered else None,
    )


def _protected(explanation: Explanation) -> str:
    unit = explanation.plan.family.schema.privacy.unit
    return "any one row of the data" if unit == "row" else f"all rows of any one {formats.clean(unit)}"


def _closing(explanation: Explanation, story: Story | None) -> Markup:
    answer = explanation.question.answer
    step = "preparation" if explanation.mechanism == "marginals" else "explanation"
    return el(
        "footer",
        el("p", el("strong", words.CAVEAT)),
        el(
            "p",
            f"Answer {answer.id} and {step} {explanation.id} in the ledger, mechanism "
            f"{explanation.mechanism}, {_confidence(explanation, story)}. "
            f"Saved on {date.today():%d %B %Y}. This file needs no network.",
        ),
    )


def _section(title: str, *parts: str | None) -> Markup:
    return el("section", el("h2", title), joined(*parts))


def _figure(draw: Callable[[int], chart_rows.Spec], alt: str, caption: str) -> Markup:
    """The chart twice, for wide and for narrow screens; style sheets show one of them."""
    return el(
        "figure",
        inline_svg(draw(chart_rows.WIDE), alt, "dpx-chart wide"),
        inline_svg(draw(chart_rows.PHONE), alt, "dpx-chart phone"),
        el("figcaption", caption),
    )
