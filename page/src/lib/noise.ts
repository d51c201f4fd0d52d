// Whether more budget would narrow an interval: one that ends at what is possible at all is not made by noise.
import type { AnswerPart, AnswerRow, Column } from './api/types';

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
