"""Tokenises and parses SQL text with sqlglot, and maps nodes and tokens back to positions in the text.

Every refusal points at characters of this text. sqlglot records positions of names, literals and function
calls only; keywords are found among the tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from dpxplain.errors import QueryRefused
from dpxplain.sql.vocabulary import GRAMMAR, STATEMENTS, advice

DIALECT = Dialect.get_or_raise("duckdb")  # the most permissive about names and spellings
# Long enough for people, short enough not to strain the parser or an engine.
LONGEST_TEXT = 20_000
# sqlglot uses about twenty Python frames per parenthesis; this stays far below Python's limit.
DEEPEST_NESTING = 25

Place: TypeAlias = exp.Expr | Token | tuple[int, int] | None

_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}
_PREFIX = {TokenType.NOT, TokenType.DASH, TokenType.PLUS, TokenType.TILDE}
# Leaves that carry no position of their own, and the tokens they come from.
_UNMARKED: dict[type[exp.Expr], set[TokenType]] = {
    exp.Null: {TokenType.NULL},
    exp.Boolean: {TokenType.TRUE, TokenType.FALSE},
    exp.Literal: {TokenType.NUMBER},
}


@dataclass(frozen=True)
class Source:
    """One SELECT statement's text and tokens, without comments and the closing semicolon.

    >>> source = read("SELECT COUNT(*) FROM people")
    >>> source.span(grow(source).args["from_"])
    (21, 27)
    """

    sql: str
    tokens: tuple[Token, ...] = ()

    def refuse(self, problem: str, remedy: str, at: Place = None) -> QueryRefused:
        """The refusal to raise, pointing at a node, a token or a pair of offsets (end excluded)."""
        start, end = self.span(at) if at is not None else (None, None)
        return QueryRefused(problem, remedy=remedy, sql=self.sql, start=start, end=end)

    def span(self, at: exp.Expr | Token | tuple[int, int]) -> tuple[int, int]:
        """The offsets of a node or token in the text, as sql[start:end]."""
        if isinstance(at, tuple):
            return at
        if isinstance(at, Token):
            return at.start, at.end + 1
        marks = [node.meta for node in at.walk() if "start" in node.meta]
        if marks:
            start = min(mark["start"] for mark in marks)
            if isinstance(at, exp.Neg):
                start = max((t.start for t in self.tokens if t.start < start), default=start)
            end = max(mark["end"] for mark in marks) + 1
            if isinstance(at, exp.AggFunc):
                end = min((t.end + 1 for t in self.tokens if t.start >= end and t.text == ")"), default=end)
            return start, end
        around = self.span(at.parent) if isinstance(at.parent, exp.Expr) else (0, len(self.sql))
        own = [t for t in self.tokens if t.token_type in _UNMARKED.get(type(at), ())]
        nearest = min(own, key=lambda t: abs(t.start - around[1]), default=None)
        return self.span(nearest) if nearest is not None else around


def read(sql: str) -> Source:
    """The tokens of one SELECT statement, or a refusal; `admit` checks which tokens they are."""
    if not isinstance(sql, str):
        raise QueryRefused(f"The SQL must be text, not {type(sql).__name__}.", remedy=GRAMMAR)
    if len(sql) > LONGEST_TEXT:
        raise Source(sql).refuse(
            f"The SQL has {len(sql):,} characters; the limit is {LONGEST_TEXT:,}.",
            "Shorten it, for example with BETWEEN instead of a long IN list.",
        )
    surrogate = next((i for i, letter in enumerate(sql) if "\ud800" <= letter <= "\udfff"), None)
    if surrogate is not None:
        raise Source(sql).refuse(
            "This character is incomplete (an unpaired surrogate).", "Remove it.", (surrogate, surrogate + 1)
        )
    source = Source(sql, _one_statement(sql, _tokens(sql)))
    _refuse_deep_nesting(source)
    return source


def grow(source: Source) -> exp.Expr:
    """The statement's syntax tree, or a refusal; `admit` checks what the tree contains."""
    # With a context as long as the text, the length of start_context is the error's offset.
    context = len(source.sql) + 1
    try:
        parser = DIALECT.parser(error_level=ErrorLevel.IMMEDIATE, error_message_context=context)
        parser._warn_unsupported = lambda: None  # type: ignore[method-assign]  # it logs the analyst's text
        trees = parser.parse(list(source.tokens), source.sql)
    except ParseError as error:
        detail = error.errors[0] if error.errors else {}
        start = len(detail.get("start_context") or "")
        raise _unreadable(source, (start, start + len(detail.get("highlight") or ""))) from None
    except RecursionError:
        raise source.refuse("The SQL is nested too deeply.", "Use fewer parentheses.") from None
    except Exception:  # a parser bug must not reach the analyst as anything but a refusal
        raise source.refuse("This SQL is not valid.", GRAMMAR) from None
    tree = trees[0] if len(trees) == 1 else None
    if tree is None:
        raise source.refuse("This is not a single statement.", GRAMMAR, source.tokens[0])
    return tree


def refuse_where(sql: str, problem: str, remedy: str) -> QueryRefused:
    """The refusal to raise for a statement's conditions; points at its last WHERE, or at its start."""
    source = read(sql)
    conditions = [token for token in source.tokens if token.token_type is TokenType.WHERE]
    return source.refuse(problem, remedy, [source.tokens[0], *conditions][-1])


def _tokens(sql: str) -> list[Token]:
    try:
        return list(DIALECT.tokenize(sql))
    except TokenError as error:
        # sqlglot says "Missing ' from LINE:OFFSET"; anything else is an unfinished comment.
        _, _, offset = str(error.__cause__).rpartition(":")
        is_position = offset.isdecimal() and int(offset) < len(sql)
        start = int(offset) if is_position else _last_opening(sql)
        raise Source(sql).refuse(
            "This quotation mark or comment is never closed.",
            "Close it. Inside text, write a quotation mark twice: 'it''s'.",
            (start, start + 1) if start >= 0 else None,
        ) from None


def _last_opening(sql: str) -> int:
    """The offset of the last comment or quotation mark; -1 if there is none."""
    comment = sql.rfind("/*")
    return comment if comment > sql.rfind("*/") else max(sql.rfind(mark) for mark in "\"'$")


def _one_statement(sql: str, tokens: list[Token]) -> tuple[Token, ...]:
    """The tokens of the only statement. Raises for empty text, a second statement and other verbs."""
    source = Source(sql)
    stops = [i for i, t in enumerate(tokens) if t.token_type is TokenType.SEMICOLON]
    first = tokens[: stops[0]] if stops else tokens
    if not first:
        raise source.refuse("The SQL is empty.", GRAMMAR, (0, len(sql)) if sql else None)
    rest = [t for t in tokens[len(first) :] if t.token_type is not TokenType.SEMICOLON]
    if first[0].token_type not in (TokenType.SELECT, TokenType.WITH):
        word = first[0].text.upper()
        raise source.refuse(
            f"The statement begins with {word}, but only SELECT is supported.",
            STATEMENTS.get(word, GRAMMAR),
            first[0],
        )
    if rest:
        raise source.refuse("A second statement begins here.", "Send one statement at a time.", rest[0])
    return tuple(first)


def _refuse_deep_nesting(source: Source) -> None:
    depth = run = 0
    for token in source.tokens:
        kind = token.token_type
        depth += (kind in _OPENING) - (kind in _CLOSING)
        run = run + 1 if kind in _PREFIX else 0
        if depth + run > DEEPEST_NESTING:
            raise source.refuse(
                f"The SQL is nested more than {DEEPEST_NESTING} levels deep here.",
                "Remove parentheses that change nothing, or use IN (...) for alternatives.",
                token,
            )


def _unreadable(source: Source, place: tuple[int, int]) -> QueryRefused:
    """The refusal of a syntax error, with a remedy if a word of the advice tables caused it."""
    texts = ["", *(t.text for t in source.tokens), ""]
    here = sum(t.start < place[1] for t in source.tokens)
    for i in (here, here - 1):
        if i > 0 and (hint := advice(texts[i - 1], texts[i], texts[i + 1])) and texts[i + 1] != "(":
            return source.refuse(*hint, source.tokens[i - 1])
    word = source.sql[slice(*place)]
    if place[1] > source.tokens[-1].end:
        problem = f"The SQL is wrong or incomplete at {word}."
    else:
        problem = f"There is a syntax error at {word}."
    return source.refuse(problem, GRAMMAR, place)
