// Which rows of a long list are in the document: those in sight, a few around them, and the one with the focus.

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
  const rows = Array.from({ length: Math.max(0, last - first) }, (_, i) => first + i);
  if (focused === null || focused >= count || (focused >= first && focused < last)) return rows;
  return focused < first ? [focused, ...rows] : [...rows, focused];
}
