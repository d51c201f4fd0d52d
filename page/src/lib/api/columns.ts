// An answer as it is sent, a list for each field, and as panels read it: group by group.
import { intervalText, valueText, type Figures } from '../figures';
import type { Answer, AnswerColumns, AnswerRow } from './types';

type Part = AnswerColumns['parts'][number];
type Ends = Pick<Part, 'low' | 'high' | 'interval_text'>;

export function byGroups({ domains, groups, parts, ...words }: AnswerColumns): Answer {
  const names = new Names(domains, groups);
  return { ...words, parts: parts.map((part) => ({ ...wordsOf(part), rows: rowsOf(part, names) })) };
}

/** What the groups are called, written when somebody reads it: of thousands few are in sight. */
class Names {
  constructor(
    private readonly domains: AnswerColumns['domains'],
    private readonly groups: number[],
  ) {}

  get size(): number {
    return this.groups.length;
  }

  values(row: number): AnswerRow['group'] {
    return this.#of(row, 'values') as AnswerRow['group'];
  }

  label(row: number): string {
    return this.#of(row, 'labels').join(', ') || 'all rows';
  }

  texts(row: number): string[] {
    return this.#of(row, 'texts') as string[];
  }

  /** A group is a number; the last column changes fastest. */
  #of(row: number, field: 'values' | 'labels' | 'texts'): unknown[] {
    let number = this.groups[row]!;
    const parts: unknown[] = [];
    for (let i = this.domains.length - 1; i >= 0; i -= 1) {
      const values = this.domains[i]![field];
      parts[i] = values[number % values.length];
      number = Math.floor(number / values.length);
    }
    return parts;
  }
}

// In place of a value of which nothing is known, and of its interval: as in words/numbers.py.
const UNKNOWN = '–';
const NO_ROWS = 'may have no rows';

/** The values of a part with the intervals to show. */
interface Source {
  names: Names;
  part: Part;
  ends: Ends;
}

class Row implements AnswerRow {
  readonly estimate: number;
  readonly low: number | null;
  readonly high: number | null;

  constructor(
    private readonly source: Source,
    private readonly at: number,
  ) {
    this.estimate = source.part.estimate[at]!;
    this.low = source.ends.low[at]!;
    this.high = source.ends.high[at]!;
  }

  get group(): AnswerRow['group'] {
    return this.source.names.values(this.at);
  }

  get label(): string {
    return this.source.names.label(this.at);
  }

  get labels(): string[] {
    return this.source.names.texts(this.at);
  }

  get unknown(): boolean {
    return this.source.part.unknown?.[this.at] ?? false;
  }

  get estimate_text(): string {
    if (this.unknown) return UNKNOWN;
    const { part } = this.source;
    return part.estimate_text?.[this.at] ?? valueText(figuresOf(part), this.estimate);
  }

  get interval_text(): string {
    if (this.unknown) return NO_ROWS;
    const { part, ends } = this.source;
    return ends.interval_text?.[this.at] ?? intervalText(figuresOf(part), this.low, this.high);
  }

  get in_general(): AnswerRow | undefined {
    const { names, part } = this.source;
    return part.in_general ? new Row({ names, part, ends: part.in_general }, this.at) : undefined;
  }
}

function rowsOf(part: Part, names: Names): AnswerRow[] {
  const source = { names, part, ends: part };
  const rows: AnswerRow[] = [];
  for (let at = 0; at < names.size; at += 1) rows.push(new Row(source, at));
  return rows;
}

/** Where there are no texts, there are decimals. */
function figuresOf({ decimals, percent }: Part): Figures {
  return { decimals: decimals ?? 0, percent };
}

function wordsOf({ name, title, heading, expression, aggregate, column, rows_counted, percent }: Part) {
  return { name, title, heading, expression, aggregate, column, rows_counted, percent };
}
