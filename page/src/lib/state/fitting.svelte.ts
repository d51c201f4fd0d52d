// How well the data fit the declarations: priced, measured once, and free to read from then on.
import { api } from '../api';
import { isGone, problemFrom } from '../api/client';
import type { Preview, Quality } from '../api/types';
import { comparing } from './comparing.svelte';
import { Priced } from './priced.svelte';
import { workspace } from './workspace.svelte';

export const FIRST_PRICE = 0.02;

class Fitting extends Priced {
  rho = $state(FIRST_PRICE);
  /** What was measured last, of `#dataset`; null where nothing was. */
  measured = $state.raw<Quality | null>(null);
  running = $state(false);
  #dataset = $state('');

  readonly loaded = $derived(this.#dataset !== '' && this.#dataset === workspace.dataset?.name);

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

  protected ask(signal: AbortSignal): Promise<Preview> | null {
    const name = workspace.dataset?.name;
    return name ? api.previewQuality(name, { rho: this.rho }, signal) : null;
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
