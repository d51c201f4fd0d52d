// What every panel shares: who asks, of which data set, and what is left of its budget.
import { api } from '../api';
import { isGone, problemFrom, session, whoAmI } from '../api/client';
import type { Budget, Dataset, DatasetSummary, Me, OwnBudget, Problem } from '../api/types';
import { afterPress } from '../press';

export type Step = 'ask' | 'again' | 'explain' | 'story' | 'quality';
const NO_PRICES: Record<Step, number | null> = { ask: null, again: null, explain: null, story: null, quality: null };

class Workspace {
  me = $state.raw<Me | null>(null);
  datasets = $state.raw<DatasetSummary[] | null>(null);
  dataset = $state.raw<Dataset | null>(null);
  budget = $state.raw<Budget | null>(null);
  /** What each step would cost now; null where it has no price or is free. */
  prices = $state({ ...NO_PRICES });
  /** The step somebody is working on: its price is the one that the budget bar shows. */
  considering = $state<Step>('ask');
  problem = $state.raw<Problem | null>(null);
  /** Spoken by the live region. */
  announcement = $state('');
  /** Spoken by a second one, so that progress does not cut a verdict short. */
  progress = $state('');

  /** Shown for a moment, as a quiet success. */
  notice = $state.raw<{ text: string } | null>(null);
  #tabs = typeof BroadcastChannel === 'undefined' ? null : new BroadcastChannel('dpxplain-budget');

  readonly step = $derived(this.prices[this.considering]);
  /** Too many charged requests failed or were stopped: nothing new is measured until the curator forgives them. */
  readonly blocked = $derived(this.dataset?.failures?.blocked ?? false);
  readonly exhausted = $derived(this.budget !== null && this.budget.rho.remaining <= 0);
  readonly mustSignIn = $derived(this.me !== null && !this.me.signed_in && !this.me.single_user);

  constructor() {
    session.onSignedOut = () => {
      if (this.me?.signed_in) this.me = { ...this.me, signed_in: false };
    };
  }

  async enter(): Promise<void> {
    try {
      this.problem = null;
      this.me = await whoAmI();
      if (this.mustSignIn) return;
      this.datasets = this.me.datasets ?? (await api.datasets()).datasets;
    } catch (error) {
      this.problem = problemFrom(error);
    }
  }

  /** Another tab has spent, or this one was looked away from: what is left is asked for again. */
  followBudget(): void {
    this.#tabs?.addEventListener('message', ({ data }) => {
      if (data === this.dataset?.name) void this.refreshBudget();
    });
    document.addEventListener('visibilitychange', () => {
      if (document.visibilityState === 'visible') void (this.blocked ? this.refreshFailures() : this.refreshBudget());
    });
  }

  async signIn(token: string): Promise<void> {
    const me = await api.signIn(token);
    // Whatever another person left in this page goes; the address restores what this one may see.
    if (this.dataset) location.reload();
    this.me = me;
    await this.enter();
  }

  async signOut(): Promise<void> {
    await api.signOut();
    history.replaceState(null, '', '#/');
    location.reload();
  }

  /** A step has the focus; its price may take a line more than that of the one before. */
  consider(step: Step): void {
    afterPress(() => (this.considering = step));
  }

  async open(name: string): Promise<void> {
    if (this.dataset?.name === name) return;
    try {
      this.problem = null;
      this.prices = { ...NO_PRICES };
      this.considering = 'ask';
      this.dataset = null;
      this.dataset = await api.dataset(name);
      this.budget = this.dataset.budget;
    } catch (error) {
      this.problem = problemFrom(error);
    }
  }

  /** The price on a card that can be bought now, for the budget bar: called in the card's effect, and over with it. */
  offer(step: Step, rho: number | null): () => void {
    this.prices[step] = rho;
    return () => (this.prices[step] = null);
  }

  /** What is left now; while the server is away, it stays as it was. */
  async refreshBudget(): Promise<OwnBudget | null> {
    const name = this.dataset?.name;
    if (!name) return null;
    try {
      const budget = await api.budget(name);
      if (this.dataset?.name !== name) return null;
      this.budget = budget;
      return budget;
    } catch (error) {
      if (!isGone(error)) this.problem = problemFrom(error);
      return null;
    }
  }

  /** Something was bought: the budget as the server tells it, here and in other tabs. */
  spent(budget: Budget): void {
    this.budget = budget;
    if (this.dataset) this.#tabs?.postMessage(this.dataset.name);
    if (this.dataset?.lost?.length) void this.refreshFailures(); // it may have been asked again
  }

  /** After a request failed or was stopped, or the server did: what it cost, and how many of them count now. */
  async refreshFailures(): Promise<void> {
    const name = this.dataset?.name;
    if (!name) return;
    await this.refreshBudget();
    try {
      const { failures, lost } = await api.dataset(name);
      if (this.dataset?.name === name) this.dataset = { ...this.dataset, failures, lost };
    } catch (error) {
      if (!isGone(error)) this.problem = problemFrom(error);
    }
  }

  say(text: string): void {
    this.announcement = text;
  }

  /** A quiet success: read out, and shown for a moment. */
  tell(text: string): void {
    this.say(text);
    this.notice = { text };
  }

  report(text: string): void {
    this.progress = text;
  }
}

export const workspace = new Workspace();
