// The server counts characters in a text; browsers and editors count UTF-16 units.
import type { Position } from './api/types';

/** A range of a text as editors take it, never empty unless the text is. */
export function rangeOf(position: Position, text: string): { from: number; to: number } {
  const characters = [...text];
  const units = (count: number) => characters.slice(0, count).join('').length;
  const from = units(position.start);
  return { from, to: Math.max(units(position.end ?? position.start), Math.min(from + 1, text.length)) };
}
