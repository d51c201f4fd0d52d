"""Admits a statement only if each of its tokens and each node of its syntax tree is on an allow-list, and
resolves its names.

There are two allow-lists, because either alone has holes: sqlglot drops words that it does not model (`NULLS
LAST`, `ALL`, a trailing comma), and some shapes have no word of their own (a comma join).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import TypeGuard

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from dpxplain.errors import QueryRefused
from dpxplain.model.column import Bin, Column, DomainValue, midnight, read_dates
from dpxplain.model.expression import ComparisonOperator, Value, sql_literal
from dpxplain.model.hardening import similar
from dpxplain.model.schema import Schema
from dpxplain.sql.source import (
    AGGREGATE_WORDS,
    AGGREGATES,
    CALLS_WITHOUT_POSITION,
    COMPARISONS,
    DIALECT,
    GRAMMAR,
    NODES,
    REFUSED_WORDS,
    Place,
    Source,
    advice,
    is_expression_word,
    parse_tree,
)

# -- Admission ---------------------------------------------------------------------------------------------

_CLAUSES = (
    *(TokenType.WITH, TokenType.SELECT, TokenType.FROM, TokenType.WHERE),
    *(TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY, TokenType.LIMIT),
)
_ADMITTED_TOKENS = {
    *_CLAUSES,
    *(TokenType.COMMA, TokenType.DOT, TokenType.STAR, TokenType.L_PAREN, TokenType.R_PAREN),
    *(TokenType.AND, TokenType.OR, TokenType.NOT, TokenType.IN, TokenType.BETWEEN, TokenType.IS),
    *(TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE),
    *(TokenType.DASH, TokenType.NULL, TokenType.TRUE, TokenType.FALSE),
    *(TokenType.ALIAS, TokenType.ASC, TokenType.DESC, TokenType.DISTINCT),
}

# Every node that may occur, with every argument it may carry.
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
    **{kind: {"this", "expression"} for kind in (exp.And, exp.Or, exp.Is)},
    **{kind: {"this", "expression"} for kind in COMPARISONS},
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
_POSITIONED_NODES: tuple[type[exp.Expr], ...] = (exp.Identifier, exp.Literal, exp.Star, *AGGREGATES)


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
    _check_words(source, _possible_names(source))
    tree = parse_tree(source)
    _check_words(source, _tree_names(tree))
    tree = tree.transform(lambda node: _plain_quantile(source, node), copy=False)
    _check_nodes(source, tree)
    _check_clause_order(source, tree)
    if not isinstance(tree, exp.Select):
        raise source.refuse("This is not a SELECT statement.", GRAMMAR, source.tokens[0])
    return tree


def _check_words(source: Source, names: set[int]) -> None:
    """Raises if a token is neither admitted nor a name or literal (`names` has their start offsets)."""
    for i, token in enumerate(source.tokens):
        before = source.tokens[i - 1] if i else None
        after = source.tokens[i + 1] if i + 1 < len(source.tokens) else None
        is_function = token.text.upper() in CALLS_WITHOUT_POSITION and _kind(after) is TokenType.L_PAREN
        if token.start in names or is_function or is_expression_word(source.tokens, i):
            continue
        if token.token_type is TokenType.COMMA and _ends_list(after):
            raise source.refuse("Nothing follows this comma.", "Remove the comma.", token)
        if token.token_type in _STARTS and not _may_start(source.tokens, i):
            raise _word_refusal(source, token, before, after)
        # sqlglot joins the two tokens of `.5` into one literal and forgets where it stood.
        fraction = token.token_type is TokenType.NUMBER and _kind(before) is TokenType.DOT
        if token.token_type not in _ADMITTED_TOKENS and not fraction:
            raise _word_refusal(source, token, before, after)


def _word_refusal(source: Source, token: Token, before: Token | None, after: Token | None) -> QueryRefused:
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


def _check_nodes(source: Source, tree: exp.Expr) -> None:
    for node in tree.walk():
        admitted = _ADMITTED_NODES.get(type(node))
        if admitted is None:
            raise _node_refusal(source, node)
        for name, value in node.args.items():
            if value and name not in admitted:
                raise _argument_refusal(source, node, name, value)


def _node_refusal(source: Source, node: exp.Expr) -> QueryRefused:
    if isinstance(node, exp.Tuple):
        remedy = "Write plain columns, separated by commas; compare one column at a time."
        return source.refuse("A list in parentheses is not supported here.", remedy, node)
    return source.refuse(f"{_spaced(node)} is not supported.", GRAMMAR, node)


def _argument_refusal(source: Source, node: exp.Expr, name: str, value: object) -> QueryRefused:
    first = value[0] if isinstance(value, list) else value
    place = first if isinstance(first, exp.Expr) else node
    match node, name:
        case exp.Select(), "joins":
            construct, remedy = REFUSED_WORDS["JOIN"]
            return source.refuse(f"A second table ({construct}) is not supported.", remedy, place)
        case exp.Table() | exp.Column(), "db" | "catalog":
            remedy = "Write table or table.column, without a database in front."
            return source.refuse("A name with a database in front is not supported.", remedy, node)
        case exp.Select(), "offset":
            construct, remedy = REFUSED_WORDS["OFFSET"]
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
    kind, (before, earlier) = tokens[i].token_type, _kinds_before(tokens, i)
    if kind is TokenType.DISTINCT:
        is_counted = before is TokenType.L_PAREN and i >= 2 and tokens[i - 2].text.upper() == "COUNT"
        return before is TokenType.SELECT or is_counted
    opens = before is TokenType.L_PAREN and earlier in (TokenType.FROM, TokenType.ALIAS)
    follows = kind is TokenType.SELECT and before is TokenType.R_PAREN  # the statement after its WITH
    return i == 0 or opens or follows


def _check_clause_order(source: Source, tree: exp.Expr) -> None:
    """Raises if clauses are out of order, which sqlglot accepts: the ledger stores statements as written."""
    names = _tree_names(tree)
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
    before, earlier = _kinds_before(tokens, i)
    is_with = tokens[0].token_type is TokenType.WITH
    return (is_with and before is TokenType.WITH) or (
        earlier is TokenType.R_PAREN
        and (before is TokenType.ALIAS or (is_with and before is TokenType.COMMA))
    )


def _tree_names(tree: exp.Expr) -> set[int]:
    """Start offsets of the tree's names, literals, stars and aggregates."""
    return {
        node.meta["start"]
        for node in tree.walk()
        if isinstance(node, _POSITIONED_NODES) and "start" in node.meta
    }


def _kinds_before(tokens: tuple[Token, ...], i: int) -> tuple[TokenType | None, TokenType | None]:
    """The kinds of the token before a place and of the one before that."""
    return _kind(tokens[i - 1] if i >= 1 else None), _kind(tokens[i - 2] if i >= 2 else None)


def _kind(token: Token | None) -> TokenType | None:
    return token.token_type if token else None


def _ends_list(token: Token | None) -> bool:
    return token is None or token.token_type in {*_CLAUSES, TokenType.R_PAREN, TokenType.COMMA}


def _spaced(node: exp.Expr) -> str:
    return "".join(f" {c}" if c.isupper() and i else c for i, c in enumerate(type(node).__name__))


# -- Scope -------------------------------------------------------------------------------------------------
#
# Resolves names and literals of a statement to declared columns and values.
#
# Unquoted names match in any case when that is unambiguous, quoted ones exactly. A refusal names the nearest
# declared names or values, which are public.

_LISTED = 5  # declared values listed in a refusal


@dataclass(frozen=True)
class Joined:
    """A joined table, and the declared column for each of its columns."""

    table: str
    alias: str
    on: str  # the column of the data that holds the key
    is_inner: bool
    columns: Mapping[str, str]


@dataclass(frozen=True)
class Scope:
    """The table and columns that a statement's names can refer to."""

    source: Source
    schema: Schema
    qualifiers: tuple[str, ...] = ()  # names that may stand before a column: the table's, its alias
    joins: tuple[Joined, ...] = ()
    copied: Counter[str] = field(default_factory=Counter)
    """How many nodes were copied into the statement so far; one count for all its subqueries."""

    def refuse(self, problem: str, remedy: str, at: Place = None) -> QueryRefused:
        return self.source.refuse(problem, remedy, at)

    def refuse_unit(self, at: Place) -> QueryRefused:
        """The refusal of the privacy unit where a column is read."""
        unit = self.schema.privacy.unit
        return self.refuse(
            f"{unit} identifies the people being protected, so a query cannot group by it or read it.",
            f"To count them, write COUNT(DISTINCT {unit}).",
            at,
        )

    def column(self, node: exp.Expr, *, hint: str = "") -> str:
        """The declared name of a column, or a refusal that ends with the hint."""
        return self.resolve(node, self.schema.columns, hint=hint)

    def resolve(
        self, node: exp.Expr, columns: Iterable[str], *, hint: str = "", place: str = "in the schema"
    ) -> str:
        """The column, among `columns`, that a node names, or a refusal that ends with the hint."""
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            raise self.refuse("Expected a column here.", hint or "Name a column of the schema.", node)
        qualifier, listed = node.args.get("table"), list(columns)
        if (public := self._public_column(node, qualifier, listed)) is not None:
            return public
        if qualifier is not None and not matching(qualifier, self.qualifiers):
            qualified = f"{self.qualifiers[0]}.{node.name}, or " if self.qualifiers else ""
            remedy = f"Write {qualified}{node.name} alone."
            raise self.refuse(f"No table here is called {qualifier.name}.", remedy, qualifier)
        names = matching(node.this, listed)
        if len(names) == 1:
            return names[0]
        if names:
            quoted = " or ".join(f'"{name}"' for name in names)
            raise self.refuse(f"{node.name} could be several columns.", f"Write {quoted}.", node.this)
        if matching(node.this, [self.schema.privacy.unit]) and self.schema.privacy.unit != "row":
            raise self.refuse_unit(node.this)
        if matching(node.this, self.schema.unknown):
            remedy = f'Discover them: session.discover("{node.name}", rho=...), or dpxplain discover.'
            raise self.refuse(f"The values of {node.name} are not known yet.", remedy, node.this)
        problem = f"There is no column {node.name} {place}."
        raise self.refuse(problem, f"{suggest(node.name, listed)} {hint}".strip(), node.this)

    def _public_column(self, node: exp.Column, qualifier: exp.Expr | None, listed: list[str]) -> str | None:
        """The column that a name means in a joined public table. The data's own columns take precedence."""
        if qualifier is None and matching(node.this, listed):
            return None
        candidates = []
        for join in self.joins:
            if qualifier is None or matching(qualifier, [join.alias]):  # type: ignore[arg-type]
                names = matching(node.this, join.columns)
                candidates += [(join, join.columns[name]) for name in names if join.columns[name] in listed]
        if len({name for _, name in candidates}) > 1:
            remedy = f"Write {' or '.join(f'{join.alias}.{node.name}' for join, _ in candidates)}."
            raise self.refuse(f"{node.name} could be several columns.", remedy, node.this)
        if not candidates:
            return None
        join, name = candidates[0]
        if name == join.on and not join.is_inner and qualifier is not None:
            remedy = f"Write {join.on}, the column of the data."
            problem = (
                f"{node.name} is NULL in rows for which LEFT JOIN finds no match, so it cannot be used here."
            )
            raise self.refuse(problem, remedy, node)
        return name

    def literal(self, column: str, operator: ComparisonOperator, node: exp.Expr) -> Value:
        """The literal in the form of the column's values, or a refusal if it cannot equal any."""
        declaration = self.schema.column(column)
        if declaration.is_temporal:
            return self._moment_literal(column, declaration, operator, node)
        value = self._plain(node)
        declared = declaration.values
        if declared is None:
            if not _is_number(value):
                raise self.refuse(
                    f"{column} can only be compared with numbers.", "Write a plain number.", node
                )
            return value
        plain_values = [v for v in declared if v is not None and not isinstance(v, date)]
        kind = type(plain_values[0]) if plain_values else None
        if operator not in ("=", "<>") and kind is not int:
            remedy = f"List the values that you mean: {column} IN (...). {listing(plain_values)}"
            raise self.refuse(
                f"The values of {column} have no order, so {operator} cannot compare them.", remedy, node
            )
        fits = _is_number(value) if kind is int else type(value) is kind
        if fits and (value in plain_values or operator not in ("=", "<>")):
            return value
        labelled = [v for v in declaration.domain or () if value and declaration.value_label(v) == value]
        if labelled and operator in ("=", "<>"):
            return self._labelled(column, operator, labelled, node)
        text = self.source.sql[slice(*self.source.span(node))]
        problem = f"{text} is not one of the values of {column}, so nothing could match it."
        texts = [v for v in plain_values if isinstance(v, str)]  # similar digits are not near numbers
        raise self.refuse(problem, suggest(str(value), texts, otherwise=listing(plain_values)), node)

    def _labelled(
        self, column: str, operator: ComparisonOperator, values: Sequence[DomainValue], node: exp.Expr
    ) -> Value:
        """The value that a label stands for, or a refusal if it stands for NULL or for several values."""
        value = values[0]
        if len(values) > 1:
            problem = f"This is the label of several values of {column}."
            raise self.refuse(problem, f"Write {column} IN ({', '.join(map(_sql, values))}).", node)
        if value is None:
            test = "IS NULL" if operator == "=" else "IS NOT NULL"
            raise self.refuse(f"This is the label of NULL in {column}.", f"Write {column} {test}.", node)
        assert isinstance(value, str | int | bool)  # bins and dates were handled before
        return value

    def _moment_literal(
        self, column: str, declared: Column, operator: ComparisonOperator, node: exp.Expr
    ) -> date:
        """A date or timestamp in the form of the column's values."""
        inner = node.this if isinstance(node, exp.Cast) else node
        text = str(inner.this) if isinstance(inner, exp.Literal) and inner.args.get("is_string") else ""
        listed = [
            end for end in declared.values or declared.edges or declared.bounds or () if end is not None
        ]
        if not (read := read_dates([text])):
            remedy = f"Write {sql_literal(listed[0])}."
            raise self.refuse(f"{column} can only be compared with dates and timestamps.", remedy, node)
        moment = midnight(read[0])
        is_day = moment == midnight(moment.date()) and not isinstance(listed[0], datetime)
        value = moment.date() if is_day else moment
        if declared.values is not None and operator in ("=", "<>") and value not in listed:
            problem = f"{text} is not one of the values of {column}, so nothing could match it."
            raise self.refuse(problem, f"Its values are {_first_few([str(v) for v in listed])}.", node)
        return value

    def _plain(self, node: exp.Expr) -> Value:
        sign, inner = ("-", node.this) if isinstance(node, exp.Neg) else ("", node)
        match inner:
            case exp.Boolean() if not sign:
                return bool(inner.this)
            case exp.Literal(is_string=True) if not sign:
                return str(inner.this)
            case exp.Literal(is_string=False):
                value = number(sign + str(inner.this))
                if value is not None:
                    return value
                raise self.refuse("This number is too large.", "Write one below 1e300.", node)
            case exp.Null() if not sign:
                remedy = "Write column IS NULL or column IS NOT NULL."
                raise self.refuse("A comparison with NULL is never true.", remedy, node)
            case _:
                remedy = "Compare one column with a number, text in single quotes, TRUE or FALSE."
                raise self.refuse("Expected a value here.", remedy, node)


def is_literal(node: exp.Expr) -> bool:
    """Whether a node is a number, text, TRUE, FALSE or NULL, or a date written as DATE '2025-01-31'."""
    is_date = type(node) is exp.Cast and node.to.this.name in ("DATE", "TIMESTAMP", "TIMESTAMPNTZ")
    is_text = is_date and isinstance(node.this, exp.Literal) and bool(node.this.args.get("is_string"))
    return is_text or isinstance(node, exp.Literal | exp.Boolean | exp.Null | exp.Neg)


def is_number(node: exp.Expr | None) -> TypeGuard[exp.Literal]:
    """Whether a node is a number without a sign."""
    return isinstance(node, exp.Literal) and not node.is_string


def number(text: str) -> int | float | None:
    """The number; as an int if it is whole, so that 30, 30.0 and 3e1 are the same; None if it is not finite.

    >>> number("30.0"), number("-2.5"), number("1e999")
    (30, -2.5, None)
    """
    value = float(text)
    if not math.isfinite(value):
        return None
    if abs(value) < 2**62 and (whole := Decimal(text)) == whole.to_integral_value():
        return int(whole)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def matching(name: exp.Identifier, candidates: Iterable[str]) -> list[str]:
    """The candidates that a name matches: the exact one, or else, unless it is quoted, those in any case."""
    listed = list(candidates)
    if name.name in listed:
        return [name.name]
    if name.args.get("quoted"):
        return []
    return [c for c in listed if c.casefold() == name.name.casefold()]


def suggest(word: str, candidates: Iterable[str], *, otherwise: str = "") -> str:
    """`Did you mean ...?` if a candidate is similar, else `otherwise` or a list of columns.

    >>> suggest("educaton", ["sex", "education"])
    'Did you mean education?'
    """
    listed = list(candidates)
    if near := similar(word, listed, n=3):
        return f"Did you mean {' or '.join(near)}?"
    return otherwise or f"The columns are {_first_few(listed)}."


def listing(values: Iterable[str | int | bool]) -> str:
    """A column's values as SQL literals, the first few.

    >>> listing(["F", "it's"])
    "Its values are 'F', 'it''s'."
    """
    return f"Its values are {_first_few([_sql(v) for v in values])}."


def _sql(value: DomainValue) -> str:
    assert not isinstance(value, Bin)
    return "NULL" if value is None else sql_literal(value)


def _first_few(texts: list[str]) -> str:
    more = f" and {len(texts) - _LISTED} more" if len(texts) > _LISTED else ""
    return ", ".join(texts[:_LISTED]) + more if texts else "only NULL"


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
