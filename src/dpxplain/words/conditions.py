"""The name of a condition: as a line of a table, and as a phrase within a sentence."""

from __future__ import annotations

from datetime import date

from dpxplain.model.column import Bin, label
from dpxplain.model.dates import edge_text
from dpxplain.model.predicate import Condition, FilterPredicate, Predicate
from dpxplain.model.schema import Schema
from dpxplain.words.numbers import clean, uncapitalised
from dpxplain.words.titles import condition_words

AnyPredicate = Predicate | FilterPredicate


def condition_label(predicate: AnyPredicate, schema: Schema) -> str:
    """The condition in a table: with the declared labels of its columns and values.

    >>> flights = Schema.load({"table": {"name": "flights"}, "privacy": {"rho": 1}, "columns": {
    ...     "dest": {"values": ["JFK"], "label": "Destination", "value_labels": {"JFK": "Kennedy"}},
    ...     "hour": {"edges": [0, 6, 12]}}})
    >>> early = Predicate((Condition("dest", "JFK"), Condition("hour", Bin(0, 6))))
    >>> condition_label(early, flights), condition_phrase(early, flights)
    ('Destination = JFK (Kennedy) and hour in (0, 6]', 'destination “Kennedy” and hour 0–6')
    """
    if isinstance(predicate, FilterPredicate):
        return clean(predicate.label)
    return clean(" and ".join(_line(condition, schema) for condition in predicate.conditions))


def condition_phrase(predicate: AnyPredicate, schema: Schema) -> str:
    """The condition within a sentence, as a noun."""
    if isinstance(predicate, FilterPredicate):
        return clean(f"rows where {condition_words(predicate.condition, schema)}")
    return clean(" and ".join(_noun(condition, schema) for condition in predicate.conditions))


def _line(condition: Condition, schema: Schema) -> str:
    column = schema.column(condition.column)
    name = column.label or condition.column
    if isinstance(condition.value, Bin):
        return f"{name} in {column.text(condition.value)}"
    return f"{name} = {column.text(condition.value)}"


def _noun(condition: Condition, schema: Schema) -> str:
    column, value = schema.column(condition.column), condition.value
    name = uncapitalised(column.label) if column.label else condition.column.replace("_", " ")
    meaning = column.value_label(value)
    if meaning:
        return f"{name} “{meaning}”"
    if value is None:
        return f"{name} missing"
    if isinstance(value, Bin):
        dash = " to " if isinstance(value.low, date) else "–"
        return f"{name} {edge_text(value.low)}{dash}{edge_text(value.high)}"
    return f"{name} “{label(value)}”"
