// A request for more budget: sent, waiting, decided. While one waits, the budget is asked for again and again.
import { api } from '../api';
import type { BudgetRequest } from '../api/types';
import { amount, clock } from '../words';
import { connection } from './connection.svelte';
import { workspace } from './workspace.svelte';

const PAUSE = 4_000;
const UNSEEN_PAUSE = 30_000; // while nobody looks at the page

class Requesting {
  /** The newest of this person about the data set that is shown. */
  request = $state.raw<BudgetRequest | null>(null);
  /** Whether it was decided before somebody's eyes. */
  isNews = $state(false);
  #timer: ReturnType<typeof setTimeout> | undefined;

  readonly waiting = $derived(this.request?.state === 'waiting');
  readonly words = $derived(this.request && inWords(this.request));
  /** A curator, such as the local owner of the data, asks nobody. */
  readonly offered = $derived(workspace.me?.role === 'analyst');

  /** From now on it is about the data set that is shown; the end is its result. */
  follow(): () => void {
    this.request = null;
    this.isNews = false;
    const look = () => document.visibilityState === 'visible' && this.waiting && void this.look();
    document.addEventListener('visibilitychange', look);
    void this.look();
    return () => {
      clearTimeout(this.#timer);
      document.removeEventListener('visibilitychange', look);
    };
  }

  async send(rho: number, reason: string): Promise<void> {
    await api.askForBudget(workspace.dataset!.name, { rho, reason });
    this.isNews = false;
    await this.look();
    if (this.words) workspace.say(this.words);
  }

  async look(): Promise<void> {
    clearTimeout(this.#timer);
    const waited = this.waiting;
    const budget = await workspace.refreshBudget();
    if (budget) this.request = budget.request;
    if (waited && this.words && !this.waiting) {
      this.isNews = true;
      workspace.tell(`${this.words}.`);
    }
    if (!this.waiting || (!budget && !connection.gone)) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.look(), document.hidden ? UNSEEN_PAUSE : PAUSE);
  }
}

function inWords({ state, asked_at, given, reason }: BudgetRequest): string {
  if (state === 'waiting') return `Asked at ${clock(asked_at)}, waiting`;
  if (state === 'granted') return `You were given ${amount(given ?? 0)}`;
  return `Declined: ${reason}`;
}

/** What a price lacks of what is left, rounded up to two digits. */
export function missing(price: number, left: number): number {
  const lacks = Number((price - left).toPrecision(9));
  if (lacks <= 0) return 0;
  const unit = 10 ** (Math.floor(Math.log10(lacks)) - 1);
  return Number((Math.ceil(Number((lacks / unit).toPrecision(9))) * unit).toPrecision(2));
}

export const requesting = new Requesting();
