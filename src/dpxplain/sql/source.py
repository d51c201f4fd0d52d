"""Reads SQL text with sqlglot, and defines the words and syntax nodes that queries may use.

Every refusal points at characters of this text. sqlglot records positions of names, literals and function
calls only; keywords are found among the tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import TypeAlias, get_args

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from dpxplain.errors import QueryRefused
from dpxplain.model.derivation import FUNCTIONS
from dpxplain.model.expression import (
    FORMULA_FUNCTIONS,
    ArithmeticOperator,
    ComparisonOperator,
    IntervalUnit,
    Part,
)
from dpxplain.model.query import MeasuredKind

# -- Text and syntax tree ----------------------------------------------------------------------------------

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
    >>> source.span(parse_tree(source).args["from_"])
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
        candidates = [t for t in self.tokens if t.token_type in _UNMARKED.get(type(at), ())]
        nearest = min(candidates, key=lambda t: abs(t.start - around[1]), default=None)
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


def parse_tree(source: Source) -> exp.Expr:
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
        raise _syntax_error(source, (start, start + len(detail.get("highlight") or ""))) from None
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


def refused_part(refusal: QueryRefused, before: str, text: str, problem: str) -> QueryRefused:
    """The refusal of a statement that begins with `before`, pointing into the `text` after that."""
    start, end = ((None if p is None else max(0, p - len(before))) for p in (refusal.start, refusal.end))
    return QueryRefused(problem, remedy=refusal.remedy, sql=text, start=start, end=end)


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


def _syntax_error(source: Source, place: tuple[int, int]) -> QueryRefused:
    """The refusal of a syntax error, with a remedy if a word of the advice tables caused it."""
    texts = ["", *(t.text for t in source.tokens), ""]
    error_at = sum(t.start < place[1] for t in source.tokens)
    for i in (error_at, error_at - 1):
        if i > 0 and (hint := advice(texts[i - 1], texts[i], texts[i + 1])) and texts[i + 1] != "(":
            return source.refuse(*hint, source.tokens[i - 1])
    word = source.sql[slice(*place)]
    if place[1] > source.tokens[-1].end:
        problem = f"The SQL is wrong or incomplete at {word}."
    else:
        problem = f"There is a syntax error at {word}."
    return source.refuse(problem, GRAMMAR, place)


# -- Vocabulary --------------------------------------------------------------------------------------------
#
# Remedies only make refusals helpful. A word without one is refused too, because `admit` works by
# allow-lists.

GRAMMAR = (
    "Write: SELECT columns, then any of COUNT(*), COUNT(column), SUM(column), AVG(column) FROM the table "
    "[WHERE conditions] [GROUP BY columns] [HAVING ...] [ORDER BY ...] [LIMIT n]."
)

# First words of statements that are not SELECT.
STATEMENTS: dict[str, str] = {
    "FROM": "Put SELECT first: SELECT ... FROM table.",
    "(": "Remove the parentheses around the statement.",
    "EXPLAIN": "To see a query's price before asking it, use preview.",
    "DESCRIBE": "The schema lists the columns; you can read it without a query.",
    "SHOW": "The schema lists the columns; you can read it without a query.",
    "SUMMARIZE": "Ask for COUNT, SUM and AVG of the columns that you want to know about.",
    "VALUES": GRAMMAR,
} | dict.fromkeys(
    [
        *("INSERT", "UPDATE", "DELETE", "MERGE", "CREATE", "DROP", "ALTER", "TRUNCATE", "COPY", "EXPORT"),
        *("ATTACH", "DETACH", "PRAGMA", "SET", "RESET", "USE", "CALL", "EXECUTE", "PREPARE", "INSTALL"),
        *("LOAD", "IMPORT", "VACUUM", "ANALYZE", "GRANT", "REVOKE", "BEGIN", "COMMIT", "ROLLBACK"),
    ],
    "You can only read the data. Write a SELECT with COUNT, SUM or AVG.",
)

_JOIN = ("JOIN", "Query one table. The curator can join the tables beforehand and declare the result.")
_PER_ROW = "It returns a value for each row, and rows are private. Use COUNT, SUM or AVG with GROUP BY."
_SHARE = (
    "For each group's share of the total, ask for COUNT(*) or SUM(column) with GROUP BY. Then use "
    'answer.why_ratio("A") or dpxplain why A --share. Both are free.'
)
_PATTERN = ("Pattern matching with {}", "List the declared values that match: column IN ('...', '...').")
_SAMPLE = ("Sampling with {}", "Ask about the whole table.")
_SUBQUERY = ("A subquery here", f"Move its conditions into WHERE, or put the subquery after FROM. {_SHARE}")
_SAME = ("IS [NOT] DISTINCT FROM", "Compare with = or <>, and test for NULL with IS NULL.")

# Keys are "previous word", "word next" or the word alone; {} stands for the word.
REFUSED_WORDS: dict[str, tuple[str, str]] = {
    "QUALIFY": ("QUALIFY", "Leave it out and filter the answer afterwards, which is free."),
    "WITH": ("WITH here", "Begin the statement with it: WITH name AS (SELECT ...) SELECT ..."),
    "RECURSIVE": ("WITH RECURSIVE", "Leave RECURSIVE out. A WITH query can select columns and filter rows."),
    "MATERIALIZED": ("MATERIALIZED", "Leave it out: it changes nothing."),
    "INTO": ("SELECT INTO", "Leave INTO out, and export the answer afterwards."),
    "( DISTINCT": (
        "DISTINCT in an aggregate",
        "Use COUNT(column). The schema lists the distinct values.",
    ),
    "DISTINCT FROM": _SAME,
    "DISTINCT ON": ("DISTINCT ON", "Write DISTINCT without ON, or leave it out."),
    "<=>": _SAME,
    "NULLS": ("NULLS FIRST or LAST", "Leave it out and sort the answer afterwards, which is free."),
    "EXISTS": _SUBQUERY,
    "USING SAMPLE": ("Sampling with USING SAMPLE", _SAMPLE[1]),
    "COLLATE": ("COLLATE", "Comparisons of text are exact. List the values with IN."),
    "LATERAL": ("LATERAL", _JOIN[1]),
    "UNNEST": ("UNNEST", _JOIN[1]),
    "EXCLUDE": ("* EXCLUDE", "Name the columns."),
    "REPLACE": ("* REPLACE", "Name the columns."),
    "SYMMETRIC": ("BETWEEN SYMMETRIC", "Write BETWEEN with the smaller number first."),
    "XOR": ("XOR", "Write it with AND, OR and NOT."),
    "INTERVAL": (
        "INTERVAL in this form",
        "Write day + INTERVAL '7' DAY, with a whole number of years, months, weeks, days, hours, minutes or "
        "seconds; for the time between two columns, DATE_DIFF('day', a, b).",
    ),
    "TOP": ("TOP", "Write LIMIT n at the end."),
    "#": ("A column by position (#)", "Name the column."),
    "||": ("Joining text with ||", "Write the whole text in one pair of quotation marks."),
    "ESCAPE": _PATTERN,
}
for _words, _rule in {
    ("JOIN", "LEFT", "RIGHT", "FULL", "INNER", "OUTER", "CROSS", "NATURAL", "ASOF"): _JOIN,
    ("SEMI", "ANTI", "POSITIONAL", "ON", "USING"): _JOIN,
    ("UNION", "INTERSECT", "EXCEPT"): (
        "Combining queries with {}",
        "Ask each query by itself and combine the answers, which is free.",
    ),
    ("ROLLUP", "CUBE", "GROUPING SETS", "GROUPING"): (
        "{}",
        "List plain columns in GROUP BY, and ask one query for each grouping.",
    ),
    ("OVER", "WINDOW", "PARTITION", "PARTITION BY"): ("A window function", _SHARE),
    ("SIMILAR TO", "GLOB", "RLIKE", "REGEXP", "~", "~~", "~*", "~~~"): _PATTERN,
    ("//", "%", "^", "**", "&", "|", "<<", ">>", "DIV"): (
        "Arithmetic with {}",
        "Use +, -, *, / and %; FLOOR(a / b) divides whole numbers.",
    ),
    ("TABLESAMPLE", "SAMPLE"): _SAMPLE,
    ("DISTINCT",): ("DISTINCT here", "Leave it out: GROUP BY already gives each group once."),
    ("SELECT", "ANY", "SOME"): _SUBQUERY,
    ("?", "$", "@", ":"): ("A parameter ({})", "Write the value itself into the SQL."),
    ("ISNULL", "NOTNULL"): ("{}", "Write IS NULL or IS NOT NULL."),
    ("OFFSET", "FETCH"): ("{}", "Use LIMIT, and skip rows of the answer afterwards, which is free."),
    ("[", "]", "{", "}", "->", "->>", "=>"): (
        "A list or structure ({})",
        "Use plain columns, numbers and text. Write a list as IN (...).",
    ),
    ("FOR",): ("FOR", "Leave it out: you can only read the data."),
    ("`",): ("A backtick", 'Quote names with double quotes: "column".'),
    ("ALL",): ("ALL", "Leave it out, and name the columns."),
    ("PIVOT", "UNPIVOT"): ("{}", "Use GROUP BY, and pivot the answer afterwards."),
}.items():
    REFUSED_WORDS |= dict.fromkeys(_words, _rule)


def advice(previous: str, word: str, following: str) -> tuple[str, str] | None:
    """What is wrong with a refused word and what to write instead; None if the tables do not have it.

    >>> advice("(", "distinct", "sex")
    ('DISTINCT in an aggregate is not supported.', 'Use COUNT(column). The schema lists the distinct values.')
    """
    previous, word, following = previous.upper(), word.upper(), following.upper()
    for key in (f"{previous} {word}", f"{word} {following}", word):
        if key in REFUSED_WORDS:
            construct, remedy = REFUSED_WORDS[key]
            return f"{construct.format(word)} is not supported.", remedy
    if following != "(":
        return None
    if word in REFUSED_FUNCTIONS:
        return f"The function {word} is not supported.", REFUSED_FUNCTIONS[word]
    return f"There is no function {word} here.", _SUGGESTED_FUNCTIONS


# Functions that people try, and what to write instead.
REFUSED_FUNCTIONS: dict[str, str] = {
    "MIN": "A single row decides it, so the answer would be only noise. Ask for QUANTILE_CONT(column, 0.05).",
    "MAX": "A single row decides it, so the answer would be only noise. Ask for QUANTILE_CONT(column, 0.95).",
    "MEAN": "Write AVG(column).",
    "IIF": "Write CASE WHEN condition THEN a ELSE b END.",
    "COUNT_IF": "Write COUNT(*) FILTER (WHERE condition).",
    "COUNTIF": "Write COUNT(*) FILTER (WHERE condition).",
    "NOW": "Write the value itself.",
    **dict.fromkeys(("ROW_NUMBER", "RANK", "DENSE_RANK", "NTILE", "LAG", "LEAD"), _PER_ROW),
    **dict.fromkeys(("FIRST_VALUE", "LAST_VALUE", "NTH_VALUE"), _PER_ROW),
    **dict.fromkeys(("RATIO_TO_REPORT", "PERCENT_RANK", "CUME_DIST"), _SHARE),
}

ARITHMETIC: dict[type[exp.Expr], ArithmeticOperator] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%",
}  # fmt: skip
COMPARISONS: dict[type[exp.Expr], ComparisonOperator] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
FORMULA_NODES: dict[type[exp.Expr], ArithmeticOperator] = {
    exp.FUNCTION_BY_NAME[word]: operator for operator, word in FORMULA_FUNCTIONS.items()
}
FUNCTION_NODES: dict[type[exp.Expr], str] = {exp.FUNCTION_BY_NAME[name.upper()]: name for name in FUNCTIONS}
_PARTS: dict[str, Part] = {
    "YEAR": "year", "QUARTER": "quarter", "MONTH": "month", "DAY": "day",
    "HOUR": "hour", "MINUTE": "minute", "SECOND": "second", "DAYOFWEEK": "dow",
}  # fmt: skip
PART_FUNCTIONS: dict[type[exp.Expr], Part] = {
    exp.FUNCTION_BY_NAME[word]: part for word, part in _PARTS.items()
}
# Calls with a syntax of their own, and those of them that a refusal suggests.
_SUGGESTED_FORMS = ("CASE", "CAST", "DATE_DIFF", "DATE_TRUNC", "EXTRACT", "IF")
_FORMS = {"CAST", "TRY_CAST", "DATE_DIFF", "DATEDIFF", "DATE_PART", "DATE_TRUNC", "EXTRACT", "IF"}
_ROW_FUNCTIONS = {
    *_FORMS,
    *_PARTS,
    *(word for name, function in FUNCTIONS.items() for word in (name.upper(), *function.synonyms)),
}


@dataclass(frozen=True)
class AggregateFunction:
    """An aggregate that SQL can name, from which admission, the parser and refusals follow."""

    kind: MeasuredKind
    words: tuple[str, ...]
    arguments: frozenset[str] = frozenset({"this"})  # of its node in the syntax tree
    is_suggested: bool = True  # by its first word, in a refusal
    has_position: bool = True  # whether sqlglot notes where in the text the word stands


AGGREGATES: dict[type[exp.Expr], AggregateFunction] = {
    exp.Count: AggregateFunction("count", ("COUNT",), frozenset({"this", "big_int"})),
    exp.Sum: AggregateFunction("sum", ("SUM",)),
    exp.Avg: AggregateFunction("avg", ("AVG",)),
    exp.Median: AggregateFunction("quantile", ("MEDIAN",)),
    exp.PercentileCont: AggregateFunction(
        "quantile",
        ("QUANTILE_CONT", "PERCENTILE_CONT"),
        frozenset({"this", "expression"}),
        has_position=False,
    ),
    exp.ApproxQuantile: AggregateFunction(
        "quantile",
        ("APPROX_QUANTILE",),
        frozenset({"this", "quantile"}),
        is_suggested=False,
        has_position=False,
    ),
    exp.Variance: AggregateFunction("var_samp", ("VARIANCE", "VAR_SAMP")),
    exp.VariancePop: AggregateFunction("var_pop", ("VAR_POP",), is_suggested=False),
    exp.Stddev: AggregateFunction("stddev_samp", ("STDDEV",)),
    exp.StddevSamp: AggregateFunction("stddev_samp", ("STDDEV_SAMP",), is_suggested=False),
    exp.StddevPop: AggregateFunction("stddev_pop", ("STDDEV_POP",), is_suggested=False),
}
AGGREGATE_WORDS = {word for aggregate in AGGREGATES.values() for word in aggregate.words}
# Calls whose place in the text is not in the syntax tree.
CALLS_WITHOUT_POSITION = {
    *FORMULA_FUNCTIONS.values(),
    *(word for aggregate in AGGREGATES.values() if not aggregate.has_position for word in aggregate.words),
}


def _alternatives(words: Iterable[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} or {last}"


_SUGGESTED_FUNCTIONS = (
    f"Aggregate with {_alternatives(a.words[0] for a in AGGREGATES.values() if a.is_suggested)}. "
    f"Compute with {_alternatives(sorted([*_SUGGESTED_FORMS, *map(str.upper, FUNCTIONS)]))}."
)
_OPERATORS = {
    *(TokenType.PLUS, TokenType.SLASH, TokenType.MOD, TokenType.LIKE, TokenType.ILIKE, TokenType.DCOLON),
    *(TokenType.CASE, TokenType.WHEN, TokenType.THEN, TokenType.ELSE, TokenType.END),
}
_AFTER_LIMIT = {TokenType.OFFSET, TokenType.SEMICOLON, TokenType.R_PAREN, TokenType.COMMA}
_TEMPORAL = {"DATE", "TIMESTAMP"}
_TYPES = {
    *("INT", "INTEGER", "BIGINT", "SMALLINT", "TINYINT", "DOUBLE", "FLOAT", "REAL", "DECIMAL", "NUMERIC"),
    *("VARCHAR", "TEXT", "BOOLEAN", "BOOL", *_TEMPORAL),
}
_UNITS = get_args(IntervalUnit)
INTERVAL_UNITS = (*_UNITS, *(f"{unit}s" for unit in _UNITS))
# sqlglot reads the first span of a text and drops the rest, so only texts with a single span are admitted.
_AMOUNT = re.compile(r"-?[0-9]{1,12}\Z")
_SPAN = re.compile(rf"-?[0-9]{{1,12}} *({'|'.join(INTERVAL_UNITS)})\Z", re.IGNORECASE)

NODES: dict[type[exp.Expr], Set[str]] = {
    **{kind: {"this", "expression"} for kind in (exp.Add, exp.Sub, exp.Mul, exp.Mod)},
    **{kind: {"this", "expressions", "expression", "decimals", "ignore_nulls"} for kind in FUNCTION_NODES},
    **{kind: {"this"} for kind in (*PART_FUNCTIONS, *FORMULA_NODES)},
    **{kind: aggregate.arguments for kind, aggregate in AGGREGATES.items()},
    exp.Div: {"this", "expression", "typed", "safe"},
    exp.Like: {"this", "expression", "negate"},
    exp.ILike: {"this", "expression", "negate"},
    exp.Case: {"this", "ifs", "default"},
    exp.If: {"this", "true", "false"},
    exp.Cast: {"this", "to", "_type"},
    exp.TryCast: {"this", "to", "safe", "_type"},
    exp.DataType: {"this"},
    exp.Extract: {"this", "expression"},
    exp.TimestampTrunc: {"this", "unit"},
    exp.DateDiff: {"this", "expression", "unit", "date_part_boundary"},
    exp.Var: {"this"},
    exp.Anonymous: {"this", "expressions"},
    exp.Filter: {"this", "expression"},
    exp.Interval: {"this", "unit"},
}


def is_expression_word(tokens: Sequence[Token], i: int) -> bool:
    """Whether a token is an operator, a function's name, a type or a part of a date, where it may occur."""
    word, kind = tokens[i].text.upper(), tokens[i].token_type
    before = tokens[i - 1] if i else None
    after = tokens[i + 1] if i + 1 < len(tokens) else None
    opens = after is not None and after.token_type is TokenType.L_PAREN
    if _is_interval_word(tokens, i):
        return True
    if word == "WITHIN":
        return after is not None and after.text.upper() == "GROUP"
    if word == "GROUP" and before is not None and before.text.upper() == "WITHIN":
        return opens
    if kind is TokenType.MOD and (after is None or after.token_type in _AFTER_LIMIT):
        return False  # LIMIT 10% is a share of the rows, and sqlglot would drop the sign
    if kind in _OPERATORS or (kind is TokenType.FILTER and opens):
        return True
    if opens and word in _ROW_FUNCTIONS:
        return True
    if after is not None and after.token_type is TokenType.STRING and word in _TEMPORAL:
        return True
    if before is not None and before.token_type in (TokenType.ALIAS, TokenType.DCOLON) and word in _TYPES:
        return True
    follows_call = before is not None and before.token_type is TokenType.L_PAREN and i >= 2
    return follows_call and tokens[i - 2].text.upper() in ("EXTRACT", "DATE_TRUNC", "DATE_DIFF", "DATEDIFF")


def _is_interval_word(tokens: Sequence[Token], i: int) -> bool:
    """Whether a token is part of INTERVAL '7' DAY, INTERVAL 7 DAY or INTERVAL '7 days'."""
    for start in range(max(0, i - 2), i + 1):
        words = [token.text for token in tokens[start : start + 3]]
        kinds = [token.token_type for token in tokens[start : start + 2]]
        if kinds[0] is not TokenType.INTERVAL or len(kinds) < 2:
            continue
        is_text, is_number = kinds[1] is TokenType.STRING, kinds[1] is TokenType.NUMBER
        if is_text and _SPAN.match(words[1]):
            return i < start + 2
        is_amount = (is_text or is_number) and _AMOUNT.match(words[1])
        return bool(is_amount) and len(words) == 3 and words[2].lower() in INTERVAL_UNITS
    return False
