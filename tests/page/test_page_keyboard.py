"""The paper's example without a mouse: Tab, arrows, space and enter, and focus always to be seen."""

from __future__ import annotations

import re

import pytest
from page_steps import Visit, finding, group, headline, run_button, spent, table
from playwright.sync_api import Locator, Mouse, Page, expect

from server_fixture import RunningServer

FAR = 60  # how many stops a person may need at most
# What has the focus, also inside the editor's shadow root: its name, and whether one can see that.
FOCUS = """() => {
  let element = document.activeElement;
  while (element.shadowRoot?.activeElement) element = element.shadowRoot.activeElement;
  const name = element.getAttribute('aria-label') || element.labels?.[0]?.innerText || element.innerText;
  const box = element.getBoundingClientRect();
  const host = element.getRootNode().host;
  const ring = [element, element.parentElement, host, host?.parentElement].filter(Boolean).some((node) => {
    const style = getComputedStyle(node);
    return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0;
  });
  return { text: (name || '').trim(), ring, seen: box.width > 0 && box.bottom > 0 && box.top < innerHeight };
}"""


@pytest.fixture
def hands_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reaches for the mouse, or sets a value past the keyboard, fails."""

    def refuse(*_args: object, **_more: object) -> None:
        pytest.fail("by keyboard only")

    for kind, names in {
        Locator: ("click", "dblclick", "hover", "check", "fill", "tap", "focus", "select_option"),
        Page: ("click", "dblclick", "hover", "check", "fill", "tap", "focus", "select_option"),
        Mouse: ("click", "move", "down", "wheel"),
    }.items():
        for name in names:
            monkeypatch.setattr(kind, name, refuse)


def _press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def _tab_to(page: Page, name: str) -> list[str]:
    """Tab until something of that name has the focus; each stop on the way must be visible."""
    stops: list[str] = []
    for _ in range(FAR):
        _press(page, "Tab")
        at = page.evaluate(FOCUS)
        stops.append(at["text"])
        assert at["seen"], f"focus went out of sight at {at}"
        assert at["ring"], f"nothing shows that {at} has the focus"
        if re.search(name, at["text"]):
            return stops
    raise AssertionError(f"{name} was not reached: {stops}")


@pytest.mark.usefixtures("hands_off")
def test_the_paper_example_by_keyboard(fresh_adult: RunningServer, visit: Visit) -> None:
    page = visit(fresh_adult)
    expect(run_button(page)).to_be_enabled()
    _press(page, "Tab")
    assert page.evaluate(FOCUS)["text"] == "Skip to the content"
    _press(page, "Enter")
    assert page.evaluate("document.activeElement.id") == "main"

    _tab_to(page, "Ask · 0.10")
    _press(page, "Enter")
    expect(group(page, "Married-civ-spouse")).to_be_visible()
    expect(finding(page)).to_be_visible()

    stops = _tab_to(page, "^A?\\W*Married-")
    assert len(stops) <= 12, f"the groups are a few stops after the answer: {stops}"
    _press(page, "Home")
    while "Married-civ-spouse" not in page.evaluate(FOCUS)["text"]:
        _press(page, "ArrowDown")
    _press(page, "Space", "End")
    expect(group(page, "Never-married")).to_be_focused()
    _press(page, "Space")
    expect(page.get_by_test_id("live")).to_contain_text(headline(page).inner_text())
    expect(group(page, "Never-married")).to_be_focused()
    _press(page, "Enter")
    expect(page.locator("#verdict-title")).to_be_focused()
    expect(finding(page)).to_be_visible()

    expect(page.get_by_role("button", name="Explain · 0.02")).to_be_enabled()
    stops = _tab_to(page, "Explain · 0.02")
    assert len(stops) <= 4, f"the button is the first thing after the question: {stops}"
    _press(page, "Enter")
    expect(table(page).locator("tbody tr")).to_have_count(5)
    expect(page.get_by_test_id("live-progress")).to_contain_text(headline(page, "explanation").inner_text())
    assert spent(page) == 0.12

    _tab_to(page, "Look inside")
    _press(page, "Enter")
    expect(page.locator("#ask-title")).to_be_in_viewport()
    expect(page.get_by_role("group", name="Condition on")).to_be_visible()

    _tab_to(page, "^Form$")
    _press(page, "ArrowRight")
    expect(page.get_by_role("textbox", name="SQL query")).to_have_value(re.compile("WHERE"))
    _tab_to(page, "SQL query")
    expect(page.locator(".cm-content")).to_be_focused()
    _press(page, "Control+Enter")
    expect(run_button(page)).to_be_focused()
    assert spent(page) == 0.12, "a shortcut leads to the button; it does not spend"


@pytest.mark.usefixtures("hands_off")
def test_menus_and_dialogs_by_keyboard(adult: RunningServer, visit: Visit) -> None:
    page = visit(adult)
    expect(run_button(page)).to_be_enabled()
    _tab_to(page, "^History$")
    _press(page, "Enter")
    dialog = page.get_by_role("dialog", name="History")
    expect(dialog).to_be_visible()
    for _ in range(8):
        _press(page, "Tab")
        assert page.evaluate(
            "document.activeElement === document.body || !!document.activeElement.closest('dialog')"
        )
    _press(page, "Escape")
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("button", name="History")).to_be_focused()
    _tab_to(page, "^Theme")
    for scheme in ("light", "dark"):
        _press(page, "Space")
        expect(page.locator("html")).to_have_attribute("data-theme", scheme)
