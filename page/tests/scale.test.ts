import { describe, expect, it, test } from 'vitest';
import { labelled, scaleOf, scaleOfShares, within } from '../src/lib/scale';

const row = (low: number | null, estimate: number, high: number | null) => ({ estimate, low, high });

test('ticks are round and hold every interval', () => {
  const scale = scaleOf([row(0.11, 0.2, 0.29), row(0.31, 0.4, 0.49)]);
  expect(scale.ticks.map(({ text }) => text)).toEqual(['0', '0.1', '0.2', '0.3', '0.4', '0.5']);
  expect(scale.at(0.25)).toBeCloseTo(50);
  expect(scale.zero).toBe(0);
});

test('zero is left out where everything is far from it', () => {
  const scale = scaleOf([row(101, 102, 103), row(104, 105, 106)]);
  expect(scale.zero).toBeNull();
  expect(scale.at(101)).toBeGreaterThanOrEqual(0);
  expect(scale.at(106)).toBeLessThanOrEqual(100);
});

test('values on both sides of zero have it inside', () => {
  const scale = scaleOf([row(-5, -4, -3), row(3, 4, 5)]);
  expect(scale.zero).toBeCloseTo(50);
});

test.each([[[]], [[row(null, 0, null)]], [[row(7, 7, 7)]]])('there is an axis even for %j', (rows) => {
  const { ticks, at } = scaleOf(rows);
  expect(ticks.length).toBeGreaterThan(1);
  expect(Number.isFinite(at(7))).toBe(true);
});

describe('the ends of an axis', () => {
  it('are not stretched by a tiny negative count', () => {
    const scale = scaleOf([row(-7, -3, 1), row(199_000, 199_500, 200_010)]);
    expect(scale.ticks.map(({ text }) => text)).not.toContain('-50,000');
    expect(scale.at(-7)).toBeGreaterThanOrEqual(0);
    expect(scale.at(0)).toBeLessThan(1);
    expect(scale.at(200_010)).toBeLessThanOrEqual(100);
  });

  it('take any number of rows', () => {
    const rows = Array.from({ length: 200_000 }, (_, i) => row(i, i, i + 1));
    expect(scaleOf(rows).at(200_000)).toBeLessThanOrEqual(100);
  });

  it('of shares are in percent', () => {
    expect(scaleOf([row(0.05, 0.1, 0.44)], true).ticks.map(({ text }) => text)).toContain('10%');
  });
});

describe('numbers on an axis', () => {
  const { ticks } = scaleOf([row(0, 100_000, 200_000)]);
  const numbers = (pixels: number) => labelled(ticks, pixels).map(({ text }) => text);

  it('are all there where they have room, and before it is known', () => {
    expect(numbers(600)).toEqual(['0', '50,000', '100,000', '150,000', '200,000']);
    expect(numbers(0)).toHaveLength(5);
  });

  it('leave some out rather than run into each other', () => {
    expect(numbers(204)).toEqual(['0', '100,000', '200,000']);
    expect(numbers(100)).toEqual(['0', '150,000']);
    expect(numbers(10)).toEqual(['0']);
  });
});

test('an axis of shares shows the whole, so that a tenth looks like a tenth', () => {
  const scale = scaleOfShares([row(0.08, 0.1, 0.12)]);
  expect(scale.ticks.map(({ text }) => text)).toEqual(['0%', '25%', '50%', '75%', '100%']);
  expect(scale.at(0.1)).toBeCloseTo(10);
});

test('an axis of shares is cut where only noise would need it', () => {
  const scale = scaleOfShares([row(-40, 0, 40)]);
  expect(scale.ticks.map(({ text }) => text)).toContain('200%');
  expect(within(scale, -40)).toBe(0);
  expect(within(scale, Infinity)).toBe(100);
});
