"""A confidential value cannot get out by accident."""

from __future__ import annotations

import copy
import json
import pickle
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpxplain.errors import InternalError
from dpxplain.model.confidential import Confidential

SECRET = 31337.125


@pytest.mark.parametrize("show", [repr, str, "{}".format, lambda s: f"{s!r:s}", lambda s: f"{s} {s!s:>30}"])
def test_it_shows_nothing_of_its_value(show: Callable[[object], str]) -> None:
    assert "31337" not in show(Confidential(SECRET))
    assert "31337" not in show([Confidential(SECRET)])
    assert "31337" not in show({"a": Confidential(np.array([SECRET]))})


ATTEMPTS: dict[str, Callable[[Any], object]] = {
    "==": lambda s: s == SECRET,
    "!=": lambda s: s != SECRET,
    "<": lambda s: s < 1,
    "<=": lambda s: s <= 1,
    ">": lambda s: s > 1,
    ">=": lambda s: s >= 1,
    "reflected": lambda s: SECRET.__class__(1) < s,
    "bool": bool,
    "not": lambda s: not s,
    "len": len,
    "iter": list,
    "in": lambda s: 1 in s,
    "hash": hash,
    "dict key": lambda s: {s: 1},
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "deepcopy in a list": lambda s: copy.deepcopy([s]),
    **{f"pickle {n}": lambda s, n=n: pickle.dumps(s, n) for n in range(pickle.HIGHEST_PROTOCOL + 1)},
}


@pytest.mark.parametrize("attempt", ATTEMPTS.values(), ids=list(ATTEMPTS))
def test_it_refuses_to_be_compared_tested_iterated_or_stored(attempt: Callable[[Any], object]) -> None:
    with pytest.raises(InternalError) as caught:
        attempt(Confidential(SECRET))
    assert "31337" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "attempt",
    [float, int, json.dumps, lambda s: s + 1, lambda s: s[0], lambda s: s(), vars, lambda s: s.value],
)
def test_it_has_no_other_door(attempt: Callable[[Any], object]) -> None:
    with pytest.raises((TypeError, AttributeError)) as caught:
        attempt(Confidential(SECRET))
    assert "31337" not in str(caught.value)


def test_a_format_of_its_own_shows_nothing_either() -> None:
    assert f"{Confidential(SECRET):.3f}" == "<Confidential>"


def test_nothing_can_be_hung_on_it() -> None:
    with pytest.raises(AttributeError):
        Confidential(SECRET).note = "x"  # type: ignore[attr-defined]


def test_numpy_sees_an_object_and_not_a_number() -> None:
    wrapped = np.asarray(Confidential(SECRET))
    assert wrapped.dtype == object
    assert "31337" not in repr(wrapped)


def test_mapping_and_zipping_keep_it_closed() -> None:
    both = Confidential(2).zip(Confidential(3)).map(lambda pair: pair[0] * pair[1])
    assert repr(both) == "<Confidential>"
    assert both.reveal() == 6


def test_an_error_inside_map_leaves_its_text_and_its_context_behind() -> None:
    def fail(value: float) -> float:
        raise ValueError(f"cannot use {value}")

    with pytest.raises(InternalError) as caught:
        Confidential(SECRET).map(fail)
    error = caught.value
    assert error.__cause__ is None
    assert error.__context__ is None
    assert "31337" not in "".join(traceback.format_exception(error))
