// Step 3: which conditions explain the difference; prepared once and then free, or bought one by one.
import { api } from '../api';
import type { Column, ExplainRequest, Explanation, Family, Job, Prepared, Preview } from '../api/types';
import { ALL, FIRST_K, type ExplainPlace, type Sensitivity } from '../route';
import { ladder } from '../precision';
import { spoken } from '../words';
import { comparing } from './comparing.svelte';
import { Priced } from './priced.svelte';
import { Work } from './work.svelte';
import { workspace } from './workspace.svelte';

export type Way = 'prepare' | 'once';
export const FIRST_PRICES: Record<Way, number> = { prepare: 0.02, once: 0.5 };
export const MOST_K = 50;
const LEAST_RHO = 1e-9; // at this price, whatever is prepared is precise enough
const EXPORT_WIDTH = 500; // pixels of a chart's plot

/** With the request that it is of. */
type Quote = Preview & { request: ExplainRequest };

class Explaining extends Priced<Quote> {
  way = $state<Way>('prepare');
  rho = $state(FIRST_PRICES.prepare);
  k = $state(FIRST_K);
  confidence = $state<number | null>(null);
  attributes = $state.raw<string[] | null>(null);
  conjuncts = $state<number | null>(null);
  predicates = $state('');
  mechanism = $state('auto');
  split = $state.raw<number[] | 'best' | null>(null);
  lowerShare = $state<number | null>(null);
  sensitivity = $state<Sensitivity>('tight');
  /** Whether conditions that say nearly the same are folded; null: as the server finds best. */
  distinct = $state<boolean | null>(null);

  /** Whether a prepared answer is to be prepared once more, with more budget. */
  more = $state(false);
  table = $state.raw<Explanation | null>(null);
  readonly work = new Work();
  /** How many predicates a family has, from the server's previews. */
  #sizes = $state.raw<Record<string, number>>({});
  #tableRequest = '';

  /** A price in options that were not used, such as the budget where the answer is prepared, does not matter. */
  override get current(): boolean {
    const priced = this.preview?.request;
    return priced !== undefined && identity(this.request(priced.rho ?? null)) === identity(priced);
  }

  /** Whether it is free because the answer is prepared, for any groups. */
  get fromPrepared(): boolean {
    return this.free && this.preview?.request.rho === null;
  }

  get #lines(): string[] {
    return this.predicates
      .split('\n')
      .map((line) => line.trim())
      .filter(Boolean);
  }

  get family(): Family {
    const lines = this.#lines;
    const { attributes, conjuncts } = this;
    return { ...ALL, attributes, conjuncts, predicates: lines.length ? lines : null };
  }

  /** The columns that may explain the question. */
  get candidates(): Column[] {
    const names = comparing.question?.attributes ?? [];
    return (workspace.dataset?.columns ?? []).filter(({ name }) => names.includes(name));
  }

  /** No more predicates can be named than there are. */
  get most(): number {
    return Math.min(MOST_K, this.#sizes[this.#familyKey] ?? MOST_K);
  }

  get #familyKey(): string {
    return JSON.stringify([workspace.dataset?.name, comparing.answer?.columns, comparing.of, this.family]);
  }

  get place(): ExplainPlace {
    const prepared = this.table ? this.table.mechanism === 'marginals' : this.way === 'prepare';
    const { k, confidence, split, lowerShare, sensitivity, distinct, family } = this;
    const options = { k, confidence, split, lowerShare, sensitivity, distinct, family };
    return { ...options, rho: prepared ? null : this.rho, mechanism: prepared ? 'auto' : this.mechanism };
  }

  restore({ rho, family, ...options }: ExplainPlace): void {
    const { attributes, conjuncts, predicates } = family;
    Object.assign(this, options, { attributes, conjuncts, predicates: (predicates ?? []).join('\n') });
    this.way = rho === null ? 'prepare' : 'once';
    this.rho = rho ?? FIRST_PRICES.prepare;
  }

  /** Rough, good and sharp, of the way that is chosen. */
  get prices(): number[] {
    return ladder(FIRST_PRICES[this.way], workspace.budget?.rho.limit ?? 0);
  }

  take(way: Way): void {
    this.way = way;
    this.rho = this.prices[1]!;
  }

  reset(): void {
    this.stop();
    this.work.drop();
    this.table = this.preview = this.problem = null;
    this.more = false;
  }

  request(rho: number | null): ExplainRequest | null {
    const why = comparing.request();
    if (!why) return null;
    const { mechanism, split, lowerShare, sensitivity, distinct, family } = this;
    return {
      ...why,
      k: Math.min(this.k, this.most),
      rho,
      explain_confidence: this.confidence,
      distinct,
      ...(this.way === 'once'
        ? { mechanism, split, lower_share: lowerShare, sensitivity }
        : { mechanism: rho === null ? 'auto' : 'marginals', split: null, lower_share: null, sensitivity: 'tight' }),
      family,
    };
  }

  get wanted(): string {
    return identity(this.request(this.rho));
  }

  protected ask(signal: AbortSignal): Promise<Quote> | null {
    const dataset = workspace.dataset?.name;
    return dataset && comparing.question ? this.#cheapest(dataset, signal) : null;
  }

  /** What is prepared answers for nothing; only where it does not, a price is asked for. */
  async #cheapest(dataset: string, signal: AbortSignal): Promise<Quote> {
    const { levels: [least, ...levels] = [], ...quote } = await this.#quote(dataset, this.rho, signal);
    const isPrepared = least?.free && this.way === 'prepare' && !this.more;
    return isPrepared ? this.#quote(dataset, null, signal) : { ...quote, levels };
  }

  /** More predicates than the family has are refused, so its size is asked for first where it is not known. */
  async #quote(dataset: string, rho: number | null, signal: AbortSignal): Promise<Quote> {
    const key = this.#familyKey;
    if (!(key in this.#sizes)) {
      const { rows } = await api.previewExplain(dataset, { ...this.#complete(rho), k: 1 }, signal);
      this.#sizes = { ...this.#sizes, [key]: rows[0]?.predicates ?? MOST_K };
    }
    const request = this.#complete(rho);
    const prices = rho === null ? [] : [LEAST_RHO, ...this.prices];
    return { ...(await api.previewExplain(dataset, { ...request, prices }, signal)), request };
  }

  /** A group may have been taken back while the price of the pair was on its way. */
  #complete(rho: number | null): ExplainRequest {
    const request = this.request(rho);
    if (!request) throw new DOMException('Two groups are needed.', 'AbortError');
    return request;
  }

  /** Reads what is prepared or stored; refuses to send anything that would be charged. */
  async explainForFree(): Promise<void> {
    if (!this.free || !this.preview) return;
    const { request } = this.preview;
    if (!this.table || this.#tableRequest !== identity(request)) await this.#explain(request);
  }

  /** Spends: only ever called by a button that names the price. */
  async buy(): Promise<void> {
    const dataset = workspace.dataset?.name;
    const why = comparing.request();
    if (!dataset || !why || this.work.running) return;
    comparing.from = null;
    this.stop(); // a price that is on its way is that of before the purchase
    this.preview = null;
    if (this.way === 'once') {
      await this.#explain(this.request(this.rho));
      return;
    }
    const { answer, of } = why;
    const prepared = await this.#follow(() => api.prepare(dataset, { answer, of, rho: this.rho, family: this.family }));
    if (prepared) await this.#readPrepared(prepared);
  }

  async #readPrepared({ budget }: Prepared): Promise<void> {
    workspace.spent(budget);
    this.way = 'prepare';
    this.more = false;
    await this.#explain(this.request(null));
  }

  /** Follows work that was begun before the page was loaded; free, as what it costs is charged already. */
  async resume(id: string): Promise<void> {
    if (this.work.running) return;
    const result = await this.#follow(() => api.job<Explanation | Prepared>(id, 0));
    if (!result) return;
    if (result.kind === 'explanation') this.#show(result, '');
    else await this.#readPrepared(result);
  }

  /** Something sharper was measured since: the table is read anew. Free. */
  async reread(): Promise<void> {
    if (this.table && this.table.mechanism === 'marginals') await this.#explain(this.request(null));
  }

  /** The table's charts, for files. Free: the table is stored. */
  async charted(): Promise<Explanation | null> {
    const dataset = workspace.dataset?.name;
    const body = this.table && this.request(this.place.rho);
    if (!dataset || !body) return null;
    let job = await api.explain(dataset, { ...body, chart_width: EXPORT_WIDTH });
    while (job.state === 'queued' || job.state === 'running') job = await api.job<Explanation>(job.id);
    return job.result;
  }

  async #explain(body: ExplainRequest | null): Promise<void> {
    const dataset = workspace.dataset?.name;
    if (!dataset || !body) return;
    const table = await this.#follow(() => api.explain(dataset, body));
    if (table) this.#show(table, identity(body));
  }

  #follow<R>(begin: () => Promise<Job<R>>): Promise<R | null> {
    this.problem = null;
    return this.work.follow(begin);
  }

  #show(table: Explanation, request: string): void {
    this.table = table;
    this.#tableRequest = request;
    if (table.mechanism === 'marginals') this.way = 'prepare'; // it reads what is prepared, whoever chose it
    workspace.spent(table.budget);
    workspace.report(spoken(table.finding));
  }
}

const identity = (body: ExplainRequest | null): string => JSON.stringify(body);

export const explaining = new Explaining();
