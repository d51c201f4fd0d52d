// A line of the history as a place in the page, from what the ledger keeps about its request.
import type { HistoryEntry } from './api/types';
import { ALL, DEFAULT_CONFIDENCE, FIRST_K, type ExplainPlace, type Place } from './route';

type Value = string | number | boolean | null;

export function placeOf(entry: HistoryEntry, dataset: string): Place | null {
  const place: Place = {
    dataset,
    answer: null,
    of: null,
    confidence: DEFAULT_CONFIDENCE,
    groups: [],
    atLeast: 0,
    explain: null,
  };
  if (entry.state !== 'released') return null;
  if (entry.kind === 'query') return { ...place, answer: entry.id };
  const request = entry.request;
  if (!request || typeof request.answer !== 'number') return null;
  const weights = (request.weights ?? []) as { group: Value[] | string; weight: number }[];
  const groups = weights.map(({ group, weight }) => ({
    label: Array.isArray(group) ? group.map(label).join(', ') : group,
    weight,
  }));
  const asked = { ...place, answer: request.answer, of: (request.of as string) ?? null, groups };
  if (entry.kind === 'prepare') {
    return { ...asked, groups: pairIn(entry.description), explain: prepared(request.family as object | undefined) };
  }
  if (entry.kind !== 'explain') return asked;
  return {
    ...asked,
    confidence: typeof request.confidence === 'number' ? request.confidence : DEFAULT_CONFIDENCE,
    atLeast: Number(request.at_least ?? 0),
    explain: {
      k: Number(request.k ?? FIRST_K),
      rho: typeof request.rho === 'number' ? request.rho : null,
      confidence: typeof request.explain_confidence === 'number' ? request.explain_confidence : null,
      mechanism: String(request.mechanism ?? 'auto'),
      split: (request.split as number[] | 'best' | null) ?? null,
      sensitivity: request.sensitivity === 'paper' ? 'paper' : 'tight',
      family: { ...ALL, ...(request.family as object | undefined) },
    },
  };
}

/** Any why about what was prepared, by the predicates it was prepared for. */
function prepared(family: object | undefined): ExplainPlace {
  return {
    k: FIRST_K,
    rho: null,
    confidence: null,
    mechanism: 'auto',
    split: null,
    sensitivity: 'tight',
    family: { ...ALL, ...family },
  };
}

/** Bought with a question, a preparation is described by it; labels that do not fit the answer choose nothing. */
function pairIn(description: string): Place['groups'] {
  const [, first, second] = /^Why is .+? of (.+) above that of (.+)\?$/.exec(description) ?? [];
  if (!first || !second) return [];
  return [
    { label: first, weight: 1 },
    { label: second, weight: -1 },
  ];
}

/** How the server labels a declared value. */
function label(value: Value): string {
  if (value === null) return 'NULL';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  return String(value);
}
