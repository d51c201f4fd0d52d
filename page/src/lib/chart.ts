// The API's charts as files that leave the page.
import type { ChartSpec } from './api/types';

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
