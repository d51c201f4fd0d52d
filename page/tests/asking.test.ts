import { beforeEach, describe, expect, test, vi } from 'vitest';
import { api } from '../src/lib/api';
import { ApiError } from '../src/lib/api/client';
import type { Dataset, Preview } from '../src/lib/api/types';
import { asking } from '../src/lib/state/asking.svelte';
import { workspace } from '../src/lib/state/workspace.svelte';

const column = { name: 'sex', sql_name: 'sex', kind: 'discrete', values: ['F', 'M'] };
const dataset = { name: 'people', sql_name: 'people', schema: {}, columns: [column] } as unknown as Dataset;
const FORM = { measures: [{ aggregate: 'count' as const, column: null }], groups: ['sex'], filters: [] };
const refusal = new ApiError(400, { code: 'query_refused', message: 'No.', remedy: '' });

describe('SQL that is typed', () => {
  beforeEach(() => {
    vi.restoreAllMocks();
    workspace.dataset = dataset;
    asking.compose(FORM, dataset);
  });

  test('leaves the form unread until the preview answered', async () => {
    const form = { ...FORM, groups: [] };
    vi.spyOn(api, 'preview').mockResolvedValue({ form, free: false, rho: 0.1 } as unknown as Preview);
    expect(asking.reading).toBe(false);
    asking.sql = 'SELECT COUNT(*) FROM people';
    expect(asking.reading).toBe(true);
    await asking.price();
    expect([asking.reading, asking.form]).toEqual([false, form]);
  });

  test('and refused has no form', async () => {
    vi.spyOn(api, 'preview').mockRejectedValue(refusal);
    asking.sql = 'SELECT 1';
    await asking.price();
    expect([asking.reading, asking.form]).toEqual([false, null]);
  });

  test('a refused price leaves a form that is read as it is', async () => {
    vi.spyOn(api, 'preview').mockRejectedValue(refusal);
    await asking.price();
    expect([asking.reading, asking.form]).toEqual([false, FORM]);
  });
});
