/** Invariants of a store, checked after every test of the suite: from the failure model I2 (one winner), I3 (attempts
 *  grow), I4 (budgets), I10 (history) and I11 (accounting). */
import { deepStrictEqual as equal, ok } from "node:assert/strict";

import { addAmount, amountOf, type BudgetNow, NO_AMOUNT } from "../../core/decision/budget.ts";
import type { JobEvent, PerdureEvent } from "../../core/job/event.ts";
import { BEFORE, evolve, foldEvents } from "../../core/job/fold.ts";
import { isTerminal, JOB_STATES, type Job, type JobState, type Usage } from "../../core/job/job.ts";
import { progressOf } from "../../core/job/testing-job.ts";
import type { History, JobRow, SessionRow, Store } from "../store.ts";
import { auditRuns } from "./audit-runs.ts";

/** With more jobs than this, only some are also read one by one; the feed checks all of them. */
const READ_ALONE = 100;

export async function audit(store: Store): Promise<void> {
  const jobs = await allJobs(store);
  const feed = await wholeFeed(store, jobs);
  equal(
    await store.facts(jobs.map(({ id }) => id)),
    jobs.map(bodiless),
    "the facts of a job are its row without bodies",
  );
  for (const row of jobs) checkHistory(row, feed.get(row.id) ?? []);
  const each = Math.ceil(jobs.length / READ_ALONE);
  for (const row of jobs.filter((_, i) => i % each === 0)) {
    const history = (await store.history(row.id)) as History;
    equal(history.job, row, `${row.id}: both ways to read a job agree`);
    equal(feed.get(row.id), history.events, `${row.id}: the feed has the job's events in order`);
    await checkAttempts(store, row, history.events as JobEvent[]);
  }
  checkLedgers(jobs, feed);
  await auditRuns(store, jobs, feed);
  await checkCounts(store, jobs);
}

/** A budget's spending equals the sum over the events of all jobs it covers; if none of them runs, nothing is
 *  reserved. */
function checkLedgers(jobs: readonly JobRow[], feed: ReadonlyMap<string, readonly JobEvent[]>): void {
  const covered = new Map<string, { budget: BudgetNow; jobs: JobRow[] }>();
  for (const job of jobs) {
    for (const budget of job.budgets) {
      const ledger = covered.get(budget.jobId) ?? { budget, jobs: [] };
      equal(ledger.budget, budget, `${budget.jobId}: all covered jobs see the same budget`);
      ledger.jobs.push(job);
      covered.set(budget.jobId, ledger);
    }
  }
  for (const [id, { budget, jobs: below }] of covered) {
    const events = below.flatMap((job) => feed.get(job.id) ?? []);
    const spent = events.reduce((sum, { data }) => addAmount(sum, amountOf(usageOf(data))), NO_AMOUNT);
    equal(budget.spent, spent, `${id}: its budget's spending matches the events below it`);
    if (below.some(({ state }) => state === "running")) continue;
    equal([budget.live, budget.reserved], [NO_AMOUNT, NO_AMOUNT], `${id}: nothing of its budget is reserved`);
  }
}

function usageOf(data: JobEvent["data"]): Usage | null {
  return ("usage" in data ? data.usage : null) ?? null;
}

function bodiless({ payload: _payload, result: _result, ...rest }: JobRow): Job {
  const { progress: _progress, annotations: _annotations, name: _name, failure: _failure, ...facts } = rest;
  const { budgets: _budgets, liveUsage: _live, ...job } = facts;
  return job;
}

export async function allJobs(store: Store): Promise<JobRow[]> {
  const jobs: JobRow[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await store.find({
      order: "oldest",
      steps: true,
      limit: 1_000,
      ...(cursor === undefined ? {} : { cursor }),
    });
    jobs.push(...page.jobs);
    if (page.next === null) return jobs;
    // A search that does not advance would never end.
    ok(page.next !== cursor && page.jobs.length > 0, "every page of a search advances");
    cursor = page.next;
  }
}

/** The events of each job. A feed may lag while others write; then it is read again. */
async function wholeFeed(store: Store, jobs: readonly JobRow[]): Promise<Map<string, JobEvent[]>> {
  const wanted = jobs.reduce((sum, { revision }) => sum + revision, 0);
  for (const start = performance.now(); ; ) {
    const perJob = new Map<string, JobEvent[]>(jobs.map(({ id }) => [id, []]));
    let found = 0;
    for (const event of await readFeed(store)) {
      const events = event.jobId === null ? undefined : perJob.get(event.jobId);
      if (events === undefined) continue;
      events.push(event as JobEvent);
      found += 1;
    }
    if (found >= wanted || performance.now() - start > PATIENCE_MS) return perJob;
  }
}

const PATIENCE_MS = 30_000;

/** A bounded number of job events, or all that the feed returns: it lags while anyone writes, in any schema of the
 *  server. */
export async function jobEvents(store: Store, count: number): Promise<JobEvent[]> {
  for (const start = performance.now(); ; ) {
    const all = (await store.events.page({ after: 0, limit: 1_000_000, chars: Number.MAX_SAFE_INTEGER })).events;
    const feed = all.filter(({ jobId }) => jobId !== null) as JobEvent[];
    if (feed.length >= count || performance.now() - start > PATIENCE_MS) return feed;
  }
}

async function readFeed(store: Store): Promise<PerdureEvent[]> {
  const feed: PerdureEvent[] = [];
  for (let after = 0; ; after = feed.at(-1)?.seq ?? 0) {
    const page = (await store.events.page({ after, limit: 500 })).events;
    for (const event of page) {
      ok(event.seq > (feed.at(-1)?.seq ?? 0), `event ${event.seq} comes after ${feed.at(-1)?.seq}`);
      feed.push(event);
    }
    if (page.length === 0) return feed;
  }
}

/** The row equals the fold of its events; after the end of a chapter only a redrive follows. */
export function checkHistory(row: JobRow, events: readonly JobEvent[]): void {
  equal(
    events.map((event) => event.n),
    events.map((_, i) => i + 1),
    `${row.id}: events are numbered without gaps`,
  );
  equal(row.revision, events.length, `${row.id}: the revision is the number of events`);
  equal(progressOf(row), foldEvents(events), `${row.id}: the row is the fold of its events`);
  ok(row.failures <= row.policy.maxAttempts, `${row.id}: failures are within maxAttempts`);
  equal(row.result === null || row.state === "succeeded", true, `${row.id}: only a success has a result`);

  let job = BEFORE;
  for (const event of events) {
    const next = evolve(job, event);
    ok(next.attempt >= job.attempt && next.chapter >= job.chapter, `${row.id}: attempt and chapter only grow`);
    if (isTerminal(job.state) && event.name !== "job.discarded") {
      equal(event.name, "job.redriven", `${row.id}: only a redrive follows the end of a chapter`);
    }
    job = next;
  }
}

/** Every start has at most one end, and every end a start. */
async function checkAttempts(store: Store, row: JobRow, events: readonly JobEvent[]): Promise<void> {
  const started = events.flatMap((event) => (event.name === "attempt.started" ? [event.data.attempt] : []));
  equal(started, numbersTo(row.attempt), `${row.id}: attempts are counted at their start`);
  const closed: number[] = [];
  for (let page = await store.attempts(row.id); page.length > 0; ) {
    closed.push(...page.map((attempt) => attempt.attempt));
    page = await store.attempts(row.id, { after: closed.at(-1) as number });
  }
  equal(
    closed,
    numbersTo(row.state === "running" ? row.attempt - 1 : row.attempt),
    `${row.id}: each attempt is closed once`,
  );
}

function numbersTo(n: number): number[] {
  return Array.from({ length: n }, (_, i) => i + 1);
}

export async function allSessions(store: Store): Promise<SessionRow[]> {
  const sessions: SessionRow[] = [];
  for (let page = await store.sessions.list(); page.length > 0; ) {
    sessions.push(...page);
    page = await store.sessions.list({ after: (sessions.at(-1) as SessionRow).id });
  }
  return sessions;
}

async function checkCounts(store: Store, jobs: readonly JobRow[]): Promise<void> {
  const queues = await store.queues.counts(null, 0);
  for (const state of JOB_STATES) {
    const counted = queues.reduce((sum, queue) => sum + queue.counts[state as JobState], 0);
    equal(counted, jobs.filter((job) => job.state === state).length, `the counts of ${state} add up`);
  }
  const running = (await allSessions(store)).reduce((sum, session) => sum + session.running, 0);
  equal(running, jobs.filter((job) => job.state === "running").length, "every running job has its session");
}
