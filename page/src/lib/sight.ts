// Brings what was asked for into view, and keeps it there while the page around it settles.

const SETTLED = 2_500; // milliseconds: charts and fonts have come by then
const MOVES = ['wheel', 'touchstart', 'pointerdown', 'keydown'] as const;

let release: () => void = () => {};

/** The element takes the focus and stays at the top of the window until the reader moves, or the page is at rest. */
export function keepInSight(element: HTMLElement): void {
  release();
  element.focus({ preventScroll: true });
  const show = () => element.scrollIntoView({ block: 'start', behavior: 'instant' });
  const watcher = new ResizeObserver(show);
  watcher.observe(document.body);
  const timer = setTimeout(() => release(), SETTLED);
  const leave = ({ target }: FocusEvent) => {
    if (target !== element) release();
  };
  release = () => {
    watcher.disconnect();
    clearTimeout(timer);
    removeEventListener('focusin', leave);
    MOVES.forEach((move) => removeEventListener(move, release, true));
    release = () => {};
  };
  MOVES.forEach((move) => addEventListener(move, release, { capture: true, passive: true }));
  addEventListener('focusin', leave); // moved by a screen reader or a script: no key was pressed
  show();
}
