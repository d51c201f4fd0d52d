// Step 2: the answer, the groups chosen in it, and the verdict on their difference. All of it free.
import { api } from '../api';
import { isGone, problemFrom } from '../api/client';
import type { Answer, AnswerPart, AnswerRow, Problem, Question, WhyRequest } from '../api/types';
import { DEFAULT_CONFIDENCE } from '../route';
import { spoken } from '../words';
import { workspace } from './workspace.svelte';

export interface Choice {
  row: AnswerRow;
  weight: number;
}

/** The number of a measurement in the history, as everybody may write it who may see it. */
export type Release = number | string;
export type Compare = 'difference' | 'ratio' | 'share';

export type Sort = 'given' | 'high' | 'low' | 'name';
const byName = new Intl.Collator(undefined, { numeric: true });

/** Numbers of the rows in an order, unknown values last; the rows themselves stay as they are. */
export function orderOf(rows: AnswerRow[], sort: Sort): number[] {
  const numbers = rows.map((_, i) => i);
  const way = { high: -1, low: 1, given: 0, name: 0 }[sort];
  if (way) {
    const key = ({ unknown, estimate }: AnswerRow) => (unknown ? Number.MAX_VALUE : way * estimate);
    numbers.sort((a, b) => key(rows[a]!) - key(rows[b]!));
  }
  if (sort === 'name') {
    const labels = rows.map(({ label }) => label);
    numbers.sort((a, b) => byName.compare(labels[a]!, labels[b]!));
  }
  return numbers;
}

class Comparing {
  answer = $state.raw<Answer | null>(null);
  of = $state<string | null>(null);
  /** Two groups against each other, or any groups with any weights against a constant. */
  totals = $state(false);
  chosen = $state.raw<Choice[]>([]);
  atLeast = $state(0);
  /** How two groups are compared; any weights have a difference only. */
  compare = $state<Compare>('difference');
  /** Whether to say what holds in the population that the rows were drawn from. */
  population = $state(false);
  confidence = $state(DEFAULT_CONFIDENCE);
  question = $state.raw<Question | null>(null);
  problem = $state.raw<Problem | null>(null);
  loading = $state(false);
  /** The order on the screen, which files that leave the page follow. */
  sort = $state<Sort>('high');
  /** Whether the groups were marked by the page, as the clearest gap; the first choice replaces them. */
  suggested = $state(false);
  /** Groups that a link names and this answer does not have. */
  missing = $state.raw<string[]>([]);
  /** The releases that may be read, as a link names them; null: the sharpest. */
  from = $state.raw<Release[] | null>(null);
  /** Counts the choices made by hand, each of which is a step of the browser's history. */
  steps = $state(0);
  #request: AbortController | null = null;

  readonly #isShare = $derived(this.compare === 'share' && !this.totals);
  readonly part: AnswerPart | null = $derived(
    this.answer?.parts.find(({ name, expression }) => name === this.of || expression === this.of) ??
      this.answer?.parts[0] ??
      null,
  );
  /** Whether the intervals that are shown are those of the population. */
  readonly inGeneral = $derived(this.population && this.part?.rows[0]?.in_general !== undefined);
  /** The groups with the intervals that are shown. */
  readonly rows: AnswerRow[] = $derived(
    this.inGeneral ? this.part!.rows.map((row) => row.in_general ?? row) : (this.part?.rows ?? []),
  );
  readonly complete = $derived(
    this.totals ? this.chosen.length > 0 : this.chosen.length === 2 || (this.#isShare && this.chosen.length === 1),
  );

  /** Only a difference has a story; the parts of a ratio add up to nothing a reader would recognise. */
  readonly hasStory = $derived(this.question !== null && (this.totals || this.compare === 'difference'));

  show(answer: Answer, of: string | null = null): void {
    const keep = this.answer?.id === answer.id ? this.chosen.map((choice) => choice.row.label) : [];
    if (this.answer?.id !== answer.id) this.sort = answer.ordered ? 'given' : 'high';
    this.answer = answer;
    this.of = of ?? answer.parts[0]?.name ?? null;
    if (!keep.length) this.clear();
  }

  /** The same answer again: what it says of the data follows what was measured since. Free. */
  async reread(): Promise<void> {
    const { answer } = this;
    const dataset = workspace.dataset;
    if (!answer || !dataset) return;
    const { confidence } = answer;
    const again = await api.answer(dataset.name, answer.id, { confidence, population: this.population });
    if (this.answer === answer) this.answer = { ...again, free: answer.free };
  }

  /** What holds in general is asked for when somebody wants to see it. Free. */
  async readGeneral(): Promise<void> {
    if (!this.population || !this.answer || this.answer.general_notes) return;
    await this.reread().catch((error: unknown) => (workspace.problem = problemFrom(error)));
  }

  clear(): void {
    this.chosen = this.missing = [];
    this.suggested = false;
    this.from = null;
    this.totals = false;
    this.atLeast = 0;
    this.compare = 'difference';
    this.question = this.problem = null;
  }

  /** The same groups in another answer or aggregate, by their labels. */
  choose(groups: { label: string; weight: number }[], atLeast = 0, compare: Compare = 'difference'): void {
    const rows = this.part?.rows ?? [];
    this.chosen = groups.flatMap(({ label, weight }) => {
      const row = rows.find((candidate) => candidate.label === label);
      return row ? [{ row, weight }] : [];
    });
    this.missing = groups.map(({ label }) => label).filter((label) => !rows.some((row) => row.label === label));
    this.suggested = false;
    this.atLeast = atLeast;
    this.compare = compare;
    this.totals = false;
    if (compare !== 'difference') return;
    const weights = this.chosen.map((choice) => choice.weight);
    this.totals = this.chosen.length > 0 && (atLeast !== 0 || !isPair(weights)) && this.chosen.length !== 1;
    if (this.chosen.length === 1 && atLeast !== 0) this.totals = true;
  }

  /** Marks the highest and the lowest group whose intervals do not meet. */
  suggest(): void {
    const pair = clearestPair(this.part?.rows ?? []);
    if (!pair || this.chosen.length) return;
    this.chosen = [
      { row: pair[0], weight: 1 },
      { row: pair[1], weight: -1 },
    ];
    this.suggested = true;
  }

  #byHand(): void {
    this.suggested = false;
    this.missing = [];
    this.steps += 1;
  }

  toggle(row: AnswerRow): void {
    if (this.suggested) this.chosen = [];
    this.#byHand();
    this.#put(row);
    if (!this.complete) this.question = null; // the same pair, chosen again, is told again
  }

  #put(row: AnswerRow): void {
    const rest = this.chosen.filter((choice) => choice.row.label !== row.label);
    if (rest.length < this.chosen.length) {
      this.chosen = this.totals ? rest : rest.map((choice) => ({ ...choice, weight: 1 }));
      return;
    }
    if (this.totals) {
      this.chosen = [...rest, { row, weight: 1 }];
    } else if (rest.length === 0) {
      this.chosen = [{ row, weight: 1 }];
    } else {
      // A third choice takes the place of the second; the higher of the two is asked about first.
      const pair = [rest[0]!.row, row].sort((a, b) => b.estimate - a.estimate);
      this.chosen = [
        { row: pair[0]!, weight: 1 },
        { row: pair[1]!, weight: -1 },
      ];
    }
  }

  swap(): void {
    this.#byHand();
    this.chosen = [...this.chosen].reverse().map((choice) => ({ ...choice, weight: -choice.weight }));
  }

  setWeight(label: string, weight: number): void {
    this.#byHand();
    this.chosen = this.chosen.map((choice) => (choice.row.label === label ? { ...choice, weight } : choice));
  }

  compareTotals(on: boolean): void {
    this.totals = on;
    this.suggested = false;
    if (!on) {
      this.atLeast = 0;
      const [first, second] = this.chosen;
      this.chosen = [];
      if (first) this.toggle(first.row);
      if (second) this.toggle(second.row);
    }
  }

  request(): WhyRequest | null {
    if (!this.answer || !this.complete) return null;
    const compare = this.totals ? 'difference' : this.compare;
    const chosen = compare === 'share' ? this.chosen.slice(0, 1) : this.chosen;
    return {
      answer: this.answer.id,
      of: this.part?.expression ?? null,
      weights: chosen.map(({ row, weight }) => ({ group: row.group, weight })),
      compare,
      population: this.population,
      at_least: compare === 'difference' || this.atLeast ? this.atLeast : null,
      confidence: this.confidence,
      ...(this.from && { from: this.from }),
    };
  }

  /** Free: reads only what was released. */
  async ask(): Promise<void> {
    this.#request?.abort();
    const dataset = workspace.dataset;
    const body = this.request();
    if (!dataset || !body) {
      this.question = this.problem = null;
      this.loading = false;
      return;
    }
    const request = (this.#request = new AbortController());
    this.loading = true;
    try {
      const question = await api.why(dataset.name, body, request.signal);
      if (request.signal.aborted) return;
      const told = this.question && spoken(this.question.finding);
      this.question = question;
      this.problem = null;
      if (told !== spoken(question.finding)) workspace.say(spoken(question.finding));
    } catch (error) {
      const problem = problemFrom(error);
      if (problem === null || request.signal.aborted) return;
      this.question = null;
      this.problem = isGone(error) ? null : problem;
    } finally {
      if (this.#request === request) this.loading = false;
    }
  }
}

/** The group that is surely highest and the one that is surely lowest; null if no two are clearly apart. */
export function clearestPair(rows: AnswerRow[]): [AnswerRow, AnswerRow] | null {
  const known = rows.filter(({ unknown, low, high }) => !unknown && low !== null && high !== null);
  if (known.length < 2) return null;
  const highest = known.reduce((best, row) => (row.low! > best.low! ? row : best));
  const lowest = known.reduce((best, row) => (row.high! < best.high! ? row : best));
  return highest.low! > lowest.high! ? [highest, lowest] : null;
}

function isPair(weights: number[]): boolean {
  return weights.length === 2 && weights[0] === 1 && weights[1] === -1;
}

export const comparing = new Comparing();
