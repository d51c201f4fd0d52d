// The newest records first. The server gives them oldest first, so the end is looked for before it is read.
import { curatorApi, type AuditLine } from './api';

export const PAGE = 50;
let lastKnown = 0;

/** Ids count 1, 2, 3 without a gap: doubling steps, then halving them, finds the last one. */
async function lastId(): Promise<number> {
  let step = PAGE;
  for (;;) {
    const last = await reach(lastKnown + step);
    if (last === null) break;
    lastKnown = last;
    step *= 4;
  }
  let [low, high] = [lastKnown, lastKnown + step];
  while (high - low > PAGE) {
    const middle = Math.floor((low + high) / 2);
    const id = await reach(middle);
    if (id === null) high = middle;
    else low = id;
  }
  const { records } = await curatorApi.audit(low, PAGE + 1);
  lastKnown = records.at(-1)?.id ?? low;
  return lastKnown;
}

async function reach(after: number): Promise<number | null> {
  return (await curatorApi.audit(after, 1)).records[0]?.id ?? null;
}

export interface AuditPage {
  /** Newest first. */
  records: AuditLine[];
  total: number;
}

/** `page` 0 has the newest records. */
export async function readPage(page: number): Promise<AuditPage> {
  const total = await lastId();
  const end = Math.max(0, total - page * PAGE);
  const start = Math.max(0, end - PAGE);
  const { records } = end > start ? await curatorApi.audit(start, end - start) : { records: [] };
  return { records: records.reverse(), total };
}
