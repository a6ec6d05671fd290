// biome-ignore-all lint/suspicious/noThenProperty: the policy language says "then"; a rule is never awaited.
/** Tries a policy with `perdure/core`: without database, clock or waiting, and with the functions that the engine uses.
 *  Run: npx tsx examples/policy.ts */
import {
  backoffMs,
  ConfigError,
  failure,
  type Job,
  type Outcome,
  resolvePolicy,
  settleJob,
  submitJob,
} from "perdure/core";

const policy = resolvePolicy({
  maxAttempts: 4,
  backoff: { initial: "1s", factor: 3, max: "20s", jitter: 0.2 },
  rules: [{ if: { status: 429 }, then: "defer" }],
  noRetryOn: ["permission denied"],
});

// Minimum, middle and maximum delay of each retry: the last argument is the random value for the jitter.
for (const retry of [1, 2, 3, 4]) {
  const [least, middle, most] = [0, 0.5, 0.999].map((draw) => backoffMs(policy.backoff, retry, draw).delayMs);
  console.log(`retry ${retry} waits ${least} to ${most} ms, ${middle} in the middle`);
}

// The decisions after a series of outcomes. Only the start of an attempt is not a decision.
function play(name: string, outcomes: readonly Outcome[]): void {
  console.log(`\n${name}`);
  const now = 0;
  const facts = { kind: "demo", queue: "default", namespace: "default", runAt: now, expireInMs: null, policy };
  let job: Job = {
    ...submitJob(facts, now).next,
    ...facts,
    ...{
      id: "demo",
      priority: 5,
      key: null,
      tags: [],
      labels: {},
      submittedAt: now,
      timeoutMs: null,
      deadlineAt: null,
      parentId: null,
      runId: null,
      depth: 0,
    },
  };
  for (const outcome of outcomes) {
    const startedAt = job.runAt;
    const attempt = job.attempt + 1;
    const running: Job = {
      ...job,
      state: "running",
      attempt,
      startedAt,
      firstStartedAt: job.firstStartedAt ?? startedAt,
    };
    const { decision, next } = settleJob(running, outcome, null, startedAt, 0.5);
    job = { ...running, ...next };
    const then = decision.kind === "retry" ? `retry in ${decision.delay.delayMs} ms` : decision.kind;
    const why = decision.kind === "fail" ? `${decision.step}, ${decision.reason}` : decision.step;
    const by = decision.match === undefined ? "" : `, by ${decision.match.by}`;
    console.log(`  attempt ${attempt} ${outcome.kind}: ${then} (${why}${by}; failures ${job.failures})`);
  }
}

const failed = (message: string, status: number | null = null): Outcome => ({
  kind: "failed",
  failure: failure({ kind: status === null ? "error" : "http", message, status }),
});
const reset = failed("connection reset");
play("four failures in a row", [reset, reset, reset, reset]);
play("rate limits are not counted", [failed("429 Too Many Requests", 429), reset, { kind: "completed", result: null }]);
play("a failure that a retry cannot fix", [failed("EACCES: permission denied")]);

// Mistakes are refused with the path of the field, before anything runs.
try {
  resolvePolicy(JSON.parse('{ "maxAttemps": 3 }'));
} catch (error) {
  if (error instanceof ConfigError) console.log(`\n${error.path}: did you mean ${error.nearest}?`);
}
