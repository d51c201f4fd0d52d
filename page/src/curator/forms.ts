// What the curator is asked before something changes: the fields of each form, and what it sends.
import { workspace } from '../lib/state/workspace.svelte';
import { amount } from '../lib/words';
import {
  curatorApi,
  type Allowance,
  type BudgetRequest,
  type Role,
  type Share,
  type Token,
  type TokenMade,
} from './api';
import { dayOf, endOfDay, inDays } from './words';

/** What a form can ask, as long as nothing is answered. A tick that is set has the value of its field. */
export const BLANK = {
  analyst: '',
  reader: '',
  role: '',
  audience: '',
  datasets: [] as string[],
  rho: '',
  day: '',
  reason: '',
  sure: '',
  only: '',
};
export type Answers = typeof BLANK;

export interface FormField {
  name: keyof Answers;
  label: string;
  hint?: string;
  isOptional?: boolean;
  /** Names to suggest, or the values to choose from with their words. */
  options?: [value: string, words: string][];
  /** What stands in the field until somebody types. */
  usual?: string;
  /** The value of a tick. */
  value?: string;
  /** The smallest amount. */
  least?: number;
}

/** What the lists of a data set's people are given. */
export interface Asker {
  dataset: string;
  /** Names to suggest. */
  known: string[];
  onask: (form: Form) => void;
}

export interface Form {
  title: string;
  submit: string | ((answers: Answers) => string);
  isDanger?: boolean;
  text?: string;
  begin?: Partial<Answers>;
  /** A reason, where nothing else is asked. */
  fields?: (answers: Answers) => FormField[];
  warning?: (answers: Answers) => string;
  /** What was done, in words. */
  send: (answers: Answers) => Promise<string>;
}

const LEAST = 1e-9;
const FRACTION = 10;
export const REASON: FormField = { name: 'reason', label: 'Reason', hint: 'Kept in the audit log for good.' };
const suggested = (names: string[]): [string, string][] => names.map((name) => [name, name]);
const analystField = (label: string, hint: string, known: string[]): FormField => ({
  name: 'analyst',
  label,
  hint,
  options: suggested(known),
});
export const readerOf = ({ reader }: Share): string => (reader === '*' ? 'Everyone' : reader);
export const ownerOf = ({ owner }: Share): string => owner || 'the local owner';

/** What all analysts together may still spend. */
export function leftOf(dataset: string): number {
  const budget = workspace.datasets?.find(({ name }) => name === dataset)?.budget;
  return budget ? (budget.shared_remaining ?? budget.rho.remaining) : 0;
}

/** The allowance to suggest: a tenth of what is left, in two digits and never rounded up. */
export function fraction(left: number): number {
  if (left <= 0) return 0;
  const unit = 10 ** (Math.floor(Math.log10(left / FRACTION)) - 1);
  return Number((Math.floor(left / FRACTION / unit + 1e-9) * unit).toPrecision(2));
}

function usualAllowance(datasets: string[]): Pick<FormField, 'usual' | 'hint'> {
  const least = datasets.toSorted((a, b) => leftOf(a) - leftOf(b))[0];
  if (least === undefined) return {};
  const left = leftOf(least);
  return {
    usual: String(fraction(left)),
    hint: `Usually a tenth of what is left: ${least} has ${amount(left)} for everybody.`,
  };
}

export function setAllowance(dataset: string, before: Allowance | null, known: string[]): Form {
  const nameIn = ({ analyst }: Answers) => before?.analyst ?? analyst.trim();
  const isUnknown = (answers: Answers) => !before && nameIn(answers) !== '' && !known.includes(nameIn(answers));
  return {
    title: before ? `Allowance of ${before.analyst}` : 'Give an allowance',
    submit: 'Set the allowance',
    begin: before ? { rho: String(before.limit), day: dayOf(before.expires) } : {},
    fields: (answers) => [
      ...(before ? [] : [analystField('Analyst', 'The name on their token.', known)]),
      {
        name: 'rho',
        label: 'May spend in all (ρ)',
        ...(before
          ? { hint: `Spent so far: ${amount(before.spent)}. A lower allowance leaves nothing.` }
          : usualAllowance([dataset])),
      },
      {
        name: 'day',
        label: 'Until the end of',
        hint: 'Empty means no end. Past answers stay readable afterwards.',
        isOptional: true,
      },
      REASON,
      ...(isUnknown(answers)
        ? [{ name: 'sure', label: 'The name is right', value: nameIn(answers) } satisfies FormField]
        : []),
    ],
    warning: (answers) =>
      isUnknown(answers)
        ? `Nobody called “${nameIn(answers)}” has a token. A misspelt name would get the allowance.`
        : '',
    send: async (answers) => {
      const [analyst, rho] = [nameIn(answers), Number(answers.rho)];
      // The day's end is not the moment it was: an expiry that was not touched stays as it is.
      const isSameDay = before !== null && answers.day === dayOf(before.expires);
      const expires = isSameDay ? before.expires : endOfDay(answers.day);
      await curatorApi.grant(dataset, analyst, { rho, expires, reason: answers.reason.trim() });
      return `${analyst} may now spend ${amount(rho)} of ${dataset} in all.`;
    },
  };
}

/** Adds to the budget of an analyst, or of the whole data set; it may answer a request. */
export function topUp(
  dataset: string,
  analyst: string | null,
  { allowance, request }: { allowance?: Allowance; request?: BudgetRequest } = {},
): Form {
  const whose = analyst ?? 'the whole data set';
  return {
    title: `Top up ${whose}`,
    submit: ({ rho }) => (Number(rho) > 0 ? `Add ${amount(Number(rho))}` : 'Add'),
    begin: request && { rho: String(request.rho), reason: `Asked for: ${request.reason}` },
    fields: () => [
      {
        name: 'rho',
        label: 'Add (ρ)',
        hint: allowance
          ? `${amount(allowance.remaining)} of ${amount(allowance.limit)} left. The expiry stays as it is.`
          : '',
        least: LEAST,
      },
      REASON,
    ],
    warning: () =>
      analyst === null
        ? `This weakens the promise made to the people in ${dataset}: the more is spent in all, the more may be learnt about each of them. You cannot take it back here.`
        : '',
    send: async ({ rho, reason }) => {
      await curatorApi.topUp(dataset, { rho: Number(rho), reason: reason.trim(), analyst });
      return `${amount(Number(rho))} added for ${whose}.`;
    },
  };
}

export function decline(dataset: string, { id, analyst }: BudgetRequest): Form {
  return {
    title: `Decline the request of ${analyst}`,
    submit: 'Decline it',
    send: async ({ reason }) => {
      await curatorApi.decline(dataset, id, reason.trim());
      return `The request of ${analyst} was declined.`;
    },
  };
}

export function forgive(dataset: string, { analyst, why }: Allowance): Form {
  return {
    title: `Forgive ${analyst}`,
    submit: 'Forgive the failures',
    text: `On ${dataset}: ${why}. Whether a request fails may depend on the data and has no noise, so after some of them the server measures nothing more for ${analyst}. The charges stay.`,
    send: async ({ reason }) => {
      await curatorApi.forgive(dataset, analyst, reason.trim());
      return `${analyst} may measure again.`;
    },
  };
}

export function share(dataset: string, known: string[]): Form {
  const readerIn = ({ audience, reader }: Answers) => (audience === 'everyone' ? '*' : reader.trim());
  return {
    title: 'Share a history',
    submit: 'Share',
    begin: { audience: 'everyone' },
    fields: ({ audience }) => [
      analystField('Whose history', `What they asked of ${dataset}, and will ask.`, known),
      {
        name: 'audience',
        label: 'Who may read it',
        options: [
          ['everyone', 'Everyone who may sign in'],
          ['one', 'One analyst'],
        ],
      },
      ...(audience === 'one'
        ? [{ name: 'reader', label: 'Reader', options: suggested(known) } satisfies FormField]
        : []),
      REASON,
    ],
    send: async (answers) => {
      const shared = { owner: answers.analyst.trim(), reader: readerIn(answers), reason: answers.reason.trim() };
      await curatorApi.share(dataset, shared);
      return `${shared.reader === '*' ? 'Everyone' : shared.reader} may now read what ${shared.owner} asked.`;
    },
  };
}

export function unshare(dataset: string, shared: Share): Form {
  const [reader, owner] = [readerOf(shared), ownerOf(shared)];
  return {
    title: 'Take a share back',
    submit: 'Take back',
    isDanger: true,
    text: `${reader} will no longer see what ${owner} asked of ${dataset}. What was read already cannot be unread.`,
    send: async ({ reason }) => {
      await curatorApi.unshare(dataset, { owner: shared.owner, reader: shared.reader, reason: reason.trim() });
      return `${reader} may no longer read what ${owner} asked.`;
    },
  };
}

export function revoke({ id, name, role }: Token): Form {
  return {
    title: `Revoke the token of ${name}?`,
    submit: 'Revoke it',
    isDanger: true,
    text: "The token ends now and for good, and so do the browser sessions begun with it. The name's history and allowance stay. A new token for the same name leads to them again.",
    fields: () =>
      role === 'curator'
        ? [
            {
              name: 'only',
              label: 'Keep the tokens that were made with it: the curator only changes tokens.',
              value: 'yes',
              isOptional: true,
            },
          ]
        : [],
    warning: ({ only }) =>
      [
        role === 'curator' && !only ? 'The tokens that were made with it end too, and those made with these.' : '',
        name === workspace.me?.name
          ? 'The token bears your own name. If you signed in with it, you will be signed out.'
          : '',
      ].join(' '),
    send: async ({ only }) => {
      await curatorApi.revoke(id, only !== '');
      return `The token of ${name} has ended.`;
    },
  };
}

const ROLES: [Role, string][] = [
  ['analyst', 'Analyst: asks within their allowance, and sees released answers only.'],
  ['curator', 'Curator: sees the true values and everything here. Give it to few.'],
];

/** A token, and a budget on the chosen data sets. `onmade` gets the token, whose text is shown only once. */
export function invite(chosen: string | null, known: () => string[], onmade: (made: TokenMade) => void): Form {
  const names = () => workspace.datasets?.map(({ name }) => name) ?? [];
  const grantsIn = ({ role, datasets }: Answers) => (role === 'analyst' ? datasets : []);
  return {
    title: 'Invite somebody',
    submit: 'Make the invitation',
    text: workspace.me?.single_user
      ? 'This server lets only you in, without a token. A token made here opens nothing on it.'
      : '',
    begin: { role: 'analyst', day: inDays(90), datasets: chosen ? [chosen] : [] },
    fields: (answers) => [
      { name: 'analyst', label: 'Name', hint: 'Budgets and history go by this name.' },
      { name: 'role', label: 'Role', options: ROLES },
      { name: 'day', label: 'Until the end of' },
      ...(answers.role === 'analyst' && names().length
        ? [{ name: 'datasets', label: 'May ask about', options: suggested(names()), isOptional: true } as const]
        : []),
      ...(grantsIn(answers).length
        ? [{ name: 'rho', label: 'Budget on each (ρ)', ...usualAllowance(answers.datasets) } as const]
        : []),
    ],
    warning: (answers) =>
      grantsIn(answers).length && known().includes(answers.analyst.trim())
        ? `${answers.analyst.trim()} is known already. This replaces the allowance they have.`
        : '',
    send: async (answers) => {
      const [name, expires] = [answers.analyst.trim(), endOfDay(answers.day)!];
      const grant = { rho: Number(answers.rho), expires, reason: `Invited until ${answers.day}` };
      // The budget first: where it is refused, no token was handed out.
      for (const dataset of grantsIn(answers)) await curatorApi.grant(dataset, name, grant);
      onmade(await curatorApi.makeToken({ name, role: answers.role as Role, expires }));
      return `A token for ${name} was made.`;
    },
  };
}
