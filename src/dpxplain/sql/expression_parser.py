"""Parses the parts of a statement that compute: expressions over declared columns, WHERE, and formulas.

Expressions occur in queries and in the curator's schema. An expression in a query becomes a column whose
name is its canonical SQL. If the declarations do not determine its possible values, the expression is
refused here, with its place in the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, cast, get_args

from sqlglot import exp

from dpxplain.errors import QueryRefused
from dpxplain.model.derivation import FUNCTIONS, UnknownDomain, declaration, infer
from dpxplain.model.expression import (
    FLIPPED,
    OPPOSITES,
    Among,
    Call,
    Case,
    Cast,
    Compared,
    ComparisonOperator,
    Constant,
    DateDiff,
    DatePart,
    DateTrunc,
    Every,
    Expression,
    IntervalUnit,
    Like,
    Measured,
    Missing,
    Operation,
    Opposite,
    OutputCondition,
    OutputFormula,
    Part,
    Reference,
    Shifted,
    Some,
    SpanUnit,
    Target,
    Unit,
    Value,
    aggregates_of,
    columns_of,
    sql_of,
)
from dpxplain.model.query import Aggregate, And, Comparison, Filter, IsNull, Membership, Not, Or
from dpxplain.model.schema import Columns, Privacy, Schema, Table
from dpxplain.model.value_domain import SPANS, like_matcher
from dpxplain.sql.admit import Scope, admit, is_literal, is_number, listing, matching, number
from dpxplain.sql.source import (
    ARITHMETIC,
    COMPARISONS,
    FORMULA_NODES,
    FUNCTION_NODES,
    INTERVAL_UNITS,
    PART_FUNCTIONS,
    REFUSED_WORDS,
    read,
    refused_part,
)

# -- Expressions -------------------------------------------------------------------------------------------

_TARGETS: dict[str, Target] = {
    **dict.fromkeys(("INT", "BIGINT", "SMALLINT", "TINYINT"), "BIGINT"),
    **dict.fromkeys(("DOUBLE", "FLOAT", "DECIMAL"), "DOUBLE"),
    **dict.fromkeys(("VARCHAR", "TEXT"), "VARCHAR"),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPNTZ"), "TIMESTAMP"),
    "BOOLEAN": "BOOLEAN",
    "DATE": "DATE",
}
DEEPEST_EXPRESSION = 50
_USAGE = "Write columns, literals, arithmetic, comparisons, CASE, COALESCE, CAST or EXTRACT."


def read_expression(text: str, columns: Mapping[str, Any]) -> Expression:
    """Parses the text of an expression, which may read the given columns.

    >>> from dpxplain.model.column import Column
    >>> sql_of(read_expression("case when Delay>15 then 1 end", {"delay": Column(bounds=(0, 90))}))
    'CASE WHEN delay > 15 THEN 1 END'
    """
    before = "SELECT ("  # inside parentheses no further clause can follow
    schema = Schema.model_construct(
        table=Table(name="table"), privacy=Privacy(rho=1), columns=Columns(columns)
    )
    try:
        source = read(f"{before}{text}\n)")
        tree = admit(source, columns)
        if len(tree.expressions) != 1 or not isinstance(tree.expressions[0], exp.Paren):
            raise source.refuse("This is more than one expression.", "Write only one.")
        return _Parser(Scope(source, schema)).parse(tree.expressions[0])
    except QueryRefused as refusal:
        raise refused_part(refusal, before, text, refusal.reason) from None


def column_name(node: exp.Expr, scope: Scope) -> str:
    """The name of the column that a node names, or that its expression becomes."""
    if isinstance(node, exp.Column):
        return scope.column(node)
    parser = _Parser(scope)
    return parser.name(parser.parse(node))


def filtered_name(node: exp.Expr, condition: exp.Expr | None, scope: Scope) -> str:
    """The name of the column of the node's values, NULL where the condition of FILTER does not hold."""
    if condition is None:
        return column_name(node, scope)
    parser = _Parser(scope)
    result = Constant(1) if isinstance(node, exp.Star) else parser.parse(node)
    return parser.name(Case(((parser.parse(condition), result),)), condition)


def number_name(column: str, at: exp.Expr, scope: Scope) -> str:
    """The column with a declared column's values as numbers; TRUE and FALSE are 1 and 0."""
    return _Parser(scope).name(Cast(Reference(column), "BIGINT"), at)


class _Parser:
    """Translates syntax nodes, and remembers the place of each part in the text."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self._nodes: dict[int, tuple[Expression, exp.Expr]] = {}
        self._depth = 0

    def name(self, expression: Expression, at: exp.Expr | None = None) -> str:
        """The canonical SQL. Raises if the declarations do not determine the expression's possible values."""
        if isinstance(expression, Reference):
            return expression.column
        if not columns_of(expression):
            place = self._nodes.get(id(expression), (expression, at))[1]
            raise self.scope.refuse(
                "This has the same value in every row.", "Name a column of the schema.", place
            )
        try:
            declaration(infer(expression, self.scope.schema.columns), expression)
        except UnknownDomain as unknown:
            root = self._nodes.get(id(expression), (expression, at))[1]  # a FILTER's expression has no node
            place = self._nodes.get(id(unknown.node), (unknown.node, root))[1]
            raise self.scope.refuse(unknown.problem, unknown.remedy, place) from None
        return sql_of(expression)

    def parse(self, node: exp.Expr) -> Expression:
        self._depth += 1
        if self._depth > DEEPEST_EXPRESSION:
            problem = f"The expression nests more than {DEEPEST_EXPRESSION} operations."
            raise self.scope.refuse(problem, "Write a shorter one.", node)
        expression = self._parse(node.unnest())
        self._depth -= 1
        self._nodes[id(expression)] = expression, node
        return expression

    def _parse(self, node: exp.Expr) -> Expression:
        match node:
            case exp.Column():
                return Reference(self.scope.column(node))
            case exp.Literal() | exp.Boolean() | exp.Null():
                return Constant(self._value(node))
            case exp.Neg():
                return self._negative(node)
            case exp.And():
                return Every(tuple(self.parse(part) for part in node.flatten()))
            case exp.Or():
                return Some(tuple(self.parse(part) for part in node.flatten()))
            case exp.Not():
                return Opposite(self.parse(node.this))
            case exp.Is():
                return self._is(node)
            case exp.In():
                return self._among(node)
            case exp.Between():
                return Every(
                    (
                        self._compared(">=", node.this, node.args["low"], node),
                        self._compared("<=", node.this, node.args["high"], node),
                    )
                )
            case exp.Like() | exp.ILike():
                return self._like(node)
            case exp.Case() | exp.If():
                return self._case(node)
            case exp.Cast():
                return self._cast(node)
            case exp.Extract() | exp.TimestampTrunc() | exp.DateDiff() | exp.Anonymous():
                return self._part(node)
            case exp.Add() | exp.Sub() if isinstance(node.expression.unnest(), exp.Interval):
                return self._shifted(node.this, node.expression.unnest(), -1 if type(node) is exp.Sub else 1)
            case exp.Add() if isinstance(node.this.unnest(), exp.Interval):
                return self._shifted(node.expression, node.this.unnest(), 1)
        if type(node) in ARITHMETIC:
            return Operation(ARITHMETIC[type(node)], (self.parse(node.this), self.parse(node.expression)))
        if type(node) in COMPARISONS:
            return self._compared(COMPARISONS[type(node)], node.this, node.expression, node)
        if type(node) in PART_FUNCTIONS:
            return DatePart(PART_FUNCTIONS[type(node)], self.parse(node.this))
        if type(node) in FUNCTION_NODES:
            return self._call(node)
        if isinstance(node, exp.Interval):
            raise self.scope.refuse(
                "INTERVAL must follow a date and + or -.", REFUSED_WORDS["INTERVAL"][1], node
            )
        subject = "An aggregate" if isinstance(node, exp.AggFunc) else "This"
        raise self.scope.refuse(f"{subject} cannot be used inside an expression.", _USAGE, node)

    def _value(self, node: exp.Expr, sign: str = "") -> str | int | float | bool | None:
        if isinstance(node, exp.Null):
            return None
        if isinstance(node, exp.Boolean):
            return bool(node.this)
        if node.args.get("is_string"):
            return str(node.this)
        value = number(sign + str(node.this))
        if value is None:
            raise self.scope.refuse("This number is too large.", "Write one below 1e100.", node)
        return value

    def _negative(self, node: exp.Neg) -> Expression:
        inner = node.this.unnest()
        if is_number(inner):
            return Constant(self._value(inner, "-"))
        return Operation("-", (Constant(0), self.parse(inner)))

    def _is(self, node: exp.Is) -> Expression:
        _check_null_test(node, self.scope)
        return Missing(self.parse(node.this))

    def _compared(
        self, operator: ComparisonOperator, left: exp.Expr, right: exp.Expr, at: exp.Expr
    ) -> Expression:
        compared = Compared(operator, *self._comparable(self.parse(left), self.parse(right)))
        self._nodes[id(compared)] = compared, at
        return compared

    def _among(self, node: exp.In) -> Expression:
        _check_list(node, self.scope)
        part = self.parse(node.this)
        return Among(part, tuple(self._comparable(part, self.parse(value))[1] for value in node.expressions))

    def _comparable(self, left: Expression, right: Expression) -> tuple[Expression, Expression]:
        """Both sides of a comparison. Text compared with a date or timestamp is read as one."""
        return self._as_moment(left, right), self._as_moment(right, left)

    def _as_moment(self, part: Expression, other: Expression) -> Expression:
        if not isinstance(part, Constant) or not isinstance(part.value, str):
            return part
        try:
            kind = infer(other, self.scope.schema.columns).kind
        except UnknownDomain:
            return part  # `name` refuses the whole expression later
        if kind not in ("date", "timestamp"):
            return part
        node = self._nodes[id(part)][1]
        moment = Constant(self._moment(part.value, node, "DATE" if len(part.value) == 10 else "TIMESTAMP"))
        self._nodes[id(moment)] = moment, node
        return moment

    def _moment(self, text: str, node: exp.Expr, target: Target) -> date:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is not None:
            remedy = "Write DATE '2025-01-31' or TIMESTAMP '2025-01-31 18:30:00', without a time zone."
            raise self.scope.refuse(f"{text!r} is not a date or timestamp.", remedy, node)
        return moment.date() if target == "DATE" else moment

    def _like(self, node: exp.Expr) -> Expression:
        pattern = node.expression.unnest()
        if not isinstance(pattern, exp.Literal) or not pattern.args.get("is_string"):
            raise self.scope.refuse("LIKE takes a pattern in quotes.", "Write column LIKE 'A%'.", pattern)
        like = Like(self.parse(node.this), str(pattern.this), isinstance(node, exp.ILike))
        return Opposite(like) if node.args.get("negate") else like

    def _case(self, node: exp.Case | exp.If) -> Expression:
        if isinstance(node, exp.If):
            otherwise = node.args.get("false")
            branch = self.parse(node.this), self.parse(node.args["true"])
            return Case((branch,), None if otherwise is None else self.parse(otherwise))
        operand, default = node.this, node.args.get("default")
        branches = []
        for step in node.args["ifs"]:
            test = (
                self.parse(step.this)
                if operand is None
                else self._compared("=", operand, step.this, step.this)
            )
            branches.append((test, self.parse(step.args["true"])))
        return Case(tuple(branches), None if default is None else self.parse(default))

    def _cast(self, node: exp.Cast) -> Expression:
        kind = node.args["to"].this
        target = _TARGETS.get(getattr(kind, "name", str(kind)))
        if target is None:
            remedy = "Cast to BIGINT, DOUBLE, VARCHAR, BOOLEAN, DATE or TIMESTAMP."
            raise self.scope.refuse("A cast to this type is not supported.", remedy, node)
        inner = node.this.unnest()
        is_text = isinstance(inner, exp.Literal) and inner.args.get("is_string")
        if is_text and target in ("DATE", "TIMESTAMP"):
            return Constant(self._moment(str(inner.this), inner, target))
        return Cast(self.parse(inner), target)

    def _part(self, node: exp.Expr) -> Expression:
        if isinstance(node, exp.TimestampTrunc):
            unit = self._word(node.args["unit"], get_args(Unit), "DATE_TRUNC", node)
            return DateTrunc(cast(Unit, unit), self.parse(node.this))
        if isinstance(node, exp.DateDiff):
            span = self._word(node.args.get("unit") or node, tuple(SPANS), "DATE_DIFF", node)
            start, end = self._comparable(self.parse(node.expression), self.parse(node.this))
            return DateDiff(cast(SpanUnit, span), start, end)
        if isinstance(node, exp.Extract):
            part = self._word(node.this, get_args(Part), "EXTRACT", node)
            return DatePart(cast(Part, part), self.parse(node.expression))
        if node.name.lower() != "date_part" or len(node.expressions) != 2:
            raise self.scope.refuse(f"The function {node.name.upper()} is not supported.", _USAGE, node)
        part = self._word(node.expressions[0], get_args(Part), "DATE_PART", node)
        return DatePart(cast(Part, part), self.parse(node.expressions[1]))

    def _shifted(self, part: exp.Expr, interval: exp.Interval, sign: int) -> Expression:
        unit = self._word(interval.args["unit"], INTERVAL_UNITS, "INTERVAL", interval)
        moment = self.parse(part)
        if isinstance(moment, Constant) and isinstance(moment.value, str):
            moment = Constant(self._moment(moment.value, part, "TIMESTAMP"))
        return Shifted(moment, sign * int(interval.this.name), cast(IntervalUnit, unit.removesuffix("s")))

    def _word(self, word: exp.Expr, known_words: tuple[str, ...], function: str, node: exp.Expr) -> str:
        name = str(word.name).lower()
        if name not in known_words:
            raise self.scope.refuse(
                f"{function} of {name} is not supported.", f"Use {', '.join(known_words)}.", node
            )
        return name

    def _call(self, node: exp.Expr) -> Expression:
        further = [node.args.get("expression"), node.args.get("decimals"), *node.args.get("expressions", ())]
        arguments = (node.this, *(part for part in further if isinstance(part, exp.Expr)))
        name = FUNCTION_NODES[type(node)]
        counts = FUNCTIONS[name].arguments
        if counts and len(arguments) not in counts:
            remedy = f"Write {name.upper()}({', '.join('ab'[: counts[-1]])})."
            problem = f"{name.upper()} does not take {len(arguments)} arguments."
            raise self.scope.refuse(problem, remedy, node)
        parts = [self.parse(argument) for argument in arguments]
        if len(parts) == 2 and isinstance(node, exp.Coalesce | exp.Nullif):
            parts = list(self._comparable(*parts))
        return Call(name, tuple(parts))


# -- Conditions --------------------------------------------------------------------------------------------
#
# The filter tree of WHERE is canonical. The literal is on the right, BETWEEN becomes two comparisons, AND and
# OR are flat, a double NOT is removed, an IN list is sorted without repeats, and IN with one value becomes
# `=`. Parts keep the order in which they are written.

_COMPARE = "Compare a column with a value, for example age >= 30 AND sex = 'F'."


def condition(node: exp.Expr, scope: Scope) -> Filter:
    """The filter of a condition and everything below it."""
    node = node.unnest()
    match node:
        case exp.And():
            return all_of(condition(part, scope) for part in node.flatten())
        case exp.Or():
            return any_of(condition(part, scope) for part in node.flatten())
        case exp.Not():
            return none_of(condition(node.this, scope))
        case exp.Between():
            return _between(node, scope)
        case exp.In():
            return _in(node, scope)
        case exp.Is():
            return _is(node, scope)
        case exp.Column():
            return _boolean_column(node, scope)
        case exp.Like() | exp.ILike():
            return _like(node, scope)
        case _ if type(node) in COMPARISONS:
            return _comparison(node, scope)
    return _expression(node, scope)


def _expression(node: exp.Expr, scope: Scope) -> Filter:
    """A condition that does not compare one plain column, as a new column that is TRUE where it holds."""
    if is_literal(node):
        raise scope.refuse("This is not a condition.", _COMPARE, node)
    name = column_name(node, scope)
    if True not in (scope.schema.column(name).values or ()):
        raise scope.refuse("This is not a condition.", _COMPARE, node)
    return Comparison(name, "=", True)


def _is_plain(*nodes: exp.Expr) -> bool:
    """Whether the nodes are one column and literals, which can be compared in the column's encoded form."""
    column, *literals = nodes
    return isinstance(column, exp.Column) and all(is_literal(literal) for literal in literals)


def all_of(parts: Iterable[Filter]) -> Filter:
    """AND, with the ANDs inside it lifted out."""
    flat = _flat(And, parts)
    return flat[0] if len(flat) == 1 else And(flat)


def any_of(parts: Iterable[Filter]) -> Filter:
    """OR, with the ORs inside it lifted out."""
    flat = _flat(Or, parts)
    return flat[0] if len(flat) == 1 else Or(flat)


def _flat(kind: type[Any], parts: Iterable[Any]) -> tuple[Any, ...]:
    """The parts, where a part of this kind is replaced by its own parts."""
    return tuple(p for part in parts for p in (part.parts if isinstance(part, kind) else (part,)))


def none_of(part: Filter) -> Filter:
    """NOT. A double NOT cancels out, in three-valued logic too."""
    return part.part if isinstance(part, Not) else Not(part)


def one_of(column: str, values: Iterable[Value]) -> Filter:
    """IN, with its values sorted and without repeats."""
    distinct = sorted(set(values))  # all values of a column have one kind, so they can be sorted
    return Comparison(column, "=", distinct[0]) if len(distinct) == 1 else Membership(column, tuple(distinct))


def _comparison(node: exp.Expr, scope: Scope) -> Filter:
    operator = COMPARISONS[type(node)]
    left, right = node.this.unnest(), node.expression.unnest()
    if is_literal(left) and is_literal(right):
        raise scope.refuse("This compares two constants.", _COMPARE, node)
    if is_literal(left):
        left, right, operator = right, left, FLIPPED[operator]
    if isinstance(right, exp.Column):
        # Text without quotation marks is read as a column.
        scope.column(right, hint=f"If you mean text, write '{right.name}'.")
    if not _is_plain(left, right):
        is_itself = operator == "=" and isinstance(right, exp.Boolean) and right.this
        return condition(left, scope) if is_itself else _expression(node, scope)
    column = scope.column(left)
    return Comparison(column, operator, scope.literal(column, operator, right))


def _between(node: exp.Between, scope: Scope) -> Filter:
    low, high = node.args["low"].unnest(), node.args["high"].unnest()
    if not _is_plain(node.this.unnest(), low, high):
        return _expression(node, scope)
    column = scope.column(node.this.unnest())
    return And(
        (
            Comparison(column, ">=", scope.literal(column, ">=", low)),
            Comparison(column, "<=", scope.literal(column, "<=", high)),
        )
    )


def _in(node: exp.In, scope: Scope) -> Filter:
    _check_list(node, scope)
    if not _is_plain(node.this.unnest(), *(value.unnest() for value in node.expressions)):
        return _expression(node, scope)
    column = scope.column(node.this.unnest())
    return one_of(column, [scope.literal(column, "=", value.unnest()) for value in node.expressions])


def _check_list(node: exp.In, scope: Scope) -> None:
    if not node.expressions:
        raise scope.refuse("The list of IN is empty.", "Name at least one value.", node)


def _like(node: exp.Expr, scope: Scope) -> Filter:
    """LIKE as IN: the declared values that match the pattern."""
    inner = node.this.unnest()
    name = column_name(inner, scope)
    texts = [value for value in scope.schema.column(name).values or () if isinstance(value, str)]
    pattern = node.expression.unnest()
    if not isinstance(inner, exp.Column) or not texts or not pattern.args.get("is_string"):
        return _expression(node, scope)
    matches = like_matcher(str(pattern.this), isinstance(node, exp.ILike))
    matching = [text for text in texts if matches(text)]
    if not matching:
        problem = f"No declared value of {name} matches this pattern."
        raise scope.refuse(problem, listing(texts), pattern)
    members = one_of(name, matching)
    return none_of(members) if node.args.get("negate") else members


def _is(node: exp.Is, scope: Scope) -> Filter:
    if not isinstance(node.this.unnest(), exp.Column):
        return _expression(node, scope)
    column = scope.column(node.this.unnest())
    _check_null_test(node, scope)
    return IsNull(column)


def _check_null_test(node: exp.Is, scope: Scope) -> None:
    if not isinstance(node.expression, exp.Null):
        remedy = "Write column = TRUE or column = FALSE."
        raise scope.refuse("IS works only with NULL.", remedy, node.expression)


def _boolean_column(node: exp.Column, scope: Scope) -> Filter:
    column = scope.column(node)
    values = scope.schema.columns[column].values or ()
    if not any(isinstance(value, bool) for value in values):
        raise scope.refuse(f"{column} alone is not a condition.", _COMPARE, node)
    return Comparison(column, "=", scope.literal(column, "=", exp.true()))


# -- Formulas ----------------------------------------------------------------------------------------------
#
# Formulas compute with released aggregates: arithmetic in SELECT and ORDER BY, and HAVING.
#
# `SUM(a) / COUNT(*)` is a formula over two aggregates. An aggregate that occurs several times is measured
# once. An aggregate that only HAVING or ORDER BY uses is measured too.

_REAL_TYPES = {exp.DType.FLOAT, exp.DType.DOUBLE, exp.DType.DECIMAL}
MOST_AGGREGATES = 256  # each of them reads every measured part
_LARGEST = 200  # nodes: each is computed for every group
_MOST_DIGITS = 12
_FORMULA_USAGE = "Write numbers and aggregates with + - * /, LN() or EXP(), such as 100 * SUM(a) / COUNT(*)."
_COMPARE_FORMULAS = (
    "Compare an aggregate with a number or with another aggregate, such as HAVING COUNT(*) > 100 AND "
    "AVG(a) < 5."
)


@dataclass
class Aggregates:
    """The distinct aggregates of a statement, numbered as they are met."""

    recognises: Callable[[exp.Expr], bool]
    read: Callable[[exp.Expr], Aggregate]
    scope: Scope
    _numbers: dict[Aggregate, int] = field(default_factory=dict)

    @property
    def known(self) -> list[Aggregate]:
        return list(self._numbers)

    def number(self, node: exp.Expr) -> int:
        aggregate = self.read(node)
        number = self._numbers.setdefault(aggregate, len(self._numbers))
        if number == MOST_AGGREGATES:
            problem = f"The query has more than {MOST_AGGREGATES} aggregates, which is the limit."
            raise self.scope.refuse(problem, "Ask for them in several queries.", node)
        return number

    def occur_in(self, node: exp.Expr) -> bool:
        return any(self.recognises(part) for part in node.walk())


def rounding(node: exp.Expr, aggregates: Aggregates) -> tuple[exp.Expr, int | None]:
    """The argument of ROUND and its digits; the node itself and None if it is not a ROUND of aggregates."""
    if not isinstance(node, exp.Round) or not aggregates.occur_in(node):
        return node, None
    digits = node.args.get("decimals")
    value = 0 if digits is None else number(digits.name) if is_number(digits) else None
    if not isinstance(value, int) or not 0 <= value <= _MOST_DIGITS:
        remedy = f"Write a whole number from 0 to {_MOST_DIGITS}."
        raise aggregates.scope.refuse("ROUND takes a number of digits.", remedy, digits)
    return node.this.unnest(), value


@dataclass(frozen=True)
class FormulaParser:
    """Parses formulas. `names` has the values of the SELECT list that HAVING and ORDER BY may refer to."""

    aggregates: Aggregates
    names: Mapping[str, OutputFormula] = field(default_factory=dict)

    @property
    def scope(self) -> Scope:
        return self.aggregates.scope

    def is_formula(self, node: exp.Expr) -> bool:
        """Whether the expression computes with aggregates or values of the SELECT list, not with columns."""
        plain = (c.this for c in node.find_all(exp.Column) if not c.args.get("table"))
        is_named = any(isinstance(name, exp.Identifier) and matching(name, self.names) for name in plain)
        return is_named or self.aggregates.occur_in(node)

    def formula(self, node: exp.Expr) -> OutputFormula:
        """The formula of an expression. Raises if it is not made of aggregates and numbers."""
        if sum(1 for _ in node.walk()) > _LARGEST:
            raise self.scope.refuse("This expression is too long.", "Compute it in parts.", node)
        return self._formula(node)

    def having(self, node: exp.Expr) -> OutputCondition:
        """The condition of HAVING."""
        if sum(1 for _ in node.walk()) > _LARGEST:
            raise self.scope.refuse("This condition is too long.", "Filter the answer afterwards.", node)
        return self._condition(node, negated=False)

    def _formula(self, node: exp.Expr) -> OutputFormula:
        node = node.unnest()
        if self.aggregates.recognises(node):
            return Measured(self.aggregates.number(node))
        match node:
            case exp.Literal() if is_number(node):
                return Constant(self._number(node))
            case exp.Neg():
                inner = self._formula(node.this)
                return Constant(-inner.value) if isinstance(inner, Constant) else Operation("neg", (inner,))
            case exp.Div():
                return Operation("/", (self._formula(node.this), self._divisor(node.expression)))
            case exp.Add() | exp.Sub() | exp.Mul():
                parts = (self._formula(part) for part in (node.this, node.expression))
                return Operation(ARITHMETIC[type(node)], tuple(parts))
            case _ if type(node) in FORMULA_NODES:
                return Operation(FORMULA_NODES[type(node)], (self._formula(node.this),))
            case exp.Cast() if node.args["to"].this in _REAL_TYPES:
                return self._formula(node.this)  # released values are such numbers already
            case exp.Coalesce(expressions=[default]) if _is_zero(default):
                return self._formula(node.this)  # a sum over no rows is released as 0 with noise, never NULL
            case exp.Column():
                return self._named(node)
            case exp.Round():
                remedy = "Put ROUND around the whole expression."
                raise self.scope.refuse("ROUND inside an expression is not supported.", remedy, node)
        raise self.scope.refuse("This cannot be computed from aggregates.", _FORMULA_USAGE, node)

    def _divisor(self, node: exp.Expr) -> OutputFormula:
        node = node.unnest()
        if isinstance(node, exp.Nullif) and _is_zero(node.expression):
            node = node.this  # without NULLIF, a ratio to 0 has no value either
        divisor = self._formula(node)
        if divisor == Constant(0.0):
            raise self.scope.refuse("This divides by 0.", "Divide by another number.", node)
        return divisor

    def _number(self, node: exp.Expr) -> float:
        value = number(str(node.this))
        if value is None or abs(value) > 1e100:
            raise self.scope.refuse("This number is too large.", "Write one below 1e100.", node)
        return float(value)

    def _named(self, node: exp.Column) -> OutputFormula:
        is_plain = isinstance(node.this, exp.Identifier) and not node.args.get("table")
        names = matching(node.this, self.names) if is_plain else []
        if names:
            return self.names[names[0]]
        column = self.scope.column(node, hint=_FORMULA_USAGE)
        remedy = f"Aggregate it, such as AVG({column}); conditions on columns go into WHERE."
        raise self.scope.refuse(f"{column} is a column, not an aggregate.", remedy, node)

    def _condition(self, node: exp.Expr, *, negated: bool) -> OutputCondition:
        node = node.unnest()
        match node:
            case exp.And() | exp.Or():
                parts = (self._condition(part, negated=negated) for part in node.flatten())
                kind = Every if isinstance(node, exp.And) != negated else Some
                return kind(_flat(kind, parts))
            case exp.Not():
                return self._condition(node.this, negated=not negated)
            case exp.Between():
                low = self._compared(node.this, ">=", node.args["low"], negated)
                high = self._compared(node.this, "<=", node.args["high"], negated)
                return Some((low, high)) if negated else Every((low, high))
            case _ if type(node) in COMPARISONS:
                return self._compared(node.this, COMPARISONS[type(node)], node.expression, negated)
        raise self.scope.refuse("Expected a comparison of aggregates here.", _COMPARE_FORMULAS, node)

    def _compared(
        self, left: exp.Expr, operator: ComparisonOperator, right: exp.Expr, negated: bool
    ) -> Compared[OutputFormula]:
        sides = self._formula(left), self._formula(right)
        condition = Compared(OPPOSITES[operator] if negated else operator, *sides)
        if not aggregates_of(condition):
            raise self.scope.refuse("This compares two plain numbers.", _COMPARE_FORMULAS, left)
        return condition


def _is_zero(node: exp.Expr) -> bool:
    return is_number(node) and number(str(node.this)) == 0
