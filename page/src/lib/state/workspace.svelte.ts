// What every panel shares: who asks, of which data set, and what is left of its budget.
import { api } from '../api';
import { problemFrom, session, whoAmI } from '../api/client';
import type { Budget, Dataset, DatasetSummary, Me, Problem } from '../api/types';

class Workspace {
  me = $state.raw<Me | null>(null);
  datasets = $state.raw<DatasetSummary[] | null>(null);
  dataset = $state.raw<Dataset | null>(null);
  budget = $state.raw<Budget | null>(null);
  /** The price of the step that is being considered, as the budget bar shows it. */
  step = $state.raw<number | null>(null);
  problem = $state.raw<Problem | null>(null);
  /** Spoken by the live region. */
  said = $state('');

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
    session.csrf = me.csrf;
    this.me = me;
    await this.enter();
  }

  async signOut(): Promise<void> {
    await api.signOut();
    this.dataset = this.datasets = this.budget = null;
    this.me = await whoAmI();
  }

  async open(name: string): Promise<void> {
    if (this.dataset?.name === name) return;
    try {
      this.problem = null;
      this.step = null;
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
    this.said = text;
  }
}

export const workspace = new Workspace();
