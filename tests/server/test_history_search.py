"""A text is found in a history page by page, and no request reads more than a bounded number of lines."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dpxplain.model.charge import Entry, HistoryPage
from dpxplain.server.routes.phases import MOST_LINES, search_history

LINES = 3 * MOST_LINES + 7


class Pages:
    """A history of many lines, read 1,000 at a time."""

    def __init__(self, wanted: set[int]) -> None:
        self.wanted = wanted
        self.lines_read = 0

    def __call__(self, before: int | None) -> HistoryPage:
        end = LINES + 1 if before is None else before
        start = max(1, end - 1_000)
        self.lines_read += end - start
        return HistoryPage(
            [self._entry(number) for number in range(start, end)], start if start > 1 else None
        )

    def _entry(self, number: int) -> Entry:
        text = "About Zone 7" if number in self.wanted else "something else"
        return Entry(
            number, datetime(2026, 1, 1, tzinfo=UTC), "query", text, 0.0, (), "released", str(number)
        )


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_every_match_is_found_once_newest_first_whatever_the_size_of_a_page(limit: int) -> None:
    wanted = {1, 2, 900, 1_000, 1_001, MOST_LINES, LINES - 1, LINES}
    matches: list[int] = []
    before: int | None = None
    while True:
        pages = Pages(wanted)
        page = search_history(pages, "zone 7", before, limit)
        assert len(page.entries) <= limit
        assert pages.lines_read < MOST_LINES + 1_000
        matches = [entry.id for entry in page.entries] + matches
        before = page.older
        if before is None:
            break
    assert matches == sorted(wanted)


def test_a_search_without_matches_says_where_it_goes_on() -> None:
    page = search_history(Pages(set()), "zone 7", None, 100)
    assert page.entries == []
    assert page.older == LINES + 1 - MOST_LINES
