// The API's charts are drawn for white paper; here they take the page's own ink, paper and font.
import type { ChartSpec } from './api/types';

/** The colours of dpxplain/render/charts.py, and what each is called in tokens.css. */
const INKS: Record<string, string> = {
  '#24292f': '--ink',
  '#ffffff': '--surface',
  '#2b7bba': '--above',
  '#c9641c': '--below',
  '#7d8590': '--quiet',
};
const LABELS = 250; // what row names take beside a wide plot
const WIDEST = 880;
const NARROW = 420; // at this width and below, row names stand above their rows
const LEAST = 320;
const SIDES = 40; // of a chart without names beside it

/** The plot width to ask the API for, so that plot and row names fit. */
export function plotWidth(room: number, labels = LABELS, sides = SIDES): number {
  const beside = Math.round(room - labels);
  if (beside > NARROW) return Math.min(WIDEST, beside);
  return Math.max(LEAST, Math.min(NARROW, Math.round(room - sides)));
}

export function inked(spec: ChartSpec, element: Element): ChartSpec {
  const style = getComputedStyle(element);
  const colours = Object.fromEntries(
    Object.entries(INKS).map(([from, token]) => [from, style.getPropertyValue(token).trim() || from]),
  );
  const painted = mapTexts(spec, (text) => colours[text.toLowerCase()] ?? text) as ChartSpec;
  const config = { ...(painted.config as object | undefined), font: style.getPropertyValue('--sans').trim() };
  return { ...painted, config };
}

/** For files that leave the page: opaque white paper, as in reports. */
export function onWhite(spec: ChartSpec): ChartSpec {
  return { ...spec, config: { ...(spec.config as object | undefined), background: '#ffffff' } };
}

const LINE = 84; // letters of a title that have room above a plot

/** With its question and where it is from, for files that are passed on without the page. */
export function titled(spec: ChartSpec, title: string, caption: string): ChartSpec {
  const text = { text: lines(title, LINE), subtitle: lines(caption, LINE), anchor: 'start', offset: 14 };
  const sizes = { fontSize: 15, fontWeight: 600, subtitleFontSize: 12, lineHeight: 19 };
  return { ...spec, title: { ...text, ...sizes } };
}

/** A text in lines of at most so many letters, broken between words. */
export function lines(text: string, most: number): string[] {
  return text.split(' ').reduce<string[]>((whole, word) => {
    const last = whole.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= most) return [...whole.slice(0, -1), `${last} ${word}`];
    return [...whole, word];
  }, []);
}

function mapTexts(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === 'string') return change(value);
  if (Array.isArray(value)) return value.map((item) => mapTexts(item, change));
  if (value && typeof value === 'object') {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, mapTexts(item, change)]));
  }
  return value;
}
