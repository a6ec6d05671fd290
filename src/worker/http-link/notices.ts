/** Long poll for cancels and drains, which arrive sooner than with the next renewal. Only a hint: renewals return the same. */

import { LIMIT } from "../../contract/wire.ts";
import type { NoticeWire } from "../../contract/worker-schemas.ts";
import { sleep } from "../../lib/clock.ts";
import { CallBackoff, isGone } from "../../wire/repeat.ts";
import { inSession, type LinkParts, type LinkSession } from "./link-parts.ts";

export interface NoticeListener {
  onCancel(jobId: string, attempt: number): void;
  onDrain(): void;
}

const ANSWER_MS = 15_000;
/** A server that returns the same again is not called in a tight loop. */
const SAME_MS = 1_000;

/** Polls until the signal is aborted, or the session has ended. */
export async function followNotices(
  parts: LinkParts,
  session: LinkSession,
  listener: NoticeListener,
  signal: AbortSignal,
): Promise<void> {
  const { clock, random, outage } = parts;
  const backoff = new CallBackoff(random);
  const body = JSON.stringify({ waitMs: LIMIT.waitMs });
  const options = { signal, totalMs: LIMIT.waitMs + ANSWER_MS };
  let known = new Set<string>();
  let isDraining = false;
  while (!signal.aborted) {
    try {
      const notice = await inSession<NoticeWire>(parts, session, "waitForNotice", body, options);
      backoff.reset();
      if (!notice.alive) return;
      const now = new Set(notice.cancel.map(({ jobId, attempt }) => `${jobId}.${attempt}`));
      const isNews = (notice.drain && !isDraining) || [...now].some((name) => !known.has(name));
      const isEmpty = !notice.drain && now.size === 0;
      known = now;
      for (const { jobId, attempt } of notice.cancel) listener.onCancel(jobId, attempt);
      if (notice.drain && !isDraining) listener.onDrain();
      isDraining = notice.drain;
      if (!isEmpty && !isNews) await sleep(clock, SAME_MS, { signal });
    } catch (error) {
      if (signal.aborted || isGone(error)) return;
      outage.failed(error);
      await sleep(clock, backoff.after(error), { signal });
    }
  }
}
