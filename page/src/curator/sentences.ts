// A record of the audit log as a sentence. What is not known here is told by its own words, never left out.
import { amount, moment } from '../lib/words';
import type { AuditLine } from './api';

const UNITS_PER_RHO = 1e12;
type Row = Record<string, unknown>;

const part = (line: AuditLine, name: string): Row => (line.details[name] as Row | undefined) ?? {};
const text = (value: unknown): string => (typeof value === 'string' ? value : '');
const rho = (units: unknown): string => amount(Number(units ?? 0) / UNITS_PER_RHO);
const because = (row: Row): string => (text(row.reason) ? `, because: ${text(row.reason)}` : '');
const until = (row: Row): string => (text(row.expires) ? ` until ${moment(text(row.expires))}` : '');
const limit = (row: Row): string => rho(Number(row.declared_units ?? 0) + Number(row.top_up_units ?? 0));
const KINDS: Record<string, string> = { query: 'asked', prepare: 'prepared', explain: 'had explained' };

/** Who; the ledger itself and the one local user have no name. */
export function actor(line: AuditLine): string {
  if (line.actor && line.actor !== 'local owner') return line.actor;
  if (line.actor || line.action === 'reserved' || line.action === 'released') return 'The local owner';
  return 'The server';
}

const SENTENCES: Record<string, (line: AuditLine) => string> = {
  'data set opened': (line) => `opened ${line.dataset} with a budget of ${limit(part(line, 'limit'))}`,
  'limit changed': (line) => `took over a declared budget of ${limit(part(line, 'limit'))} for ${line.dataset}`,
  'delta changed': (line) => `took over δ = ${String(part(line, 'limit').delta)} for ${line.dataset}`,
  reserved: (line) => {
    const entry = part(line, 'entry');
    const what = KINDS[text(entry.kind)] ?? text(entry.kind);
    return `${what} for ${rho(entry.charge_units)} of ${line.dataset}: ${text(entry.description)}`;
  },
  released: (line) => `got the result of number ${String(part(line, 'release').entry)} of ${line.dataset}`,
  'allowance granted': (line) => {
    const grant = part(line, 'grant');
    return `set the allowance of ${text(grant.analyst)} on ${line.dataset} to ${rho(grant.limit_units)}${until(grant)}${because(grant)}`;
  },
  'topped up': (line) => {
    const grant = part(line, 'grant');
    if (!text(grant.analyst)) {
      const whole = part(line, 'limit');
      return `raised the budget of ${line.dataset} to ${limit(whole)}${because(whole)}`;
    }
    return `raised the allowance of ${text(grant.analyst)} on ${line.dataset} to ${rho(grant.limit_units)}${because(grant)}`;
  },
  shared: (line) => sharing(line, 'let', 'read'),
  unshared: (line) => sharing(line, 'no longer lets', 'read'),
  'token created': (line) => {
    const token = part(line, 'token');
    return `made a token for ${text(token.name)} as ${text(token.role)}${until(token)}`;
  },
  'session created': (line) => `began a browser session${until(part(line, 'token'))}`,
  'signed in': () => 'signed in with a browser',
  'truth viewed': (line) => `looked at true values of ${line.dataset}${truth(line)}`,
  'schema edited': (line) => `edited the schema of ${line.dataset}`,
  'data set declared': (line) => `declared the data set ${line.dataset}`,
  'ledger upgraded': () => 'brought the ledger up to date',
  found: () => 'took over an entry that was there before the log',
};

/** `names`: whose token an id is; an id that is none of a token is a browser session. */
export function sentence(line: AuditLine, names: ReadonlyMap<string, string>): string {
  if (line.action === 'token revoked') {
    const id = text(part(line, 'revocation').token);
    const name = names.get(id);
    return `${actor(line)} ended ${name === undefined ? 'a browser session' : `the token of ${name}`} (${id})`;
  }
  const told = SENTENCES[line.action]?.(line) ?? `${line.action}${line.dataset ? ` (${line.dataset})` : ''}`;
  return `${actor(line)} ${told}`;
}

/** Whether true values were involved, which deserve a second look. */
export const isTruth = (line: AuditLine): boolean => line.action === 'truth viewed';

function sharing(line: AuditLine, verb: string, read: string): string {
  const share = part(line, 'share');
  const reader = share.reader === '*' ? 'everyone' : text(share.reader);
  return `${verb} ${reader} ${read} what ${text(share.owner) || 'the local owner'} asks of ${line.dataset}${because(share)}`;
}

function truth({ details }: AuditLine): string {
  if (details.explanation !== undefined) return `, beside explanation ${String(details.explanation)}`;
  return details.answer === undefined ? '' : `, beside answer ${String(details.answer)}`;
}
