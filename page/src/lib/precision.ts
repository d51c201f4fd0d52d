// Rough, Good and Sharp: three prices that stay the same while a budget is used up.
export const NAMES = ['Rough', 'Good', 'Sharp'] as const;
const FACTOR = 5; // of the price from one to the next: noise shrinks with its square root
const SHARE = 10; // of a whole budget that a good answer takes at most

/** The three prices around a usual one, none of which takes much of a small budget. */
export function ladder(usual: number, limit: number): number[] {
  const good = limit > 0 ? Math.min(usual, limit / SHARE) : usual;
  return [good / FACTOR, good, good * FACTOR].map((rho) => Number(rho.toPrecision(1)));
}
