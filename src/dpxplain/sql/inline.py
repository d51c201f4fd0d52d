"""Rewrites common table expressions and subqueries that only select and filter into one SELECT.

`WITH f AS (SELECT delay AS d FROM t WHERE x = 1) SELECT AVG(d) FROM f` becomes `SELECT AVG(delay) FROM t
WHERE x = 1`: the same rows, so the same measurement and the same request. Nodes keep their positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from dpxplain.sql.scope import Scope, matching

_ONLY = "A subquery may select columns and filter rows; aggregate in the outer query."
# Clauses that choose or combine rows by more than a condition on each row.
_CLAUSES = {"group": "GROUP BY", "having": "HAVING", "limit": "LIMIT", "distinct": "DISTINCT"}
_LARGEST = 300  # nodes of a column's expression: each use of it in another column repeats them all
_MOST_COPIED = 20_000  # nodes of all these uses together


@dataclass(frozen=True)
class Relation:
    """A table or subquery after FROM: its columns, as expressions over the declared table, and its rows."""

    columns: Mapping[str, exp.Expr]
    table: exp.From | None
    conditions: tuple[exp.Expr, ...] = ()


Relations = Mapping[str, Relation]


def inline(tree: exp.Select, scope: Scope) -> exp.Select:
    """The statement rewritten to read the declared table itself; `tree` unchanged if it already does."""
    clause = tree.args.get("from_")
    relations = _with(tree, scope, {})
    relation = _from(clause, scope, relations)
    if relation is None or clause is None:
        tree.set("with_", None)
        return tree
    flat = tree.copy()
    assert isinstance(flat, exp.Select)
    flat.set("with_", None)
    inside = replace(scope, qualifiers=_qualifiers(clause.this))
    flat.set("expressions", [_item(item, relation, inside) for item in flat.expressions])
    names = [item.alias_or_name for item in flat.expressions]
    for name in ("group", "order", "having"):
        if (part := flat.args.get(name)) is not None:
            _substitute_known(part, relation, inside, names if name == "order" else ())
    where = flat.args.get("where")
    own = () if where is None else (_substituted(where.this, relation, inside),)
    conditions = (*relation.conditions, *own)
    flat.set("where", exp.Where(this=exp.and_(*conditions, copy=False)) if conditions else None)
    flat.set("from_", None if relation.table is None else relation.table.copy())
    return flat


def _with(tree: exp.Select, scope: Scope, known: Relations) -> Relations:
    """The common table expressions that the statement can use. Each can use the ones before it."""
    relations = dict(known)
    clause = tree.args.get("with_")
    names: list[str] = []
    for cte in clause.expressions if clause else ():
        name = cte.args["alias"].this
        if matching(name, names):
            raise scope.refuse(f"{name.name} is defined twice.", "Give it another name.", name)
        names.append(name.name)
        relation = _renamed(_relation(cte.this, scope, relations), cte, scope)
        for hidden in [key for key in relations if key.casefold() == name.name.casefold()]:
            del relations[hidden]
        relations[name.name] = relation
    return relations


def _relation(select: exp.Expr, scope: Scope, known: Relations) -> Relation:
    """The relation of a subquery. Raises if it does more than select and filter."""
    if not isinstance(select, exp.Select):
        raise scope.refuse("Expected a SELECT here.", _ONLY, select)
    for name, words in _CLAUSES.items():
        if (part := select.args.get(name)) is not None:
            # DISTINCT has no position of its own.
            place = select.expressions[0] if isinstance(part, exp.Distinct) else part
            raise scope.refuse(f"{words} in a subquery is not supported.", _ONLY, place)
    relations = _with(select, scope, known)
    clause = select.args.get("from_")
    if clause is None:
        raise scope.refuse("FROM is missing.", f"Write FROM {scope.schema.table.name}.", select)
    relation = _from(clause, scope, relations) or _declared(clause, scope)
    inside = replace(scope, qualifiers=_qualifiers(clause.this))
    columns: dict[str, exp.Expr] = {}
    for item in select.expressions:
        for name, expression in _columns_of_item(item, relation, inside):
            if name.casefold() in {known.casefold() for known in columns}:
                remedy = "Remove one of them, or rename it with AS."
                raise scope.refuse(f"Two columns of the SELECT are called {name}.", remedy, item)
            columns[name] = expression
    where = select.args.get("where")
    own = () if where is None else (_substituted(where.this, relation, inside),)
    return Relation(columns, relation.table, (*relation.conditions, *own))


def _from(clause: exp.From | None, scope: Scope, relations: Relations) -> Relation | None:
    """The relation after FROM; None for the declared table, and for a name that is refused later."""
    match clause.this if clause is not None else None:
        case exp.Subquery() as subquery:
            return _renamed(_relation(subquery.this, scope, relations), subquery, scope)
        case exp.Table(this=exp.Identifier() as name) as table if not table.args.get("db"):
            names = matching(name, relations)
            return _renamed(relations[names[0]], table, scope) if names else None
    return None


def _declared(clause: exp.From, scope: Scope) -> Relation:
    """The declared table as a relation."""
    table_scope(clause, scope)
    columns = {name: exp.column(exp.to_identifier(name, quoted=True)) for name in scope.schema.columns}
    return Relation(columns, clause)


def table_scope(clause: exp.From | None, scope: Scope) -> Scope:
    """The scope of a SELECT from the declared table, with the names that may stand before a column."""
    name = scope.schema.table.name
    if clause is None:
        raise scope.refuse("FROM is missing.", f"Write FROM {name}.", scope.source.tokens[-1])
    table = clause.this
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        raise scope.refuse(f"FROM can only name the table {name}.", f"Write FROM {name}.", table)
    if not matching(table.this, [name]):
        problem = f"There is no table {table.name}."
        raise scope.refuse(problem, f"Write FROM {name}.", table.this)
    if table.args.get("alias") and table.args["alias"].args.get("columns"):
        raise scope.refuse("The table's columns cannot be renamed here.", "Rename them with AS.", table)
    return replace(scope, qualifiers=(*([table.alias] if table.alias else []), name))


def _renamed(relation: Relation, named: exp.Expr, scope: Scope) -> Relation:
    """The subquery with the columns that an alias lists: f(a, b)."""
    alias = named.args.get("alias")
    listed = alias.args.get("columns") if isinstance(alias, exp.TableAlias) else None
    if not listed:
        return relation
    names = [name.name for name in listed]
    if len(names) != len(relation.columns) or len({name.casefold() for name in names}) != len(names):
        problem = f"This lists {len(names)} names for {len(relation.columns)} columns, or repeats one."
        raise scope.refuse(problem, "Name every column once.", alias)
    return replace(relation, columns=dict(zip(names, relation.columns.values(), strict=True)))


def _qualifiers(table: exp.Expr) -> tuple[str, ...]:
    """The names that may stand before a column."""
    own = table.name if isinstance(table, exp.Table) else ""
    return tuple(name for name in (table.alias, own) if name)


def _columns_of_item(item: exp.Expr, relation: Relation, scope: Scope) -> Iterator[tuple[str, exp.Expr]]:
    """The columns that one item of a subquery's SELECT list stands for."""
    inner = item.unalias().unnest()
    if isinstance(inner, exp.Star) or (isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)):
        _check_qualifier(inner, scope)
        yield from relation.columns.items()
        return
    if (aggregate := inner.find(exp.AggFunc)) is not None:
        raise scope.refuse("An aggregate in a subquery is not supported.", _ONLY, aggregate)
    if isinstance(inner, exp.Column):
        name = scope.resolve(inner, relation.columns, place="here")
        yield item.alias or name, _placed(relation.columns[name], inner, scope)
        return
    if not item.alias:
        raise scope.refuse("This column has no name.", "Name it with AS.", inner)
    expression = _substituted(inner, relation, scope)
    if sum(1 for _ in expression.walk()) > _LARGEST:
        raise scope.refuse("This column's expression is too long.", "Write a shorter expression.", inner)
    yield item.alias, expression


def _check_qualifier(star: exp.Expr, scope: Scope) -> None:
    qualifier = star.args.get("table")
    if qualifier is not None and not matching(qualifier, scope.qualifiers):
        raise scope.refuse(f"No table here is called {qualifier.name}.", "Write * alone.", qualifier)


def _item(item: exp.Expr, relation: Relation, scope: Scope) -> exp.Expr:
    """An item of the outer SELECT list. A column keeps its name from the subquery."""
    column = item.unnest()
    if not isinstance(column, exp.Column) or isinstance(column.this, exp.Star):
        return _substituted(item, relation, scope)
    name = scope.resolve(column, relation.columns, place="here")
    expression = _placed(relation.columns[name], column, scope)
    if isinstance(expression, exp.Column) and expression.name == name:
        return expression
    alias = exp.to_identifier(name, quoted=True)
    alias.meta.update(column.this.meta)
    return exp.Alias(this=expression, alias=alias)


def _substitute_known(
    part: exp.Expr, relation: Relation, scope: Scope, names: tuple[str, ...] | list[str]
) -> None:
    """Replaces the relation's columns in GROUP BY, ORDER BY or HAVING, but not names of the SELECT list.

    If `names` are given, as for ORDER BY, they take precedence over columns; otherwise columns do.
    """
    for node in list(part.find_all(exp.Column)):
        if not isinstance(node.this, exp.Identifier):
            continue
        is_plain = not node.args.get("table")
        is_item = isinstance(node.parent, exp.Ordered) and matching(node.this, names)
        if is_plain and (is_item or not matching(node.this, relation.columns)):
            continue
        name = scope.resolve(node, relation.columns, place="here")
        node.replace(_placed(relation.columns[name], node, scope))


def _substituted(node: exp.Expr, relation: Relation, scope: Scope) -> exp.Expr:
    """The expression with the relation's columns replaced by what they stand for."""

    def replaced(part: exp.Expr) -> exp.Expr:
        if not isinstance(part, exp.Column) or not isinstance(part.this, exp.Identifier):
            return part
        return _placed(relation.columns[scope.resolve(part, relation.columns, place="here")], part, scope)

    return node.transform(replaced)


def _placed(expression: exp.Expr, reference: exp.Expr, scope: Scope) -> exp.Expr:
    """Copies the expression for use at a reference. A later refusal of a plain column points there."""
    if not isinstance(expression, exp.Column):
        scope.copied["nodes"] += sum(1 for _ in expression.walk())
    if scope.copied["nodes"] > _MOST_COPIED:
        problem = "The statement becomes too long when its subqueries are inserted."
        raise scope.refuse(problem, "Refer to long expressions less often.", reference)
    copy = expression.copy()
    if isinstance(copy, exp.Column):
        copy.this.meta.clear()
        copy.this.meta.update(reference.this.meta)
        return copy
    return exp.Paren(this=copy)
