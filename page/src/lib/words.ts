// Numbers people can read: the same digits as dpxplain/render/words.py gives them.

function decimals(size: number, digits = 2): number {
  return Math.min(12, digits - 1 - Math.floor(Math.log10(Math.abs(size))));
}

// Making a formatter takes longer than using it a thousand times.
const formats = new Map<number, Intl.NumberFormat>();

function formatted(value: number, places: number): string {
  const known = formats.get(places);
  if (known) return known.format(value);
  const made = new Intl.NumberFormat('en-US', { minimumFractionDigits: places, maximumFractionDigits: places });
  formats.set(places, made);
  return made.format(value);
}

function rounded(value: number, places: number): string {
  const factor = 10 ** Math.abs(places);
  const near = places < 0 ? Math.round(value / factor) * factor : Number(value.toFixed(places));
  const text = formatted(near, Math.max(0, places));
  return near === 0 ? text.replace(/^-/, '') : text;
}

/** A number with as many digits as it deserves: two digits of its spread, if that is known. */
export function number(value: number | null, spread?: number | null): string {
  if (value === null || Number.isNaN(value)) return '-';
  if (!Number.isFinite(value)) return value > 0 ? '∞' : '-∞';
  if (spread && Number.isFinite(spread)) return rounded(value, decimals(spread));
  if (value === 0) return '0';
  const text = rounded(value, Math.abs(value) >= 100 ? 0 : decimals(value, 3));
  return text.includes('.') ? text.replace(/0+$/, '').replace(/\.$/, '') : text;
}

/** Both ends, to two digits of the width; an end that is not zero is never shown as zero. */
export function interval(low: number | null, high: number | null): string {
  if (low === null || high === null) return 'unbounded';
  const width = high - low;
  if (!Number.isFinite(width) || width === 0) return `${number(low)} to ${number(high)}`;
  let places = decimals(width);
  for (let tries = 0; tries < 4; tries += 1) {
    if ([low, high].every((end) => end === 0 || Math.abs(end) >= 0.5 * 10 ** -places)) break;
    places += 1;
  }
  return `${rounded(low, places)} to ${rounded(high, places)}`;
}

export function ranks(low: number, high: number): string {
  return low === high ? whole(low) : `${whole(low)} to ${whole(high)}`;
}

export function level(confidence: number): string {
  return `${Number((confidence * 100).toPrecision(6))}%`;
}

const exact = new Intl.NumberFormat('en-US', { maximumFractionDigits: 12 });

/** An amount of budget, without its letter: 0.1, 4.88. */
export function amount(rho: number): string {
  return exact.format(Number(rho.toPrecision(6)));
}

/** A price on a button: at least two decimals, like money. */
export function price(rho: number): string {
  const text = amount(rho);
  const places = text.split('.')[1]?.length ?? 0;
  return places >= 2 ? text : rho.toFixed(2);
}

export function whole(count: number): string {
  return exact.format(count);
}

export function counted(count: number, noun: string): string {
  const plural = noun.endsWith('y') ? `${noun.slice(0, -1)}ies` : `${noun}s`;
  return `${whole(count)} ${count === 1 ? noun : plural}`;
}

const times = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });

/** When something was asked, in the reader's own time zone. */
export function moment(iso: string): string {
  return times.format(new Date(iso));
}
