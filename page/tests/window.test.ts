import { describe, expect, it } from 'vitest';
import { MARGIN, rowsInSight } from '../src/lib/window';

describe('rows of a long list', () => {
  it('are those in sight and a few around them', () => {
    const rows = rowsInSight({ top: 1000, height: 300 }, 100, 20_000, null);
    expect(rows[0]).toBe(10 - MARGIN);
    expect(rows.at(-1)).toBe(12 + MARGIN);
  });

  it('end where the list ends', () => {
    expect(rowsInSight({ top: 0, height: 900 }, 100, 3, null)).toEqual([0, 1, 2]);
    expect(rowsInSight({ top: 0, height: 900 }, 100, 0, null)).toEqual([]);
  });

  it('keep the one that has the focus and its neighbours, in their places', () => {
    expect(rowsInSight({ top: 100_000, height: 300 }, 100, 20_000, 2).slice(0, 3)).toEqual([1, 2, 3]);
    expect(rowsInSight({ top: 0, height: 300 }, 100, 20_000, 700).slice(-3)).toEqual([699, 700, 701]);
    const inSight = rowsInSight({ top: 0, height: 300 }, 100, 20_000, 1);
    expect(inSight).toEqual([...new Set(inSight)]);
  });

  it('have no neighbours beyond the ends', () => {
    expect(rowsInSight({ top: 90_000, height: 300 }, 100, 1000, 0)[0]).toBe(0);
    expect(rowsInSight({ top: 0, height: 300 }, 100, 1000, 999).at(-1)).toBe(999);
    expect(rowsInSight({ top: 0, height: 300 }, 100, 3, 3)).toEqual([0, 1, 2]);
  });
});
