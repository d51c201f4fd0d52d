"""What is refused before its charge because of its size, told from declarations alone.

A request that is charged and then runs out of memory or time tells by that something about the data, free of
noise. So what could, by its declared size, is refused before; the limits here are small enough for a server
that many share. The library itself takes more.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from typing import Any

from dpxplain.errors import ExplanationError, QueryRefused
from dpxplain.explanation.cover import cover
from dpxplain.explanation.family import Family
from dpxplain.model.groups import Groups
from dpxplain.model.query import Query
from dpxplain.model.schema import Schema
from dpxplain.phases.dataset import OpenDataset
from dpxplain.results.prepared import PreparationPreview
from dpxplain.results.preview import ExplanationPreview, QueriesPreview, QueryPreview
from dpxplain.server import translate as asking
from dpxplain.server.bodies import Ask, Explain, Prepare
from dpxplain.server.config import Limits
from dpxplain.session import Session
from dpxplain.sql.parse import parse

MANY_GROUPS = 2_000
"""Answers with more are not rendered where small ones are."""

_BYTES_PER_CELL = 128  # of DuckDB's hash table and of the result, with room to spare
_SIZES = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@dataclass(frozen=True)
class Sizes:
    """The most that one request may ask for."""

    groups: int
    cells: int
    """Of one pass over the data."""
    ranked: int
    """Predicates chosen times predicates they are ranked among."""

    @classmethod
    def of(cls, limits: Limits) -> Sizes:
        # The other half is for the encoded table and for other requests.
        cells = bytes_of(limits.memory) // 2 // _BYTES_PER_CELL
        return cls(limits.groups, cells, limits.ranked)


def bytes_of(memory: str | None) -> int:
    """What DuckDB takes at most; without a limit of ours, its own, four fifths of the machine's.

    >>> bytes_of("1.5GB"), bytes_of("2 KiB")
    (1500000000, 2048)
    """
    if memory is None:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 4 // 5
    said = re.fullmatch(r"([\d.]+)\s?([KMGT])(i?)B", memory)
    assert said is not None  # the configuration was checked
    return int(float(said[1]) * (_BINARY if said[3] else _SIZES)[said[2]])


def groups_asked(schema: Schema, sql: str) -> int:
    """How many declared groups a query has."""
    return Groups.of(parse(sql, schema).query, schema).size


def check_query(schema: Schema, sql: str, sizes: Sizes) -> None:
    if (size := groups_asked(schema, sql)) > sizes.groups:
        raise QueryRefused(
            f"The query has {size:,} declared groups, more than the {sizes.groups:,} that this server "
            "answers at once. Nothing was charged.",
            remedy="Group by fewer columns, or by columns with fewer declared values.",
        )


def priced_query(session: Session, body: Ask, sizes: Sizes) -> QueryPreview | QueriesPreview:
    check_query(session.schema, body.sql, sizes)
    return session.preview(body.sql, body.rho, confidence=body.confidence)


def priced_preparation(
    session: Session, dataset: OpenDataset, body: Prepare, sizes: Sizes
) -> PreparationPreview:
    """Its price, unless it is too large."""
    answer = asking.aggregate_meant(session, body.answer, body.of)
    family = asking.family_asked(body.family, session.schema)
    priced = answer.preview_prepare(body.rho, **family)
    if not priced.price.free:
        _check_pass(dataset, answer.statement.query, family, sizes)
    return priced


def priced_explanation(
    session: Session, dataset: OpenDataset, body: Explain, sizes: Sizes
) -> ExplanationPreview:
    """Its price, unless it is too large."""
    question = asking.question_asked(session, body)
    arguments = asking.explain_arguments(body, session.schema)
    priced = question.preview(**arguments)
    if priced.k * priced.family_size > sizes.ranked:
        raise ExplanationError(
            f"To rank {priced.k:,} among {priced.family_size:,} predicates is more work than this server "
            "does for one request. Nothing was charged.",
            remedy=f"Use k up to {max(1, sizes.ranked // priced.family_size):,}, or choose fewer attributes "
            "or conjuncts.",
        )
    if not priced.price.free and priced.price.rho > 0:
        family = {name: arguments[name] for name in ("attributes", "conjuncts", "exclude", "predicates")}
        _check_pass(dataset, question.answer.statement.query, family, sizes)
    return priced


def _check_pass(dataset: OpenDataset, query: Query, family: dict[str, Any], sizes: Sizes) -> None:
    cells = pass_cells(query, dataset.family(query, **family), dataset.schema)
    if cells > sizes.cells:
        raise ExplanationError(
            f"One pass over the data would count up to {cells:,} cells, more than the {sizes.cells:,} for "
            "which this server has memory. Nothing was charged.",
            remedy="Choose fewer attributes or conjuncts, or ask about a query with fewer groups.",
        )


def pass_cells(query: Query, family: Family, schema: Schema) -> int:
    """The most that one pass can count, whatever the data: declared cells of all its group-bys."""
    sizes = {name: len(schema.domain(name)) for name in family.attributes}
    blocks = cover(family.subsets, sizes)
    wide = sum(math.prod(sizes[name] for name in block) for block in blocks)
    return Groups.of(query, schema).size * wide
