/** Tests #1 to #5 of "Verification (DoD)" in OPAL's document, step by step, on a `perdure up` with a runtime folder. Steps have the
 *  document's names, prompts and numbers. What a step reports was read from the API, from `runtime/`, or from a clock. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { OpalAttempts } from "../../src/dialects/opal/attempts.ts";
import type { OpalJob } from "../../src/dialects/opal/job.ts";
import type { OpalLease } from "../../src/dialects/opal/server/runtime-files.ts";
import { type OpalApi, TEN_KEYS } from "./api.ts";
import type { Evidence } from "./evidence.ts";

export interface AcceptanceParts {
  readonly api: OpalApi;
  readonly evidence: Evidence;
  /** `runtime/` of the server. */
  readonly runtime: string;
}

/** Runs a step and rethrows its error. `work` returns its value and a description of what it observed. */
export type RunStep = <T>(name: string, work: () => Promise<readonly [value: T, seen: string]>) => Promise<T>;

export interface AcceptanceTest {
  readonly name: string;
  readonly objective: string;
  /** Jobs by name; each submit adds one. */
  run(parts: AcceptanceParts, step: RunStep, jobs: Map<string, string>): Promise<void>;
}

const BACKOFF_SECS = 8;
/** How much later than its backoff a job may start on a busy machine. */
const LATE_SECS = 5;

interface LoggedReclaim {
  readonly worker: string | null;
  readonly event: string;
  readonly file: string;
}

function check(isTrue: boolean, problem: string): void {
  if (!isTrue) throw new Error(problem);
}

const seconds = (from: string, to: string) => (Date.parse(to) - Date.parse(from)) / 1_000;

function jsonIn<T>(...path: string[]): T {
  return JSON.parse(readFileSync(join(...path), "utf8")) as T;
}

function reclaimsIn(runtime: string, id: string): LoggedReclaim[] {
  const dir = join(runtime, "logs/worker_pool");
  return readdirSync(dir).flatMap((file) =>
    readFileSync(join(dir, file), "utf8")
      .split("\n")
      .filter((line) => line.includes(`Reclaiming job ${id} `))
      .map((line) => ({ ...(JSON.parse(line) as LoggedReclaim), file })),
  );
}

/** "Wait for `status=running` with lease". */
async function running({ api, runtime, evidence }: AcceptanceParts, id: string, attempt: number) {
  const job = await api.until(id, "running", attempt);
  const lease = await api.waitFor(`a lease of attempt ${attempt}`, () => {
    try {
      const found = jsonIn<OpalLease>(runtime, "job_leases", `${id}.json`);
      return found.attempt === attempt ? found : null;
    } catch {
      return null;
    }
  });
  evidence.keep(`api/${id}/running_attempt_${attempt}.json`, job);
  evidence.keep(`leases/${id}_attempt_${attempt}.json`, lease);
  const seen = `running on ${job.worker_id}, lease until ${lease.expires_at}`;
  return [job, seen] as const;
}

/** "Kill worker holding lease (`kill -9 <pid>`)". */
async function kill({ api }: AcceptanceParts, job: OpalJob) {
  const before = new Date().toISOString();
  const pid = await api.killHolder(job);
  return [before, `kill -9 ${pid} (worker ${job.worker_id})`] as const;
}

/** "Wait for lease expiration (TTL=15s)". */
async function reclaimed({ api, runtime }: AcceptanceParts, id: string, killedAt: string, count: number) {
  const store = await api.waitFor("a reclaim", async () => {
    const found = await api.attempts(id);
    return found.reclaim !== null && found.reclaim.reclaimed_at >= killedAt ? found : null;
  });
  // The runtime folder is written shortly after.
  await api.waitFor("its line in the worker logs", () => (reclaimsIn(runtime, id).length >= count ? true : null));
  const secs = seconds(killedAt, store.reclaim?.reclaimed_at ?? "");
  const seen = `reclaimed by ${store.reclaim?.reclaimed_by} ${secs.toFixed(1)} s after the kill (${store.reclaim?.reason})`;
  return [store, seen] as const;
}

async function storeOf({ api, runtime, evidence }: AcceptanceParts, id: string, attempts: OpalAttempts, name: string) {
  const found = await api.waitFor("the attempt store", () => {
    const read = jsonIn<OpalAttempts>(runtime, "job_attempts", `${id}.json`);
    return read.updated_at >= attempts.updated_at ? read : null;
  });
  evidence.keep(`attempt_stores/${id}_${name}.json`, found);
  return found;
}

async function requeued(parts: AcceptanceParts, id: string) {
  const job = await parts.api.until(id, "queued", 1);
  parts.evidence.keep(`api/${id}/queued.json`, job);
  check(job.error === "lease_expired_retry_1", `error is ${job.error}, and not lease_expired_retry_1`);
  return [job, `status=queued, error=${job.error}`] as const;
}

const retrySuccess: AcceptanceTest = {
  name: "Retry Success",
  objective: "Verify job successfully retries after worker kill",
  async run(parts, step, jobs) {
    const { api, evidence, runtime } = parts;
    const id = await step("Submit long-running job (20s sleep)", async () => {
      const submitted = await api.submit("SLEEP_TEST_20s_RETRY");
      jobs.set("retried", submitted);
      evidence.keep(`api/${submitted}/submitted.json`, await api.job(submitted));
      return [submitted, `${submitted}, prompt SLEEP_TEST_20s_RETRY`];
    });
    const first = await step("Wait for status=running with lease", () => running(parts, id, 1));
    const killedAt = await step("Kill worker holding lease (kill -9 <pid>)", () => kill(parts, first));
    const attempts = await step("Wait for lease expiration (TTL=15s)", () => reclaimed(parts, id, killedAt, 1));
    await step("Verify reclaim with backoff (backoff=8s)", async () => {
      const store = await storeOf(parts, id, attempts, "after_reclaim");
      const { backoff_secs_applied: backoff, not_before } = store;
      check(backoff === BACKOFF_SECS, `backoff_secs_applied is ${backoff}, and not ${BACKOFF_SECS}`);
      return [store, `backoff_secs_applied=${backoff}, not_before=${not_before}`];
    });
    await step("Verify job requeued (status=queued)", () => requeued(parts, id));
    await step("Wait for backoff period to expire", async () => {
      const until = Date.parse(attempts.not_before ?? "");
      await api.waitFor("the end of the backoff", () => (Date.now() >= until ? true : null));
      return [until, `until ${attempts.not_before}`];
    });
    await step("Verify job claimed again (status=running, attempt=2)", () => running(parts, id, 2));
    await step("Verify job succeeds (status=succeeded)", async () => {
      const job = await api.until(id, "succeeded", 2);
      evidence.keep(`api/${id}/succeeded.json`, job);
      check(job.worker_id !== first.worker_id, `the killed worker ${job.worker_id} finished it`);
      return [job, `succeeded on attempt 2, worker ${job.worker_id}`];
    });
    await step("Output isolation verified", async () => {
      const dir = join(runtime, "opal_artifacts", id);
      const outputs = (attempt: number) => readdirSync(join(dir, `attempt_${attempt}`, "artifacts")).sort();
      await api.waitFor("the files of attempt 2", () => (outputs(2).length > 0 ? true : null));
      check(outputs(1).length === 0, `attempt_1/artifacts has ${outputs(1)}`);
      for (const attempt of [1, 2]) jsonIn(dir, `attempt_${attempt}`, "result.json");
      return [dir, `attempt_1/ empty but for result.json, attempt_2/ has ${outputs(2).join(", ")}`];
    });
    await step("Reclaim log", async () => {
      const [line, ...more] = reclaimsIn(runtime, id);
      const wanted = `[Lease] ♻️ Reclaiming job ${id} (Attempt 1/2) -> QUEUED (backoff=8s)`;
      check(line?.event === wanted && more.length === 0, `found ${JSON.stringify([line, ...more])}`);
      return [line, `${line?.file}: ${wanted}`];
    });
  },
};

const maxRetries: AcceptanceTest = {
  name: "Max Retries Exceeded",
  objective: "Verify job fails after exceeding max retries",
  async run(parts, step, jobs) {
    const { api, evidence } = parts;
    const id = await step("Submit long-running job (30s sleep)", async () => {
      const submitted = await api.submit("SLEEP_TEST_30s_FAIL_MAX");
      jobs.set("spent", submitted);
      return [submitted, `${submitted}, prompt SLEEP_TEST_30s_FAIL_MAX`];
    });
    for (const round of [1, 2]) {
      const name = (text: string) => `Kill Round #${round}: ${text}`;
      const job = await step(name(`Wait for status=running (attempt=${round})`), () => running(parts, id, round));
      const killedAt = await step(name("Kill worker"), () => kill(parts, job));
      const attempts = await step(name("Wait for reclaim"), () => reclaimed(parts, id, killedAt, round));
      await storeOf(parts, id, attempts, `after_reclaim_${round}`);
      if (round === 1) await step(name("status=queued"), () => requeued(parts, id));
    }
    await step("Verify job fails with max_retries_exceeded_a2", async () => {
      const job = await api.until(id, "failed", 2);
      evidence.keep(`api/${id}/failed.json`, job);
      check(job.error === "max_retries_exceeded_a2", `error is ${job.error}`);
      return [job, `status=failed after 2 attempts, error=${job.error}`];
    });
    await step("Attempt store final state", async () => {
      const store = await storeOf(parts, id, await api.attempts(id), "final");
      const isRight = store.attempts === 2 && store.reclaim?.reason === "lease_expired";
      check(isRight, `found ${JSON.stringify(store)}`);
      return [store, `attempts=2, reclaimed_by=${store.reclaim?.reclaimed_by}, reason=lease_expired`];
    });
  },
};

const winnerGuard: AcceptanceTest = {
  name: "Atomic Winner Guard",
  objective: "Verify only one worker reclaims each expired lease",
  async run({ api, runtime }, step, jobs) {
    const [retried, spent] = [jobOf(jobs, "retried"), jobOf(jobs, "spent")];
    await step("Single winner (reclaimed_by of the attempt store)", async () => {
      const winners = [retried, spent].map((id) => {
        const { reclaim } = jsonIn<OpalAttempts>(runtime, "job_attempts", `${id}.json`);
        const last = reclaimsIn(runtime, id).at(-1)?.worker;
        check(
          reclaim?.reclaimed_by === last,
          `${id}: reclaimed_by is ${reclaim?.reclaimed_by}, its log line is of ${last}`,
        );
        return reclaim?.reclaimed_by;
      });
      return [winners, winners.join(", ")];
    });
    await step("No double-reclaim in logs", async () => {
      const events = [retried, spent].map((id) => reclaimsIn(runtime, id).map(({ event }) => event));
      check(events[0]?.length === 1 && events[1]?.length === 2, `found ${JSON.stringify(events)}`);
      check(new Set(events.flat()).size === 3, `one line twice: ${JSON.stringify(events)}`);
      return [events, "one line for each of the 3 kills"];
    });
    await step("No race conditions in attempt counter", async () => {
      for (const id of [retried, spent]) {
        const { attempts, history } = await api.attempts(id);
        const numbers = history.map(({ attempt }) => attempt);
        check(attempts === 2 && numbers.join() === "1,2", `${id}: ${attempts} attempts, numbered ${numbers}`);
      }
      return [2, "attempts 1 and 2 of each job, each once"];
    });
  },
};

const backoffLogic: AcceptanceTest = {
  name: "Backoff Logic",
  objective: "Verify jobs respect backoff period",
  async run({ api, runtime }, step, jobs) {
    for (const name of ["retried", "spent"]) {
      const id = jobOf(jobs, name);
      await step(`Worker logs show backoff=8s applied (${id})`, async () => {
        const [first] = reclaimsIn(runtime, id);
        check(first?.event.endsWith("(backoff=8s)") === true, `found ${first?.event}`);
        return [first, first?.event ?? ""];
      });
      await step(`Jobs remained in queued state for ~8 seconds (${id})`, async () => {
        const { history } = await api.attempts(id);
        const waited = seconds(history[0]?.ended_at ?? "", history[1]?.started_at ?? "");
        const isRight = waited >= BACKOFF_SECS && waited < BACKOFF_SECS + LATE_SECS;
        check(isRight, `it waited ${waited} s`);
        return [waited, `claimed ${waited.toFixed(3)} s after its reclaim`];
      });
    }
  },
};

const zeroDrift: AcceptanceTest = {
  name: "Zero ABI Drift",
  objective: "Verify /api/jobs schema unchanged",
  async run({ api, evidence }, step, jobs) {
    await step("Compare job keys before/after", async () => {
      const after = (await api.json("/api/jobs")) as Record<string, OpalJob>;
      evidence.keep("api/jobs_after.json", after);
      const keys = new Set([...api.shown, ...Object.values(after)].map((job) => Object.keys(job).sort().join(", ")));
      check(keys.size === 1 && keys.has(TEN_KEYS.join(", ")), `found ${[...keys].join("; and ")}`);
      const statuses = [...new Set(api.shown.map(({ status }) => status))].sort();
      return [keys, `${TEN_KEYS.join(", ")} in each of ${api.shown.length} answers (${statuses.join(", ")})`];
    });
    await step("GET /api/jobs has the jobs and nothing else", async () => {
      const ids = Object.keys((await api.json("/api/jobs")) as object).sort();
      check(ids.join() === [...jobs.values()].sort().join(), `found ${ids}`);
      return [ids, ids.join(", ")];
    });
  },
};

function jobOf(jobs: ReadonlyMap<string, string>, name: string): string {
  const id = jobs.get(name);
  if (id === undefined) throw new Error(`there is no job to inspect: an earlier test did not submit it`);
  return id;
}

export const ACCEPTANCE_TESTS: readonly AcceptanceTest[] = [
  retrySuccess,
  maxRetries,
  winnerGuard,
  backoffLogic,
  zeroDrift,
];
