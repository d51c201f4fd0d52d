import { describe, expect, it } from 'vitest';
import { lines, titled } from '../src/lib/chart';
import { about, csv } from '../src/lib/download';

describe('what leaves the page', () => {
  const result = {
    title: 'Number of rows by sex, only where age is above 40',
    caption: 'adult · ρ 0.1',
    shaped_by: [],
  };

  it('has its question and its source above a chart', () => {
    const spec = titled({ mark: 'point' }, result.title, result.caption);
    expect(spec.mark).toBe('point');
    expect(JSON.stringify(spec.title)).toContain('only where age is above 40');
    expect(JSON.stringify(spec.title)).toContain('adult · ρ 0.1');
  });

  it('has them in columns of a table', () => {
    const text = csv([{ sex: 'Male', n: 3 }], about(result));
    expect(text).toBe(
      'sex,n,question,source\r\nMale,3,"Number of rows by sex, only where age is above 40",adult · ρ 0.1\r\n',
    );
  });

  it('breaks long titles between words', () => {
    expect(lines('a bb ccc dddd', 6)).toEqual(['a bb', 'ccc', 'dddd']);
  });
});
