// A released value and its interval as text: the rule of `Figures` in words/numbers.py. Both are held to the cases
// in tests/figures.json; the page needs its own because nobody wants the texts of 20,000 groups sent.

const MORE_DECIMALS = 4;
const MOST_DECIMALS = 6; // that tell two ends apart

export interface Figures {
  /** Negative for tens, hundreds and so on. */
  decimals: number;
  percent: boolean;
}

export function valueText({ decimals, percent }: Figures, value: number): string {
  return rounded(percent ? 100 * value : value, decimals) + unit(percent);
}

/** Ends that differ are never shown as the same, nor one that is not zero as zero. */
export function intervalText({ decimals, percent }: Figures, low: number | null, high: number | null): string {
  if (low === null || high === null) return 'unbounded';
  const [lower, upper] = percent ? [100 * low, 100 * high] : [low, high];
  const apart = differing(decimals, lower, upper);
  const places = telling(apart, Math.min(Math.abs(lower) || Infinity, Math.abs(upper) || Infinity));
  return `${rounded(lower, places)}${unit(percent)} to ${rounded(upper, places)}${unit(percent)}`;
}

const unit = (percent: boolean): string => (percent ? '%' : '');

function differing(decimals: number, low: number, high: number): number {
  let places = decimals;
  while (low < high && places < MOST_DECIMALS && rounded(low, places) === rounded(high, places)) places += 1;
  return places;
}

function telling(decimals: number, smallest: number): number {
  let places = decimals;
  if (smallest === Infinity) return places; // both ends are zero
  while (places < decimals + MORE_DECIMALS && !/[1-9]/.test(rounded(smallest, places))) places += 1;
  return places;
}

/** With a comma between thousands, and halves rounded to even digits as Python does. */
function rounded(value: number, decimals: number): string {
  if (!Number.isFinite(value)) return '∞';
  const size = Math.abs(value);
  const digits = decimals < 0 ? tens(size, 10 ** -decimals) : fixed(size, decimals);
  const [whole = '', fraction] = digits.split('.');
  const text = whole.replace(/\B(?=(\d{3})+$)/g, ',') + (fraction === undefined ? '' : `.${fraction}`);
  return value < 0 && /[1-9]/.test(text) ? `-${text}` : text;
}

function tens(size: number, unit: number): string {
  const below = Math.floor(size / unit);
  const rest = size - below * unit;
  const isUp = rest > unit / 2 || (rest === unit / 2 && below % 2 === 1);
  return ((below + (isUp ? 1 : 0)) * unit).toFixed(0);
}

/** `toFixed` rounds halves up; only a number with few binary places can be one. */
function fixed(size: number, decimals: number): string {
  const text = size.toFixed(decimals);
  const isHalf = Number.isInteger(size * 2 ** (decimals + 1)) && size.toFixed(decimals + 1).endsWith('5');
  if (!isHalf || /[02468]$/.test(text)) return text;
  return (size - 10 ** -decimals / 2).toFixed(decimals);
}
