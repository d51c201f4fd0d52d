"""axe-core, run inside the page: by the debugger, which the Content-Security-Policy does not concern."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

GRAVE = ("serious", "critical")
_ALL = {"resultTypes": ["violations"], "iframes": False}
# The scheme changes colours only.
_COLOURS = _ALL | {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}

# What lies behind an open dialog cannot be reached, and was looked at before.
_RUN = "(options) => axe.run(document.querySelector('dialog[open]') ?? document, options)"


def assert_accessible(page: Page) -> None:
    """No serious or critical finding in what is shown now, in either colour scheme."""
    page.evaluate(AXE_SCRIPT)
    grave = _grave(page, "light", _ALL)
    page.emulate_media(color_scheme="dark")
    grave += _grave(page, "dark", _COLOURS)
    page.emulate_media(color_scheme="light")
    assert not grave, "\n".join(grave)


def _grave(page: Page, scheme: str, options: dict[str, Any]) -> list[str]:
    found: list[dict[str, Any]] = page.evaluate(_RUN, options)["violations"]
    return [
        f"{scheme}: {one['impact']} {one['id']}: {node['target']} {node.get('failureSummary', '')}"
        for one in found
        if one["impact"] in GRAVE
        for node in one["nodes"]
    ]
