"""Whether what is shown fits: nothing wider than the window, no part on another."""

from __future__ import annotations

from playwright.sync_api import Page

# Pairs of visible parts that lie on each other without one being inside the other.
OVERLAPS = """(selector) => {
  const shown = { visibilityProperty: true, opacityProperty: true };
  const parts = [...document.querySelectorAll(selector)].filter((part) => part.checkVisibility(shown)
    && part.getClientRects().length && !part.closest('[aria-hidden=true], .unseen, .skip, dialog'));
  const name = (part) => `${part.tagName} ${part.getAttribute('aria-label') || part.textContent.trim()}`;
  const boxes = parts.map((part) => ({ part, box: part.getBoundingClientRect() }));
  const found = [];
  boxes.forEach(({ part, box }, i) => boxes.slice(i + 1).forEach(({ part: other, box: next }) => {
    const wide = Math.min(box.right, next.right) - Math.max(box.left, next.left);
    const high = Math.min(box.bottom, next.bottom) - Math.max(box.top, next.top);
    const layered = part.closest('.strip') !== other.closest('.strip'); // what scrolls passes below it
    if (wide > 1 && high > 1 && !layered && !part.contains(other) && !other.contains(part))
      found.push(`${name(part).slice(0, 50)} / ${name(other).slice(0, 50)}`);
  }));
  return found;
}"""
# A part that scrolls by itself may hold what is wider.
STICKING_OUT = """() => [...document.querySelectorAll('main *, header *, footer *')].filter((part) => {
  const box = part.getBoundingClientRect();
  if (!box.width || !part.checkVisibility() || part.closest('.unseen, .skip, svg')) return false;
  for (let around = part.parentElement; around; around = around.parentElement)
    if (/auto|scroll|hidden|clip/.test(getComputedStyle(around).overflowX)) return false;
  return box.right > innerWidth + 1 || box.left < -1;
}).map((part) => part.outerHTML.slice(0, 120))"""
# Numbers along the axes.
_AXIS_LABELS = "[...document.querySelectorAll('.ticks span')]"
# What is beyond the window, its list of groups, or a part around it that does not show what sticks out.
CUT_LABELS = f"""() => {_AXIS_LABELS}.filter((label) => {{
  const box = label.getBoundingClientRect();
  const sticksOut = (room) => box.left < room.left - 1 || box.right > room.right + 1;
  const isCut = (room) => sticksOut(room) || box.top < room.top - 1 || box.bottom > room.bottom + 1;
  for (let around = label.parentElement; around; around = around.parentElement) {{
    const hides = around.matches('.plot') || getComputedStyle(around).overflowX !== 'visible';
    if (hides && isCut(around.getBoundingClientRect())) return true;
  }}
  return sticksOut({{ left: 0, right: document.documentElement.clientWidth }});
}}).map((label) => label.textContent)"""
TOUCHING_LABELS = f"""() => {_AXIS_LABELS}.filter((label) => {{
  const next = label.nextElementSibling;
  return next && next.getBoundingClientRect().left < label.getBoundingClientRect().right;
}}).map((label) => label.textContent)"""
# Words that a person sees: neither hidden, nor for screen readers alone, nor an option that is not chosen.
WORDS = """() => {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim();
    const around = walker.currentNode.parentElement;
    if (!text || around.closest('script, noscript, style, select, .unseen, .skip')) continue;
    const shown = { visibilityProperty: true, opacityProperty: true };
    if (!around.checkVisibility(shown) || around.getBoundingClientRect().width < 2) continue;
    found.push(text);
  }
  for (const select of document.querySelectorAll('select'))
    if (select.checkVisibility()) found.push(select.selectedOptions[0]?.text ?? '');
  return found.join(' ').split(/\\s+/).filter(Boolean);
}"""
OPEN_ALL = "document.querySelectorAll('main details').forEach((part) => (part.open = true))"
SECTIONS = "header, main > section, main > div, footer"
CONTROLS = ":is(main, header) :is(button, select, input, textarea, summary, a)"


def assert_fits(page: Page) -> None:
    # As a reader who turns the wheel: a page that keeps its result in sight then lets go of it.
    page.evaluate("() => { dispatchEvent(new Event('wheel')); scrollTo(0, 0); }")
    assert page.evaluate(STICKING_OUT) == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert page.evaluate(OVERLAPS, SECTIONS) == []
    assert page.evaluate(OVERLAPS, CONTROLS) == []
