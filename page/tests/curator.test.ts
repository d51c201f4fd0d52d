import { describe, expect, test } from 'vitest';
import type { AuditLine } from '../src/curator/api';
import { marksOf } from '../src/curator/keyplaces';
import { isTruth, sentence } from '../src/curator/sentences';
import { answerTruths, covers, explanationTruths, tally } from '../src/curator/truths';
import { dayOf, endOfDay, ends, isPast } from '../src/curator/words';
import type { Answer, Explanation } from '../src/lib/api/types';

const line = (action: string, details: Record<string, unknown>, actor = 'carol'): AuditLine =>
  ({ id: 1, time: '2026-01-01T00:00:00Z', actor, action, dataset: 'people', details }) as unknown as AuditLine;
const NAMES = new Map([['t1', 'bob']]);

describe('a record of the audit log', () => {
  test('says who raised what to how much, and why', () => {
    const grant = { analyst: 'alice', limit_units: 350_000_000_000, reason: 'a second look' };
    expect(sentence(line('topped up', { grant }), NAMES)).toBe(
      'carol raised the allowance of alice on people to 0.35, because: a second look',
    );
    const limit = { declared_units: 1_000_000_000_000, top_up_units: 500_000_000_000 };
    expect(sentence(line('topped up', { limit }), NAMES)).toBe('carol raised the budget of people to 1.5');
  });

  test('names the holder of a token, and calls any other id a browser session', () => {
    const revoked = (token: string) => sentence(line('token revoked', { revocation: { token } }), NAMES);
    expect(revoked('t1')).toBe('carol ended the token of bob (t1)');
    expect(revoked('s9')).toBe('carol ended a browser session (s9)');
  });

  test('without an actor is by the server, or by the one local user', () => {
    expect(sentence(line('ledger upgraded', {}, ''), NAMES)).toBe('The server brought the ledger up to date');
    const entry = { kind: 'query', charge_units: 100_000_000_000, description: 'SELECT 1' };
    expect(sentence(line('reserved', { entry }, ''), NAMES)).toBe('The local owner asked for 0.1 of people: SELECT 1');
  });

  test('of an unknown kind is told by its own words', () => {
    expect(sentence(line('moon phase', {}), NAMES)).toBe('carol moon phase (people)');
  });

  test('about true values stands out', () => {
    expect(isTruth(line('truth viewed', { answer: 3 }))).toBe(true);
    expect(sentence(line('truth viewed', { answer: 3 }), NAMES)).toBe(
      'carol looked at true values of people, beside answer 3',
    );
  });
});

describe('refused keys of a schema', () => {
  const TOML = '[table]\nname = "people"\n\n[columns.pay]\nbounds = [9, 1]\n';
  const marks = (message: string) => marksOf(TOML, { code: 'schema', message, remedy: '' });

  test('are marked at their lines', () => {
    const message = 'In the schema: columns.pay.bounds: must be ordered; table.source: is missing.';
    expect(marks(message)).toEqual([
      { key: 'columns.pay.bounds', message: 'must be ordered', line: 5, from: 39, to: 54 },
      { key: 'table.source', message: 'is missing', line: 1, from: 0, to: 7 },
    ]);
  });

  test('that the text does not have are told without a line', () => {
    expect(marks('In the schema: privacy.rho: is missing.')).toMatchObject([{ key: 'privacy.rho', line: null }]);
  });

  test('a syntax error is marked where the parser stopped', () => {
    expect(marks('The schema is not valid TOML (at line 2, column 8).')).toMatchObject([{ key: 'TOML', line: 2 }]);
  });
});

describe('true values', () => {
  test('belong to the aggregate that is looked at', () => {
    const rows = ['A', 'B'].map((label) => ({ label, low: 0, high: 2, estimate: 1 }));
    const parts = [
      { name: 'COUNT(*)', rows },
      { name: 'AVG(x)', rows },
    ];
    const truth = { rows: [{ true: 1 }, { true: 10 }, { true: 2 }, { true: 20 }] };
    const compared = answerTruths(truth as never, { parts } as unknown as Answer, parts[1] as never);
    expect(compared.map(({ label, truth }) => [label, truth])).toEqual([
      ['A', 10],
      ['B', 20],
    ]);
  });

  test('of another table are not shown', () => {
    const table = { rows: [{ predicate: "sex = 'F'" }] } as unknown as Explanation;
    expect(explanationTruths({ rows: [] } as never, table)).toBeNull();
  });

  test('are counted where there is something to cover', () => {
    expect([covers(0, 2, 1), covers(0, 2, 3), covers(null, 2, -99), covers(0, 2, null)]).toEqual([
      true,
      false,
      true,
      null,
    ]);
    expect(tally([true, false, null])).toEqual({ covered: 1, of: 2 });
  });
});

describe('days', () => {
  test('end at their last second, in the reader’s time zone', () => {
    expect(dayOf(endOfDay('2030-01-31'))).toBe('2030-01-31');
    expect(endOfDay('')).toBeNull();
    expect(dayOf(null)).toBe('');
  });

  test('say how soon something ends', () => {
    const after = (hours: number) => new Date(Date.now() + hours * 3_600_000).toISOString();
    expect(ends(null)).toBe('No end');
    expect(ends(after(-1))).toMatch(/^Ended /);
    expect(ends(after(5))).toMatch(/, within a day$/);
    expect(ends(after(3 * 24 + 1))).toMatch(/, in 3 days$/);
    expect(ends(after(100 * 24))).not.toMatch(/, in /);
    expect([isPast(after(-1)), isPast(after(1)), isPast(null)]).toEqual([true, false, false]);
  });
});
