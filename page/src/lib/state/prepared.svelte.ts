// Which answers are prepared, so that every why on them is free: told by the server, or bought here.
import { api } from '../api';
import type { Family, WhyRequest } from '../api/types';
import { ALL } from '../route';
import { comparing } from './comparing.svelte';
import { workspace } from './workspace.svelte';

class Preparations {
  #subjects = $state.raw<string[]>([]);

  /** Of the answer and value that are shown; a preparation by every attribute answers fewer of them too. */
  has(family: Family): boolean {
    if (!comparing.answer) return false;
    return comparing.question?.prepared === true || this.#subjects.includes(subject(family)) || this.#knowsUsual;
  }

  get #knowsUsual(): boolean {
    return this.#subjects.includes(subject(ALL));
  }

  /** In words, where only some predicates were prepared. */
  limits(family: Family): string {
    if (comparing.question?.prepared || this.#knowsUsual) return '';
    return family.attributes ? `, by ${family.attributes.join(', ')}` : ', by these conditions';
  }

  add(family: Family): void {
    this.#subjects = [...this.#subjects, subject(family)];
  }

  /** Free: a question about any two groups tells whether their answer is prepared. */
  async learn(family: Family, isClaimed: boolean): Promise<void> {
    const dataset = workspace.dataset?.name;
    const body = anyQuestion();
    if (!dataset || !body) return;
    const [usual, given] = [subject(ALL), subject(family)];
    try {
      const { prepared } = await api.why(dataset, body);
      // Only where a link or the history claims it: a preview of what is not prepared is refused.
      const free = !prepared && isClaimed && given !== usual && (await this.#isFree(dataset, body, family));
      if (prepared) this.#subjects = [...this.#subjects, usual];
      else if (free) this.#subjects = [...this.#subjects, given];
    } catch {
      // It is only a courtesy: once two groups are chosen, the price is asked for anyway.
    }
  }

  async #isFree(dataset: string, body: WhyRequest, family: Family): Promise<boolean> {
    const preview = await api.previewExplain(dataset, { ...body, k: 1, rho: null, family });
    return preview.free;
  }
}

function subject(family: Family): string {
  return JSON.stringify([workspace.dataset?.name, comparing.answer?.id, comparing.part?.name, family]);
}

function anyQuestion(): WhyRequest | null {
  const rows = comparing.part?.rows.slice(0, 2) ?? [];
  if (!comparing.answer || !rows.length || comparing.part?.aggregate === 'formula') return null;
  return {
    answer: comparing.answer.id,
    of: comparing.part?.expression ?? null,
    weights: rows.map(({ group }, i) => ({ group, weight: i === 0 ? 1 : -1 })),
    at_least: 0,
    confidence: comparing.confidence,
  };
}

export const preparations = new Preparations();
