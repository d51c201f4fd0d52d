// The newest records first. The server gives them oldest first, so the end is looked for before it is read.
import { curatorApi, type AuditLine } from './api';

export const PAGE = 50;
let known = 0;

/** Ids count 1, 2, 3 without a gap: doubling steps, then halving them, finds the last one. */
async function lastId(): Promise<number> {
  let step = PAGE;
  for (;;) {
    const last = await reach(known + step);
    if (last === null) break;
    known = last;
    step *= 4;
  }
  let [low, high] = [known, known + step];
  while (high - low > PAGE) {
    const middle = Math.floor((low + high) / 2);
    const found = await reach(middle);
    if (found === null) high = middle;
    else low = found;
  }
  const { records } = await curatorApi.audit(low, PAGE + 1);
  known = records.at(-1)?.id ?? low;
  return known;
}

async function reach(after: number): Promise<number | null> {
  return (await curatorApi.audit(after, 1)).records[0]?.id ?? null;
}

export interface AuditPage {
  /** Newest first. */
  records: AuditLine[];
  total: number;
  /** 0: the newest. */
  page: number;
}

export async function readPage(page: number): Promise<AuditPage> {
  const total = await lastId();
  const end = Math.max(0, total - page * PAGE);
  const start = Math.max(0, end - PAGE);
  const { records } = end > start ? await curatorApi.audit(start, end - start) : { records: [] };
  return { records: records.reverse(), total, page };
}
