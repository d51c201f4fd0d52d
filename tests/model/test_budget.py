"""ρ is checked, and counted without drift."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpxplain.errors import BadRequest
from dpxplain.model.charge import (
    LARGEST_RHO,
    UNITS_PER_RHO,
    Budget,
    check_rho,
    limit_units,
    rho_of_units,
    spend_units,
)

exact = settings(max_examples=200, deadline=None, derandomize=True, database=None)
rhos = st.floats(1 / UNITS_PER_RHO, LARGEST_RHO)


@pytest.mark.parametrize(
    "rho",
    [
        *[0, -0.0, -1, math.nan, math.inf, -math.inf, 1e-13, 5e-324, 1e7, 1e308, 10**400, -(10**5000)],
        *["0.1", None, True, False, [0.1], Decimal("0.1"), 1j],
    ],
    ids=lambda rho: f"{type(rho).__name__}{'' if isinstance(rho, int) else repr(rho)}",
)
def test_an_unusable_rho_is_refused_in_one_sentence_with_a_remedy(rho: Any) -> None:
    with pytest.raises(BadRequest) as caught:
        check_rho(rho)
    assert caught.value.problem.startswith("rho must ")
    assert caught.value.problem.endswith(".")
    assert caught.value.remedy == "Try rho=0.1."


def test_the_ends_of_the_range_are_usable() -> None:
    assert check_rho(1e-12) == 1e-12
    assert check_rho(LARGEST_RHO) == 1e6
    assert isinstance(check_rho(1), float)


@exact
@given(rhos)
def test_a_spend_is_never_recorded_as_less_and_a_limit_never_as_more(rho: float) -> None:
    assert Decimal(spend_units(rho)) >= Decimal(repr(rho)) * UNITS_PER_RHO
    assert Decimal(limit_units(rho)) <= Decimal(repr(rho)) * UNITS_PER_RHO
    assert 0 <= spend_units(rho) - limit_units(rho) <= 1


@exact
@given(st.integers(1, 10**6), st.integers(1, 100))
def test_decimal_amounts_add_up_exactly(thousandths: int, times: int) -> None:
    assert spend_units(thousandths / 1000) * times == limit_units(thousandths * times / 1000)


@exact
@given(st.integers(0, 4 * 10**15))
def test_units_survive_the_way_to_a_float_and_back(units: int) -> None:
    assert limit_units(rho_of_units(units)) == spend_units(rho_of_units(units)) == units


def test_what_remains_is_never_negative() -> None:
    assert Budget(limit=1.0, spent=0.9, delta=1e-6).remaining == 0.1
    assert Budget(limit=1.0, spent=1.0, delta=1e-6).remaining == 0.0
    assert Budget(limit=1.0, spent=2.0, delta=1e-6).remaining == 0.0
