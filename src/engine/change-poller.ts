/** The look-out asks the store, for all who wait in this process at once, what another process may have done: jobs
 *  that ended, cancels that were asked for. Woken when another process wrote, and each second in any case. */

import { BackgroundService } from "./background-service.ts";
import { DEFAULTS } from "./limits.ts";
import type { EngineParts } from "./parts.ts";

/** Of the jobs awaited here, so many are looked at each time; the others have their turn next. */
const AWAITED_AT_ONCE = 500;
const AWAITED_EACH_SECOND = 20_000;

export class ChangePoller extends BackgroundService {
  readonly #parts: EngineParts;

  constructor(parts: EngineParts) {
    super(parts, DEFAULTS.poll, "look-out");
    this.#parts = parts;
  }

  override async runOnce(): Promise<void> {
    for (let looked = 0; looked < AWAITED_EACH_SECOND; looked += AWAITED_AT_ONCE) {
      if ((await this.look()) < AWAITED_AT_ONCE) return;
    }
  }

  /** The answer is the number of jobs looked at. */
  async look(): Promise<number> {
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
