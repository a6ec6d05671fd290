/** Submitters that continue through any fault: each job has a key, and is submitted again, at the next server, until
 *  one of them has acknowledged it. Acknowledged ids are kept for checks at the end. */
import { onTestFinished } from "vitest";
import type { PerdureClient } from "../../src/client/index.ts";
import type { PolicyInput } from "../../src/core/policy/policy.ts";
import { pass, sh } from "./kit.ts";

export interface Submitters {
  /** The id for each key. */
  readonly acknowledged: ReadonlyMap<string, string>;
  /** How many submits got no answer, or a refusal, and were repeated. */
  readonly repeated: number;
  /** Keys for which two different jobs were acknowledged: there must be none. */
  readonly twice: readonly string[];
  /** Resolves when every started submit is acknowledged. */
  stop(): Promise<void>;
}

export interface SubmittersOptions {
  readonly clients: readonly [PerdureClient, ...PerdureClient[]];
  readonly effects: string;
  readonly count?: number;
  readonly everyMs?: number;
  /** Stops after this many. */
  readonly limit?: number;
  readonly retry?: PolicyInput;
}

/** With the poison guard enabled, as users have it. */
export const GUARDED = {
  maxAttempts: 3,
  backoff: { type: "fixed", delay: "50ms" },
  workerLost: { maxRetries: 1_000, poison: { losses: 3, within: "30s" } },
} as const;

/** Losses are not the job's fault here, however many there are. */
const RETRY = {
  maxAttempts: 3,
  backoff: { type: "fixed", delay: "50ms" },
  workerLost: { maxRetries: 1_000, poison: false },
} as const;

/** Most are functions: quick ones, slow ones, ones that fail first; every fifth is a command. */
function workOf(n: number, effects: string): { readonly kind: string; readonly input: unknown } {
  if (n % 5 === 4) {
    return { kind: "exec", input: sh(`echo "$PERDURE_JOB_ID $PERDURE_ATTEMPT" >> ${effects}; echo out ${n}`) };
  }
  return { kind: "effect", input: { effects, ms: n % 10 === 3 ? 250 : 0, failFirst: n % 10 === 7 } };
}

/** How many attempts the first `count` jobs need when nothing goes wrong. */
export function runsOf(count: number): number {
  return count + Array.from({ length: count }, (_, n) => n).filter((n) => n % 10 === 7).length;
}

export function startSubmitters(options: SubmittersOptions): Submitters {
  const { clients, effects, count = 4, everyMs = 80, limit = Number.POSITIVE_INFINITY, retry = RETRY } = options;
  const acknowledged = new Map<string, string>();
  const twice: string[] = [];
  let [next, turn, repeated] = [0, 0, 0];
  let [isGoing, isAborted] = [true, false];
  onTestFinished(() => {
    isAborted = true;
  });

  async function submit(n: number): Promise<void> {
    const { kind, input } = workOf(n, effects);
    const key = `job-${n}`;
    while (!isAborted) {
      const client = clients[turn++ % clients.length] as PerdureClient;
      try {
        const { id } = await client.submit(kind, input, { key, retry });
        if ((acknowledged.get(key) ?? id) !== id) twice.push(key);
        acknowledged.set(key, id);
        // Some are submitted again, as by an interrupted client: the result is the same job.
        if (n % 7 !== 0 || turn % 2 === 0) return;
      } catch {
        repeated += 1;
        await pass(50);
      }
    }
  }

  async function go(): Promise<void> {
    while (isGoing && next < limit && !isAborted) {
      await submit(next++);
      await pass(everyMs);
    }
  }

  const all = Promise.all(Array.from({ length: count }, go));
  return {
    ...{ acknowledged, twice },
    get repeated() {
      return repeated;
    },
    async stop() {
      isGoing = limit !== Number.POSITIVE_INFINITY;
      await all;
    },
  };
}
