// Days and amounts as the curator writes and reads them.
import { moment } from '../lib/words';

const DAY = 86_400_000;

/** The end of a chosen day, in the curator's own time zone, as the server wants it. */
export function endOfDay(day: string): string | null {
  if (!day) return null;
  return new Date(`${day}T23:59:59`).toISOString();
}

/** The day of a moment, for a date field. */
export function dayOf(iso: string | null): string {
  return iso ? asDay(new Date(iso)) : '';
}

export function inDays(days: number): string {
  return asDay(new Date(Date.now() + days * DAY));
}

export function isPast(iso: string | null): boolean {
  return iso !== null && new Date(iso).getTime() <= Date.now();
}

/** When it ends, and how soon if that is soon. */
export function ends(iso: string | null): string {
  if (!iso) return 'No end';
  if (isPast(iso)) return `Ended ${moment(iso)}`;
  const days = Math.floor((new Date(iso).getTime() - Date.now()) / DAY);
  return days < 14
    ? `${moment(iso)}, ${days < 1 ? 'within a day' : `in ${days} ${days === 1 ? 'day' : 'days'}`}`
    : moment(iso);
}

function asDay(date: Date): string {
  const two = (value: number) => String(value).padStart(2, '0');
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}
