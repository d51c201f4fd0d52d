// The wizard's form and its TOML say the same, in both directions.
import { describe, expect, it } from 'vitest';
import {
  codesIn,
  column,
  fromDeclared,
  missing,
  mistake,
  tableName,
  toToml,
  type WizardForm,
} from '../src/curator/wizard';
import { ladder } from '../src/lib/precision';

const form: WizardForm = {
  name: 'towns',
  source: 'towns.csv',
  columns: [
    { ...column('sex'), kind: 'categories', codes: 'F = Female\nM\tMale' },
    { ...column('pay "net"', 'int64'), kind: 'number', low: '0', high: '1000', unit: 'dollars' },
    { ...column('age'), kind: 'bins', edges: '0, 20 40' },
    column('note'),
  ],
  person: 'person_id',
  maxRows: 3,
  rho: 0.5,
};

describe('the wizard', () => {
  it('writes TOML with quoted names and labels', () => {
    const text = toToml(form);
    expect(text).toContain('value_labels = { "F" = "Female", "M" = "Male" }');
    expect(text).toContain('[columns."pay \\"net\\""]\nbounds = [0, 1000]');
    expect(text).toContain('edges = [0, 20, 40]');
    expect(text).toContain('max_rows = 3');
    expect(text).not.toContain('note');
  });

  it('reads back what a schema declares, and keeps what is left out', () => {
    const declared = {
      table: { name: 'towns', source: 'towns.csv' },
      privacy: { rho: 0.5, unit: 'person_id', max_rows: 3 },
      columns: {
        sex: { values: ['F', 'M'], value_labels: { F: 'Female', M: 'Male' } },
        'pay "net"': { bounds: [0, 1000], unit: 'dollars' },
        age: { edges: [0, 20, 40] },
      },
    };
    const read = fromDeclared(declared, form.columns)!;
    expect(toToml(read)).toBe(toToml(form));
    expect(read.columns.map(({ name }) => name)).toEqual(form.columns.map(({ name }) => name));
  });

  it('leaves to the text what the form cannot say', () => {
    const columns = { late: { expression: 'a > 1', bounds: [0, 1] } };
    expect(fromDeclared({ table: { name: 't' }, privacy: { rho: 1 }, columns }, [])).toBeNull();
    expect(fromDeclared({ table: { name: 't' }, tables: {}, columns: {} }, [])).toBeNull();
  });

  it('takes codes for numbers only where all are', () => {
    expect(codesIn({ ...column('a'), codes: '1\n2' }).map(({ value }) => value)).toEqual([1, 2]);
    expect(codesIn({ ...column('a'), codes: '01\n2' }).map(({ value }) => value)).toEqual(['01', '2']);
    expect(codesIn({ ...column('a', 'string'), codes: '1\n2' }).map(({ value }) => value)).toEqual(['1', '2']);
  });

  it('says what is missing', () => {
    expect(missing(form)).toEqual({ file: '', columns: '', people: '', budget: '' });
    expect(missing({ ...form, columns: [column('a')] }).columns).toBe('Declare at least one column.');
    expect(tableName('2024 towns.csv')).toBe('t2024_towns');
  });
});

describe('a mistake', () => {
  const number = (low: string, high: string) => mistake({ ...column('a'), kind: 'number', low, high });
  const bins = (edges: string) => mistake({ ...column('a'), kind: 'bins', edges });

  it('is in bounds the wrong way round, once both are typed', () => {
    expect(number('10', '')).toBe('');
    expect(number('10', '9')).toBe('The lower bound is above the upper one.');
    expect(number('10', '10')).toBe('Both bounds are the same.');
    expect(number('9', '10')).toBe('');
  });

  it('is in edges that do not rise, numbers and dates alike', () => {
    expect(bins('0, 20, 40')).toBe('');
    expect(bins('0, 20 10')).toBe('10 must be above 20.');
    expect(bins('2024-01-01; 2024-07-01')).toBe('');
    expect(bins('2024-07-01, 2024-01-01')).toBe('2024-01-01 must be above 2024-07-01.');
    expect(bins('2024-07-01, 2024-0')).toBe('');
  });

  it('keeps a form from its next step', () => {
    const wrong = { ...column('pay'), kind: 'number' as const, low: '5', high: '1' };
    expect(missing({ ...form, columns: [wrong] }).columns).toBe('pay: The lower bound is above the upper one.');
  });
});

describe('three prices', () => {
  it('are round, and small where the budget is', () => {
    expect(ladder(0.1, 5)).toEqual([0.02, 0.1, 0.5]);
    expect(ladder(0.1, 0.1)).toEqual([0.002, 0.01, 0.05]);
    expect(ladder(0.02, 0)).toEqual([0.004, 0.02, 0.1]);
  });
});
