/** Hears of cancels and of a drain within moments: a call that the server holds until there is something to tell. A hint
 *  only; renewals tell the same. */

import { LIMIT } from "../../contract/wire.ts";
import type { NoticeWire } from "../../contract/worker-schemas.ts";
import { sleep } from "../../lib/clock.ts";
import { CallBackoff } from "./backoff.ts";
import { inSession, type LinkParts, type LinkSession } from "./link-parts.ts";
import { isGone } from "./wire-error.ts";

export interface NoticeListener {
  onCancel(jobId: string, attempt: number): void;
  onDrain(): void;
}

const ANSWER_MS = 15_000;
/** A server that keeps telling the same is not asked in a circle. */
const SAME_MS = 1_000;

/** Listens until the signal is aborted, or the session is over. */
export async function followNotices(
  parts: LinkParts,
  session: LinkSession,
  listener: NoticeListener,
  signal: AbortSignal,
): Promise<void> {
  const { clock, random, teller } = parts;
  const patience = new CallBackoff(random);
  const body = JSON.stringify({ waitMs: LIMIT.waitMs });
  const options = { signal, totalMs: LIMIT.waitMs + ANSWER_MS };
  let told = new Set<string>();
  let isDraining = false;
  while (!signal.aborted) {
    try {
      const { body: notice } = await inSession<NoticeWire>(parts, session, "waitForNotice", body, options);
      patience.again();
      if (!notice.alive) return;
      const now = new Set(notice.cancel.map(({ jobId, attempt }) => `${jobId}.${attempt}`));
      const isNews = (notice.drain && !isDraining) || [...now].some((name) => !told.has(name));
      const isAnything = notice.drain || now.size > 0;
      told = now;
      for (const { jobId, attempt } of notice.cancel) listener.onCancel(jobId, attempt);
      if (notice.drain && !isDraining) listener.onDrain();
      isDraining = notice.drain;
      if (isAnything && !isNews) await sleep(clock, SAME_MS, { signal });
    } catch (error) {
      if (signal.aborted || isGone(error)) return;
      teller.trouble(error);
      await sleep(clock, patience.after(error), { signal });
    }
  }
}
