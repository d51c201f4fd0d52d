// The story of a gap: what explains most, within it the next, and what remains. Paid for once, and then free.
import { api } from '../api';
import { problemFrom } from '../api/client';
import type { Family, Prepared, Preview, Story, StoryRequest } from '../api/types';
import { ladder } from '../precision';
import { ALL } from '../route';
import { comparing } from './comparing.svelte';
import { explaining } from './explaining.svelte';
import { Priced } from './priced.svelte';
import { Work } from './work.svelte';
import { workspace } from './workspace.svelte';

const USUAL_PRICE = 0.1;
const USUAL_LEVELS = 2;
export const MOST_LEVELS = 3;
const EXPORT_WIDTH = 500; // pixels of a chart's plot
const LEAST_RHO = 1e-9; // at this price, whatever is prepared is precise enough

class Telling extends Priced {
  levels = $state(USUAL_LEVELS);
  rho = $state(USUAL_PRICE);
  /** Whether a prepared story is wanted more precisely. */
  more = $state(false);
  story = $state.raw<Story | null>(null);
  readonly work = new Work();
  /** What the story is of. */
  #told = $state('');

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

  get wanted(): string {
    return JSON.stringify([this.request(), this.rho, this.more]);
  }

  request(): StoryRequest | null {
    const why = comparing.request();
    if (!why) return null;
    return { ...why, levels: Math.min(this.levels, this.most), attributes: explaining.attributes, exclude: [] };
  }

  reset(): void {
    this.stop();
    this.work.drop();
    this.more = false;
    this.preview = this.problem = this.story = null;
    this.levels = USUAL_LEVELS;
    this.rho = this.prices[1]!;
  }

  protected ask(signal: AbortSignal): Promise<Preview> | null {
    const dataset = workspace.dataset?.name;
    const body = this.request();
    return dataset && body && this.most ? this.#cheapest(dataset, body, signal) : null;
  }

  /** What it would cost, or that it is free. */
  async #cheapest(dataset: string, body: StoryRequest, signal: AbortSignal): Promise<Preview> {
    const { rho, more, prices } = this;
    const prepared = more ? null : await api.previewStory(dataset, { ...body, rho: LEAST_RHO }, signal);
    return prepared?.free ? prepared : api.previewStory(dataset, { ...body, rho, prices }, signal);
  }

  /** Spends unless it is free: only ever called by a button that names the price. */
  async tell(): Promise<void> {
    const dataset = workspace.dataset?.name;
    const body = this.request();
    if (!dataset || !body || this.work.running) return;
    if (!this.free) {
      const { answer, of } = body;
      const { rho } = this;
      const family: Family = { ...ALL, attributes: explaining.attributes, conjuncts: body.levels!, nested: true };
      const prepared = await this.work.follow(() => api.prepare(dataset, { answer, of, rho, family }));
      if (!prepared) return;
      await this.#bought(prepared);
    }
    await this.read();
  }

  /** Follows work that was begun before the page was loaded; free, as what it costs is charged already. */
  async resume(id: string): Promise<void> {
    const prepared = await this.work.follow(() => api.job<Prepared>(id, 0));
    if (!prepared) return;
    await this.#bought(prepared);
    await this.read();
  }

  /** A story measures single conditions, too: the table reads them, so that both say the same. */
  async #bought(prepared: Prepared): Promise<void> {
    workspace.spent(prepared.budget);
    this.more = false;
    comparing.from = null;
    if (!explaining.table) return;
    await explaining.reread();
    workspace.tell('The story measured more precisely. The explanation above now reads the same measurement.');
  }

  /** The story's chart, for files. Free. */
  async charted(): Promise<Story | null> {
    const dataset = workspace.dataset?.name;
    const body = this.request();
    return dataset && body ? api.story(dataset, { ...body, chart_width: EXPORT_WIDTH }) : null;
  }

  /** What is prepared, as a story. Free. */
  async read(): Promise<void> {
    const dataset = workspace.dataset?.name;
    const { asked } = this;
    const body = this.request();
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
