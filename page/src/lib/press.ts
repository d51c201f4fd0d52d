// Puts off what would move the page while something is pressed: a button that moves between down and up is not clicked.

let pressed = false;
if (typeof addEventListener !== 'undefined') {
  addEventListener('pointerdown', () => (pressed = true), { capture: true, passive: true });
  for (const end of ['pointerup', 'pointercancel'])
    addEventListener(end, () => (pressed = false), { capture: true, passive: true });
}

/** At once, or after the click when a pointer is down. */
export function afterPress(action: () => void): void {
  if (!pressed) return action();
  const end = () => {
    for (const name of ['pointerup', 'pointercancel']) removeEventListener(name, end);
    setTimeout(action); // the click comes first
  };
  for (const name of ['pointerup', 'pointercancel']) addEventListener(name, end);
}
