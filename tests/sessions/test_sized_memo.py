"""The cache of grouped passes and families keeps within its limits and computes each result once."""

from __future__ import annotations

import pytest

from dpxplain.phases.concurrency import SizedMemo


@pytest.fixture
def memo() -> SizedMemo:
    return SizedMemo(together=10, each=4)


def get(memo: SizedMemo, text: str, holder: str = "ann") -> bool:
    """Asks for a text; returns whether it had to be computed."""
    computed = []

    def compute() -> str:
        computed.append(text)
        return text

    assert memo.get(text, compute, len, holder) == text
    return bool(computed)


@pytest.mark.parametrize("size", [5, 11], ids=["above one holder's limit", "above the limit of all"])
def test_result_above_a_limit_is_not_kept_and_displaces_nothing(memo, size):
    get(memo, "aa")
    get(memo, "bb", "bob")
    assert get(memo, "x" * size)
    assert memo.bytes == 4
    assert not get(memo, "aa")
    assert not get(memo, "bb", "bob")
    assert get(memo, "x" * size)


def test_result_above_the_limit_of_all_is_not_kept_where_one_holder_may_have_more():
    memo = SizedMemo(together=3, each=5)
    get(memo, "aa")
    assert get(memo, "xxxx")
    assert not get(memo, "aa")


def test_result_as_large_as_the_limit_displaces_the_holders_older_ones(memo):
    get(memo, "aa")
    get(memo, "bb", "bob")
    assert get(memo, "xxxx")
    assert not get(memo, "xxxx")
    assert not get(memo, "bb", "bob")
    assert get(memo, "aa")


def test_oldest_results_of_all_are_displaced_first(memo):
    for number, holder in enumerate(("ann", "bob", "eve", "dan")):
        get(memo, str(number) * 3, holder)
    assert memo.bytes == 9
    assert get(memo, "000")


def test_a_holder_whose_oldest_was_displaced_is_still_counted(memo):
    for text in ("aa", "bb", "cc", "dd", "ee"):
        get(memo, text)
        assert memo.bytes <= 4
    assert not get(memo, "dd")
    assert get(memo, "aa")
