"""Finds lines of a history that contain a text, page by page. A request reads a limited number of lines."""

from __future__ import annotations

from dpxplain.model.charge import Entry, EntryId, HistoryPage, ReadPage

MOST_LINES = 2_000
"""A request stops after this many lines, whether or not any of them matches."""


def search_history(read: ReadPage, text: str, before: EntryId | None, limit: int) -> HistoryPage:
    """The newest lines below `before` that contain the text, at most `limit`.

    `older` is where the search continues, even if nothing was found so far.
    """
    matches: list[Entry] = []
    position, lines_read = before, 0
    while True:
        page = read(position)
        for entry in reversed(page.entries):
            if not _contains(entry, text.lower()):
                continue
            matches.insert(0, entry)
            if len(matches) == limit:
                return HistoryPage(matches, entry.id)
        lines_read += len(page.entries)
        position = page.older
        if position is None or lines_read >= MOST_LINES:
            return HistoryPage(matches, position)


def _contains(entry: Entry, text: str) -> bool:
    return any(text in part.lower() for part in (entry.description, entry.kind, entry.analyst))
