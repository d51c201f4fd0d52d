// Puts off what would move the page while something is pressed: a button that moves between down and up is not clicked.

const PRESSABLE = 'button, a, summary, label';
// A slider shows what it changes while it is dragged; the list of a select swallows the end of the press.
const NEVER = 'select, input[type=range]';
const ENDS = ['pointerup', 'pointercancel', 'contextmenu'] as const;
const CLICK_COMES = 50; // milliseconds after the end of a press; on touch screens it is an event of its own

let pressed = false;
let waiting: (() => void)[] = [];
let timer: ReturnType<typeof setTimeout> | undefined;

function press({ button, target }: PointerEvent): void {
  if (button !== 0 || !(target instanceof Element) || !target.closest(PRESSABLE) || target.matches(NEVER)) return;
  clearTimeout(timer);
  pressed = true;
}

function release(): void {
  clearTimeout(timer);
  if (pressed) timer = setTimeout(goOn, CLICK_COMES);
}

function goOn(): void {
  pressed = false;
  const actions = waiting;
  waiting = [];
  actions.forEach((action) => action());
}

if (typeof addEventListener !== 'undefined') {
  addEventListener('pointerdown', press, { capture: true, passive: true });
  for (const end of ENDS) addEventListener(end, release, { capture: true, passive: true });
  addEventListener('blur', release); // of the window: what ends a press may then be told to another one
}

/** At once, or after the click when something is pressed. */
export function afterPress(action: () => void): void {
  if (pressed) waiting.push(action);
  else action();
}

/** Resolves when nothing is pressed. */
export const unpressed = (): Promise<void> => new Promise(afterPress);
