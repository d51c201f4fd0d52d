// The story of a gap: what explains most, within it the next, and what remains. Paid for once, and then free.
import { api } from '../api';
import { isGone, problemFrom } from '../api/client';
import type { Family, Prepared, Preview, Problem, Story, StoryRequest } from '../api/types';
import { ladder } from '../precision';
import { ALL } from '../route';
import { comparing } from './comparing.svelte';
import { explaining } from './explaining.svelte';
import { preparations } from './prepared.svelte';
import { Work } from './work.svelte';
import { workspace } from './workspace.svelte';

const USUAL_PRICE = 0.1;
const USUAL_LEVELS = 2;
export const MOST_LEVELS = 3;
const LEAST_RHO = 1e-9; // at this price, whatever is prepared is precise enough

class Telling {
  /** Whether somebody wants to see it: until then nothing is asked about it. */
  opened = $state(false);
  levels = $state(USUAL_LEVELS);
  rho = $state(USUAL_PRICE);
  /** Whether a prepared story is wanted more precisely. */
  more = $state(false);
  preview = $state.raw<Preview | null>(null);
  problem = $state.raw<Problem | null>(null);
  story = $state.raw<Story | null>(null);
  readonly work = new Work();
  /** What the preview, the problem and the story are of. */
  #priced = $state('');
  #refused = $state('');
  #told = $state('');
  #request: AbortController | null = null;

  readonly current = $derived(this.preview !== null && this.#priced === this.wanted);
  readonly free = $derived(this.current && this.preview?.free === true);
  readonly refused = $derived(
    (this.problem !== null && this.#refused === this.wanted) || (this.current && this.preview?.affordable === false),
  );
  /** Whether the story that is shown is of another question. */
  readonly stale = $derived(this.#told !== this.asked);

  /** No more steps than there are attributes. */
  get most(): number {
    return Math.min(MOST_LEVELS, (explaining.attributes ?? explaining.candidates).length);
  }

  get prices(): number[] {
    return ladder(USUAL_PRICE, workspace.budget?.rho.limit ?? 0);
  }

  /** What the address keeps of it. */
  get place(): number | null {
    return this.story || this.work.job ? this.levels : null;
  }

  get asked(): string {
    return JSON.stringify(this.request());
  }

  /** All that a person may have changed. */
  get wanted(): string {
    return JSON.stringify([this.request(), this.rho, this.more]);
  }

  request(chartWidth?: number): StoryRequest | null {
    const why = comparing.request(chartWidth);
    if (!why) return null;
    return { ...why, levels: Math.min(this.levels, this.most), attributes: explaining.attributes, exclude: [] };
  }

  reset(): void {
    this.#request?.abort();
    this.work.drop();
    this.opened = this.more = false;
    this.preview = this.problem = this.story = null;
    this.levels = USUAL_LEVELS;
    this.rho = this.prices[1]!;
  }

  /** What it would cost, or that it is free. Spends nothing. */
  async price(): Promise<void> {
    this.#request?.abort();
    const dataset = workspace.dataset?.name;
    const body = this.request();
    if (!dataset || !body || !this.most) return;
    const request = (this.#request = new AbortController());
    const { wanted, rho, more, prices } = this;
    try {
      let preview = more ? null : await api.previewStory(dataset, { ...body, rho: LEAST_RHO }, request.signal);
      if (!preview?.free) preview = await api.previewStory(dataset, { ...body, rho, prices }, request.signal);
      if (request.signal.aborted) return;
      this.preview = preview;
      this.#priced = wanted;
      this.problem = null;
      workspace.prices.story = preview.free ? null : preview.rho;
    } catch (error) {
      const problem = problemFrom(error);
      if (problem === null || request.signal.aborted || isGone(error)) return;
      this.preview = null;
      this.problem = problem;
      this.#refused = wanted;
      workspace.prices.story = null;
    }
  }

  /** Spends unless it is free: only ever called by a button that names the price. */
  async tell(chartWidth: number): Promise<void> {
    const dataset = workspace.dataset?.name;
    const body = this.request();
    if (!dataset || !body || this.work.running) return;
    if (!this.free) {
      const { answer, of } = body;
      const { rho } = this;
      const family: Family = { ...ALL, attributes: explaining.attributes, conjuncts: body.levels!, nested: true };
      const prepared = await this.work.follow(() => api.prepare(dataset, { answer, of, rho, family }));
      if (!prepared) return;
      this.#bought(prepared);
    }
    await this.read(chartWidth);
  }

  /** Follows work that was begun before the page was loaded; free, as what it costs is charged already. */
  async resume(id: string, chartWidth: number): Promise<void> {
    const prepared = await this.work.follow(() => api.job<Prepared>(id));
    if (!prepared) return;
    this.#bought(prepared);
    await this.read(chartWidth);
  }

  #bought(prepared: Prepared): void {
    workspace.spent(prepared.budget);
    workspace.prices.story = null;
    this.more = false;
    preparations.add(explaining.family); // single conditions are part of what a story is prepared with
  }

  /** What is prepared, as a story. Free. */
  async read(chartWidth: number): Promise<void> {
    const dataset = workspace.dataset?.name;
    const { asked } = this;
    const body = this.request(chartWidth);
    if (!dataset || !body) return;
    try {
      const story = await api.story(dataset, body);
      if (this.asked !== asked) return;
      this.story = story;
      this.#told = asked;
      workspace.report(story.sentences.join(' '));
    } catch (error) {
      this.work.failure = problemFrom(error);
    }
  }
}

export const telling = new Telling();
