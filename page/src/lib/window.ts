// Which rows of a long list are in the document: those in sight, a few around them, and the one with the focus
// with its neighbours.

/** Rows above and below those in sight, so that Tab finds the next one before it is scrolled to. */
export const MARGIN = 6;

export interface Sight {
  /** Of what is scrolled, in pixels. */
  top: number;
  height: number;
}

export function rowsInSight(
  { top, height }: Sight,
  rowHeight: number,
  count: number,
  focused: number | null,
): number[] {
  const first = Math.max(0, Math.floor(top / rowHeight) - MARGIN);
  const last = Math.min(count, Math.ceil((top + height) / rowHeight) + MARGIN);
  const rows = new Set(Array.from({ length: Math.max(0, last - first) }, (_, i) => first + i));
  // Tab goes to a neighbour even where scrolling has not caught up with it.
  const near = focused === null || focused >= count ? [] : [focused - 1, focused, focused + 1];
  for (const index of near) if (index >= 0 && index < count) rows.add(index);
  return [...rows].sort((a, b) => a - b);
}
