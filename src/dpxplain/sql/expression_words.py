"""The words and syntax nodes of expressions, for the allow-lists of `admit`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from dpxplain.model.expression import Function, Part

FUNCTIONS: dict[type[exp.Expr], Function] = {
    exp.Abs: "abs",
    exp.Ceil: "ceil",
    exp.Coalesce: "coalesce",
    exp.Floor: "floor",
    exp.Greatest: "greatest",
    exp.Least: "least",
    exp.Length: "length",
    exp.Lower: "lower",
    exp.Nullif: "nullif",
    exp.Round: "round",
    exp.Sign: "sign",
    exp.Trim: "trim",
    exp.Upper: "upper",
}
# How many arguments each may have; any number where it is not listed. DuckDB knows further forms, such as
# TRIM(text, characters), whose values would not be those that were inferred.
ARGUMENTS: dict[Function, tuple[int, ...]] = {
    **dict.fromkeys(("abs", "ceil", "floor", "sign", "length", "lower", "upper", "trim"), (1,)),
    "round": (1, 2),
    "nullif": (2,),
}
PART_FUNCTIONS: dict[type[exp.Expr], Part] = {
    exp.Year: "year",
    exp.Quarter: "quarter",
    exp.Month: "month",
    exp.Day: "day",
    exp.Hour: "hour",
    exp.Minute: "minute",
    exp.Second: "second",
    exp.DayOfWeek: "dow",
}
_CALLED = {
    *(
        "ABS",
        "CAST",
        "CEIL",
        "CEILING",
        "COALESCE",
        "DATEDIFF",
        "DATE_DIFF",
        "DATE_PART",
        "DATE_TRUNC",
        "DAY",
        "DAYOFWEEK",
        "EXTRACT",
    ),
    *("FLOOR", "GREATEST", "HOUR", "IF", "IFNULL", "LEAST", "LENGTH", "LOWER", "MINUTE", "MONTH", "NULLIF"),
    *("QUARTER", "ROUND", "SECOND", "SIGN", "TRIM", "TRY_CAST", "UPPER", "YEAR"),
}
_OPERATORS = {
    *(TokenType.PLUS, TokenType.SLASH, TokenType.MOD, TokenType.LIKE, TokenType.ILIKE, TokenType.DCOLON),
    *(TokenType.CASE, TokenType.WHEN, TokenType.THEN, TokenType.ELSE, TokenType.END),
}
_CLAUSES = {TokenType.OFFSET, TokenType.SEMICOLON, TokenType.R_PAREN, TokenType.COMMA}
_TEMPORAL = {"DATE", "TIMESTAMP"}
_TYPES = {
    *("INT", "INTEGER", "BIGINT", "SMALLINT", "TINYINT", "DOUBLE", "FLOAT", "REAL", "DECIMAL", "NUMERIC"),
    *("VARCHAR", "TEXT", "BOOLEAN", "BOOL", *_TEMPORAL),
}
_UNITS = ("year", "month", "week", "day", "hour", "minute", "second")
INTERVAL_UNITS = (*_UNITS, *(f"{unit}s" for unit in _UNITS))
# sqlglot reads the first span of a text and drops what else is in it, so only these are admitted.
_AMOUNT = re.compile(r"-?[0-9]{1,12}\Z")
_SPAN = re.compile(rf"-?[0-9]{{1,12}} *({'|'.join(INTERVAL_UNITS)})\Z", re.IGNORECASE)

_BINARY: tuple[type[exp.Expr], ...] = (exp.Add, exp.Sub, exp.Mul, exp.Mod)
NODES: dict[type[exp.Expr], set[str]] = {
    **{kind: {"this", "expression"} for kind in _BINARY},
    **{kind: {"this", "expressions", "expression", "decimals", "ignore_nulls"} for kind in FUNCTIONS},
    **{kind: {"this"} for kind in PART_FUNCTIONS},
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
    """Whether a token is an operator, a function's name, a type or a date's part, at a place for one."""
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
    if kind is TokenType.MOD and (after is None or after.token_type in _CLAUSES):
        return False  # LIMIT 10% is a share of the rows, and sqlglot would drop the sign
    if kind in _OPERATORS or (kind is TokenType.FILTER and opens):
        return True
    if opens and word in _CALLED:
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
