// The address keeps what is shown, so that a reload or a shared link restores it for free.
// #/adult?answer=3&of=AVG(pay)&group=1*Married&group=-1*Single&explain=5&rho=0.5

import type { Family } from './api/types';

export interface Place {
  dataset: string | null;
  /** A number of the history, as everybody may write it who may see it: 3, or 3@ann. */
  answer: string | null;
  of: string | null;
  confidence: number;
  groups: { label: string; weight: number }[];
  atLeast: number;
  /** Only where it is not the difference. */
  compare?: 'ratio' | 'share';
  explain: ExplainPlace | null;
  /** The releases that the comparison, the explanation and the story were read off; null: the sharpest. */
  from: string[] | null;
  /** How many steps the story that is shown may have. */
  story: number | null;
  /** Work that goes on, found again after a reload. */
  job: string | null;
}

export interface ExplainPlace {
  k: number;
  /** null: read off what was prepared. */
  rho: number | null;
  confidence: number | null;
  mechanism: string;
  split: number[] | 'best' | null;
  /** Of the price of ranks, the part for their lower bounds; null: as usual. */
  lowerShare: number | null;
  sensitivity: Sensitivity;
  /** Whether conditions that say nearly the same are folded; null: where they have several attributes. */
  distinct: boolean | null;
  family: Family;
}

export type Sensitivity = 'tight' | 'paper';

export const CURATOR = '#/curator';
export const DEFAULT_CONFIDENCE = 0.95;
export const FIRST_K = 5;
export const ALL: Family = { attributes: null, conjuncts: null, exclude: [], predicates: null, nested: false };

export const isCurator = (hash: string): boolean => hash === CURATOR || hash.startsWith(`${CURATOR}/`);

/** The data set whose board an address shows: #/board/adult. */
export function boardOf(hash: string): string | null {
  const name = /^#\/board\/([^?]+)$/.exec(hash)?.[1];
  return name ? decoded(name) : null;
}

/** The data set of an address; none has a slash, which would lead to another address of the server. */
function named(path: string): string | null {
  const name = decoded(path);
  return name && !/[/\\]|^\.+$/.test(name) ? name : null;
}

export function parse(hash: string): Place {
  const [path = '', search = ''] = hash.replace(/^#\/?/, '').split('?');
  const values = new URLSearchParams(search);
  const explain: ExplainPlace | null = values.has('explain')
    ? {
        k: number(values.get('explain'), FIRST_K),
        rho: values.has('rho') ? number(values.get('rho'), 0.1) : null,
        confidence: values.has('explain_confidence') ? number(values.get('explain_confidence'), 0.95) : null,
        mechanism: values.get('mechanism') ?? 'auto',
        split: split(values.get('split')),
        lowerShare: values.has('lower_share') ? number(values.get('lower_share'), 0.1) : null,
        sensitivity: values.get('sensitivity') === 'paper' ? 'paper' : 'tight',
        distinct: values.has('distinct') ? values.get('distinct') === 'true' : null,
        family: {
          ...ALL,
          attributes: values.has('attribute') ? values.getAll('attribute') : null,
          conjuncts: values.has('conjuncts') ? number(values.get('conjuncts'), 1) : null,
          predicates: values.has('predicate') ? values.getAll('predicate') : null,
        },
      }
    : null;
  return {
    dataset: named(path),
    answer: values.has('answer') ? (isEntry(values.get('answer')!) ? values.get('answer') : '0') : null,
    of: values.get('of'),
    confidence: number(values.get('confidence'), DEFAULT_CONFIDENCE),
    groups: values.getAll('group').flatMap(weighted),
    atLeast: number(values.get('at_least'), 0),
    explain,
    from: values.has('from') ? values.getAll('from').filter(isEntry) : null,
    story: values.has('story') ? number(values.get('story'), 2) : null,
    job: values.get('job'),
    ...comparison(values.get('compare')),
  };
}

export function format(place: Place): string {
  if (!place.dataset) return '#/';
  const values = new URLSearchParams();
  if (place.answer !== null) values.set('answer', place.answer);
  if (place.of) values.set('of', place.of);
  if (place.confidence !== DEFAULT_CONFIDENCE) values.set('confidence', String(place.confidence));
  for (const { label, weight } of place.groups) values.append('group', `${weight}*${label}`);
  if (place.atLeast) values.set('at_least', String(place.atLeast));
  if (place.compare) values.set('compare', place.compare);
  if (place.explain) explainValues(place.explain, values);
  for (const release of place.from ?? []) values.append('from', release);
  if (place.story !== null) values.set('story', String(place.story));
  if (place.job) values.set('job', place.job);
  const search = values.toString();
  return `#/${encodeURIComponent(place.dataset)}${search && `?${search}`}`;
}

function explainValues(explain: ExplainPlace, values: URLSearchParams): void {
  const { family } = explain;
  values.set('explain', String(explain.k));
  if (explain.rho !== null) values.set('rho', String(explain.rho));
  if (explain.confidence !== null) values.set('explain_confidence', String(explain.confidence));
  if (explain.mechanism !== 'auto') values.set('mechanism', explain.mechanism);
  if (explain.split) values.set('split', explain.split === 'best' ? 'best' : explain.split.join(','));
  if (explain.lowerShare !== null) values.set('lower_share', String(explain.lowerShare));
  if (explain.sensitivity !== 'tight') values.set('sensitivity', explain.sensitivity);
  if (explain.distinct !== null) values.set('distinct', String(explain.distinct));
  if (family.conjuncts !== null) values.set('conjuncts', String(family.conjuncts));
  for (const attribute of family.attributes ?? []) values.append('attribute', attribute);
  for (const predicate of family.predicates ?? []) values.append('predicate', predicate);
}

/** A part of an address as it was before it was escaped; one that was never escaped stays as it is. */
export function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** A ratio or a share, as an address or a stored request names it. */
export function comparison(name: unknown): Pick<Place, 'compare'> {
  return name === 'ratio' || name === 'share' ? { compare: name } : {};
}

function weighted(text: string): { label: string; weight: number }[] {
  const star = text.indexOf('*');
  const weight = Number(text.slice(0, star));
  return star > 0 && Number.isFinite(weight) ? [{ weight, label: text.slice(star + 1) }] : [];
}

/** A number of the history: 3, or 3@ann. */
const isEntry = (text: string): boolean => /^\d+(@.*)?$/.test(text);

function split(text: string | null): number[] | 'best' | null {
  if (!text) return null;
  return text === 'best' ? 'best' : text.split(',').map(Number);
}

function number(text: string | null, fallback: number): number {
  const value = Number(text);
  return text !== null && text !== '' && Number.isFinite(value) ? value : fallback;
}
