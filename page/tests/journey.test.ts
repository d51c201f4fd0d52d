import { afterEach, expect, test } from 'vitest';
import type { Story } from '../src/lib/api/types';
import { explaining } from '../src/lib/state/explaining.svelte';
import { journey } from '../src/lib/state/journey.svelte';
import { telling } from '../src/lib/state/telling.svelte';

const job = (id: string) => ({ id, stage: '', stopping: '' });

afterEach(() => {
  explaining.reset();
  telling.reset();
});

test('an address names a story together with its own work', () => {
  telling.work.job = job('s');
  expect(journey.place).toMatchObject({ story: 2, job: 's' });
});

test('after a reload the work of an explanation is not taken for that of the story beside it', () => {
  telling.story = {} as Story;
  expect(journey.place).toMatchObject({ story: 2, job: null });
  explaining.work.job = job('e');
  expect(journey.place).toMatchObject({ story: null, job: 'e' });
});
