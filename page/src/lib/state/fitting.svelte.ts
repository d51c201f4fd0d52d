// How well the data fit the declarations: priced, measured once, and free to read from then on.
import { api } from '../api';
import { isGone, problemFrom } from '../api/client';
import type { Preview, Problem, Quality } from '../api/types';
import { comparing } from './comparing.svelte';
import { workspace } from './workspace.svelte';

export const FIRST_PRICE = 0.02;

class Fitting {
  rho = $state(FIRST_PRICE);
  /** What was measured last, of `#dataset`; null where nothing was. */
  measured = $state.raw<Quality | null>(null);
  preview = $state.raw<Preview | null>(null);
  problem = $state.raw<Problem | null>(null);
  running = $state(false);
  #dataset = $state('');
  /** What the preview is of: while the price has moved on, it promises nothing about it. */
  #priced = $state('');
  /** What the problem is of. */
  #refused = $state('');
  #request: AbortController | null = null;

  readonly loaded = $derived(this.#dataset !== '' && this.#dataset === workspace.dataset?.name);
  readonly current = $derived(this.preview !== null && this.#priced === this.wanted);
  readonly free = $derived(this.current && this.preview?.free === true);
  readonly refused = $derived(
    (this.problem !== null && this.#refused === this.wanted) || (this.current && this.preview?.affordable === false),
  );

  get wanted(): string {
    return JSON.stringify([workspace.dataset?.name, this.rho]);
  }

  /** What was measured of this data set before. Free. */
  async load(): Promise<void> {
    const name = workspace.dataset?.name;
    if (!name || this.loaded) return;
    this.measured = this.preview = this.problem = null;
    try {
      const { quality } = await api.quality(name);
      if (workspace.dataset?.name !== name) return;
      this.measured = quality;
      this.#dataset = name;
    } catch (error) {
      this.problem = isGone(error) ? null : problemFrom(error);
    }
  }

  /** The price of the present budget. Spends nothing. */
  async price(): Promise<void> {
    this.#request?.abort();
    const name = workspace.dataset?.name;
    if (!name) return;
    const request = (this.#request = new AbortController());
    const { rho, wanted } = this;
    try {
      const preview = await api.previewQuality(name, { rho }, request.signal);
      if (request.signal.aborted) return;
      this.preview = preview;
      this.#priced = wanted;
      this.problem = null;
    } catch (error) {
      const problem = problemFrom(error);
      if (problem === null || request.signal.aborted || isGone(error)) return;
      this.preview = null;
      this.problem = problem;
      this.#refused = wanted;
    }
  }

  /** Spends: only ever called by a button that names the price. */
  async buy(): Promise<void> {
    const name = workspace.dataset?.name;
    if (!name || this.running) return;
    this.running = true;
    try {
      const measured = await api.measureQuality(name, { rho: this.rho });
      this.measured = measured;
      this.problem = null;
      workspace.spent(measured.budget);
      workspace.tell('Measured how well the data fit. From now on every answer says it.');
      await comparing.reread();
    } catch (error) {
      this.problem = problemFrom(error);
      await workspace.refreshFailures();
    } finally {
      this.running = false;
    }
  }
}

export const fitting = new Fitting();
