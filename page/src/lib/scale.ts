// A common axis: round ends, round ticks, and where a value lies on it in percent.
import type { AnswerRow } from './api/types';
import { plain } from './words';

export interface Tick {
  /** In percent of the axis. */
  at: number;
  text: string;
}

export interface Scale {
  ticks: Tick[];
  /** Where zero lies, if it is inside. */
  zero: number | null;
  at: (value: number) => number;
}

const MOST_TICKS = 5;
const JUST_BEYOND = 0.15; // of a step
const CHARACTER = 8; // pixels of a digit on the axis
const BETWEEN = 6; // pixels at least from one number to the next

/** At the ends of an axis a number grows inwards, so that it is never cut. */
export const isAtStart = ({ at }: Tick): boolean => at < 6;
export const isAtEnd = ({ at }: Tick): boolean => at > 94;

type Ends = Pick<AnswerRow, 'estimate' | 'low' | 'high'> & Partial<Pick<AnswerRow, 'unknown'>>;

/** `percent` writes ticks of shares as people read them. */
export function scaleOf(rows: Ends[], percent = false): Scale {
  let [low, high] = endsOf(rows);
  // Zero belongs to the picture unless everything is far from it.
  if (low > 0 && low < 0.5 * high) low = 0;
  if (high < 0 && high > 0.5 * low) high = 0;
  return axis(low, high, percent);
}

const FARTHEST = 2; // gaps in either direction: what noise makes longer is cut at the end of the axis

/** Shares of a whole: the axis always shows all of it, so that a tenth looks like a tenth. */
export function scaleOfShares(rows: Ends[]): Scale {
  const [low, high] = endsOf(rows);
  const [start, end] = [Math.max(-FARTHEST, Math.min(0, low)), Math.min(FARTHEST, Math.max(1, high))];
  return axis(start, end, true, end - start > 1.5 ? 1 / 2 : 1 / 4);
}

/** The axis of bars, which begin at zero. */
export function scaleFromZero(rows: Ends[], percent = false): Scale {
  const [low, high] = endsOf(rows);
  return axis(Math.min(0, low), Math.max(0, high), percent);
}

/** Where a value lies, in percent; at the end of the axis if it lies beyond. */
export const within = (scale: Scale, value: number): number => Math.max(0, Math.min(100, scale.at(value)));

function axis(low: number, high: number, percent: boolean, given?: number): Scale {
  if (low === high) [low, high] = [low - 1, high + 1];
  const step = given ?? roundStep((high - low) / MOST_TICKS);
  // An end just beyond a tick, such as a count of −3 beside 200,000, gets its own room and not a whole step.
  const first = low / step - Math.floor(low / step) > 1 - JUST_BEYOND ? Math.ceil(low / step) : Math.floor(low / step);
  const last = high / step - Math.floor(high / step) < JUST_BEYOND ? Math.floor(high / step) : Math.ceil(high / step);
  const start = Math.min(low, first * step);
  const span = Math.max(high, last * step) - start;
  const at = (value: number) => (100 * (value - start)) / span;
  const ticks = Array.from({ length: last - first + 1 }, (_, i) => {
    const value = Number(((first + i) * step).toPrecision(12));
    return { at: at(value), text: percent ? `${plain(Number((100 * value).toPrecision(12)))}%` : plain(value) };
  });
  const zero = start <= 0 && start + span >= 0 ? at(0) : null;
  return { ticks, zero, at };
}

/** The ticks whose numbers have room on an axis of that many pixels: all, or every second, third and so on. */
export function labelled(ticks: Tick[], pixels: number): Tick[] {
  if (!pixels) return ticks; // not drawn yet
  for (let every = 1; every < ticks.length; every++) {
    const some = ticks.filter((_, i) => i % every === 0);
    if (areApart(some, pixels)) return some;
  }
  return ticks.slice(0, 1);
}

function areApart(ticks: Tick[], pixels: number): boolean {
  const lefts = ticks.map((tick) => leftOf(tick, pixels));
  return ticks.every(({ text }, i) => !(lefts[i]! + widthOf(text) + BETWEEN > lefts[i + 1]!));
}

function leftOf(tick: Tick, pixels: number): number {
  const outside = isAtStart(tick) ? 0 : isAtEnd(tick) ? 1 : 0.5;
  return (tick.at / 100) * pixels - outside * widthOf(tick.text);
}

const widthOf = (text: string): number => CHARACTER * text.length;

function endsOf(rows: Ends[]): [number, number] {
  let low = Infinity;
  let high = -Infinity;
  for (const row of rows) {
    if (row.unknown) continue;
    const [lower, upper] = [row.low ?? row.estimate, row.high ?? row.estimate];
    if (Number.isFinite(lower)) [low, high] = [Math.min(low, lower), Math.max(high, lower)];
    if (Number.isFinite(upper)) [low, high] = [Math.min(low, upper), Math.max(high, upper)];
  }
  return low <= high ? [low, high] : [0, 1];
}

function roundStep(rough: number): number {
  const power = 10 ** Math.floor(Math.log10(rough));
  return ([1, 2, 5].find((digit) => digit * power >= rough) ?? 10) * power;
}
