import { describe, expect, test } from 'vitest';
import { amount, counted, level, plain, price, whole } from '../src/lib/words';

describe('numbers', () => {
  test.each([
    [0.25, '0.25'],
    [0.012345, '0.0123'],
    [31135.78, '31,136'],
    [-0, '0'],
  ])('%d of the page itself reads %s', (value, text) => {
    expect(plain(value)).toBe(text);
  });

  test('prices have at least two decimals, amounts only those they need', () => {
    expect([0.1, 0.025, 2].map(price)).toEqual(['0.10', '0.025', '2.00']);
    expect([0.1, 4.88, 2, 0.1 + 0.2].map(amount)).toEqual(['0.1', '4.88', '2', '0.3']);
  });

  test('a confidence is not rounded up to certainty', () => {
    expect([0.95, 0.999, 0.9999999].map(level)).toEqual(['95%', '99.9%', '99.99999%']);
  });

  test('counts have thousands and a plural', () => {
    expect(whole(12345)).toBe('12,345');
    expect([counted(1, 'group'), counted(2, 'group'), counted(0, 'entry')]).toEqual([
      '1 group',
      '2 groups',
      '0 entries',
    ]);
  });

  test('confidence is a percentage without needless digits', () => {
    expect([0.95, 0.999, 0.9].map(level)).toEqual(['95%', '99.9%', '90%']);
  });
});
