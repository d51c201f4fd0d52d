import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { Problem } from '../src/lib/api/types';
import { costsAsSaid, type Step } from '../src/lib/state/buying';
import { workspace } from '../src/lib/state/workspace.svelte';

type Changing = { -readonly [Key in keyof Step]: Step[Key] };

/** A step whose price comes when it is asked for; `change` happens on the way. */
function priced(change: (step: Changing) => void = () => undefined, free = false): Changing {
  const step: Changing = {
    wanted: 'a query',
    current: false,
    free,
    refused: false,
    problem: null,
    price() {
      step.current = true;
      change(step);
      return Promise.resolve(true);
    },
  };
  return step;
}

describe('a pressed button', () => {
  const tell = vi.spyOn(workspace, 'tell').mockImplementation(() => undefined);
  beforeEach(() => tell.mockClear());

  test('buys what it said, once the price is there', async () => {
    expect(await costsAsSaid(priced())).toBe(true);
    expect(tell).not.toHaveBeenCalled();
  });

  test.each([
    ['what was wanted was changed', priced((step) => (step.wanted = 'another'))],
    ['it cannot be afforded', priced((step) => (step.refused = true))],
    ['what it called free is not', priced((step) => (step.free = false), true)],
    ['its price never comes', priced((step) => (step.current = false))],
  ])('buys nothing where %s', async (_why, step) => {
    expect(await costsAsSaid(step)).toBe(false);
    expect(tell).toHaveBeenCalledOnce();
  });

  test('leaves it to the problem to say why', async () => {
    const problem = { code: 'query_refused', message: 'No.', remedy: '' } as Problem;
    const step = priced((step) => Object.assign(step, { current: false, refused: true, problem }));
    expect(await costsAsSaid(step)).toBe(false);
    expect(tell).not.toHaveBeenCalled();
  });
});
