// A line of the history as a place in the page, from what the ledger keeps about its request.
import type { Family, HistoryEntry, JobLine } from './api/types';
import { ALL, comparison, DEFAULT_CONFIDENCE, FIRST_K, type ExplainPlace, type Place } from './route';

const KINDS: Record<string, string> = {
  query: 'Query',
  prepare: 'Prepared: explanations are free',
  explain: 'Explanation',
  quality: 'Data quality',
  discover: 'Discovery: the values of a column',
  tune: 'Tuning: proposals of bounds',
  limit: 'Limit changed',
  grant: 'Allowance set',
  'top-up': 'Budget added',
  loss: 'Charged for lost records',
};

/** An explanation without any option, read off what was prepared. */
const PLAIN: ExplainPlace = {
  k: FIRST_K,
  rho: null,
  confidence: null,
  mechanism: 'auto',
  split: null,
  lowerShare: null,
  sensitivity: 'tight',
  distinct: null,
  family: ALL,
};

/** What both a line of the history and a job tell of a request. */
type Asked = Pick<HistoryEntry, 'address' | 'kind' | 'state' | 'request' | 'weights'>;

/** Whether a preparation was bought for a story. */
export const isStory = ({ kind, request }: Pick<HistoryEntry, 'kind' | 'request'>): boolean =>
  kind === 'prepare' && familyOf(request).nested;

/** What a line of the history is, as a person calls it. */
export function kindOf(entry: Pick<HistoryEntry, 'kind' | 'request'>): string {
  const { kind, request } = entry;
  const { attributes } = familyOf(request);
  if (isStory(entry)) return 'Story';
  if (kind === 'prepare' && attributes) return `Prepared: explanations by ${attributes.join(', ')} are free`;
  return KINDS[kind] ?? kind;
}

const familyOf = (request: HistoryEntry['request']): Family => ({ ...ALL, ...(request?.family as object | undefined) });

/** Work that goes on, with the request that it is of. */
export function placeOfJob({ id, kind, request, weights }: JobLine, dataset: string): Place | null {
  const place = placeOf({ address: 0, kind, state: 'released', request, weights }, dataset);
  return place && { ...place, job: id };
}

export function placeOf(entry: Asked, dataset: string): Place | null {
  const place: Place = {
    dataset,
    answer: null,
    of: null,
    confidence: DEFAULT_CONFIDENCE,
    groups: [],
    atLeast: 0,
    explain: null,
    from: null,
    story: null,
    job: null,
  };
  if (entry.state !== 'released') return null;
  if (entry.kind === 'query') return { ...place, answer: String(entry.address) };
  const request = entry.request;
  const answer = request && addressed(request.answer, String(entry.address));
  if (!request || !answer) return null;
  const groups = entry.weights.map(({ group, weight }) => ({ label: group, weight }));
  const question = { ...place, answer, of: (request.of as string) ?? null, groups };
  if (entry.kind === 'prepare') {
    const family = familyOf(request);
    const story = family.nested ? family.conjuncts : null;
    return {
      ...question,
      explain: { ...PLAIN, family: story === null ? family : { ...ALL, attributes: family.attributes } },
      from: entry.address ? [String(entry.address)] : null,
      story,
    };
  }
  if (entry.kind !== 'explain') return question;
  return {
    ...question,
    confidence: typeof request.confidence === 'number' ? request.confidence : DEFAULT_CONFIDENCE,
    atLeast: Number(request.at_least ?? 0),
    ...comparison(request.compare),
    explain: {
      k: Number(request.k ?? FIRST_K),
      rho: typeof request.rho === 'number' ? request.rho : null,
      confidence: typeof request.explain_confidence === 'number' ? request.explain_confidence : null,
      mechanism: String(request.mechanism ?? 'auto'),
      split: (request.split as number[] | 'best' | null) ?? null,
      lowerShare: typeof request.lower_share === 'number' ? request.lower_share : null,
      sensitivity: request.sensitivity === 'paper' ? 'paper' : 'tight',
      distinct: typeof request.distinct === 'boolean' ? request.distinct : null,
      family: familyOf(request),
    },
  };
}

/** The answer that a request is about, as everybody may write it: one without an owner is the request's own. */
function addressed(answer: unknown, address: string): string | null {
  if (typeof answer === 'string') return answer;
  if (typeof answer !== 'number') return null;
  const at = address.indexOf('@');
  return at < 0 ? String(answer) : `${answer}${address.slice(at)}`;
}
