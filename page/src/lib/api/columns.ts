// An answer as it is sent, a list for each field, and as panels read it: group by group.
import type { Answer, AnswerColumns, AnswerRow } from './types';

type Part = AnswerColumns['parts'][number];

export function byGroups({ domains, groups, parts, ...words }: AnswerColumns): Answer {
  const codes = codesOf(groups, domains);
  const names = codes.map((code) => ({
    group: domains.map(({ values }, i) => values[code[i]!]!),
    label: domains.map(({ labels }, i) => labels[code[i]!]!).join(', ') || 'all rows',
    labels: domains.map(({ texts }, i) => texts[code[i]!]!),
  }));
  return { ...words, parts: parts.map((part) => ({ ...wordsOf(part), rows: rowsOf(part, names) })) };
}

/** Which value of each column a group has; the last column changes fastest. */
function codesOf(groups: number[], domains: AnswerColumns['domains']): number[][] {
  return groups.map((number) => {
    const code: number[] = [];
    for (let i = domains.length - 1; i >= 0; i -= 1) {
      const size = domains[i]!.values.length;
      code[i] = number % size;
      number = Math.floor(number / size);
    }
    return code;
  });
}

function rowsOf(part: Part, names: Pick<AnswerRow, 'group' | 'label' | 'labels'>[]): AnswerRow[] {
  const { estimate, low, high, estimate_text, interval_text, in_general: general } = part;
  return names.map((name, i) => ({
    ...name,
    estimate: estimate[i]!,
    low: low[i]!,
    high: high[i]!,
    estimate_text: estimate_text[i]!,
    interval_text: interval_text[i]!,
    in_general: general
      ? { low: general.low[i]!, high: general.high[i]!, interval_text: general.interval_text[i]! }
      : undefined,
  }));
}

function wordsOf({ name, title, heading, expression, aggregate, column, subject, rows_counted, percent }: Part) {
  return { name, title, heading, expression, aggregate, column, subject, rows_counted, percent };
}
