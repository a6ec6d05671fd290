/** For tests only: a worker on a fake link; the test supplies the jobs and the answers. Nothing outside of tests imports this
 *  file. */
import type { AnyTask, Child, ChildState, Family, HeldParent, SubmitEntry } from "../core/task/task.ts";
import type { ClaimedJob, HeldAttempt, RenewAnswer, Report } from "../core/worker-protocol.ts";
import type { Clock } from "../lib/clock.ts";
import type { EngineLink, LinkClaimOptions } from "./engine-link.ts";
import { Worker } from "./worker.ts";

export class TestLink implements EngineLink {
  claimsAtOnce = 1;
  readonly claims: LinkClaimOptions[] = [];
  readonly held: (readonly HeldAttempt[])[] = [];
  readonly reports: Report[] = [];
  /** Merged into the answers of renewals. */
  answer: Partial<RenewAnswer> = {};
  family?: Family;
  readonly #jobs: ClaimedJob[] = [];
  #count = 0;
  #wake: (() => void)[] = [];

  /** Queues a job for the worker and returns its id. */
  give(kind: string, parts: Partial<ClaimedJob> = {}): string {
    this.#count += 1;
    const id = `job_${this.#count}`;
    this.#jobs.push({
      ...{ id, namespace: "default", queue: "default", kind, attempt: 1, chapter: 1, token: `t${this.#count}` },
      ...{ payload: "null", timeoutMs: null, failures: 0, maxAttempts: 1, tags: [], previous: null },
      ...parts,
    });
    for (const wake of this.#wake.splice(0)) wake();
    return id;
  }

  reportOf(jobId: string): Report | undefined {
    return this.reports.find((report) => report.jobId === jobId);
  }

  async openSession() {
    return { session: "ses_1", leaseMs: 15_000 };
  }
  async closeSession() {}

  async claim(_session: string, options: LinkClaimOptions) {
    this.claims.push(options);
    const { limit, waitMs, signal } = options;
    for (;;) {
      const jobs = signal.aborted ? [] : this.#jobs.splice(0, limit);
      if (jobs.length > 0 || signal.aborted || waitMs === 0) return { alive: true, drain: false, jobs };
      await new Promise<void>((resolve) => {
        this.#wake.push(resolve);
        signal.addEventListener("abort", () => resolve(), { once: true });
      });
    }
  }

  async renew(_session: string, held: readonly HeldAttempt[]): Promise<RenewAnswer> {
    this.held.push(held);
    const nothing = { lost: [], cancel: [], overspent: [], unheard: [] };
    return { alive: true, leaseMs: 15_000, drain: false, ...nothing, ...this.answer };
  }

  async report(report: Report) {
    this.reports.push(report);
    const { kind } = report.outcome;
    const state = kind === "completed" ? "succeeded" : kind === "waiting" ? "blocked" : "failed";
    return { status: "accepted", repeated: false, state, reason: null, runAt: null } as const;
  }

  onCancel() {
    return () => {};
  }
}

/** A fake child jobs API; `states` is indexed by child id. */
export class TestChildren implements Family {
  readonly submitted: { readonly parent: HeldParent; readonly entry: SubmitEntry }[] = [];
  readonly states = new Map<string, ChildState>();

  async submit(parent: HeldParent, entry: SubmitEntry): Promise<Child<unknown>> {
    this.submitted.push({ parent, entry });
    const key = entry.options?.key ?? "";
    const id = `child_${key}`;
    const created = !this.states.has(id);
    if (created) this.set(key, { kind: typeof entry.task === "string" ? entry.task : entry.task.kind });
    return { id, created };
  }

  set(key: string, parts: Partial<ChildState>): void {
    const id = `child_${key}`;
    const fresh = { id, kind: "k", key, state: "queued", reason: null, failure: null } as const;
    this.states.set(id, { ...fresh, payload: undefined, result: undefined, ...this.states.get(id), ...parts });
  }

  async look(_parent: HeldParent, ids: readonly string[]): Promise<ChildState[]> {
    return ids.map((id) => this.states.get(id) as ChildState);
  }

  async list(): Promise<ChildState[]> {
    return [...this.states.values()];
  }
}

export interface TestWorkerOptions {
  readonly slots?: number;
  readonly stopGraceMs?: number;
}

/** Starts a worker; the test stops it. */
export async function startWorker(
  link: TestLink,
  clock: Clock,
  tasks: readonly AnyTask[],
  { slots = 10, stopGraceMs = 5_000 }: TestWorkerOptions = {},
): Promise<Worker> {
  const request = {
    ...{ namespace: "default", name: "test", host: "here", pid: 1, queues: null, slots },
    ...{ labels: {}, kinds: tasks.map(({ kind }) => kind) },
  };
  const worker = new Worker({ link, clock, tasks, request, stopGraceMs, log: () => {} });
  await worker.start();
  return worker;
}
