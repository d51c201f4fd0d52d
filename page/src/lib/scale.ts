// A common axis: round ends, round ticks, and where a value lies on it in percent.
import type { AnswerRow } from './api/types';
import { plain } from './words';

export interface Scale {
  ticks: { at: number; text: string }[];
  /** Where zero lies, if it is inside. */
  zero: number | null;
  at: (value: number) => number;
}

const MOST_TICKS = 5;

export function scaleOf(rows: Pick<AnswerRow, 'estimate' | 'low' | 'high'>[]): Scale {
  const ends = rows.flatMap((row) => [row.low ?? row.estimate, row.high ?? row.estimate]).filter(Number.isFinite);
  let low = ends.length ? Math.min(...ends) : 0;
  let high = ends.length ? Math.max(...ends) : 1;
  // Zero belongs to the picture unless everything is far from it.
  if (low > 0 && low < 0.5 * high) low = 0;
  if (high < 0 && high > 0.5 * low) high = 0;
  if (low === high) [low, high] = [low - 1, high + 1];
  const step = roundStep((high - low) / MOST_TICKS);
  const first = Math.floor(low / step);
  const last = Math.ceil(high / step);
  const span = (last - first) * step;
  const at = (value: number) => (100 * (value - first * step)) / span;
  const ticks = Array.from({ length: last - first + 1 }, (_, i) => {
    const value = Number(((first + i) * step).toPrecision(12));
    return { at: at(value), text: plain(value) };
  });
  const zero = first <= 0 && last >= 0 ? at(0) : null;
  return { ticks, zero, at };
}

function roundStep(rough: number): number {
  const power = 10 ** Math.floor(Math.log10(rough));
  return ([1, 2, 5].find((digit) => digit * power >= rough) ?? 10) * power;
}
