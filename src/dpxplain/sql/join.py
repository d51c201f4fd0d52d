"""Removes joins and subqueries from a statement before it is parsed.

`FROM flights f JOIN airlines a ON f.carrier = a.carrier` becomes `FROM flights f`: the columns of the public
table are derived columns of the data (model/schema.py). An inner join is also a condition on the key.
A join with a private table by the privacy unit is answered from the joined rows (model/schema.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from dpxplain.errors import QueryRefused
from dpxplain.model.query import Filter
from dpxplain.model.schema import PublicTable, Schema
from dpxplain.sql.admit import Joined, Scope, matching
from dpxplain.sql.expression_parser import one_of
from dpxplain.sql.source import DIALECT, Source, read

# -- Joins -------------------------------------------------------------------------------------------------

_JOIN_RULE = "A join compares a column of the data with the key of the other table"
_JOIN_WORDS = {TokenType.LEFT, TokenType.INNER, TokenType.JOIN}
_REFUSED_JOINS = {TokenType.RIGHT, TokenType.FULL, TokenType.CROSS, TokenType.NATURAL}
_AFTER_TABLES = {TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY, TokenType.LIMIT}
_NAMES = {*DIALECT.parser_class.TABLE_ALIAS_TOKENS, TokenType.VAR, TokenType.IDENTIFIER}
_NAMES -= _JOIN_WORDS | _AFTER_TABLES


def read_joins(source: Source, schema: Schema) -> tuple[Source, tuple[Joined, ...]]:
    """The statement without its joins, and the joins; a statement that is not understood is left as it is."""
    if not schema.tables and not schema.private:
        return source, ()
    tokens, joins = _Reader(source, schema).read()
    all_joins = tuple(join for own in joins for join in own)
    if unopened := [join.table for join in all_joins if join.table in {*schema.private} - {*schema.joined}]:
        raise source.refuse(
            f"{unopened[0]} cannot be joined here.", "Run the query in a session.", source.tokens[0]
        )
    return replace(source, tokens=tokens), all_joins


def private_tables(sql: str, schema: Schema) -> tuple[str, ...]:
    """The private tables that a statement joins, the same ones wherever it reads the declared table."""
    if not schema.private:
        return ()
    source = read(sql)
    _, joins = _Reader(source, schema).read()
    chosen = [{join.table for join in own if join.table in schema.private} for own in joins]
    if any(chosen):
        _check_names(source, schema.table.name)
    if any(tables != chosen[0] for tables in chosen[1:]):
        raise source.refuse(
            f"The statement joins {schema.table.name} with different private tables in different places.",
            f"Join the same tables after every FROM {schema.table.name}, or ask two queries.",
            source.tokens[0],
        )
    return tuple(name for name in schema.private if chosen and name in chosen[0])


def _check_names(source: Source, table: str) -> None:
    """Raises if a WITH query has the declared table's name: which of the two is joined would be unclear."""
    for token, follows, opens in zip(source.tokens, source.tokens[1:], source.tokens[2:], strict=False):
        if follows.token_type is not TokenType.ALIAS or opens.token_type is not TokenType.L_PAREN:
            continue
        name = exp.to_identifier(token.text, quoted=token.token_type is TokenType.IDENTIFIER)
        if matching(name, [table]):
            raise source.refuse(
                f"A WITH query has the name of the table, {table}.", "Give it another name.", token
            )


def join_conditions(joins: tuple[Joined, ...], schema: Schema) -> Iterator[Filter]:
    """The conditions of inner joins: the key must be in the public table."""
    for join in joins:
        if join.is_inner and join.table in schema.tables:
            keys = [key for key in schema.tables[join.table].matched[join.on] if key is not None]
            yield one_of(join.on, keys)


@dataclass
class _Reader:
    """Reads joins from the tokens."""

    source: Source
    schema: Schema
    at: int = 0

    def read(self) -> tuple[tuple[Token, ...], list[list[Joined]]]:
        """The tokens without joins, and the joins after each FROM that reads the declared table."""
        tokens: list[Token] = []
        joins: list[list[Joined]] = []
        while self.token is not None:
            is_from = self.token.token_type is TokenType.FROM
            tokens.append(self.take())
            if is_from and self.is_name:
                table, alias = self.table(tokens)
                own: list[Joined] = []
                while self.begins_join:
                    own.append(self.join(table, alias, own))
                if matching(table, [self.schema.table.name]):
                    joins.append(own)
        return tuple(tokens), joins

    @property
    def token(self) -> Token | None:
        return self.source.tokens[self.at] if self.at < len(self.source.tokens) else None

    @property
    def is_name(self) -> bool:
        return self.token is not None and self.token.token_type in _NAMES

    @property
    def begins_join(self) -> bool:
        if self.token is None:
            return False
        if (kind := self.token.token_type) in _REFUSED_JOINS:
            raise self.source.refuse(
                f"{self.token.text.upper()} JOIN is not supported.",
                "Write JOIN; with a public table, LEFT JOIN works too.",
                self.token,
            )
        if kind is TokenType.COMMA:
            remedy = "Write JOIN table USING (key)."
            raise self.source.refuse("A list of tables is not supported.", remedy, self.token)
        return kind in _JOIN_WORDS

    def take(self) -> Token:
        token = self.token
        assert token is not None
        self.at += 1
        return token

    def table(self, tokens: list[Token]) -> tuple[exp.Identifier, str]:
        """The table after FROM and its alias. Keeps their tokens."""
        start = self.at
        name, alias = self._table_and_alias()
        tokens += self.source.tokens[start : self.at]
        return name, alias

    def join(self, data: exp.Identifier, data_alias: str, before: list[Joined]) -> Joined:
        first = self.take()
        is_inner = first.token_type is not TokenType.LEFT
        if first.token_type is TokenType.LEFT and self._is(TokenType.OUTER):
            self.take()
        if first.token_type is not TokenType.JOIN:
            self._expect(TokenType.JOIN, "JOIN")
        if not matching(data, [self.schema.table.name]):
            remedy = "Put it there, and give the result a name with AS."
            raise self.source.refuse(
                f"A join must directly follow FROM {self.schema.table.name}.", remedy, first
            )
        if not self.is_name:
            raise self.source.refuse("Expected a table here.", self._usage(), self.token or first)
        place = self.token
        name, alias = self._table_and_alias()
        if alias.casefold() in {data_alias.casefold(), *(join.alias.casefold() for join in before)}:
            remedy = f"Rename one of them: JOIN {name.name} AS other ..."
            raise self.source.refuse(f"Two tables here are called {alias}.", remedy, place)
        if private := matching(name, self.schema.private):
            if not is_inner:
                raise self.source.refuse(
                    "LEFT JOIN with a private table is not supported.",
                    f"Write JOIN. A {self.schema.privacy.unit} without rows in {private[0]} is left out.",
                    first,
                )
            return self._private(private[0], place, data_alias, alias, before)
        table, declared = self._declared(name, place)
        joins = declared.joins or (declared.key,)
        on = self._condition(declared.key, joins[0], data_alias, alias)
        join_column = matching(on, joins)
        if not join_column:
            remedy = f"Join it on {' or '.join(joins)}. The curator can list more in tables.{table}.joins."
            raise self.source.refuse(
                f"The schema does not say that {on.name} holds a key of {table}.", remedy, place
            )
        return Joined(table, alias, join_column[0], is_inner, self._columns(table, declared, join_column[0]))

    def _private(
        self, table: str, place: Token | None, data_alias: str, alias: str, before: list[Joined]
    ) -> Joined:
        """A join with a private table, which must be by the unit of both tables, and only once."""
        if any(join.table == table for join in before):
            remedy = "Join each private table once."
            raise self.source.refuse(f"The statement joins {table} twice.", remedy, place)
        declared, unit = self.schema.private[table], self.schema.privacy.unit
        on = self._condition(declared.unit, unit, data_alias, alias)
        if not matching(on, [unit]):
            remedy = f"Write {self._on_units(data_alias, alias, declared.unit)}."
            raise self.source.refuse("Private tables can only be joined by the person's id.", remedy, place)
        return Joined(table, alias, unit, True, self.schema.joined.get(table, {}))

    def _on_units(self, data_alias: str, alias: str, unit: str) -> str:
        own = self.schema.privacy.unit
        return f"USING ({own})" if own == unit else f"ON {data_alias}.{own} = {alias}.{unit}"

    def _declared(self, name: exp.Identifier, place: Token | None) -> tuple[str, PublicTable]:
        table_names = matching(name, self.schema.tables)
        if len(table_names) != 1:
            problem = f"There is no table {name.name} to join with."
            if matching(name, [self.schema.table.name]):
                problem = "The table cannot be joined with itself."
            raise self.source.refuse(problem, self._usage(), place)
        if not self.schema.tables[table_names[0]].matched:
            awaited = self.schema.awaited_by(table_names[0])
            remedy = (
                f"Discover the values of {awaited[0]} first." if awaited else "Open the data set with it."
            )
            raise self.source.refuse(f"The public table {table_names[0]} has not been read.", remedy, place)
        return table_names[0], self.schema.tables[table_names[0]]

    def _columns(self, table: str, declared: PublicTable, on: str) -> Mapping[str, str]:
        """The declared column for each column of the public table; for its key, the data's own column."""
        columns = {
            column.joined[1]: name
            for name, column in self.schema.columns.items()
            if column.joined is not None
            and column.joined[0] == table
            and self.schema.sources((name,)) == {on}
        }
        return {declared.key: on, **columns}

    def _condition(self, declared_key: str, own: str, data_alias: str, alias: str) -> exp.Identifier:
        """The column of the data that USING (key) or ON data.column = table.key names.

        `declared_key` is the key of the joined table; `own` is a column of the data that may hold it.
        """
        if self._is(TokenType.USING):
            self.take()
            self._expect(TokenType.L_PAREN, "(")
            key = self._identifier()
            self._expect(TokenType.R_PAREN, ")")
            self._check_key(key, declared_key, alias)
            return key
        self._expect(TokenType.ON, "USING or ON")
        sides = [self._side()]
        self._expect(TokenType.EQ, "=")
        sides.append(self._side())
        if self._is(TokenType.AND) or self._is(TokenType.OR):
            remedy = "Put other conditions into WHERE."
            raise self.source.refuse("A join has one condition, on the key.", remedy, self.token)
        is_public = [qualifier is not None and bool(matching(qualifier, [alias])) for qualifier, _ in sides]
        if is_public == [False, False]:
            is_public = [bool(matching(name, [declared_key])) and q is None for q, name in sides]
        if sorted(is_public) != [False, True]:
            usage = f"Write ON {data_alias}.{own} = {alias}.{declared_key}."
            raise self.source.refuse(f"{_JOIN_RULE}.", usage, self.source.tokens[self.at - 1])
        (qualifier, column), (_, key) = sorted(sides, key=lambda side: is_public[sides.index(side)])
        if qualifier is not None and not matching(qualifier, [data_alias, self.schema.table.name]):
            remedy = "Join each table with the data itself."
            raise self.source.refuse(f"{_JOIN_RULE}.", remedy, self.source.tokens[self.at - 1])
        self._check_key(key, declared_key, alias)
        return column

    def _check_key(self, key: exp.Identifier, declared: str, alias: str) -> None:
        if not matching(key, [declared]):
            remedy = f"Join on its declared key, {declared}."
            raise self.source.refuse(
                f"{key.name} is not the key of {alias}, so rows could be joined several times.",
                remedy,
                self.source.tokens[self.at - 1],
            )

    def _side(self) -> tuple[exp.Identifier | None, exp.Identifier]:
        first = self._identifier()
        if not self._is(TokenType.DOT):
            return None, first
        self.take()
        return first, self._identifier()

    def _table_and_alias(self) -> tuple[exp.Identifier, str]:
        """A table and its alias; without an alias, its own name."""
        name = self._identifier()
        if self._is(TokenType.ALIAS):
            self.take()
        return name, self._identifier().name if self.is_name else name.name

    def _identifier(self) -> exp.Identifier:
        if not self.is_name:
            raise self._expected("a name")
        token = self.take()
        return exp.to_identifier(token.text, quoted=token.token_type is TokenType.IDENTIFIER)

    def _expect(self, kind: TokenType, word: str) -> None:
        if not self._is(kind):
            raise self._expected(word)
        self.take()

    def _expected(self, word: str) -> QueryRefused:
        return self.source.refuse(
            f"Expected {word} here.", self._usage(), self.token or self.source.tokens[-1]
        )

    def _usage(self) -> str:
        if not self.schema.tables:
            name, private = next(iter(self.schema.private.items()))
            on = self._on_units(self.schema.table.name, name, private.unit)
            return f"Write FROM {self.schema.table.name} JOIN {name} {on}."
        name, table = next(iter(self.schema.tables.items()))
        on = (table.joins or (table.key,))[0]
        clause = (
            f"USING ({on})" if on == table.key else f"ON {self.schema.table.name}.{on} = {name}.{table.key}"
        )
        return f"Write FROM {self.schema.table.name} JOIN {name} {clause}."

    def _is(self, kind: TokenType) -> bool:
        return self.token is not None and self.token.token_type is kind


# -- Subqueries --------------------------------------------------------------------------------------------
#
# Common table expressions and subqueries that only select and filter become part of one SELECT.
#
# `WITH f AS (SELECT delay AS d FROM t WHERE x = 1) SELECT AVG(d) FROM f` becomes `SELECT AVG(delay) FROM t
# WHERE x = 1`: the same rows, so the same measurement and the same request. Nodes keep their positions.

_ONLY = "A subquery may select columns and filter rows; aggregate in the outer query."
# Clauses that choose or combine rows by more than a condition on each row.
_REFUSED_CLAUSES = {"group": "GROUP BY", "having": "HAVING", "limit": "LIMIT", "distinct": "DISTINCT"}
_LARGEST = 300  # nodes of a column's expression: each use of it in another column repeats them all
_MOST_COPIED = 20_000  # nodes of all these uses together


@dataclass(frozen=True)
class Relation:
    """A table or subquery after FROM: its columns, as expressions over the declared table, and its rows."""

    columns: Mapping[str, exp.Expr]
    table: exp.From
    conditions: tuple[exp.Expr, ...] = ()


Relations = Mapping[str, Relation]


def inline(tree: exp.Select, scope: Scope) -> exp.Select:
    """The statement as one that reads the declared table; `tree` without its WITH if it does so already."""
    clause = tree.args.get("from_")
    relations = _with_relations(tree, scope, {})
    relation = _from_relation(clause, scope, relations)
    if relation is None or clause is None:
        tree.set("with_", None)
        return tree
    flat = tree.copy()
    assert isinstance(flat, exp.Select)
    flat.set("with_", None)
    inside = replace(scope, qualifiers=_qualifiers(clause.this))
    flat.set("expressions", [_outer_item(item, relation, inside) for item in flat.expressions])
    names = [item.alias_or_name for item in flat.expressions]
    for name in ("group", "order", "having"):
        if (part := flat.args.get(name)) is not None:
            _substitute_columns(part, relation, inside, names if name == "order" else ())
    conditions = _all_conditions(flat, relation, inside)
    flat.set("where", exp.Where(this=exp.and_(*conditions, copy=False)) if conditions else None)
    flat.set("from_", relation.table.copy())
    return flat


def _with_relations(tree: exp.Select, scope: Scope, outer: Relations) -> Relations:
    """The common table expressions that the statement can use. Each can use the ones before it."""
    relations = dict(outer)
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


def _relation(select: exp.Expr, scope: Scope, outer: Relations) -> Relation:
    """The relation of a subquery. Raises if it does more than select and filter."""
    if not isinstance(select, exp.Select):
        raise scope.refuse("Expected a SELECT here.", _ONLY, select)
    for name, words in _REFUSED_CLAUSES.items():
        if (part := select.args.get(name)) is not None:
            # DISTINCT has no position of its own.
            place = select.expressions[0] if isinstance(part, exp.Distinct) else part
            raise scope.refuse(f"{words} in a subquery is not supported.", _ONLY, place)
    relations = _with_relations(select, scope, outer)
    clause = select.args.get("from_")
    if clause is None:
        raise scope.refuse("FROM is missing.", f"Write FROM {scope.schema.table.name}.", select)
    relation = _from_relation(clause, scope, relations) or _declared_relation(clause, scope)
    inside = replace(scope, qualifiers=_qualifiers(clause.this))
    columns: dict[str, exp.Expr] = {}
    for item in select.expressions:
        for name, expression in _columns_of_item(item, relation, inside):
            if name.casefold() in {column.casefold() for column in columns}:
                remedy = "Remove one of them, or rename it with AS."
                raise scope.refuse(f"Two columns of the SELECT are called {name}.", remedy, item)
            columns[name] = expression
    return Relation(columns, relation.table, _all_conditions(select, relation, inside))


def _all_conditions(select: exp.Select, relation: Relation, scope: Scope) -> tuple[exp.Expr, ...]:
    """The conditions on a relation's rows, with that of the WHERE of a SELECT from it."""
    where = select.args.get("where")
    own = () if where is None else (_substituted(where.this, relation, scope),)
    return (*relation.conditions, *own)


def _from_relation(clause: exp.From | None, scope: Scope, relations: Relations) -> Relation | None:
    """The relation after FROM; None for the declared table, and for a name that is refused later."""
    match clause.this if clause is not None else None:
        case exp.Subquery() as subquery:
            return _renamed(_relation(subquery.this, scope, relations), subquery, scope)
        case exp.Table(this=exp.Identifier() as name) as table if not table.args.get("db"):
            names = matching(name, relations)
            return _renamed(relations[names[0]], table, scope) if names else None
    return None


def _declared_relation(clause: exp.From, scope: Scope) -> Relation:
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
        yield item.alias or name, _copied(relation.columns[name], inner, scope)
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


def _outer_item(item: exp.Expr, relation: Relation, scope: Scope) -> exp.Expr:
    """An item of the outer SELECT list. A column keeps its name from the subquery."""
    column = item.unnest()
    if not isinstance(column, exp.Column) or isinstance(column.this, exp.Star):
        return _substituted(item, relation, scope)
    name = scope.resolve(column, relation.columns, place="here")
    expression = _copied(relation.columns[name], column, scope)
    if isinstance(expression, exp.Column) and expression.name == name:
        return expression
    alias = exp.to_identifier(name, quoted=True)
    alias.meta.update(column.this.meta)
    return exp.Alias(this=expression, alias=alias)


def _substitute_columns(part: exp.Expr, relation: Relation, scope: Scope, names: Sequence[str]) -> None:
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
        node.replace(_copied(relation.columns[name], node, scope))


def _substituted(node: exp.Expr, relation: Relation, scope: Scope) -> exp.Expr:
    """The expression with the relation's columns replaced by what they stand for."""

    def replaced(part: exp.Expr) -> exp.Expr:
        if not isinstance(part, exp.Column) or not isinstance(part.this, exp.Identifier):
            return part
        return _copied(relation.columns[scope.resolve(part, relation.columns, place="here")], part, scope)

    return node.transform(replaced)


def _copied(expression: exp.Expr, reference: exp.Expr, scope: Scope) -> exp.Expr:
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
