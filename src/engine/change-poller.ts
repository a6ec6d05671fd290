/** Polls the store for what other processes may have done, for all waiting callers of this process at once: ended jobs and
 *  requested cancels. Runs when another process wrote, and every second in any case. */

import { BackgroundService } from "./background-service.ts";
import { DEFAULTS } from "./limits.ts";
import type { EngineParts } from "./parts.ts";

/** Awaited jobs that one poll checks; the next poll checks the next ones. */
const AWAITED_AT_ONCE = 500;
const AWAITED_EACH_SECOND = 20_000;

export class ChangePoller extends BackgroundService {
  readonly #parts: EngineParts;

  constructor(parts: EngineParts) {
    super(parts, DEFAULTS.poll, "change poll");
    this.#parts = parts;
  }

  override async runOnce(): Promise<void> {
    for (let checked = 0; checked < AWAITED_EACH_SECOND; checked += AWAITED_AT_ONCE) {
      if ((await this.poll()) < AWAITED_AT_ONCE) return;
    }
  }

  /** Returns the number of jobs it checked. */
  async poll(): Promise<number> {
    const { hub, store } = this.#parts;
    const awaited = hub.nextAwaited(AWAITED_AT_ONCE);
    if (awaited.length > 0) for (const jobId of await store.ended(awaited)) hub.ended(jobId);
    for (const session of hub.sessions()) {
      for (const { jobId, attempt } of await store.sessions.cancelsFor([session]))
        hub.cancelAsked(session, jobId, attempt);
    }
    return awaited.length;
  }
}
