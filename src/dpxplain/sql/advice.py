"""Refused words of SQL and the remedy for each.

These tables only make refusals helpful: a word that is missing here is refused too, because `admit` works
by allow-lists.
"""

from __future__ import annotations

GRAMMAR = (
    "Write: SELECT columns, then any of COUNT(*), COUNT(column), SUM(column), AVG(column) FROM the table "
    "[WHERE conditions] [GROUP BY columns] [HAVING ...] [ORDER BY ...] [LIMIT n]."
)

_READ_ONLY = "The data are only ever read; write a SELECT with COUNT, SUM or AVG."

# First words of statements that are not SELECT.
STATEMENTS: dict[str, str] = {
    "FROM": "Put SELECT first: SELECT ... FROM table.",
    "(": "Remove the parentheses around the statement.",
    "EXPLAIN": "To see a query's price before asking it, use preview.",
    "DESCRIBE": "The declared columns are in the schema; they can be read without a query.",
    "SHOW": "The declared columns are in the schema; they can be read without a query.",
    "SUMMARIZE": "Ask for COUNT, SUM and AVG of the columns in question.",
    "VALUES": GRAMMAR,
} | dict.fromkeys(
    [
        *("INSERT", "UPDATE", "DELETE", "MERGE", "CREATE", "DROP", "ALTER", "TRUNCATE", "COPY", "EXPORT"),
        *("ATTACH", "DETACH", "PRAGMA", "SET", "RESET", "USE", "CALL", "EXECUTE", "PREPARE", "INSTALL"),
        *("LOAD", "IMPORT", "VACUUM", "ANALYZE", "GRANT", "REVOKE", "BEGIN", "COMMIT", "ROLLBACK"),
    ],
    _READ_ONLY,
)

_JOIN = ("JOIN", "Ask about one table; join beforehand, and declare the joined table in the schema.")
_SETS = (
    "Combining queries with {}",
    "Ask each query on its own and combine the released answers; that is free.",
)
_GROUPS = ("{}", "List plain columns in GROUP BY, and ask once for each grouping.")
_PER_ROW = "It gives a value for each row, and rows are private; use COUNT, SUM or AVG with GROUP BY."
_WINDOW = ("A window function", _PER_ROW)
_PATTERN = ("Pattern matching with {}", "List the declared values that match: column IN ('...', '...').")
_ARITHMETIC = ("Arithmetic with {}", "Use +, -, *, / and %; FLOOR(a / b) divides whole numbers.")
_SAMPLE = ("Sampling with {}", "Ask about the whole table.")
_DISTINCT = ("DISTINCT here", "Leave it out: GROUP BY already gives each group once.")
_SUBQUERY = ("A subquery here", "Put its conditions into WHERE; a subquery may stand behind FROM.")
_PARAMETER = ("A parameter ({})", "Write the value itself into the SQL.")
_NULL_TEST = ("{}", "Write IS NULL or IS NOT NULL.")
_SAME = ("IS [NOT] DISTINCT FROM", "Compare with = or <>, and test for NULL with IS NULL.")
_SKIP = ("{}", "Ask for the rows with LIMIT and leave some out of the released answer; that is free.")
_COLLECTION = ("A list or structure ({})", "Use plain columns, numbers and text; a list goes into IN (...).")
_LOCK = ("FOR", "Leave it out: the data are only ever read.")
_TICKS = ("A backtick", 'Quote names with double quotes: "column".')
_ALL = ("ALL", "Leave it out, and name the columns.")

# By "previous word", "word next" or the word alone; {} stands for the word.
WORDS: dict[str, tuple[str, str]] = {
    "QUALIFY": ("QUALIFY", "Leave it out and filter the released answer; that is free."),
    "WITH": ("WITH here", "Begin the statement with it: WITH name AS (SELECT ...) SELECT ..."),
    "RECURSIVE": ("WITH RECURSIVE", "Leave RECURSIVE out; a common table expression selects and filters."),
    "MATERIALIZED": ("MATERIALIZED", "Leave it out: it changes nothing."),
    "INTO": ("SELECT INTO", "Leave INTO out; a released answer can be exported."),
    "( DISTINCT": (
        "DISTINCT in an aggregate",
        "Use COUNT(column); distinct values are declared in the schema.",
    ),
    "DISTINCT FROM": _SAME,
    "DISTINCT ON": ("DISTINCT ON", "Write DISTINCT without ON, or leave it out."),
    "<=>": _SAME,
    "NULLS": ("NULLS FIRST or LAST", "Leave it out and order the released answer; that is free."),
    "EXISTS": _SUBQUERY,
    "USING SAMPLE": ("Sampling with USING SAMPLE", _SAMPLE[1]),
    "COLLATE": ("COLLATE", "Text is compared exactly; list the declared values with IN."),
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
    ("UNION", "INTERSECT", "EXCEPT"): _SETS,
    ("ROLLUP", "CUBE", "GROUPING SETS", "GROUPING"): _GROUPS,
    ("OVER", "WINDOW", "PARTITION", "PARTITION BY"): _WINDOW,
    ("SIMILAR TO", "GLOB", "RLIKE", "REGEXP", "~", "~~", "~*", "~~~"): _PATTERN,
    ("//", "%", "^", "**", "&", "|", "<<", ">>", "DIV"): _ARITHMETIC,
    ("TABLESAMPLE", "SAMPLE"): _SAMPLE,
    ("DISTINCT",): _DISTINCT,
    ("SELECT", "ANY", "SOME"): _SUBQUERY,
    ("?", "$", "@", ":"): _PARAMETER,
    ("ISNULL", "NOTNULL"): _NULL_TEST,
    ("OFFSET", "FETCH"): _SKIP,
    ("[", "]", "{", "}", "->", "->>", "=>"): _COLLECTION,
    ("FOR",): _LOCK,
    ("`",): _TICKS,
    ("ALL",): _ALL,
    ("PIVOT", "UNPIVOT"): ("{}", "Use GROUP BY, and pivot the released answer."),
}.items():
    WORDS |= dict.fromkeys(_words, _rule)


def advice(previous: str, word: str, following: str) -> tuple[str, str] | None:
    """The name of a refused word and what to write instead; None if the tables do not have it.

    >>> advice("(", "distinct", "sex")
    ('DISTINCT in an aggregate', 'Use COUNT(column); distinct values are declared in the schema.')
    """
    previous, word, following = previous.upper(), word.upper(), following.upper()
    for key in (f"{previous} {word}", f"{word} {following}", word):
        if key in WORDS:
            what, remedy = WORDS[key]
            return what.format(word), remedy
    if following == "(":
        return f"The function {word}", FUNCTIONS.get(word, FUNCTION)
    return None


# Functions people try, and the way round each.
FUNCTIONS: dict[str, str] = {
    "MIN": "One row decides it, so noise would drown it; ask for QUANTILE_CONT(column, 0.05).",
    "MAX": "One row decides it, so noise would drown it; ask for QUANTILE_CONT(column, 0.95).",
    "MEAN": "Write AVG(column).",
    "IIF": "Write CASE WHEN condition THEN a ELSE b END.",
    "COUNT_IF": "Write COUNT(*) FILTER (WHERE condition).",
    "COUNTIF": "Write COUNT(*) FILTER (WHERE condition).",
    "NOW": "Write the value itself.",
    **dict.fromkeys(("ROW_NUMBER", "RANK", "DENSE_RANK", "NTILE", "LAG", "LEAD"), _PER_ROW),
    **dict.fromkeys(("FIRST_VALUE", "LAST_VALUE", "NTH_VALUE"), _PER_ROW),
}
FUNCTION = (
    "Answered are COUNT, SUM, AVG, VARIANCE, STDDEV and MEDIAN, and CASE, COALESCE, CAST, EXTRACT, ROUND "
    "and the like in them."
)
