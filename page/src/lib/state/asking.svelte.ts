// Step 1: the query being written, what it would cost, and why it would be refused.
import { api } from '../api';
import { isGone, problemFrom } from '../api/client';
import type { Answer, Dataset, Example, Preview, Problem } from '../api/types';
import { DEFAULT_CONFIDENCE } from '../route';
import { ladder } from '../precision';
import { emptyForm, write, type Form } from '../sqlform';
import { workspace } from './workspace.svelte';

export const FIRST_PRICE = 0.1;

class Asking {
  sql = $state('');
  rho = $state(FIRST_PRICE);
  confidence = $state(DEFAULT_CONFIDENCE);
  preview = $state.raw<Preview | null>(null);
  /** What `#formSql` asks in the form's fields; null if a form cannot ask it. */
  form = $state.raw<Form | null>(null);
  #formSql = $state('');
  problem = $state.raw<Problem | null>(null);
  running = $state(false);
  /** Whether somebody wants to write although the question of the answer below is all that is written. */
  opened = $state(false);
  /** What the preview is of: while the query has moved on, it promises nothing about it. */
  #priced = $state('');
  /** What the problem is of. */
  #refused = $state('');
  #request: AbortController | null = null;
  #begun = '';

  /** Whether the SQL has been typed since the form was read from it: until then the form shows another query. */
  readonly reading = $derived(this.sql.trim() !== '' && this.sql !== this.#formSql);
  readonly current = $derived(this.preview !== null && this.#priced === this.wanted);
  readonly free = $derived(this.current && this.preview?.free === true);
  readonly ready = $derived(this.current && this.problem === null && this.preview?.affordable === true);
  /** Whether what is written now cannot be bought; while its price is on the way, that is not known. */
  readonly refused = $derived(
    (this.problem !== null && this.#refused === this.wanted) || (this.current && this.preview?.affordable === false),
  );

  /** Whether nothing else is being written than what the answer below was asked by. */
  isFolded(answer: Answer): boolean {
    return !this.opened && this.sql === answer.sql;
  }

  /** Rough, good and sharp. */
  get prices(): number[] {
    return ladder(FIRST_PRICE, workspace.budget?.rho.limit ?? 0);
  }

  /** All that a person may have changed. */
  get wanted(): string {
    return JSON.stringify([workspace.dataset?.name, this.sql, this.rho, this.confidence]);
  }

  /** Where nothing was written yet about a data set, the form starts with something that can be asked. */
  begin(dataset: Dataset): void {
    if (this.#begun === dataset.name) return;
    this.#begun = dataset.name;
    const example = dataset.examples[0];
    if (example) this.takeExample(example, dataset);
    else this.compose(emptyForm(dataset), dataset);
    this.rho = this.prices[1]!;
  }

  /** As the form's fields say. */
  compose(form: Form, dataset: Dataset): void {
    this.sql = write(form, dataset);
    this.#read(this.sql, form);
  }

  #read(sql: string, form: Form | null): void {
    this.#formSql = sql;
    this.form = form;
  }

  takeExample({ form, sql }: Example, dataset: Dataset): void {
    if (form) this.compose(form, dataset);
    else this.sql = sql;
  }

  /** As a stored answer was asked. */
  takeAnswer({ sql, rho, confidence }: Answer): void {
    Object.assign(this, { sql, rho, confidence });
  }

  /** The price of what is written now. Spends nothing. */
  async price(): Promise<void> {
    this.#request?.abort();
    const dataset = workspace.dataset;
    if (!dataset || !this.sql.trim()) {
      this.preview = this.problem = null;
      this.#read(this.sql, null);
      return;
    }
    const request = (this.#request = new AbortController());
    const { sql, rho, confidence, prices } = this;
    const { wanted } = this;
    try {
      const preview = await api.preview(dataset.name, { sql, rho, confidence, prices }, request.signal);
      if (request.signal.aborted) return;
      this.preview = preview;
      this.#read(sql, preview.form ?? null);
      this.#priced = wanted;
      this.problem = null;
    } catch (error) {
      const problem = problemFrom(error);
      if (problem === null || request.signal.aborted || isGone(error)) return;
      this.preview = null;
      // A refused price says nothing about a form that is read already.
      if (sql !== this.#formSql) this.#read(sql, null);
      this.problem = problem;
      this.#refused = wanted;
    }
  }

  /** Spends: only ever called by a button that names the price. */
  async run(sql = this.sql, rho = this.rho): Promise<Answer | null> {
    const dataset = workspace.dataset;
    if (!dataset || this.running) return null;
    this.running = true;
    try {
      const answer = await api.query(dataset.name, { sql, rho, confidence: this.confidence });
      this.problem = null;
      workspace.spent(answer.budget);
      return answer;
    } catch (error) {
      this.problem = problemFrom(error);
      this.#refused = this.wanted;
      await workspace.refreshFailures();
      return null;
    } finally {
      this.running = false;
    }
  }
}

export const asking = new Asking();
