// Plain numbers, amounts and moments as text. Values with an uncertainty come with their text from the server.
import type { Finding } from './api/types';

/** Three digits, or all of a whole number's. */
const plainFormat = new Intl.NumberFormat('en-US', {
  maximumSignificantDigits: 3,
  maximumFractionDigits: 0,
  roundingPriority: 'morePrecision',
});

/** A number of the page's own, such as a tick of an axis. */
export function plain(value: number): string {
  return plainFormat.format(value === 0 ? 0 : value);
}

export function level(confidence: number): string {
  const percent = Number((confidence * 100).toPrecision(6));
  return `${percent < 100 ? percent : Number((confidence * 100).toPrecision(15))}%`; // not rounded up to certainty
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

export function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** A finding as it is read aloud. */
export function spoken({ headline, support }: Finding): string {
  return `${headline} ${support}`.trimEnd();
}

const times = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });

/** When something was asked, in the reader's own time zone. */
export function moment(iso: string): string {
  return times.format(new Date(iso));
}

/** The time of a moment of today; of another day, with its date. */
export function clock(iso: string): string {
  const date = new Date(iso);
  const isToday = date.toDateString() === new Date().toDateString();
  return isToday ? date.toLocaleTimeString(undefined, { timeStyle: 'short' }) : times.format(date);
}
