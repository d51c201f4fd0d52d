// What the API says, as the page holds it. One place to look when the server's types change.

export interface Position {
  line: number;
  column: number;
  start: number;
  end: number;
}

export interface Problem {
  code: string;
  message: string;
  remedy: string;
  position?: Position | null;
}

export interface Me {
  name: string | null;
  role: 'analyst' | 'curator' | null;
  csrf: string;
  single_user: boolean;
  signed_in: boolean;
}

export interface Amounts {
  limit: number;
  spent: number;
  remaining: number;
}

export interface Budget {
  rho: Amounts;
  epsilon: Amounts;
  delta: number;
  expires: string | null;
  shared_remaining: number | null;
}

export interface DatasetSummary {
  name: string;
  description: string;
  budget: Budget;
}

export interface Column {
  name: string;
  kind: 'discrete' | 'numeric' | 'both';
  values: string[] | null;
  bounds: [number, number] | null;
  description: string;
}

export interface Example {
  title: string;
  sql: string;
  groups: string[];
}

export interface Schema {
  privacy?: { unit?: string };
  columns?: Record<string, { values?: (string | number | boolean | null)[] | null; edges?: number[] | null }>;
}

export interface Dataset extends DatasetSummary {
  schema: Schema;
  columns: Column[];
  examples: Example[];
}

export interface Spend {
  mechanism: string;
  rho: number;
}

export interface Preview {
  rho: number;
  free: boolean;
  affordable: boolean;
  remaining: number;
  remaining_after: number;
  spends: Spend[];
  confidence: number;
  rows: PreviewRow[];
  words: string[];
}

export interface PreviewRow {
  aggregate?: string;
  group_size?: number | null;
  margin?: number;
  predicates?: number;
  cells?: number;
  groups?: number;
  influence_margin?: number;
  relative_margin?: number | null;
  gap_margin?: number | null;
  mechanism?: string;
  reason?: string;
}

export interface AnswerRow {
  group: string[];
  label: string;
  estimate: number;
  low: number | null;
  high: number | null;
  noise_scale: number;
}

export interface AnswerPart {
  name: string;
  aggregate: 'avg' | 'sum' | 'count';
  column: string | null;
  rows: AnswerRow[];
}

export interface Code {
  python: string;
  cli: string;
}

export type ChartSpec = Record<string, unknown>;

export interface Answer {
  id: number;
  sql: string;
  rho: number;
  free: boolean;
  private: boolean;
  confidence: number;
  columns: string[];
  rows: Record<string, unknown>[];
  parts: AnswerPart[];
  spends: Spend[];
  budget: Budget;
  code: Code;
  chart?: ChartSpec | null;
}

export interface Weight {
  group: string[] | string;
  weight: number;
}

export interface WhyRequest {
  answer: number;
  of: string | null;
  weights: Weight[];
  at_least: number;
  confidence: number;
  chart_width?: number;
}

export type Verdict = 'real' | 'unclear' | 'reversed';

export interface Question {
  answer: number;
  of: string;
  question: string;
  weights: { group: string; weight: number }[];
  at_least: number;
  estimate: number;
  interval: [number | null, number | null];
  confidence: number;
  verdict: Verdict;
  finding: string;
  note: string;
  prepared: boolean;
  chart?: ChartSpec | null;
}

export interface Family {
  attributes: string[] | null;
  conjuncts: number | null;
  exclude: string[];
  predicates: string[] | null;
}

export interface PrepareRequest {
  answer: number;
  of: string | null;
  rho: number;
  family: Family;
}

export interface ExplainRequest extends WhyRequest {
  k: number;
  rho: number | null;
  explain_confidence: number | null;
  mechanism: string;
  split: number[] | 'best' | null;
  sensitivity: string;
  family: Family;
}

export interface ExplanationRow {
  predicate: string;
  label: string;
  influence_low: number;
  influence_high: number;
  relative_influence_low: number | null;
  relative_influence_high: number | null;
  rank_low: number;
  rank_high: number;
  gap_without_low: number | null;
  gap_without_high: number | null;
  unclear: boolean;
  sentence: string;
  drill: string;
}

export interface Explanation {
  kind: 'explanation';
  id: number;
  question: Question;
  mechanism: string;
  reason: string;
  gap: number | null;
  rho: number;
  free: boolean;
  private: boolean;
  confidence: number;
  predicates: number;
  relative: boolean;
  rows: ExplanationRow[];
  meaning: string[];
  spends: Spend[];
  budget: Budget;
  code: Code;
  chart?: ChartSpec | null;
}

export interface Prepared {
  kind: 'prepared';
  id: number;
  budget: Budget;
}

export interface Job<T> {
  id: string;
  kind: string;
  state: 'queued' | 'running' | 'done' | 'failed' | 'cancelled' | 'lost';
  stage: string;
  rho: number;
  result: T | null;
  error: Problem | null;
}

export interface HistoryEntry {
  id: number;
  time: string;
  analyst: string;
  kind: string;
  state: string;
  description: string;
  rho: number;
  total_rho: number;
  request: Record<string, unknown> | null;
}
