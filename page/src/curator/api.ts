// Every address the curator's view uses, by what it is for.
import { call } from '../lib/api/client';
import type { components } from '../lib/api/schema';
import type { ExplainRequest } from '../lib/api/types';

type Shapes = components['schemas'];
export type Declared = Shapes['DeclaredPayload'];
export type SchemaText = Shapes['SchemaText'];
export type SchemaChecked = Shapes['SchemaChecked'];
export type SchemaReview = Shapes['SchemaReview'];
/** `crashes`: how often the server stopped while it measured for them; older servers do not say. */
export type Allowance = Shapes['AllowancePayload'] & { crashes?: number };
export type Share = Shapes['SharePayload'];
export type Token = Shapes['TokenPayload'];
export type TokenMade = Shapes['TokenMade'];
export type AuditLine = Shapes['AuditLine'];
export type AuditVerified = Shapes['AuditVerified'];
export type DataFile = Shapes['DataFileLine'];
export type FileColumns = Shapes['FileColumns'];
export type BudgetRequest = Required<Shapes['BudgetRequestLine']>;
export type UseLine = Shapes['UseLine'];
export type Truth = Shapes['TruthPayload'];
export type Role = 'analyst' | 'curator';

const of = (dataset: string, rest: string) => `/datasets/${encodeURIComponent(dataset)}${rest}`;
const admin = (dataset: string) => `/admin/datasets/${encodeURIComponent(dataset)}`;

export const curatorApi = {
  declared: () => call<{ datasets: Declared[]; editable: boolean }>('GET', '/admin/datasets'),
  schema: (dataset: string) => call<SchemaText>('GET', admin(dataset)),
  check: (toml: string, signal?: AbortSignal) =>
    call<SchemaChecked>('POST', '/admin/schema/check', { body: { toml }, signal, free: true }),
  review: (toml: string, dataset: string | null, signal?: AbortSignal) =>
    call<SchemaReview>('POST', '/admin/schema/review', { body: { toml, dataset }, signal }),
  declare: (toml: string) => call<SchemaText>('POST', '/admin/datasets', { body: { toml } }),
  edit: (dataset: string, toml: string) => call<SchemaText>('PUT', admin(dataset), { body: { toml } }),

  files: () => call<{ files: DataFile[]; most_bytes: number }>('GET', '/admin/files'),
  fileColumns: (file: string) => call<FileColumns>('GET', `/admin/files/${encodeURIComponent(file)}/columns`),
  removeFile: (file: string) => call<unknown>('DELETE', `/admin/files/${encodeURIComponent(file)}`),
  upload: (file: File) => call<DataFile>('PUT', `/admin/files/${encodeURIComponent(file.name)}`, { file }),

  analysts: (dataset: string) => call<{ analysts: Allowance[] }>('GET', of(dataset, '/analysts')),
  grant: (dataset: string, analyst: string, body: { rho: number; expires: string | null; reason: string }) =>
    call<Allowance>('PUT', of(dataset, `/analysts/${encodeURIComponent(analyst)}`), { body }),
  forgive: (dataset: string, analyst: string, reason: string) =>
    call<unknown>('POST', of(dataset, `/analysts/${encodeURIComponent(analyst)}/forgive`), { body: { reason } }),
  topUp: (dataset: string, body: { rho: number; reason: string; analyst: string | null }) =>
    call<{ analysts: Allowance[] }>('POST', of(dataset, '/top-up'), { body }),
  use: (dataset: string) => call<{ use: UseLine[] }>('GET', of(dataset, '/use')),
  requests: (dataset: string) => call<{ requests: BudgetRequest[] }>('GET', of(dataset, '/budget/requests')),
  decline: (dataset: string, request: number, reason: string) =>
    call<unknown>('POST', of(dataset, `/budget/requests/${request}/decline`), { body: { reason } }),
  shares: (dataset: string) => call<{ shares: Share[] }>('GET', of(dataset, '/shares')),
  share: (dataset: string, body: { owner: string; reader: string; reason: string }) =>
    call<{ shares: Share[] }>('POST', of(dataset, '/shares'), { body }),
  unshare: (dataset: string, body: { owner: string; reader: string; reason: string }) =>
    call<{ shares: Share[] }>('DELETE', of(dataset, '/shares'), { body }),

  tokens: () => call<{ tokens: Token[] }>('GET', '/admin/tokens'),
  makeToken: (body: { name: string; role: Role; expires: string }) =>
    call<TokenMade>('POST', '/admin/tokens', { body }),
  revoke: (id: string, only: boolean) =>
    call<unknown>('DELETE', `/admin/tokens/${encodeURIComponent(id)}?only=${only}`),

  audit: (after: number, limit: number) =>
    call<{ records: AuditLine[] }>('GET', `/admin/audit?after=${after}&limit=${limit}`),
  verify: (head: string) =>
    call<AuditVerified>('GET', `/admin/audit/verify${head && `?head=${encodeURIComponent(head)}`}`),

  answerTruth: (dataset: string, answer: number | string, confidence: number) =>
    call<Truth>('GET', of(dataset, `/answers/${encodeURIComponent(answer)}/truth?confidence=${confidence}`)),
  explainTruth: (dataset: string, body: ExplainRequest) => call<Truth>('POST', of(dataset, '/explain/truth'), { body }),
};
