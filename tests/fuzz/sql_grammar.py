"""Random SQL statements: from a grammar of what is answered, and by mutating such statements.

`statement(seed, number)` depends on nothing else, so a seed and a number reproduce a text.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

NUMBERS = ["pay", "score", "age", "kids", "twice", "late"]  # columns that can be summed
GROUPS = ["sex", "city", "kids", "active", "age", "height", "day", "born", '"Group"', "late", "region"]
TEXTS = {
    "sex": ["F", "M"],
    "city": ["north", "south", "it's", "São %"],
    '"Group"': ["a", "b"],
    "region": ["East", "West"],
}
DATES = ["day", "born", "seen"]
COMPARISONS = ["=", "<>", "!=", "<", "<=", ">", ">="]

_WORDS = """
SELECT FROM WHERE AND OR NOT IN IS NULL BETWEEN AS ASC DESC LIMIT HAVING JOIN ON UNION ALL DISTINCT CASE
WHEN THEN ELSE END LIKE ILIKE EXISTS OVER FILTER WITH OFFSET FETCH NULLS FIRST LAST TRUE FALSE USING SAMPLE
INTERVAL DATE TIMESTAMP CAST COLLATE ONLY VALUES INTO FOR PIVOT LATERAL UNNEST WINDOW QUALIFY GROUP BY ORDER
COUNT SUM AVG MAX MEDIAN STDDEV VARIANCE VAR_POP QUANTILE_CONT ROUND NULLIF COALESCE LN EXP EXTRACT
DATE_TRUNC YEAR month GREATEST LEAST ABS FLOOR CEIL SIGN LENGTH LOWER TRIM BIGINT DOUBLE VARCHAR people p f
sex city kids active age height pay score day born seen late region twice nosuch people.pay p.sex "Group"
"sex" "Sex" ( ) , ; . * + - / % = == != <> < <= > >= :: || -> ? $1 :x @y #1 [ ] { } ` 1 2 0 0.5 .5 -1 1e1
1e999 0x1F 1_000 'F' 'M' 'it''s' '' '%' '2025-03-31' E'x' $$x$$ -- /* c */ é \x00 \u2028 \ud800
"""
WORDS = [w.encode("ascii", "backslashreplace").decode("unicode_escape") for w in _WORDS.split()] + [
    "\n",
    "\t",
]
_ALIKE = [
    COMPARISONS,
    ["AND", "OR", "AND NOT", "OR NOT"],
    NUMBERS,
    ["sex", "city", "region", '"Group"', "people.sex"],
    ["0", "1", "2", "3", "2.0", "20", "-1", ".5", "1e1", "(2)"],
    ["COUNT", "SUM", "AVG", "MEDIAN", "STDDEV", "VAR_POP", "VARIANCE"],
    ["ABS", "FLOOR", "CEIL", "ROUND", "SIGN"],
    ["GREATEST", "LEAST", "COALESCE", "NULLIF"],
    ["+", "-", "*", "/", "%"],
]
_TOKEN = re.compile(r"""\s+|'(?:[^']|'')*'|"[^"]*"|\w+(?:\.\w+)?|<>|!=|<=|>=|.""", re.DOTALL)


def statement(seed: int, number: int) -> str:
    """The text of one number: two in five come from the grammar as they are, the others are mutated."""
    rng = random.Random(f"sql {seed} {number}")
    text = Grammar(rng).statement()
    match number % 5:
        case 0 | 1:
            return text
        case 2:
            return _exchanged(text, rng)
        case 3:
            return _shuffled(text, rng)
    return _garbled(text, rng) if rng.random() < 0.8 else " ".join(rng.choices(WORDS, k=rng.randint(0, 25)))


def _exchanged(text: str, rng: random.Random) -> str:
    """Words exchanged for words that often fit in their place."""
    tokens = _TOKEN.findall(text)
    for _ in range(rng.randint(1, 4)):
        places = [(i, kind) for i, token in enumerate(tokens) for kind in _ALIKE if token in kind]
        if places:
            i, kind = rng.choice(places)
            tokens[i] = rng.choice(kind)
    return "".join(tokens)


def _shuffled(text: str, rng: random.Random) -> str:
    """Words dropped, inserted, replaced, repeated and swapped."""
    tokens = _TOKEN.findall(text)
    for _ in range(rng.randint(1, 3)):
        i = rng.randrange(len(tokens)) if tokens else 0
        match rng.randrange(5):
            case 0:
                tokens[i : i + 1] = []
            case 1:
                tokens.insert(i, f" {rng.choice(WORDS)} ")
            case 2:
                tokens[i : i + 1] = [f" {rng.choice(WORDS)} "]
            case 3:
                tokens[i:i] = tokens[i : i + rng.randint(1, 6)]
            case 4:
                tokens[i : i + 1], tokens[i - 1 : i] = tokens[i - 1 : i], tokens[i : i + 1]
    return "".join(tokens)


def _garbled(text: str, rng: random.Random) -> str:
    """Characters changed, doubled, or cut off at the end."""
    letters = list(text)
    for _ in range(rng.randint(1, 4)):
        i = rng.randrange(len(letters)) if letters else 0
        match rng.randrange(4):
            case 0:
                letters[i : i + 1] = [rng.choice("()'\",;.*%-+/=<>! \n\x00\u00e9\u2028\U0001f642aE0_9[{")]
            case 1:
                letters[i:i] = letters[i : i + rng.randint(1, 10)]
            case 2:
                letters[i : i + rng.randint(1, 5)] = []
            case 3:
                del letters[rng.randrange(len(letters) + 1) :]
    return "".join(letters)


class Grammar:
    """Statements over the columns of `sql_world`; most of them are answered."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self._aliases = 0

    def _chance(self, share: float) -> bool:
        return self.rng.random() < share

    def _pick(self, *makers: Callable[[], str]) -> str:
        return self.rng.choice(makers)()

    def statement(self) -> str:
        groups = self._groups()
        values = [self._value() for _ in range(self.rng.choice([1, 1, 1, 2, 2, 3]))]
        names = [f"v{i}" if self._chance(0.5) else "" for i in range(len(values))]
        items = [f"{g} AS {a}" if a else g for g, a in groups]
        items += [f"{v} AS {n}" if n else v for v, n in zip(values, names, strict=True)]
        if self._chance(0.2):
            self.rng.shuffle(items)
        text = f"SELECT {', '.join(items)} FROM {{table}}"
        if self._chance(0.5):
            text += f" WHERE {self.condition(2)}"
        if groups:
            written = [self._grouped(group, alias, items) for group, alias in groups]
            text += f" GROUP BY {', '.join(written)}"
        named = [n for n in names if n]
        if self._chance(0.25):
            text += f" HAVING {self._having(named)}"
        if self._chance(0.3):
            keys = [*named, *(a or g for g, a in groups), "1", self._aggregate()]
            text += f" ORDER BY {self.rng.choice(keys)}{self.rng.choice(['', ' ASC', ' DESC'])}"
        if self._chance(0.15):
            text += f" LIMIT {self.rng.randint(1, 6)}"
        return self._spelled(self._placed(text))

    def _placed(self, text: str) -> str:
        """Behind FROM stands the table, or a subquery or common table expression that keeps its columns."""
        inner = "SELECT * FROM people"
        if self._chance(0.5):
            inner += f" WHERE {self.condition(1)}"
        match self.rng.randrange(8):
            case 0:
                return text.format(table=f"({inner}) AS f")
            case 1:
                return f"WITH f AS ({inner}) {text.format(table='f')}"
            case 2:
                second = "SELECT * FROM f" + (f" WHERE {self.condition(1)}" if self._chance(0.5) else "")
                return f"WITH f AS ({inner}), g AS ({second}) {text.format(table='g')}"
            case 3:
                return text.format(table="people AS p")
        return text.format(table="people")

    def _spelled(self, text: str) -> str:
        """Spaces, comments and cases that mean the same."""
        match self.rng.randrange(8):
            case 0:
                return re.sub(r"\b(SELECT|FROM|WHERE|AND|OR|NOT|AS)\b", lambda m: m[0].lower(), text)
            case 1:
                return text.replace(" FROM ", "\n FROM  ").replace(" WHERE ", "\n\tWHERE ")
            case 2:
                return text + " -- the end" if self._chance(0.5) else f"/* a 'comment' */ {text};"
        return text

    def _groups(self) -> list[tuple[str, str]]:
        groups: list[tuple[str, str]] = []
        for _ in range(self.rng.choice([0, 1, 1, 1, 2, 2, 3])):
            group = self.rng.choice(GROUPS) if self._chance(0.7) else self._group_expression()
            self._aliases += 1
            if group not in (g for g, _ in groups):
                is_plain = re.fullmatch(r'\w+|"\w+"', group)
                groups.append((group, f"g{self._aliases}" if not is_plain or self._chance(0.2) else ""))
        return groups

    def _grouped(self, group: str, alias: str, items: list[str]) -> str:
        item = f"{group} AS {alias}" if alias else group
        choices = [group, str(items.index(item) + 1), *([alias] if alias else [])]
        return self.rng.choice(choices)

    def _group_expression(self) -> str:
        number = self.rng.choice(["pay", "age", "kids", "score"])
        text = self.rng.choice([*TEXTS])
        return self._pick(
            lambda: f"FLOOR({number} / {self.rng.choice([10, 100, 7, 0.25])})",
            lambda: f"CASE WHEN {self.condition(1)} THEN 'yes' ELSE 'no' END",
            lambda: f"CASE WHEN {self.condition(0)} THEN 'a' WHEN {self.condition(0)} THEN 'b' END",
            lambda: f"COALESCE({text}, 'none')",
            lambda: f"EXTRACT({self.rng.choice(['year', 'month', 'dow', 'quarter'])} FROM {self._date()})",
            lambda: f"DATE_TRUNC('{self.rng.choice(['year', 'month', 'quarter'])}', {self._date()})",
            lambda: f"({self._number(1)} > {self._literal()})",
            lambda: f"{self.rng.choice(['UPPER', 'LOWER', 'LENGTH', 'TRIM'])}({text})",
            lambda: f"CAST({self.rng.choice(['active', 'kids', 'late'])} AS {self._type()})",
            lambda: f"kids % {self.rng.choice([2, 3])}",
            lambda: f"NULLIF({text}, {self._text(text)})",
            lambda: f"SIGN({self._number(1)})",
        )

    def _date(self) -> str:
        return self.rng.choice(DATES)

    def _type(self) -> str:
        return self.rng.choice(["BIGINT", "INTEGER", "VARCHAR", "DOUBLE", "BOOLEAN"])

    def _text(self, column: str) -> str:
        value = self.rng.choice(TEXTS[column]) if self._chance(0.9) else "other"
        return "'" + value.replace("'", "''") + "'"

    def _literal(self) -> str:
        return self.rng.choice(
            ["0", "1", "2", "3", "7", "0.5", "-3", "15", "25", "100", "250.5", "1e2", "-0.25"]
        )

    def _moment(self) -> str:
        day = f"2025-{self.rng.randint(1, 12):02}-{self.rng.randint(1, 28):02}"
        return self.rng.choice([f"DATE '{day}'", f"'{day}'", f"TIMESTAMP '{day} 13:30:00'"])

    # What is computed from aggregates.

    def _value(self) -> str:
        return self._aggregate() if self._chance(0.75) else self._formula(2)

    def _aggregate(self) -> str:
        filtered = f" FILTER (WHERE {self.condition(1)})" if self._chance(0.12) else ""
        return self._bare_aggregate() + filtered

    def _bare_aggregate(self) -> str:
        kind = self.rng.random()
        if kind < 0.25:
            return self.rng.choice(["COUNT(*)", "count(*)", "COUNT(1)"])
        if kind < 0.35:
            return f"COUNT({self.rng.choice([*GROUPS, *NUMBERS, 'seen'])})"
        if kind < 0.38:
            return "COUNT(DISTINCT person)"
        of = self.rng.choice(NUMBERS) if self._chance(0.65) else self._number(2)
        if kind < 0.8:
            return f"{self.rng.choice(['SUM', 'AVG', 'Avg'])}({of})"
        if kind < 0.92:
            names = ["VARIANCE", "VAR_POP", "VAR_SAMP", "STDDEV", "STDDEV_POP", "STDDEV_SAMP"]
            return f"{self.rng.choice(names)}({of})"
        if kind < 0.96:
            return f"MEDIAN({of})"
        return f"QUANTILE_CONT({of}, {self.rng.choice(['0.1', '0.5', '0.9', '.25', '0.99'])})"

    def _formula(self, depth: int) -> str:
        if depth == 0:
            return self._aggregate() if self._chance(0.75) else self._literal()
        return self._pick(
            lambda: f"{self._formula(depth - 1)} {self.rng.choice('+-*/')} {self._aggregate()}",
            lambda: f"{self._aggregate()} / NULLIF({self._aggregate()}, 0)",
            lambda: f"({self._formula(depth - 1)}) * {self._literal()}",
            lambda: f"- ({self._formula(depth - 1)})",
            lambda: f"LN({self._aggregate()})",
            lambda: f"EXP({self._aggregate()} / 1000)",
            lambda: f"ROUND({self._formula(depth - 1)}, {self.rng.randint(0, 4)})",
            lambda: f"CAST({self._aggregate()} AS DOUBLE) / COUNT(*)",
            lambda: f"COALESCE({self._aggregate()}, 0) + {self._literal()}",
        )

    def _having(self, names: list[str]) -> str:
        left = self.rng.choice(names) if names and self._chance(0.4) else self._aggregate()
        first = f"{left} {self.rng.choice(COMPARISONS)} {self._literal()}"
        return self._pick(
            lambda: first,
            lambda: f"{left} BETWEEN {self._literal()} AND {self._literal()}",
            lambda: f"{first} {self.rng.choice(['AND', 'OR'])} COUNT(*) > {self.rng.randint(0, 60)}",
            lambda: f"NOT ({first})",
            lambda: f"{left} > {self._aggregate()}",
        )

    # Expressions over rows.

    def _number(self, depth: int) -> str:
        if depth == 0:
            return self.rng.choice(NUMBERS) if self._chance(0.7) else self._literal()
        inner = lambda: self._number(depth - 1)  # noqa: E731
        return self._pick(
            lambda: f"{inner()} {self.rng.choice('+-*')} {inner()}",
            lambda: f"({inner()} + {inner()}) * {inner()}",
            lambda: f"{inner()} / {self.rng.choice(['2', '100', '0.5', '(kids + 1)', 'kids'])}",
            lambda: f"{inner()} % {self.rng.choice(['2', '7', '10'])}",
            lambda: f"CASE WHEN {self.condition(0)} THEN {inner()} ELSE {inner()} END",
            lambda: f"CASE WHEN {self.condition(0)} THEN {inner()} END",
            lambda: f"CASE kids WHEN 1 THEN {inner()} WHEN 2 THEN 5 ELSE 0 END",
            lambda: f"COALESCE({inner()}, {self._literal()})",
            lambda: f"NULLIF({inner()}, {self._literal()})",
            lambda: f"{self.rng.choice(['GREATEST', 'LEAST'])}({inner()}, {self._literal()})",
            lambda: f"{self.rng.choice(['ABS', 'FLOOR', 'CEIL', 'ROUND', 'SIGN'])}({inner()})",
            lambda: f"ROUND({inner()}, {self.rng.randint(0, 2)})",
            lambda: f"CAST({self.rng.choice(['active', 'kids', 'late', 'pay'])} AS {self._type()})",
            lambda: f"LENGTH({self.rng.choice([*TEXTS])})",
            lambda: f"EXTRACT({self.rng.choice(['hour', 'day', 'doy', 'year'])} FROM {self._date()})",
            lambda: f"({self.condition(0)})",
            lambda: f"-{inner()}",
        )

    def condition(self, depth: int) -> str:
        """A condition on rows."""
        if depth > 0 and self._chance(0.6):
            left, right = self.condition(depth - 1), self.condition(depth - 1)
            return self._pick(
                lambda: f"{left} AND {right}",
                lambda: f"({left} OR {right})",
                lambda: f"NOT ({left})",
                lambda: f"{left} OR {right} AND {self.condition(0)}",
            )
        number = self.rng.choice(NUMBERS) if self._chance(0.75) else self._number(1)
        text = self.rng.choice([*TEXTS])
        column = self.rng.choice([*GROUPS, *NUMBERS])
        return self._pick(
            lambda: f"{number} {self.rng.choice(COMPARISONS)} {self._literal()}",
            lambda: f"{self._literal()} {self.rng.choice(COMPARISONS)} {number}",
            lambda: f"{number} BETWEEN {self._literal()} AND {self._literal()}",
            lambda: f"{text} {self.rng.choice(['=', '<>', '!='])} {self._text(text)}",
            lambda: f"{text} {self.rng.choice(['IN', 'NOT IN'])} ({self._text(text)}, {self._text(text)})",
            lambda: f"kids {self.rng.choice(['IN', 'NOT IN'])} (0, {self.rng.randint(0, 8)})",
            lambda: f"{column} IS {self.rng.choice(['NULL', 'NOT NULL'])}",
            lambda: self.rng.choice(["active", "NOT active", "active = TRUE", "active <> FALSE"]),
            lambda: (
                f"{text} {self.rng.choice(['LIKE', 'ILIKE', 'NOT LIKE'])} "
                f"{self.rng.choice(['%s%', 'n%', '_', '%th', 'F', '%ã%', 'It%'])!r}"
            ),
            lambda: f"{self._date()} {self.rng.choice(COMPARISONS)} {self._moment()}",
            lambda: f"{self._date()} BETWEEN {self._moment()} AND {self._moment()}",
            lambda: f"pay {self.rng.choice(COMPARISONS)} {self._number(1)}",
        )
