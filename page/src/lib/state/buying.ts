// A button can be pressed while its price is told again: what it said is bought, or nothing is.
import type { Priced } from './priced.svelte';
import { workspace } from './workspace.svelte';

const TRIES = 5; // a price may be overtaken by that of a later change

export type Step = Pick<Priced, 'wanted' | 'current' | 'free' | 'refused' | 'problem' | 'price'>;

/** Waits for the price of what is wanted; true if it can be bought, and nothing was changed meanwhile. */
export async function isPriced(step: Step): Promise<boolean> {
  const { wanted } = step;
  for (let tries = 0; tries < TRIES && !step.current && !step.refused; tries++) await step.price();
  return step.current && !step.refused && step.wanted === wanted;
}

/** The same for a button that was pressed: what it called free must still be. Otherwise the page says so. */
export async function costsAsSaid(step: Step): Promise<boolean> {
  const wasFree = step.free;
  if ((await isPriced(step)) && (!wasFree || step.free)) return true;
  if (!step.problem) workspace.tell('The price has changed meanwhile. Nothing was spent.');
  return false;
}
