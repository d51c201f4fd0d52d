import { expect, test } from 'vitest';
import { onWhite } from '../src/lib/chart';
import { csv, fileName } from '../src/lib/download';

test('records become CSV with the columns of all of them', () => {
  const text = csv([
    { a: 1, b: 'x, "y"' },
    { a: null, c: 'two\nlines' },
  ]);
  expect(text).toBe('a,b,c\r\n1,"x, ""y""",\r\n,,"two\nlines"\r\n');
});

test('a text that a spreadsheet would run stays a text, a negative number a number', () => {
  expect(csv([{ a: '=1+1', b: -2, c: '-x', d: '@x' }])).toBe("a,b,c,d\r\n'=1+1,-2,'-x,'@x\r\n");
});

test('names of files are plain', () => {
  expect(fileName('my data/set', 'answer', 3)).toBe('my-data-set-answer-3');
  expect(fileName('x'.repeat(200))).toHaveLength(80);
});

test('a chart that leaves the page is on white', () => {
  expect(onWhite({ mark: 'bar', config: { font: 'x' } })).toEqual({
    mark: 'bar',
    config: { font: 'x', background: '#ffffff' },
  });
});
