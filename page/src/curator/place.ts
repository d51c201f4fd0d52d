// Where one is in the curator's view: #/curator/people/adult, #/curator/datasets/edit/adult.
import { CURATOR, decoded } from '../lib/route';

export const SECTIONS = {
  datasets: 'Data sets',
  people: 'People',
  audit: 'Audit log',
} as const;
export type Section = keyof typeof SECTIONS;

/** Where older links lead. */
const FORMER: Record<string, Section> = { analysts: 'people', tokens: 'people' };

export interface CuratorPlace {
  section: Section;
  rest: string[];
}

export function placeIn(hash: string): CuratorPlace {
  const [name = '', ...rest] = hash
    .slice(CURATOR.length + 1)
    .split('/')
    .map(decoded);
  if (name in FORMER) return { section: FORMER[name]!, rest };
  return name in SECTIONS ? { section: name as Section, rest } : { section: 'datasets', rest: [] };
}

export function hashOf(section: Section, ...rest: string[]): string {
  return [CURATOR, section, ...rest.map(encodeURIComponent)].join('/');
}
