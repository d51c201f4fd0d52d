// What every panel shares: who asks, of which data set, and what is left of its budget.
import { api } from '../api';
import { problemFrom, session, whoAmI } from '../api/client';
import type { Budget, Dataset, DatasetSummary, Me, Problem } from '../api/types';

export type Step = 'ask' | 'again' | 'explain' | 'quality';
const NO_PRICES: Record<Step, number | null> = { ask: null, again: null, explain: null, quality: null };

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

  readonly step = $derived(this.prices[this.considering]);
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
      this.datasets = (await api.datasets()).datasets;
    } catch (error) {
      this.problem = problemFrom(error);
    }
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

  async refreshBudget(): Promise<void> {
    if (this.dataset) this.budget = await api.budget(this.dataset.name);
  }

  say(text: string): void {
    this.announcement = text;
  }

  report(text: string): void {
    this.progress = text;
  }
}

export const workspace = new Workspace();
