/** The data of the command lists: jobs, sessions, outcomes, commands and filters, drawn from small pools so that they
 *  often collide.
 *
 *  Two things are not specified by the port and therefore excluded. A session has at most nine light lanes and eight
 *  heavy ones, so that a claim sees all of them at once. Jobs that can become suspects (lost quickly several times)
 *  wait in a single lane: the order in which suspects of several lanes are tried may differ between stores. */
import { failure } from "../../src/core/decision/failure.ts";
import type { Resources } from "../../src/core/input/resources.ts";
import { JOB_STATES } from "../../src/core/job/job.ts";
import type { PolicyInput, RuleInput } from "../../src/core/policy/policy.ts";
import type { NewSession, ReportedOutcome } from "../../src/core/worker-protocol.ts";
import {
  broke,
  done,
  INTERRUPTED,
  type JobParts,
  newJob,
  newSession,
  RELEASED,
  usageOf,
} from "../../src/store/conformance/kit.ts";
import type { JobFilter, NewJob } from "../../src/store/store.ts";
import type { Dice } from "../dice.ts";

export const NAMESPACES = ["default", "default", "default", "default", "default", "other"] as const;
export const QUEUES = ["default", "bulk"] as const;
const KINDS = ["work", "mail"] as const;
const SUSPECT = "suspect";
const HEAVY = [{ "resource/cpu": "500" }, { "resource/cpu": "1000", "resource/memory": "200" }] as const;
const LABELS = [{}, {}, {}, { gpu: "yes" }, ...HEAVY] as const;
/** Capacities of sessions: none, a little, or enough for two of each. */
const ROOMS = [{}, { "resource/cpu": "700" }, { "resource/cpu": "2000", "resource/memory": "500" }] as const;
const TAGS = ["red", "größe", "a b", ""] as const;
const KEYS = ["k1", "k2", "k3", "K1", "clé"] as const;

function rule(matches: RuleInput["if"], verdict: RuleInput["then"], parts: Partial<RuleInput> = {}): RuleInput {
  // biome-ignore lint/suspicious/noThenProperty: a rule has the form "if … then …", and is never awaited
  return { if: matches, then: verdict, ...parts };
}

const calm = { poison: false } as const;
const POLICIES: readonly [PolicyInput, ...PolicyInput[]] = [
  { maxAttempts: 1, workerLost: calm },
  { maxAttempts: 3, backoff: { type: "none" }, workerLost: calm },
  { maxAttempts: 4, backoff: { type: "exponential", initial: "1s", factor: 2, max: "10s" }, workerLost: calm },
  { maxAttempts: 3, backoff: { type: "schedule", delays: ["1s", "5s"], jitter: 0 }, workerLost: calm },
  { maxAttempts: 2, backoff: { type: "fixed", delay: "3s" }, workerLost: { charge: "shared", ...calm } },
  { maxAttempts: 5, maxElapsed: "20s", workerLost: { maxRetries: 2, ...calm } },
  { maxAttempts: 5, budget: { tokens: 40, costUsd: 1 }, workerLost: calm },
  { maxAttempts: 2, retryWhen: "result.again", workerLost: calm },
  {
    maxAttempts: 3,
    rules: [
      rule({ status: "5xx" }, "retry", { maxRetries: 2, backoff: { type: "fixed", delay: "2s" } }),
      rule({ exitCode: 75 }, "defer"),
      rule({ message: "no such" }, "fail"),
    ],
    workerLost: { maxRetries: 1, ...calm },
  },
  { preset: "agent", workerLost: calm },
  { atMostOnce: true, workerLost: calm },
];
const SUSPECT_POLICIES: readonly [PolicyInput, ...PolicyInput[]] = [
  { maxAttempts: 3, backoff: { type: "none" }, workerLost: { maxRetries: 9, poison: { losses: 3, within: "30s" } } },
  { maxAttempts: 2, workerLost: { maxRetries: 4, backoff: { type: "none" }, poison: { losses: 2, within: "5s" } } },
];

/** `parents`: jobs that may become its parent. */
export function drawJob(dice: Dice, now: number, parents: readonly string[]): NewJob {
  const suspect = dice.chance(0.2);
  const key = dice.chance(0.35) ? dice.pick(KEYS) : null;
  const parts: JobParts = {
    at: now,
    namespace: suspect ? "default" : dice.pick(NAMESPACES),
    queue: suspect ? "default" : dice.pick(QUEUES),
    kind: suspect ? SUSPECT : dice.pick(KINDS),
    labels: suspect ? {} : dice.pick(LABELS),
    retry: suspect ? dice.pick(SUSPECT_POLICIES) : dice.pick(POLICIES),
    priority: dice.chance(0.5) ? 5 : dice.below(10),
    runAt: now + (dice.chance(0.3) ? dice.below(8_000) - 1_000 : 0),
    timeoutMs: dice.chance(0.2) ? 1 + dice.below(5_000) : null,
    expireInMs: dice.chance(0.2) ? dice.below(12_000) : null,
    deadlineAt: dice.chance(0.15) ? now + dice.below(30_000) : null,
    tags: dice.chance(0.3) ? dice.some(TAGS) : [],
    payload: key === null ? `{"n":${dice.below(100)}}` : `{"n":${dice.below(2)}}`,
    key,
    ...drawFamily(dice, parents),
  };
  return newJob(parts);
}

function drawFamily(dice: Dice, parents: readonly string[]): JobParts {
  const annotations = dice.chance(0.2) ? JSON.stringify({ "a/b": "größe", n: String(dice.below(9)) }) : null;
  const id = dice.chance(0.35) ? dice.pick(parents) : undefined;
  if (id === undefined) return { annotations };
  return {
    annotations,
    parent: { id, attempt: dice.chance(0.8) ? null : 1 + dice.below(2) },
    depth: 1 + dice.below(3),
  };
}

export function drawRoom(dice: Dice): Resources | undefined {
  return dice.chance(0.4) ? { cpu: dice.below(5) * 500, memory: dice.below(4) * 200 } : undefined;
}

export function drawSession(dice: Dice): NewSession {
  return newSession({
    namespace: dice.pick(NAMESPACES),
    name: dice.pick(["worker-1", 'w "2"', "wörker 3"]),
    process: dice.chance(0.5) ? `process-${dice.below(9)}` : null,
    kinds: dice.chance(0.6) ? [...KINDS, SUSPECT] : [...dice.some(KINDS), SUSPECT],
    queues: dice.chance(0.7) ? null : [dice.pick(QUEUES)],
    labels: { ...(dice.chance(0.5) ? {} : { gpu: "yes", zone: "a" }), ...dice.pick(ROOMS) },
    slots: 1 + dice.below(9),
    leaseMs: dice.pick([2_000, 15_000, 60_000, 60_000]),
  });
}

export function drawOutcome(dice: Dice): ReportedOutcome {
  const failed = (parts: Parameters<typeof failure>[0]): ReportedOutcome => ({
    kind: "failed",
    failure: failure(parts),
  });
  const http = { kind: "http", status: dice.pick([503, 429, 404]), message: "http" } as const;
  return dice.pick([
    done(dice.pick([null, '"done"', '{"again":true}', ' [1e400,"\\u0000é"] '])),
    done(dice.pick([null, "1", '{"again":false}'])),
    broke(),
    broke("no such file\nat ünïcode"),
    failed({ kind: "exit", exitCode: dice.pick([1, 75, 137]), message: "exit" }),
    failed({ ...http, retryAfterMs: dice.chance(0.5) ? dice.below(20_000) : null }),
    failed({ kind: "error", class: "logical", message: "no", name: "TypeError", stack: "a\nb" }),
    failed({ kind: "error", class: "invalid", message: "bad input" }),
    { kind: "timeout", failure: failure({ kind: "timeout", message: "it ran too long" }) },
    INTERRUPTED,
    RELEASED,
  ]);
}

export function drawUsage(dice: Dice) {
  return dice.chance(0.3) ? usageOf(dice.below(30), dice.below(10), dice.below(100) / 64) : null;
}

export function drawProgress(dice: Dice): string | null {
  return dice.chance(0.3) ? JSON.stringify({ done: dice.below(100) }) : null;
}

export function drawLog(dice: Dice): string | null {
  return dice.chance(0.3) ? `line ${dice.below(100)} ✓\n` : null;
}

export function drawFilter(dice: Dice, now: number, parents: readonly string[]): JobFilter {
  const maybe = <T>(share: number, name: keyof JobFilter, value: T) => (dice.chance(share) ? { [name]: value } : {});
  return {
    ...maybe(0.4, "namespace", dice.pick(NAMESPACES)),
    ...maybe(0.3, "state", dice.some(JOB_STATES)),
    ...maybe(0.2, "kind", dice.some([...KINDS, SUSPECT])),
    ...maybe(0.2, "queue", [dice.pick(QUEUES)]),
    ...maybe(0.2, "tag", dice.pick(TAGS)),
    ...maybe(0.2, "key", dice.pick(KEYS)),
    ...maybe(parents.length > 0 ? 0.2 : 0, "parentId", dice.pick(parents)),
    ...maybe(0.2, "deadLetter", dice.chance(0.7)),
    ...maybe(0.2, "submittedAfter", now - dice.below(30_000)),
    ...maybe(0.2, "submittedBefore", now - dice.below(30_000)),
    ...maybe(0.5, "order", dice.pick(["newest", "oldest"])),
  };
}
