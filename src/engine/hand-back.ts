/** Gives attempts back to the queue that their session never heard of, or that did not fit into a reply: nothing is charged.
 *  Another session may have them after a second. The same one after a lease, or as soon where only the reply was lost. */
import type { SettleAnswer } from "../core/work.ts";
import type { WithdrawRequest } from "../store/store.ts";
import type { EngineParts } from "./engine.ts";
import { settle } from "./settle.ts";

export interface UnheardAttempt {
  readonly jobId: string;
  readonly attempt: number;
}

export async function handBack(
  parts: EngineParts,
  session: string,
  attempts: readonly UnheardAttempt[],
  options: { readonly undelivered?: boolean } = {},
): Promise<SettleAnswer[]> {
  if (attempts.length === 0) return [];
  const from = { kind: "release", session, ...options } as const;
  const outcome = { kind: "released" } as const;
  return settle(
    parts,
    attempts.map(({ jobId, attempt }) => ({ jobId, attempt, from, outcome, usage: null, log: null })),
  );
}

/** The reply to a claim could not be delivered. What it claimed is given back when no reply with these jobs was. */
export async function withdraw(parts: EngineParts, request: WithdrawRequest): Promise<void> {
  const attempts = await parts.store.withdrawClaim(request);
  await handBack(parts, request.session, attempts, { undelivered: true });
}
