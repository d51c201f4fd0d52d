// True values beside the released ones they belong to, and what the shown intervals cover of them.
import type { Answer, AnswerPart, Explanation } from '../lib/api/types';
import type { Truth } from './api';

export interface Compared {
  label: string;
  low: number | null;
  high: number | null;
  released: number;
  /** null: there is none, as an average over no rows. */
  truth: number | null;
}

export interface ExplanationCompared extends Compared {
  ranks: [number, number];
  rank: number | null;
  without: [number, number] | null;
  gapWithout: number | null;
}

/** One line per group, in the order of the answer; several aggregates come group by group. */
export function answerTruths(truth: Truth, answer: Answer, part: AnswerPart): Compared[] {
  const several = answer.parts.length;
  const at = answer.parts.findIndex(({ name }) => name === part.name);
  return part.rows.map((row, i) => ({
    label: row.label,
    low: row.low,
    high: row.high,
    released: row.estimate,
    truth: trueValue(truth.rows[i * several + at]),
  }));
}

/** null if the truth is of another table than the one that is shown. */
export function explanationTruths(truth: Truth, table: Explanation): ExplanationCompared[] | null {
  const found = new Map(truth.rows.map((row) => [row.predicate, row]));
  if (!table.rows.every(({ predicate }) => found.has(predicate))) return null;
  return table.rows.map((row) => {
    const known = found.get(row.predicate)!;
    const told = row.gap_without_low !== null && row.gap_without_high !== null;
    return {
      label: row.label,
      low: row.influence_low,
      high: row.influence_high,
      released: ((row.influence_low ?? 0) + (row.influence_high ?? 0)) / 2,
      truth: numeric(known.true_influence),
      ranks: [row.rank_low, row.rank_high],
      rank: numeric(known.true_rank),
      without: told ? [row.gap_without_low!, row.gap_without_high!] : null,
      gapWithout: numeric(known.true_gap_without),
    };
  });
}

/** null where there is nothing to cover. An end that is missing is endless. */
export function covers(low: number | null, high: number | null, truth: number | null): boolean | null {
  return truth === null ? null : (low ?? -Infinity) <= truth && truth <= (high ?? Infinity);
}

export function tally(covered: (boolean | null)[]): { covered: number; of: number } {
  const told = covered.filter((one) => one !== null);
  return { covered: told.filter(Boolean).length, of: told.length };
}

/** A column that was selected under our name makes ours step aside, with an underscore. */
function trueValue(row: Truth['rows'][number] | undefined): number | null {
  const entry = Object.entries(row ?? {}).findLast(([name]) => /^true_*$/.test(name));
  return numeric(entry?.[1]);
}

function numeric(value: unknown): number | null {
  return typeof value === 'number' ? value : null;
}
