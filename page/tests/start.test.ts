import { afterEach, expect, test, vi } from 'vitest';
import script from '../public/start.js?raw';

const BODIES: Record<string, unknown> = {
  '/me': { signed_in: true, single_user: false, datasets: [{ name: 'people' }] },
};

afterEach(() => vi.unstubAllGlobals());

/** What is asked for before the page's own script runs. */
async function beginAt(hash: string): Promise<string[]> {
  const paths: string[] = [];
  vi.stubGlobal('location', new URL(hash, 'http://127.0.0.1:8000/'));
  vi.stubGlobal('fetch', async (address: URL) => {
    const path = address.href.replace('http://127.0.0.1:8000/api/v1', '');
    paths.push(path);
    return new Response(JSON.stringify(BODIES[path] ?? {}));
  });
  new Function(script)();
  await vi.waitFor(() => expect(paths.length).toBeGreaterThan(hash.startsWith('#/people') || hash === '#/' ? 1 : 0));
  return paths.sort();
}

test('the answer and the data set that an address names are asked for at once', async () => {
  expect(await beginAt('#/people%20%26?answer=3')).toEqual([
    '/datasets/people%20%26',
    '/datasets/people%20%26/answers/3?confidence=0.95&form=columns',
    '/me',
  ]);
});

test.each([
  '#/adult\\answers\\1\\truth',
  '#/adult%2Fanswers%2F1%2Ftruth',
  '#/adult%5canswers',
  '#/..\\admin\\tokens',
  '#/..?answer=1',
  '#/%2e%2e?answer=1',
])('no other part of the server is asked by the address %s', async (hash) => {
  const paths = await beginAt(hash);
  expect(paths.every((path) => path === '/me' || /^\/datasets(\/[^/]+(\/answers\/1\?.*)?)?$/.test(path))).toBe(true);
  expect(paths.filter((path) => /%2f|%5c/i.test(path))).toEqual([]);
});
