"""Admits a statement only if each of its tokens and each node of its syntax tree is on an allow-list.

There are two allow-lists, because either alone has holes: sqlglot drops words that it does not model (`NULLS
LAST`, `ALL`, a trailing comma), and some shapes have no word of their own (a comma join).
"""

from __future__ import annotations

from collections.abc import Collection, Set
from itertools import pairwise

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from dpxplain.errors import QueryRefused
from dpxplain.sql.source import DIALECT, Source, grow
from dpxplain.sql.vocabulary import (
    AGGREGATE_WORDS,
    AGGREGATES,
    CALLS_WITHOUT_POSITION,
    GRAMMAR,
    NODES,
    WORDS,
    advice,
    is_expression_word,
)

_CLAUSES = (
    TokenType.WITH,
    TokenType.SELECT,
    TokenType.FROM,
    TokenType.WHERE,
    TokenType.GROUP_BY,
    TokenType.HAVING,
    TokenType.ORDER_BY,
    TokenType.LIMIT,
)
_PUNCTUATION = {TokenType.COMMA, TokenType.DOT, TokenType.STAR, TokenType.L_PAREN, TokenType.R_PAREN}
_CONDITIONS = {
    *(TokenType.AND, TokenType.OR, TokenType.NOT, TokenType.IN, TokenType.BETWEEN, TokenType.IS),
    *(TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE),
    *(TokenType.DASH, TokenType.NULL, TokenType.TRUE, TokenType.FALSE),
}
_ADMITTED_TOKENS = {
    *_CLAUSES,
    *_PUNCTUATION,
    *_CONDITIONS,
    *(TokenType.ALIAS, TokenType.ASC, TokenType.DESC, TokenType.DISTINCT),
}

# Every node that may occur, with every argument it may carry.
_BINARY: tuple[type[exp.Expr], ...] = (
    exp.And,
    exp.Or,
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.Is,
)
_ADMITTED_NODES: dict[type[exp.Expr], Set[str]] = {
    exp.Select: {"expressions", "distinct", "from_", "where", "group", "having", "order", "limit", "with_"},
    exp.With: {"expressions"},
    exp.CTE: {"this", "alias"},
    exp.Subquery: {"this", "alias"},
    exp.Distinct: {"expressions"},
    exp.From: {"this"},
    exp.Table: {"this", "alias"},
    exp.TableAlias: {"this", "columns"},
    exp.Alias: {"this", "alias"},
    exp.Column: {"this", "table"},
    exp.Identifier: {"this", "quoted"},
    exp.Literal: {"this", "is_string"},
    exp.Boolean: {"this"},
    exp.Null: set(),
    exp.Star: set(),
    exp.Where: {"this"},
    exp.Having: {"this"},
    exp.Group: {"expressions"},
    exp.Order: {"expressions"},
    exp.Ordered: {"this", "desc", "nulls_first"},
    exp.Limit: {"expression"},
    exp.Not: {"this"},
    exp.Paren: {"this"},
    exp.Neg: {"this"},
    exp.Between: {"this", "low", "high"},
    exp.In: {"this", "expressions"},
    **{kind: {"this", "expression"} for kind in _BINARY},
    **NODES,
}

_STARTS = (TokenType.WITH, TokenType.SELECT, TokenType.DISTINCT)
# sqlglot would take CASE, and a character it does not know, as names.
_NAMES = {*DIALECT.parser_class.ID_VAR_TOKENS, TokenType.VAR, TokenType.IDENTIFIER}
_NAMES -= {TokenType.CASE, TokenType.UNKNOWN}
_LITERALS = {TokenType.STRING, TokenType.NUMBER}

# The tokens that may come before a column's name.
_BEFORE_A_NAME = {
    *(TokenType.SELECT, TokenType.DISTINCT, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING),
    *(TokenType.ORDER_BY, TokenType.COMMA, TokenType.DOT, TokenType.L_PAREN, TokenType.AND, TokenType.OR),
    *(TokenType.NOT, TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE),
    *(TokenType.PLUS, TokenType.DASH, TokenType.STAR, TokenType.SLASH, TokenType.MOD),
    *(TokenType.CASE, TokenType.WHEN, TokenType.THEN, TokenType.ELSE),
}

# Nodes that stand for a word of the text and carry its position.
_WORDS_OF_THE_TREE: tuple[type[exp.Expr], ...] = (exp.Identifier, exp.Literal, exp.Star, *AGGREGATES)


def admit(source: Source, columns: Collection[str] = ()) -> exp.Select:
    """The statement's tree; raises QueryRefused at the first part that is not on the allow-lists.

    The statement may name `columns`; a column whose name is a reserved word must be quoted.

    >>> from dpxplain.sql.source import read
    >>> admit(read("SELECT COUNT(*) FROM t QUALIFY COUNT(*) > 5"))
    Traceback (most recent call last):
    ...
    dpxplain.errors.QueryRefused: line 1, column 24: QUALIFY is not supported. Leave it out and filter the \
answer afterwards, which is free.
    """
    try:
        return _admitted(source)
    except QueryRefused as refusal:
        if (reserved := _reserved_name(source, columns, refusal.start)) is not None:
            raise reserved from None
        raise


def _reserved_name(source: Source, columns: Collection[str], refused_at: int | None) -> QueryRefused | None:
    """The refusal of a column's name that is a reserved word and is not quoted; None if there is none."""
    by_name = {name.casefold(): name for name in columns}
    for i, token in enumerate(source.tokens):
        is_reserved = token.token_type not in _NAMES or token.start == refused_at
        is_reserved &= token.token_type not in {TokenType.VAR, TokenType.IDENTIFIER, *_LITERALS}
        follows = i > 0 and source.tokens[i - 1].token_type in _BEFORE_A_NAME
        if is_reserved and follows and (name := by_name.get(token.text.casefold())) is not None:
            problem = f"{token.text} is a reserved word of SQL."
            return source.refuse(problem, f'Write the column in double quotes: "{name}".', token)
    return None


def _admitted(source: Source) -> exp.Select:
    # Before the parser runs, since it takes exponential time over some foreign words (JOIN x JOIN x ...).
    _every_word_is_known(source, _possible_names(source))
    tree = grow(source)
    _every_word_is_known(source, _names(tree))
    tree = tree.transform(lambda node: _plain_quantile(source, node), copy=False)
    _every_node_is_known(source, tree)
    _clauses_come_once_and_in_order(source, tree)
    if not isinstance(tree, exp.Select):
        raise source.refuse("This is not a SELECT statement.", GRAMMAR, source.tokens[0])
    return tree


def _every_word_is_known(source: Source, names: set[int]) -> None:
    """Raises if a token is neither admitted nor a name or literal (`names` has their start offsets)."""
    for i, token in enumerate(source.tokens):
        before = source.tokens[i - 1] if i else None
        after = source.tokens[i + 1] if i + 1 < len(source.tokens) else None
        is_function = token.text.upper() in CALLS_WITHOUT_POSITION and _kind(after) is TokenType.L_PAREN
        if token.start in names or is_function or is_expression_word(source.tokens, i):
            continue
        if token.token_type is TokenType.COMMA and _ends_a_list(after):
            raise source.refuse("Nothing follows this comma.", "Remove the comma.", token)
        if token.token_type in _STARTS and not _may_start(source.tokens, i):
            raise _word_refused(source, token, before, after)
        # sqlglot joins the two tokens of `.5` into one literal and forgets where it stood.
        fraction = token.token_type is TokenType.NUMBER and _kind(before) is TokenType.DOT
        if token.token_type not in _ADMITTED_TOKENS and not fraction:
            raise _word_refused(source, token, before, after)


def _word_refused(source: Source, token: Token, before: Token | None, after: Token | None) -> Exception:
    hint = advice(before.text if before else "", token.text, after.text if after else "")
    if hint is not None:
        return source.refuse(*hint, token)
    return source.refuse(f"{token.text} is unexpected here.", GRAMMAR, token)


def _plain_quantile(source: Source, node: exp.Expr) -> exp.Expr:
    """PERCENTILE_CONT(level) WITHIN GROUP (ORDER BY x) as QUANTILE_CONT(x, level), which is the same."""
    if not isinstance(node, exp.WithinGroup):
        return node
    ordered = node.expression.expressions if isinstance(node.expression, exp.Order) else []
    is_quantile = isinstance(node.this, exp.PercentileCont) and not node.this.expression
    if not is_quantile or len(ordered) != 1 or not isinstance(ordered[0], exp.Ordered):
        remedy = "Write PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY column)."
        raise source.refuse("WITHIN GROUP works only for one quantile of one column.", remedy, node.this)
    if ordered[0].args.get("desc"):
        remedy = "Leave out DESC and subtract the level from 1: write 0.1 instead of 0.9."
        raise source.refuse("A quantile with DESC is not supported.", remedy, ordered[0])
    return exp.PercentileCont(this=ordered[0].this, expression=node.this.this)


def _every_node_is_known(source: Source, tree: exp.Expr) -> None:
    for node in tree.walk():
        admitted = _ADMITTED_NODES.get(type(node))
        if admitted is None:
            raise _node_refused(source, node)
        for name, value in node.args.items():
            if value and name not in admitted:
                raise _argument_refused(source, node, name, value)


def _node_refused(source: Source, node: exp.Expr) -> Exception:
    if isinstance(node, exp.Tuple):
        remedy = "Write plain columns, separated by commas; compare one column at a time."
        return source.refuse("A list in parentheses is not supported here.", remedy, node)
    return source.refuse(f"{_spaced(node)} is not supported.", GRAMMAR, node)


def _argument_refused(source: Source, node: exp.Expr, name: str, value: object) -> Exception:
    first = value[0] if isinstance(value, list) else value
    place = first if isinstance(first, exp.Expr) else node
    match node, name:
        case exp.Select(), "joins":
            construct, remedy = WORDS["JOIN"]
            return source.refuse(f"A second table ({construct}) is not supported.", remedy, place)
        case exp.Table() | exp.Column(), "db" | "catalog":
            remedy = "Write table or table.column, without a database in front."
            return source.refuse("A name with a database in front is not supported.", remedy, node)
        case exp.Select(), "offset":
            construct, remedy = WORDS["OFFSET"]
            return source.refuse("OFFSET is not supported.", remedy, place)
        case ((exp.Count() | exp.Sum() | exp.Avg()), _):
            remedy = "Write COUNT(*), COUNT(column), SUM(column) or AVG(column)."
            return source.refuse("An aggregate takes one column.", remedy, place)
        case exp.Order(), _:
            return source.refuse("ORDER BY inside an aggregate is not supported.", "Leave it out.", place)
        case exp.In(), _:
            return source.refuse("IN takes a list of values.", "Write column IN (1, 2, 3).", place)
    construct = f"{_spaced(node)} with {name.strip('_').replace('_', ' ')}"
    return source.refuse(f"{construct} is not supported.", GRAMMAR, place)


def _may_start(tokens: tuple[Token, ...], i: int) -> bool:
    """Whether WITH, SELECT or DISTINCT is at an allowed place: at the start, or after FROM ( or AS (."""
    kind, before, earlier = (
        tokens[i].token_type,
        *(_kind(tokens[j] if j >= 0 else None) for j in (i - 1, i - 2)),
    )
    if kind is TokenType.DISTINCT:
        is_counted = before is TokenType.L_PAREN and i >= 2 and tokens[i - 2].text.upper() == "COUNT"
        return before is TokenType.SELECT or is_counted
    opens = before is TokenType.L_PAREN and earlier in (TokenType.FROM, TokenType.ALIAS)
    follows = kind is TokenType.SELECT and before is TokenType.R_PAREN  # the statement after its WITH
    return i == 0 or opens or follows


def _clauses_come_once_and_in_order(source: Source, tree: exp.Expr) -> None:
    """Raises if clauses are out of order, which sqlglot accepts: the ledger stores statements as written."""
    names = _names(tree)
    latest: list[Token | None] = [None]  # one per open parenthesis, because a subquery has clauses of its own
    for token in source.tokens:
        if token.token_type is TokenType.L_PAREN:
            latest.append(None)
        elif token.token_type is TokenType.R_PAREN and len(latest) > 1:
            latest.pop()
        elif token.token_type in _CLAUSES and token.start not in names:
            earlier, latest[-1] = latest[-1], token
            if earlier and _CLAUSES.index(earlier.token_type) >= _CLAUSES.index(token.token_type):
                raise source.refuse(
                    f"{token.text.upper()} is repeated or in the wrong place.", GRAMMAR, token
                )


def _possible_names(source: Source) -> set[int]:
    """Start offsets of tokens that could be a name or literal: not reserved and not called as a function."""
    possible = {t.start for t in source.tokens if t.token_type in _NAMES or t.token_type in _LITERALS}
    for i, (word, following) in enumerate(pairwise(source.tokens)):
        is_called = following.token_type is TokenType.L_PAREN and word.text.upper() not in AGGREGATE_WORDS
        if is_called and not _names_columns(source.tokens, i):
            possible.discard(word.start)
    return possible


def _names_columns(tokens: tuple[Token, ...], i: int) -> bool:
    """Whether a name before a parenthesis may list columns: WITH f(a, b) AS (...), FROM (...) AS g(a, b)."""
    before, earlier = (_kind(tokens[j] if j >= 0 else None) for j in (i - 1, i - 2))
    is_with = tokens[0].token_type is TokenType.WITH
    return (is_with and before is TokenType.WITH) or (
        earlier is TokenType.R_PAREN
        and (before is TokenType.ALIAS or (is_with and before is TokenType.COMMA))
    )


def _names(tree: exp.Expr) -> set[int]:
    """Start offsets of the tree's names, literals, stars and aggregates."""
    return {
        node.meta["start"]
        for node in tree.walk()
        if isinstance(node, _WORDS_OF_THE_TREE) and "start" in node.meta
    }


def _kind(token: Token | None) -> TokenType | None:
    return token.token_type if token else None


def _ends_a_list(token: Token | None) -> bool:
    return token is None or token.token_type in {*_CLAUSES, TokenType.R_PAREN, TokenType.COMMA}


def _spaced(node: exp.Expr) -> str:
    return "".join(f" {c}" if c.isupper() and i else c for i, c in enumerate(type(node).__name__))
