// One door to the server: errors of one shape, and a calm wait when it is not there.
import { unpressed } from '../press';
import { connection } from '../state/connection.svelte';
import type { Me, Problem } from './types';

const BASE = new URL('api/v1', document.baseURI).href;
const BUSY_TRIES = 3;

/** Requests that `public/start.js` has begun before this script was there, each to be taken over once. */
const early: Map<string, Promise<Response>> = (globalThis as { dpxplainEarly?: Map<string, Promise<Response>> })
  .dpxplainEarly ?? new Map();

/** What was not asked for at the start is asked for anew when it is wanted later. */
export const forgetEarly = (): void => early.clear();

function takeEarly(method: string, path: string): Promise<Response> | undefined {
  const begun = method === 'GET' ? early.get(path) : undefined;
  early.delete(path);
  return begun;
}

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly problem: Problem,
  ) {
    super(problem.message);
  }
}

/** The server could not be reached at all, or says that it cannot work at the moment. */
export class Unreachable extends Error {}

/** What happens when the server no longer knows us. */
export const session: { onSignedOut: () => void } = { onSignedOut: () => {} };

export interface Options {
  body?: unknown;
  /** A file as it is, instead of JSON. */
  file?: Blob;
  signal?: AbortSignal;
  /** Free requests may be sent again when the server is busy; requests that spend are left to the person. */
  free?: boolean;
}

export function call<T>(method: string, path: string, options: Options = {}): Promise<T> {
  return told(method, path, options, async (response) => (response.status === 204 ? null : await response.json()) as T);
}

export function callText(method: string, path: string, options: Options = {}): Promise<string> {
  return told(method, path, options, (response) => response.text());
}

/** What the server says, well or not. It often moves what is below it, which may be a button that is being pressed. */
async function told<T>(
  method: string,
  path: string,
  options: Options,
  read: (response: Response) => Promise<T>,
): Promise<T> {
  try {
    return await read(await request(method, path, options));
  } finally {
    await unpressed();
  }
}

export const whoAmI = (): Promise<Me> => call<Me>('GET', '/me');

async function request(method: string, path: string, options: Options, tries = 0): Promise<Response> {
  const headers: Record<string, string> = {};
  if (options.body !== undefined) headers['Content-Type'] = 'application/json';
  if (options.file) headers['Content-Type'] = 'application/octet-stream';
  let response: Response;
  try {
    response = await (takeEarly(method, path) ??
      fetch(BASE + path, {
        method,
        headers,
        body: options.file ?? (options.body === undefined ? undefined : JSON.stringify(options.body)),
        signal: options.signal,
        credentials: 'same-origin',
      }));
  } catch (error) {
    if (options.signal?.aborted) throw error;
    connection.lost();
    throw new Unreachable('The server is not answering.');
  }
  if (response.ok) {
    connection.answered();
    return response;
  }
  const problem = await problemOf(response);
  if (response.status === 401) session.onSignedOut();
  const isFree = options.free || method === 'GET';
  const seconds = Number(response.headers.get('Retry-After') ?? 1);
  if (problem.code === 'ledger_unavailable') {
    connection.suspend(problem.message, seconds);
    if (isFree) throw new Unreachable(problem.message);
    throw new ApiError(response.status, problem);
  }
  const busy = response.status === 429 || response.status === 503;
  if (busy && isFree && tries < BUSY_TRIES) {
    await pause(seconds * 1000);
    return request(method, path, options, tries + 1);
  }
  throw new ApiError(response.status, problem);
}

async function problemOf(response: Response): Promise<Problem> {
  const fallback = { code: 'unexpected', message: `The server answered with status ${response.status}.`, remedy: '' };
  try {
    return { ...fallback, ...((await response.json()) as Partial<Problem>) };
  } catch {
    return fallback;
  }
}

export function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** The banner says that the server is gone; a free request is simply sent again when it is back. */
export const isGone = (error: unknown): boolean => error instanceof Unreachable;

/** Any failure in the one shape that panels show; an aborted request is no failure. */
export function problemFrom(error: unknown): Problem | null {
  if (error instanceof ApiError) return error.problem;
  if (error instanceof DOMException && error.name === 'AbortError') return null;
  if (error instanceof Unreachable) {
    return {
      code: 'unreachable',
      message: error.message,
      remedy: 'If your request had arrived, the history shows it once the server is back.',
    };
  }
  return { code: 'page_error', message: String(error), remedy: 'Reload the page.' };
}
