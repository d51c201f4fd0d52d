// Step 1: the query being written, what it would cost, and why it would be refused.
import { api } from '../api';
import { isGone, problemFrom } from '../api/client';
import type { Answer, Dataset, Example, Preview } from '../api/types';
import { DEFAULT_CONFIDENCE } from '../route';
import { ladder } from '../precision';
import { emptyForm, write, type Form } from '../sqlform';
import { Priced } from './priced.svelte';
import { workspace } from './workspace.svelte';

export const FIRST_PRICE = 0.1;

class Asking extends Priced {
  sql = $state('');
  rho = $state(FIRST_PRICE);
  confidence = $state(DEFAULT_CONFIDENCE);
  /** What `#formSql` asks in the form's fields; null if a form cannot ask it. */
  form = $state.raw<Form | null>(null);
  #formSql = $state('');
  running = $state(false);
  /** Whether somebody wants to write although the question of the answer below is all that is written. */
  opened = $state(false);
  #begun = '';

  /** Whether the SQL has been typed since the form was read from it: until then the form shows another query. */
  readonly reading = $derived(this.sql.trim() !== '' && this.sql !== this.#formSql);
  readonly ready = $derived(this.current && this.problem === null && this.preview?.affordable === true);

  /** Whether nothing else is being written than what the answer below was asked by. */
  isFolded(answer: Answer): boolean {
    return !this.opened && this.sql === answer.sql;
  }

  /** Rough, good and sharp. */
  get prices(): number[] {
    return ladder(FIRST_PRICE, workspace.budget?.rho.limit ?? 0);
  }

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

  protected ask(signal: AbortSignal): Promise<Preview> | null {
    const dataset = workspace.dataset;
    if (dataset && this.sql.trim()) return this.#priceIn(dataset, signal);
    this.preview = this.problem = null;
    this.#read(this.sql, null);
    return null;
  }

  /** With the price comes what the query asks; a refusal says nothing about a form that is read already. */
  async #priceIn({ name }: Dataset, signal: AbortSignal): Promise<Preview> {
    const { sql, rho, confidence, prices } = this;
    try {
      const preview = await api.preview(name, { sql, rho, confidence, prices }, signal);
      if (!signal.aborted) this.#read(sql, preview.form ?? null);
      return preview;
    } catch (error) {
      if (!signal.aborted && !isGone(error) && sql !== this.#formSql) this.#read(sql, null);
      throw error;
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
      this.refuse(problemFrom(error));
      await workspace.refreshFailures();
      return null;
    } finally {
      this.running = false;
    }
  }
}

export const asking = new Asking();
