// What has a price before it is bought: the server tells it, and it counts only while nothing was changed since.
import { isGone, problemFrom } from '../api/client';
import type { Preview, Problem } from '../api/types';

export abstract class Priced<P extends Preview = Preview> {
  preview = $state.raw<P | null>(null);
  /** Why what is wanted has no price, or was not sold. */
  problem = $state.raw<Problem | null>(null);
  /** What the preview and the problem are of. */
  #priced = $state('');
  #refused = $state('');
  #request: AbortController | null = null;

  /** All that a person may have changed. */
  abstract get wanted(): string;
  /** Asks for the price of what is wanted; null where nothing has a price yet. */
  protected abstract ask(signal: AbortSignal): Promise<P> | null;

  /** Whether the price that is shown is that of what is wanted. */
  get current(): boolean {
    return this.preview !== null && this.#priced === this.wanted;
  }

  get free(): boolean {
    return this.current && this.preview!.free;
  }

  /** Whether what is wanted cannot be bought; while its price is on the way, that is not known. */
  get refused(): boolean {
    const isRefused = this.problem !== null && this.#refused === this.wanted;
    return isRefused || (this.current && !this.preview!.affordable);
  }

  /** Spends nothing. False if a later request overtook this one, which then says nothing. */
  async price(): Promise<boolean> {
    this.stop();
    const { signal } = (this.#request = new AbortController());
    const { wanted } = this;
    try {
      const preview = await this.ask(signal);
      if (signal.aborted) return false;
      if (preview) [this.preview, this.#priced, this.problem] = [preview, wanted, null];
    } catch (error) {
      if (signal.aborted) return false;
      const problem = problemFrom(error);
      if (problem === null || isGone(error)) return true;
      this.preview = null;
      this.refuse(problem, wanted);
    }
    return true;
  }

  protected stop(): void {
    this.#request?.abort();
  }

  protected refuse(problem: Problem | null, wanted = this.wanted): void {
    this.problem = problem;
    this.#refused = wanted;
  }
}
