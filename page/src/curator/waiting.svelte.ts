// How many requests for more budget wait for the curator, by data set. Sections say their own failures.
import { whoAmI } from '../lib/api/client';
import { workspace } from '../lib/state/workspace.svelte';
import { curatorApi } from './api';

const EVERY = 30_000;

class Waiting {
  counts = $state.raw<Record<string, number>>({});
  readonly total = $derived(Object.values(this.counts).reduce((sum, count) => sum + count, 0));

  async load(): Promise<void> {
    try {
      // The server counts them in one step, so the data sets are only read where something changed.
      const { waiting_requests: total } = (await whoAmI()) as { waiting_requests?: number };
      if (total === this.total) return;
      const names = total === 0 ? [] : (workspace.datasets ?? []).map(({ name }) => name);
      const lists = await Promise.all(names.map((name) => curatorApi.requests(name)));
      this.counts = Object.fromEntries(names.map((name, i) => [name, lists[i]!.requests.length]));
    } catch {
      // The badge stays as it was.
    }
  }

  /** While a component lives: once the data sets are known, every half minute, and when the tab is looked at again. */
  follow(): void {
    $effect(() => {
      if (!workspace.datasets) return;
      const look = () => document.visibilityState === 'visible' && void this.load();
      const timer = setInterval(look, EVERY);
      document.addEventListener('visibilitychange', look);
      look();
      return () => {
        clearInterval(timer);
        document.removeEventListener('visibilitychange', look);
      };
    });
  }
}

export const waiting = new Waiting();
