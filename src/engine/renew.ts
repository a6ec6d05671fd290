/** Renews session leases, and gives back to the queue what a session never heard of. */

import type { HeldAttempt, RenewAnswer, WorkerHealth } from "../core/work.ts";
import { storable } from "../lib/text.ts";
import type { EngineParts } from "./engine.ts";
import { handBack } from "./hand-back.ts";
import { LIMITS } from "./limits.ts";

export async function renew(
  parts: EngineParts,
  session: string,
  held: readonly HeldAttempt[],
  health?: WorkerHealth | null,
): Promise<RenewAnswer> {
  const request = { session, held: held.map(cleaned), ...(health === undefined ? {} : { health }) };
  const [answer] = (await parts.store.renew([request], parts.clock.now())) as [RenewAnswer];
  // A session gets no jobs while its lease is over: now it may.
  if (answer.alive && answer.wasOver) parts.hub.ready.fire();
  await handBack(parts, session, answer.unheard);
  return answer;
}

function cleaned(held: HeldAttempt): HeldAttempt {
  return {
    ...held,
    progress: held.progress ? storable(held.progress, LIMITS.progress) : null,
    log: held.log ? storable(held.log, LIMITS.logChunk) : null,
  };
}
