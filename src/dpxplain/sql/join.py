"""Removes joins from a statement before it is parsed.

`FROM flights f JOIN airlines a ON f.carrier = a.carrier` becomes `FROM flights f`: the columns of the public
table are derived columns of the data (model/joined_tables.py). An inner join is also a condition on the key.
A join with a private table by the privacy unit is answered from the joined rows (model/joined_tables.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from dpxplain.model.joined_tables import PublicTable
from dpxplain.model.query import Filter
from dpxplain.model.schema import Schema
from dpxplain.sql.scope import Joined, matching
from dpxplain.sql.source import DIALECT, Place, Source, read
from dpxplain.sql.where import one_of

_STAR = "A join compares a column of the data with the key of the other table"
_KINDS = {TokenType.LEFT, TokenType.INNER, TokenType.JOIN}
_NOT_ANSWERED = {
    TokenType.RIGHT: "RIGHT JOIN",
    TokenType.FULL: "FULL JOIN",
    TokenType.CROSS: "CROSS JOIN",
    TokenType.NATURAL: "NATURAL JOIN",
}
_CLAUSES = {TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY, TokenType.LIMIT}
_NAMES = {*DIALECT.parser_class.TABLE_ALIAS_TOKENS, TokenType.VAR, TokenType.IDENTIFIER} - _KINDS - _CLAUSES


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
        return self._token(0)

    @property
    def is_name(self) -> bool:
        return self.token is not None and self.token.token_type in _NAMES

    @property
    def begins_join(self) -> bool:
        if self.token is None:
            return False
        if (kind := self.token.token_type) in _NOT_ANSWERED:
            raise self._refuse(
                f"{_NOT_ANSWERED[kind]} is not supported.",
                "Write JOIN; with a public table, LEFT JOIN works too.",
                self.token,
            )
        if kind is TokenType.COMMA:
            remedy = "Write JOIN table USING (key)."
            raise self._refuse("A list of tables is not supported.", remedy, self.token)
        return kind in _KINDS

    def take(self) -> Token:
        token = self.token
        assert token is not None
        self.at += 1
        return token

    def table(self, tokens: list[Token]) -> tuple[exp.Identifier, str]:
        """The table after FROM and its alias. Keeps their tokens."""
        start = self.at
        name, alias = self._named()
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
            raise self._refuse(f"A join must directly follow FROM {self.schema.table.name}.", remedy, first)
        if not self.is_name:
            raise self._refuse("Expected a table here.", self._usage(), self.token or first)
        place = self.token
        name, alias = self._named()
        if alias.casefold() in {data_alias.casefold(), *(join.alias.casefold() for join in before)}:
            remedy = f"Rename one of them: JOIN {name.name} AS other ..."
            raise self._refuse(f"Two tables here are called {alias}.", remedy, place)
        if private := matching(name, self.schema.private):
            if not is_inner:
                raise self._refuse(
                    "LEFT JOIN with a private table is not supported.",
                    f"Write JOIN. A {self.schema.privacy.unit} without rows in {private[0]} is left out.",
                    first,
                )
            return self._private(private[0], place, data_alias, alias, before)
        table, declared = self._declared(name, place)
        on = self._condition((declared.key, declared.joins or (declared.key,)), data_alias, alias)
        joins = declared.joins or (declared.key,)
        join_column = matching(on, joins)
        if not join_column:
            remedy = f"Join it on {' or '.join(joins)}; tables.{table}.joins in the schema may list more."
            raise self._refuse(
                f"The schema does not say that {on.name} holds a key of {table}.", remedy, place
            )
        return Joined(table, alias, join_column[0], is_inner, self._columns(table, declared, join_column[0]))

    def _private(
        self, table: str, place: Token | None, data_alias: str, alias: str, before: list[Joined]
    ) -> Joined:
        """A join with a private table, which must be by the unit of both tables, and only once."""
        if any(join.table == table for join in before):
            remedy = "Join each private table once."
            raise self._refuse(f"The statement joins {table} twice.", remedy, place)
        declared, unit = self.schema.private[table], self.schema.privacy.unit
        on = self._condition((declared.unit, (unit,)), data_alias, alias)
        if not matching(on, [unit]):
            remedy = f"Write {self._on_units(data_alias, alias, declared.unit)}."
            raise self._refuse("Private tables can only be joined by the person's id.", remedy, place)
        return Joined(table, alias, unit, True, self.schema.joined.get(table, {}))

    def _on_units(self, data_alias: str, alias: str, unit: str) -> str:
        own = self.schema.privacy.unit
        return f"USING ({own})" if own == unit else f"ON {data_alias}.{own} = {alias}.{unit}"

    def _declared(self, name: exp.Identifier, place: Token | None) -> tuple[str, PublicTable]:
        table_names = matching(name, self.schema.tables)
        if len(table_names) != 1:
            problem = (
                "The table cannot be joined with itself"
                if matching(name, [self.schema.table.name])
                else f"There is no table {name.name} to join with"
            )
            raise self._refuse(f"{problem}.", self._usage(), place)
        if not self.schema.tables[table_names[0]].matched:
            awaited = self.schema.awaited_by(table_names[0])
            remedy = (
                f"Discover the values of {awaited[0]} first." if awaited else "Open the data set with it."
            )
            raise self._refuse(f"The public table {table_names[0]} has not been read.", remedy, place)
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

    def _condition(self, keys: tuple[str, tuple[str, ...]], data_alias: str, alias: str) -> exp.Identifier:
        """The column of the data that USING (key) or ON data.column = table.key names.

        `keys` are the key of the joined table and the columns of the data that may hold it.
        """
        declared_key, own_columns = keys
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
            raise self._refuse("A join has one condition, on the key.", remedy, self.token)
        is_public = [qualifier is not None and bool(matching(qualifier, [alias])) for qualifier, _ in sides]
        if is_public == [False, False]:
            is_public = [bool(matching(name, [declared_key])) and q is None for q, name in sides]
        if sorted(is_public) != [False, True]:
            usage = f"Write ON {data_alias}.{own_columns[0]} = {alias}.{declared_key}."
            raise self._refuse(f"{_STAR}.", usage, self.source.tokens[self.at - 1])
        (qualifier, column), (_, key) = sorted(sides, key=lambda side: is_public[sides.index(side)])
        if qualifier is not None and not matching(qualifier, [data_alias, self.schema.table.name]):
            remedy = "Join each table with the data itself."
            raise self._refuse(f"{_STAR}.", remedy, self.source.tokens[self.at - 1])
        self._check_key(key, declared_key, alias)
        return column

    def _check_key(self, key: exp.Identifier, declared: str, alias: str) -> None:
        if not matching(key, [declared]):
            remedy = f"Join on its declared key, {declared}."
            raise self._refuse(
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

    def _named(self) -> tuple[exp.Identifier, str]:
        """A table and its alias; without an alias, its own name."""
        name = self._identifier()
        if self._is(TokenType.ALIAS) or self.is_name:
            if self._is(TokenType.ALIAS):
                self.take()
            if self.is_name:
                return name, self._identifier().name
        return name, name.name

    def _identifier(self) -> exp.Identifier:
        if not self.is_name:
            place = self.token or self.source.tokens[-1]
            raise self._refuse("Expected a name here.", self._usage(), place)
        token = self.take()
        return exp.to_identifier(token.text, quoted=token.token_type is TokenType.IDENTIFIER)

    def _expect(self, kind: TokenType, word: str) -> None:
        if not self._is(kind):
            place = self.token or self.source.tokens[-1]
            raise self._refuse(f"Expected {word} here.", self._usage(), place)
        self.take()

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

    def _token(self, ahead: int) -> Token | None:
        at = self.at + ahead
        return self.source.tokens[at] if at < len(self.source.tokens) else None

    def _refuse(self, problem: str, remedy: str, at: Place) -> Exception:
        return self.source.refuse(problem, remedy, at)
