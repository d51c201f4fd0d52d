// True values beside the released ones they belong to.
import type { Answer, AnswerPart, Explanation } from '../lib/api/types';
import type { Truth } from './api';

export interface Compared {
  label: string;
  low: number | null;
  high: number | null;
  intervalText: string;
  released: number;
  /** null: there is none, as an average over no rows. */
  truth: number | null;
  truthText: string;
  /** Whether the interval covers the truth; null where there is nothing to cover. */
  covered: boolean | null;
}

export interface ExplanationCompared extends Compared {
  rankText: string;
  rank: number | null;
  rankCovered: boolean | null;
  gapWithoutText: string;
  gapWithoutCovered: boolean | null;
}

/** One line per group, in the order of the answer; several aggregates come group by group. */
export function answerTruths(truth: Truth, answer: Answer, part: AnswerPart): Compared[] {
  const several = answer.parts.length;
  const at = answer.parts.findIndex(({ name }) => name === part.name);
  return part.rows.map((row, i) => {
    const value = truth.values[i * several + at];
    return {
      label: row.label,
      low: row.low,
      high: row.high,
      intervalText: row.interval_text,
      released: row.estimate,
      truth: value?.value ?? null,
      truthText: value?.text ?? '',
      covered: value?.covered ?? null,
    };
  });
}

/** null if the truth is of another table than the one that is shown. */
export function explanationTruths(truth: Truth, table: Explanation): ExplanationCompared[] | null {
  const indexes = new Map(truth.rows.map((row, index) => [row.predicate, index]));
  if (!table.rows.every(({ predicate }) => indexes.has(predicate))) return null;
  return table.rows.map((row) => {
    const index = indexes.get(row.predicate)!;
    const record = truth.rows[index]!;
    const { value, text, covered, gap_without_text } = truth.values[index]!;
    return {
      label: row.label,
      low: row.influence_low,
      high: row.influence_high,
      intervalText: row.influence_interval_text,
      released: ((row.influence_low ?? 0) + (row.influence_high ?? 0)) / 2,
      truth: value,
      truthText: text,
      covered,
      rankText: row.rank_text,
      rank: numeric(record.true_rank),
      rankCovered: verdict(record.rank_covered),
      gapWithoutText: gap_without_text,
      gapWithoutCovered: verdict(record.gap_without_covered),
    };
  });
}

export function tally(covered: (boolean | null)[]): { covered: number; of: number } {
  const verdicts = covered.filter((verdict) => verdict !== null);
  return { covered: verdicts.filter(Boolean).length, of: verdicts.length };
}

function numeric(value: unknown): number | null {
  return typeof value === 'number' ? value : null;
}

function verdict(value: unknown): boolean | null {
  return typeof value === 'boolean' ? value : null;
}
