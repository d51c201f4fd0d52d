// What a preview means, in one sentence per fact; each is true of the numbers the server predicted.
import type { AnswerPart, AnswerRow, Column, Preview, PreviewRow } from './api/types';
import { amount, level, number, whole } from './words';

export function costSentence(preview: Preview): string {
  if (preview.free) return 'Free: this was asked before, and its stored answer is read again.';
  if (!preview.affordable) {
    return `Costs ${amount(preview.rho)}, but only ${amount(preview.remaining)} is left.`;
  }
  return `Costs ${amount(preview.rho)} of ${amount(preview.remaining)} left.`;
}

/** How far off each group's value may be, before anything is spent. */
export function expectations(preview: Preview): string[] {
  const sure = level(preview.confidence);
  const byName = new Map<string, PreviewRow[]>();
  for (const row of preview.rows) {
    const name = row.aggregate ?? '';
    byName.set(name, [...(byName.get(name) ?? []), row]);
  }
  return [...byName].map(([name, rows]) => {
    const of = name ? `${name}: expected` : 'Expected';
    const fixed = rows.find((row) => row.group_size === null || row.group_size === undefined);
    if (fixed?.margin !== undefined) return `${of} ±${number(fixed.margin)} per group (${sure} interval).`;
    const sizes = rows.map((row) => `±${number(row.margin ?? null)} in a group of ${whole(row.group_size ?? 0)}`);
    return `${of} ${sizes.join(', ')} rows (${sure} interval).`;
  });
}

const NARROW = 0.25; // of the declared range: wider averages do not shrink in step with the noise

/** Whether an interval's width is that of the noise: one that ends at what is possible at all would be wider. */
export function isByNoise(row: AnswerRow, part: AnswerPart, columns: Column[]): boolean {
  const { low, high } = row;
  if (low === null || high === null) return false;
  if (part.aggregate === 'sum') return true;
  if (part.aggregate === 'count') return low > 0;
  const bounds = columns.find(({ name }) => name === part.column)?.bounds;
  if (!bounds) return false;
  const [least, most] = bounds;
  return low > least && high < most && high - low < NARROW * (most - least);
}
