// What the API says, by short names. The shapes are generated from its OpenAPI document: npm run types.
import type { components } from './schema';

type Schemas = components['schemas'];

/** A Vega-Lite specification; its own type is vega's affair. */
export type ChartSpec = Record<string, unknown>;

/** Results carry a chart where its width was asked for. */
type Charted<T> = T & { chart?: ChartSpec | null };

export type Position = Schemas['Position'];
export type SchemaProblem = Schemas['SchemaProblem'];
/** Everything that goes wrong; only a refused schema has `problems`, one for each key. */
export type Problem = Omit<Schemas['Failure'], 'position'> & {
  position?: Position | null;
  problems?: SchemaProblem[];
};
export type Me = Schemas['Me'];
export type Budget = Schemas['BudgetFigures'];
/** With the newest request for more. */
export type OwnBudget = Schemas['OwnBudget'];
export type BudgetRequest = Schemas['BudgetAnswer'];
export type DatasetSummary = Schemas['Summary'];
export type Column = Schemas['ColumnPayload'];
export type Example = Schemas['Example'];
export type Code = Schemas['Code'];
export type QueryForm = Schemas['QueryForm'];

/** The parts of the declared schema that the page reads; all of it is TOML-shaped and public. */
export interface Declared {
  privacy?: { unit?: string };
  columns?: Record<string, { values?: (string | number | boolean | null)[] | null; edges?: number[] | null }>;
}
export type Dataset = Omit<Schemas['DatasetPayload'], 'schema'> & { schema: Declared };

/** Rows of a preview differ by what is priced; each of these may be there. */
export interface PreviewRow {
  predicates?: number;
  mechanism?: string;
  reason?: string;
}
/** What a result says, in the words that every face shows first. */
export type Finding = Schemas['FindingPayload'];

/** Queries and explanations come with the prices to compare and what they protect. */
export type Preview = Omit<Schemas['PreviewPayload'], 'rows'> & { rows: PreviewRow[] } & Partial<
    Pick<Schemas['PricedPreview'], 'levels' | 'protection' | 'tells' | 'doubt'>
  >;

/** As it is sent for the page; `byGroups` makes an `Answer` of it. */
export type AnswerColumns = Charted<Schemas['AnswerColumns']>;
/** With the same group as it holds in general, where that was asked for. */
export type AnswerRow = Omit<Schemas['GroupPayload'], 'noise_scale' | 'in_general'> & { in_general?: AnswerRow };
export type AnswerPart = Omit<Schemas['AnswerPart'], 'rows'> & { rows: AnswerRow[] };
export type Answer = Omit<AnswerColumns, 'domains' | 'groups' | 'parts'> & { parts: AnswerPart[] };
export type AnswerRecord = Schemas['AnswerPayload']['rows'][number];

export type Quality = Schemas['QualityPayload'];

export type WhyRequest = Schemas['Why'];
export type Verdict = 'real' | 'unclear' | 'reversed';
export type Question = Charted<Omit<Schemas['QuestionPayload'], 'verdict'>> & { verdict: Verdict };

export type Family = Required<Schemas['Family']>;
export type PrepareRequest = Schemas['Prepare'];
export type ExplainRequest = Schemas['Explain'];
export type Prepared = Schemas['PreparedPayload'];
export type Explanation = Charted<Omit<Schemas['ExplanationPayload'], 'question' | 'influence_chart'>> & {
  question: Question;
  influence_chart?: ChartSpec | null;
};
export type ExplanationRow = Schemas['ExplanationLine'];
export type ReportRequest = Schemas['Report'];
export type StoryRequest = Schemas['TellStory'];
export type Story = Charted<Schemas['StoryPayload']>;
export type StoryBranch = Schemas['StoryBranch'];
export type Job<Result> = Omit<Schemas['JobPayload'], 'result'> & { result: Result | null };

export type JobLine = Schemas['JobLine'];

export type HistoryEntry = Schemas['HistoryLine'];
export type HistoryPage = Schemas['HistoryPayload'];
