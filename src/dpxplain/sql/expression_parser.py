"""Parses expressions over declared columns, in a query or in the curator's schema.

An expression in a query becomes a column whose name is its canonical SQL. If the declarations do not
determine its possible values, the expression is refused here, with its place in the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any, cast

from sqlglot import exp

from dpxplain.errors import QueryRefused
from dpxplain.model.derivation import FUNCTIONS, UnknownDomain, infer
from dpxplain.model.derived_column import declaration
from dpxplain.model.expression import (
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
    Missing,
    Operation,
    Opposite,
    Part,
    Reference,
    Shifted,
    Some,
    SpanUnit,
    Target,
    Unit,
    columns_of,
    sql_of,
)
from dpxplain.model.schema import Columns, Privacy, Schema, Table
from dpxplain.model.temporal_domain import SPANS
from dpxplain.sql.admit import admit
from dpxplain.sql.scope import Scope, number
from dpxplain.sql.source import read
from dpxplain.sql.vocabulary import (
    ARITHMETIC,
    COMPARISONS,
    FUNCTION_NODES,
    INTERVAL_UNITS,
    PART_FUNCTIONS,
    WORDS,
)

_TARGETS: dict[str, Target] = {
    **dict.fromkeys(("INT", "BIGINT", "SMALLINT", "TINYINT"), "BIGINT"),
    **dict.fromkeys(("DOUBLE", "FLOAT", "DECIMAL"), "DOUBLE"),
    **dict.fromkeys(("VARCHAR", "TEXT"), "VARCHAR"),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPNTZ"), "TIMESTAMP"),
    "BOOLEAN": "BOOLEAN",
    "DATE": "DATE",
}
_PARTS = ("year", "quarter", "month", "week", "day", "dow", "isodow", "doy", "hour", "minute", "second")
_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute")
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
        start, end = ((None if p is None else max(0, p - len(before))) for p in (refusal.start, refusal.end))
        raise QueryRefused(refusal.what, remedy=refusal.remedy, sql=text, start=start, end=end) from None


def column_name(node: exp.Expr, scope: Scope) -> str:
    """The name of the column that a node names, or that its expression becomes."""
    if isinstance(node, exp.Column):
        return scope.column(node)
    parser = _Parser(scope)
    return parser.name(parser.parse(node))


def filtered_name(node: exp.Expr | None, condition: exp.Expr, scope: Scope) -> str:
    """The column for FILTER: the node's values where the condition holds; without a node, 1 per row."""
    parser = _Parser(scope)
    result = Constant(1) if node is None else parser.parse(node)
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
            raise self.scope.refuse("INTERVAL must follow a date and + or -.", WORDS["INTERVAL"][1], node)
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
        if isinstance(inner, exp.Literal) and not inner.args.get("is_string"):
            return Constant(self._value(inner, "-"))
        return Operation("-", (Constant(0), self.parse(inner)))

    def _is(self, node: exp.Is) -> Expression:
        if not isinstance(node.expression, exp.Null):
            remedy = "Write column = TRUE or column = FALSE."
            raise self.scope.refuse("IS works only with NULL.", remedy, node.expression)
        return Missing(self.parse(node.this))

    def _compared(
        self, operator: ComparisonOperator, left: exp.Expr, right: exp.Expr, at: exp.Expr
    ) -> Expression:
        compared = Compared(operator, *self._alike(self.parse(left), self.parse(right)))
        self._nodes[id(compared)] = compared, at
        return compared

    def _among(self, node: exp.In) -> Expression:
        if not node.expressions:
            raise self.scope.refuse("The list of IN is empty.", "Name at least one value.", node)
        part = self.parse(node.this)
        return Among(part, tuple(self._alike(part, self.parse(value))[1] for value in node.expressions))

    def _alike(self, left: Expression, right: Expression) -> tuple[Expression, Expression]:
        """Both sides of a comparison. Text compared with a date or timestamp is read as one."""
        return self._dated(left, right), self._dated(right, left)

    def _dated(self, part: Expression, other: Expression) -> Expression:
        if not isinstance(part, Constant) or not isinstance(part.value, str):
            return part
        try:
            kind = infer(other, self.scope.schema.columns).kind
        except UnknownDomain:
            return part  # `name` refuses the whole expression later
        if kind not in ("date", "timestamp"):
            return part
        node = self._nodes[id(part)][1]
        dated = Constant(self._moment(part.value, node, "DATE" if len(part.value) == 10 else "TIMESTAMP"))
        self._nodes[id(dated)] = dated, node
        return dated

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
            unit = self._word(node.args["unit"], _UNITS, "DATE_TRUNC", node)
            return DateTrunc(cast(Unit, unit), self.parse(node.this))
        if isinstance(node, exp.DateDiff):
            span = self._word(node.args.get("unit") or node, tuple(SPANS), "DATE_DIFF", node)
            start, end = self._alike(self.parse(node.expression), self.parse(node.this))
            return DateDiff(cast(SpanUnit, span), start, end)
        if isinstance(node, exp.Extract):
            part = self._word(node.this, _PARTS, "EXTRACT", node)
            return DatePart(cast(Part, part), self.parse(node.expression))
        if node.name.lower() != "date_part" or len(node.expressions) != 2:
            raise self.scope.refuse(f"The function {node.name.upper()} is not supported.", _USAGE, node)
        part = self._word(node.expressions[0], _PARTS, "DATE_PART", node)
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
            parts = list(self._alike(*parts))
        return Call(name, tuple(parts))
