"""Releases are stored as JSON, long arrays packed; what was stored as lists before is read as well."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

from dpxplain.errors import BadRequest
from dpxplain.model import release
from dpxplain.model.release import (
    AnswerRelease,
    AnswersRelease,
    ExplanationRelease,
    PreparedRelease,
    ReleasedLine,
)

NUMBERS = np.random.default_rng(3).normal(0.0, 1e6, 3000)


def _answer(size: int, sums: bool = True) -> AnswerRelease:
    values = tuple(NUMBERS[:size].tolist())
    return AnswerRelease(0.5, values, 1.25, values[::-1] if sums else None, 2.5 if sums else None)


def _table(size: int, told: bool) -> ExplanationRelease:
    def line(number: int) -> ReleasedLine:
        value = float(NUMBERS[number])
        gap: tuple[Any, Any] = (value / 3, (-np.inf, value / 7)) if told and number % 5 else (None, None)
        return ReleasedLine(19_999_999 - number, value, (value - 1, value + 1), (1, number + 1), *gap)

    lines = tuple(line(number) for number in range(size))
    return ExplanationRelease(0.1, "vector", 0.95, lines, gap=1.5, gap_interval=(1.0, 2.0))


@pytest.mark.parametrize("sums", [True, False])
@pytest.mark.parametrize("size", [0, 2, 999, 1000, 3000])
def test_an_answer_is_read_as_it_was_stored(size: int, sums: bool) -> None:
    answer = _answer(size, sums)
    assert AnswerRelease.from_json(answer.to_json()) == answer
    several = AnswersRelease(1.0, (answer, _answer(2)))
    assert AnswersRelease.from_json(several.to_json()) == several


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("size", [1, 999, 1000, 3000])
def test_a_table_is_read_as_it_was_stored(size: int, told: bool) -> None:
    table = _table(size, told)
    read = ExplanationRelease.from_json(table.to_json())
    assert read == table
    assert all(type(line.predicate) is int and type(line.rank[0]) is int for line in read.lines)


@pytest.mark.parametrize("size", [2, 3000])
def test_the_share_of_the_gap_is_computed_when_read_and_never_stored(size: int) -> None:
    table = _table(size, told=True)
    told = [replace(line, share_removed=0.5, share_removed_interval=(0.4, 0.6)) for line in table.lines]
    assert replace(table, lines=tuple(told)).to_json() == table.to_json()
    assert "share_removed" not in table.to_json()


@pytest.mark.parametrize("size", [2, 3000])
def test_releases_stored_as_lists_are_still_read(size: int) -> None:
    answer, table = _answer(size), _table(size, told=True)
    assert AnswerRelease.from_json(json.dumps(asdict(answer))) == answer
    assert ExplanationRelease.from_json(json.dumps(asdict(table))) == table
    several = AnswersRelease(1.0, (answer, answer))
    assert AnswersRelease.from_json(json.dumps({"version": 2, **asdict(several)})) == several


def test_long_releases_take_less_room_than_lists_would() -> None:
    assert len(_answer(3000).to_json()) < 0.8 * len(json.dumps(asdict(_answer(3000))))
    assert len(_table(3000, told=True).to_json()) < 0.5 * len(json.dumps(asdict(_table(3000, told=True))))


def _packed(numbers: np.ndarray) -> str:
    return str(
        json.loads(AnswerRelease(0.5, tuple(numbers.tolist()), 1.25, None, None).to_json())["noisy_count"]
    )


WHOLE = _packed(NUMBERS)
BOMB = base64.b64encode(zlib.compress(bytes(2**24))).decode()


@pytest.mark.parametrize("packed", ["not base64!", "AAAA", "", None, 7, WHOLE[:-8], WHOLE + "AAAA", BOMB])
def test_damaged_packed_numbers_are_refused_with_a_sentence(
    packed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release, "_MOST_BYTES", 2**20)
    stored = {"rho": 1.0, "cells": [2], "count_scale": 1.0, "noisy_total": None, "total_scale": None}
    with pytest.raises(BadRequest, match="damaged"):
        PreparedRelease.from_json(json.dumps(stored | {"noisy_count": packed}))


def test_a_table_whose_packed_lines_are_cut_is_refused() -> None:
    stored = json.loads(_table(1000, told=True).to_json())
    (name,) = [key for key, value in stored.items() if isinstance(value, str) and len(value) > 1000]
    with pytest.raises(BadRequest, match="damaged"):
        ExplanationRelease.from_json(json.dumps(stored | {name: _packed(NUMBERS[:1001])}))
