import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { call, problemFrom, session, Unreachable } from '../src/lib/api/client';
import { connection } from '../src/lib/state/connection.svelte';

const PROBLEM = { code: 'query_refused', message: 'No.', remedy: 'Ask another thing.' };
const answer = (status: number, body: unknown, headers = {}) =>
  new Response(status === 204 ? null : JSON.stringify(body), { status, headers });
const fetched = vi.fn<typeof fetch>();

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal('fetch', fetched);
});
afterEach(() => {
  connection.restore();
  fetched.mockReset();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

describe('a request', () => {
  test('goes to the API beside the page, with its body as JSON', async () => {
    fetched.mockResolvedValue(answer(200, { ok: 1 }));
    expect(await call('POST', '/x', { body: { a: 1 } })).toEqual({ ok: 1 });
    const [address, options] = fetched.mock.calls[0]!;
    expect(address).toBe('http://127.0.0.1:8000/api/v1/x');
    expect(options).toMatchObject({ method: 'POST', body: '{"a":1}', credentials: 'same-origin' });
  });

  test('without an answer body gives null', async () => {
    fetched.mockResolvedValue(answer(204, null));
    expect(await call('DELETE', '/x')).toBeNull();
  });

  test('that is refused says why', async () => {
    fetched.mockResolvedValue(answer(400, PROBLEM));
    const error = await call('POST', '/x').catch((error: unknown) => error);
    expect(problemFrom(error)).toEqual(PROBLEM);
  });

  test('that is free is sent again when the server is busy', async () => {
    fetched
      .mockResolvedValueOnce(answer(503, PROBLEM, { 'Retry-After': '2' }))
      .mockResolvedValueOnce(answer(200, 'ok'));
    const result = call('POST', '/x', { free: true });
    await vi.advanceTimersByTimeAsync(2_000);
    expect(await result).toBe('ok');
  });

  test('waits while the ledger is away, and is told as an outage', async () => {
    const outage = { code: 'ledger_unavailable', message: 'The ledger is away.', remedy: 'Ask again.' };
    fetched.mockImplementation(() => Promise.resolve(answer(503, outage, { 'Retry-After': '5' })));
    await expect(call('GET', '/x')).rejects.toThrow(Unreachable);
    expect(connection.outage).toBe('The ledger is away.');
    await expect(call('POST', '/y')).rejects.not.toThrow(Unreachable);
    await vi.advanceTimersByTimeAsync(4_900);
    expect(fetched).toHaveBeenCalledTimes(2);
    fetched.mockImplementation(() => Promise.resolve(answer(200, 'ready')));
    await vi.advanceTimersByTimeAsync(200);
    expect(fetched.mock.lastCall![0].toString()).toMatch(/\/ready$/);
    expect(connection.gone).toBe(false);
  });

  test('that spends is never sent twice', async () => {
    fetched.mockResolvedValue(answer(503, PROBLEM));
    await expect(call('POST', '/x')).rejects.toThrow('No.');
    expect(fetched).toHaveBeenCalledOnce();
  });

  test('of somebody who is no longer signed in says so', async () => {
    const signedOut = vi.spyOn(session, 'onSignedOut').mockReturnValue();
    fetched.mockResolvedValue(answer(401, PROBLEM));
    await expect(call('GET', '/x')).rejects.toThrow();
    expect(signedOut).toHaveBeenCalledOnce();
  });
});

describe('a server that is gone', () => {
  test('is asked for its health until it is back', async () => {
    fetched.mockRejectedValue(new TypeError('refused'));
    const returns = connection.returns;
    const error = await call('GET', '/x').catch((error: unknown) => error);
    expect(error).toBeInstanceOf(Unreachable);
    expect(problemFrom(error)?.code).toBe('unreachable');
    expect(connection.gone).toBe(true);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(connection.gone).toBe(true);
    fetched.mockResolvedValue(answer(200, {}));
    await vi.advanceTimersByTimeAsync(1_600);
    expect(connection.gone).toBe(false);
    expect(connection.returns).toBe(returns + 1);
  });

  test('is not blamed for a request that was given up', async () => {
    const given = new AbortController();
    given.abort();
    fetched.mockRejectedValue(new DOMException('', 'AbortError'));
    const error = await call('GET', '/x', { signal: given.signal }).catch((error: unknown) => error);
    expect(problemFrom(error)).toBeNull();
    expect(connection.gone).toBe(false);
  });
});
