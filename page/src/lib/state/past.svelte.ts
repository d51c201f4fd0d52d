// Lines of the history, the newest first, read page by page as somebody scrolls.
import { api } from '../api';
import { problemFrom } from '../api/client';
import type { HistoryEntry, Problem } from '../api/types';

const PAGE = 100;
const LARGEST_PAGE = 500;

export class Past {
  lines = $state.raw<HistoryEntry[]>([]);
  /** Whether there are no older lines than those that were read. */
  ended = $state(false);
  loading = $state(false);
  problem = $state.raw<Problem | null>(null);
  #older: number | string | undefined;
  #request: AbortController | null = null;

  constructor(
    readonly dataset: string,
    readonly find = '',
  ) {}

  /** Reads on until there are lines that were not there before, or no older ones. */
  async more(): Promise<void> {
    if (this.loading || this.ended || this.problem) return;
    const request = (this.#request = new AbortController());
    this.loading = true;
    try {
      const before = this.lines.length;
      while (!this.ended && this.lines.length === before) {
        const page = await this.#read(PAGE, this.#older, request.signal);
        this.lines = [...this.lines, ...page.entries.reverse()];
        this.#older = page.older ?? undefined;
        this.ended = page.older === null;
      }
    } catch (error) {
      this.problem = problemFrom(error);
    } finally {
      this.loading = false;
    }
  }

  /** Every line, the oldest first, for a file that somebody wants. */
  async all(): Promise<HistoryEntry[]> {
    const pages: HistoryEntry[][] = [];
    let older: number | string | null | undefined;
    while (older !== null) {
      const page = await this.#read(LARGEST_PAGE, older);
      pages.unshift(page.entries);
      older = page.older;
    }
    return pages.flat();
  }

  stop(): void {
    this.#request?.abort();
  }

  #read(limit: number, before?: number | string, signal?: AbortSignal) {
    return api.history(this.dataset, { before, limit, find: this.find || undefined }, signal);
  }
}
