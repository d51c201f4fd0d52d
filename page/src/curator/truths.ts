// True values beside the released ones they belong to.
import type { Answer, AnswerPart, Explanation } from '../lib/api/types';
import { counted, level, whole } from '../lib/words';
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
  /** Further cells, in the order of the table's `moreNames`. */
  more: string[];
}

export interface TruthTable {
  rows: Compared[];
  tallies: { name: string; covered: number; of: number }[];
  summary: string;
  caption: string;
  rowName: string;
  valueName: string;
  moreNames: string[];
}

/** One line per group, in the order of the answer; several aggregates come group by group. */
export function answerTruths(truth: Truth, answer: Answer, part: AnswerPart): TruthTable {
  const several = answer.parts.length;
  const at = answer.parts.findIndex(({ name }) => name === part.name);
  const rows = part.rows.map((row, i) => {
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
      more: [],
    };
  });
  const { covered, of } = tally(rows.map((row) => row.covered));
  return {
    rows,
    tallies: [{ name: 'Covered', covered, of }],
    summary: `The ${level(answer.confidence)} intervals of ${part.name} hold the true value in ${covered} of ${counted(of, 'group')}. Each should miss it ${level(1 - answer.confidence)} of the time.`,
    caption: `${part.name}: released and true values`,
    rowName: 'Group',
    valueName: 'interval',
    moreNames: [],
  };
}

/** null if the truth is of another table than the one that is shown. */
export function explanationTruths(truth: Truth, table: Explanation): TruthTable | null {
  const indexes = new Map(truth.rows.map((row, index) => [row.predicate, index]));
  if (!table.rows.every(({ predicate }) => indexes.has(predicate))) return null;
  const pairs = table.rows.map((row) => {
    const index = indexes.get(row.predicate)!;
    return { row, record: truth.rows[index]!, value: truth.values[index]! };
  });
  const hasGaps = pairs.some(({ value }) => value.gap_without_text);
  const rows = pairs.map(({ row, record, value }) => {
    const rank = typeof record.true_rank === 'number' ? whole(record.true_rank) : '-';
    const rankCell = `${rank} in ${row.rank_text} ${mark(record.rank_covered)}`;
    return {
      label: row.label,
      low: row.influence_low,
      high: row.influence_high,
      intervalText: row.influence_interval_text,
      released: ((row.influence_low ?? 0) + (row.influence_high ?? 0)) / 2,
      truth: value.value,
      truthText: value.text,
      covered: value.covered,
      more: hasGaps ? [rankCell, `${value.gap_without_text || '-'} ${mark(record.gap_without_covered)}`] : [rankCell],
    };
  });
  return {
    rows,
    tallies: [
      { name: 'Influence covered', ...tally(rows.map((row) => row.covered)) },
      { name: 'Rank covered', ...tally(pairs.map(({ record }) => record.rank_covered)) },
      { name: 'Gap without them covered', ...tally(pairs.map(({ record }) => record.gap_without_covered)) },
    ].filter(({ of }) => of > 0),
    summary: `${level(table.confidence)} intervals. Influence is the weighted change itself here, not its share of the gap.`,
    caption: "Released and true influences, ranks and gaps without each condition's rows",
    rowName: 'Condition',
    valueName: 'influence',
    moreNames: hasGaps ? ['True rank', 'True gap without'] : ['True rank'],
  };
}

/** Of the verdicts that there are. */
export function tally(verdicts: unknown[]): { covered: number; of: number } {
  const known = verdicts.filter((verdict) => typeof verdict === 'boolean');
  return { covered: known.filter(Boolean).length, of: known.length };
}

const mark = (covered: unknown): string => (typeof covered !== 'boolean' ? '' : covered ? '✓' : '✗ missed');
