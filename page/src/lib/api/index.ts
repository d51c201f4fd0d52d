// Every address the analyst's page uses, by what it is for.
import { call, callText, type Options } from './client';
import { byGroups } from './columns';
import type * as T from './types';

interface AnswerOptions {
  confidence?: number;
  population?: boolean;
  chart_width?: number;
  chart_order?: string;
  chart_order_of?: string;
}
const answerAt = (dataset: string, id: number | string, options: Record<string, unknown>) =>
  at(dataset, `/answers/${encodeURIComponent(id)}${query(options)}`);
const at = (dataset: string, rest = '') => `/datasets/${encodeURIComponent(dataset)}${rest}`;
const JOB_WAIT = 10;

export const api = {
  signIn: (token: string) => call<T.Me>('POST', '/session', { body: { token } }),
  signOut: () => call<unknown>('DELETE', '/session'),
  datasets: () => call<{ datasets: T.DatasetSummary[] }>('GET', '/datasets'),
  dataset: (name: string) => call<T.Dataset>('GET', at(name)),
  budget: (name: string) => call<T.OwnBudget>('GET', at(name, '/budget')),
  preview: (
    name: string,
    body: { sql: string; rho: number; confidence: number; prices?: number[] },
    signal?: AbortSignal,
  ) => call<T.Preview>('POST', at(name, '/preview'), { body, signal, free: true }),
  query: (name: string, body: { sql: string; rho: number; confidence: number }) =>
    call<T.AnswerColumns>('POST', at(name, '/query?form=columns'), { body }).then(byGroups),
  answer: (name: string, id: number | string, options: AnswerOptions = {}) =>
    call<T.AnswerColumns>('GET', answerAt(name, id, { ...options, form: 'columns' })).then(byGroups),
  /** The same as a table has it, for files. */
  answerRecords: (name: string, id: number | string, options: AnswerOptions = {}) =>
    call<{ rows: T.AnswerRecord[] }>('GET', answerAt(name, id, { ...options })).then(({ rows }) => rows),
  askForBudget: (name: string, body: { rho: number; reason: string }) =>
    call<unknown>('POST', at(name, '/budget/requests'), { body }),
  why: (name: string, body: T.WhyRequest, signal?: AbortSignal) =>
    call<T.Question>('POST', at(name, '/why'), { body, signal, free: true }),
  quality: (name: string) => call<{ quality: T.Quality | null }>('GET', at(name, '/quality')),
  previewQuality: (name: string, body: { rho: number }, signal?: AbortSignal) =>
    call<T.Preview>('POST', at(name, '/quality/preview'), { body, signal, free: true }),
  measureQuality: (name: string, body: { rho: number }) => call<T.Quality>('POST', at(name, '/quality'), { body }),
  previewPrepare: (name: string, body: T.PrepareRequest, signal?: AbortSignal) =>
    call<T.Preview>('POST', at(name, '/prepare/preview'), { body, signal, free: true }),
  previewExplain: (name: string, body: T.ExplainRequest & { prices?: number[] }, signal?: AbortSignal) =>
    call<T.Preview>('POST', at(name, '/explain/preview'), { body, signal, free: true }),
  previewStory: (name: string, body: T.StoryRequest & { rho: number; prices?: number[] }, signal?: AbortSignal) =>
    call<T.Preview>('POST', at(name, '/story/preview'), { body, signal, free: true }),
  story: (name: string, body: T.StoryRequest) => call<T.Story>('POST', at(name, '/story'), { body, free: true }),
  prepare: (name: string, body: T.PrepareRequest) => start<T.Prepared>(at(name, '/prepare'), { body }),
  explain: (name: string, body: T.ExplainRequest) => start<T.Explanation>(at(name, '/explain'), { body }),
  job: <R>(id: string, wait = JOB_WAIT) => call<T.Job<R>>('GET', `/jobs/${encodeURIComponent(id)}?wait=${wait}`),
  jobs: (name: string) => call<{ jobs: T.JobLine[] }>('GET', at(name, '/jobs')),
  cancel: (id: string) => call<T.Job<unknown>>('DELETE', `/jobs/${encodeURIComponent(id)}`),
  report: (name: string, body: T.ReportRequest) => callText('POST', at(name, '/report'), { body }),
  history: (name: string, page: { before?: number | string; limit?: number; find?: string }, signal?: AbortSignal) =>
    call<T.HistoryPage>('GET', at(name, `/history${query(page)}`), { signal }),
};

/** Small work is done by the time the first answer comes back; the rest shows its progress. */
function start<R>(path: string, options: Options): Promise<T.Job<R>> {
  return call<T.Job<R>>('POST', `${path}?wait=1`, options);
}

function query(values: Record<string, unknown>): string {
  const pairs = Object.entries(values).filter(([, value]) => value !== undefined);
  const text = new URLSearchParams(pairs.map(([name, value]) => [name, String(value)])).toString();
  return text && `?${text}`;
}
