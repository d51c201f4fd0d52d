"""Takes joins with public tables out of a statement, before it is parsed.

`FROM flights f JOIN airlines a ON f.carrier = a.carrier` becomes `FROM flights f`: the columns of the public
table are derived columns of the data (model/public_table.py). An inner join is also a condition on the key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from dpxplain.model.public_table import PublicTable
from dpxplain.model.query import Filter
from dpxplain.model.schema import Schema
from dpxplain.sql.scope import Joined, matching
from dpxplain.sql.source import DIALECT, Place, Source
from dpxplain.sql.where import one_of

_STAR = "Only columns of the data can be joined with the key of a public table"
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
    if not schema.tables:
        return source, ()
    kept: list[Token] = []
    joins: list[Joined] = []
    reader = _Reader(source, schema)
    while reader.token is not None:
        is_from = reader.token.token_type is TokenType.FROM
        kept.append(reader.take())
        if is_from and reader.is_name:
            table, alias = reader.table(kept)
            own: list[Joined] = []
            while reader.begins_join:
                own.append(reader.join(table, alias, own))
            joins += own
    return replace(source, tokens=tuple(kept)), tuple(joins)


def join_conditions(joins: tuple[Joined, ...], schema: Schema) -> Iterator[Filter]:
    """What inner joins ask of the key: to be in the public table."""
    for join in joins:
        if join.is_inner:
            keys = [key for key in schema.tables[join.table].matched[join.on] if key is not None]
            yield one_of(join.on, keys)


@dataclass
class _Reader:
    """Reads joins from the tokens."""

    source: Source
    schema: Schema
    at: int = 0

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
                f"{_NOT_ANSWERED[kind]} is not answered.",
                "Write JOIN or LEFT JOIN with a public table.",
                self.token,
            )
        if kind is TokenType.COMMA:
            remedy = "Write JOIN table USING (key)."
            raise self._refuse("A list of tables is not answered.", remedy, self.token)
        return kind in _KINDS

    def take(self) -> Token:
        token = self.token
        assert token is not None
        self.at += 1
        return token

    def table(self, kept: list[Token]) -> tuple[exp.Identifier, str]:
        """The table behind FROM and its alias; their tokens are kept."""
        start = self.at
        name, alias = self._named()
        kept += self.source.tokens[start : self.at]
        return name, alias

    def join(self, data: exp.Identifier, data_alias: str, before: list[Joined]) -> Joined:
        first = self.take()
        is_inner = first.token_type is not TokenType.LEFT
        if first.token_type is TokenType.LEFT and self._is(TokenType.OUTER):
            self.take()
        if first.token_type is not TokenType.JOIN:
            self._expect(TokenType.JOIN, "JOIN")
        if not matching(data, [self.schema.table.name]):
            remedy = f"Join right behind FROM {self.schema.table.name}, and name the result."
            raise self._refuse("A join is answered at the declared table only.", remedy, first)
        if not self.is_name:
            raise self._refuse("A public table is expected here.", self._usage(), self.token or first)
        place = self.token
        name, alias = self._named()
        table, declared = self._declared(name, place)
        if alias.casefold() in {data_alias.casefold(), *(join.alias.casefold() for join in before)}:
            remedy = f"Give it another one: JOIN {table} AS other ..."
            raise self._refuse(f"Two tables here are called {alias}.", remedy, place)
        on = self._condition(declared, data_alias, alias, before)
        joins = declared.joins or (declared.key,)
        join_column = matching(on, joins)
        if not join_column:
            remedy = f"Join it on {' or '.join(joins)}; tables.{table}.joins in the schema may name more."
            raise self._refuse(f"{on.name} is not declared to hold a key of {table}.", remedy, place)
        return Joined(table, alias, join_column[0], is_inner, self._columns(table, declared, join_column[0]))

    def _declared(self, name: exp.Identifier, place: Token | None) -> tuple[str, PublicTable]:
        known = matching(name, self.schema.tables)
        if len(known) != 1:
            what = (
                "The data cannot be joined with themselves"
                if matching(name, [self.schema.table.name])
                else f"There is no declared public table {name.name}"
            )
            raise self._refuse(f"{what}.", self._usage(), place)
        if not self.schema.tables[known[0]].matched:
            raise self._refuse(
                f"The public table {known[0]} has not been read.", "Open the data set with it.", place
            )
        return known[0], self.schema.tables[known[0]]

    def _columns(self, table: str, declared: PublicTable, on: str) -> Mapping[str, str]:
        """The declared column for each column of the public table, its key being the data's own."""
        columns = {
            column.joined[1]: name
            for name, column in self.schema.columns.items()
            if column.joined is not None
            and column.joined[0] == table
            and self.schema.sources((name,)) == {on}
        }
        return {declared.key: on, **columns}

    def _condition(
        self, declared: PublicTable, data_alias: str, alias: str, before: list[Joined]
    ) -> exp.Identifier:
        """The column of the data that USING (key) or ON data.column = table.key names."""
        if self._is(TokenType.USING):
            self.take()
            self._expect(TokenType.L_PAREN, "(")
            key = self._identifier()
            self._expect(TokenType.R_PAREN, ")")
            self._check_key(key, declared, alias)
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
            is_public = [bool(matching(name, [declared.key])) and q is None for q, name in sides]
        if sorted(is_public) != [False, True]:
            usage = (
                f"Write ON {data_alias}.{(declared.joins or (declared.key,))[0]} = {alias}.{declared.key}."
            )
            raise self._refuse(f"{_STAR}.", usage, self.source.tokens[self.at - 1])
        (qualifier, column), (_, key) = sorted(sides, key=lambda side: is_public[sides.index(side)])
        if qualifier is not None and not matching(qualifier, [data_alias, self.schema.table.name]):
            remedy = "Join each public table with the data themselves."
            raise self._refuse(f"{_STAR}.", remedy, self.source.tokens[self.at - 1])
        self._check_key(key, declared, alias)
        return column

    def _check_key(self, key: exp.Identifier, declared: PublicTable, alias: str) -> None:
        if not matching(key, [declared.key]):
            remedy = f"Join on its declared key, {declared.key}."
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
        """A table and its alias, or its own name."""
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
            raise self._refuse("A name is expected here.", self._usage(), place)
        token = self.take()
        return exp.to_identifier(token.text, quoted=token.token_type is TokenType.IDENTIFIER)

    def _expect(self, kind: TokenType, word: str) -> None:
        if not self._is(kind):
            place = self.token or self.source.tokens[-1]
            raise self._refuse(f"{word} is expected here.", self._usage(), place)
        self.take()

    def _usage(self) -> str:
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
