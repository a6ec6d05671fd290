/** Reads a whole database through the public API and checks the invariants of every job, whatever happened to the
 *  processes that worked on it. Returns what it read. */
import type { AttemptRow, JobInfo, Perdure, PerdureEvent } from "perdure";
import { foldEvents, type JobEvent } from "perdure/core";
import { expect } from "vitest";

export interface Audited {
  readonly jobs: ReadonlyMap<string, JobInfo>;
  /** Of each job, in order. */
  readonly events: ReadonlyMap<string, readonly JobEvent[]>;
  /** Events that belong to no job. */
  readonly engineEvents: readonly PerdureEvent[];
}

export async function audit(perdure: Perdure): Promise<Audited> {
  const jobs = await allJobs(perdure);
  const { events, engineEvents } = await wholeFeed(perdure, jobs);
  for (const job of jobs.values()) {
    const attempts = await (await perdure.job(job.id)).attempts();
    try {
      auditJob(job, events.get(job.id) as JobEvent[], attempts);
    } catch (error) {
      const story = (await perdure.explain(job.id)).text;
      throw new Error(`${job.id}: ${(error as Error).message}\n${story}`, { cause: error });
    }
  }
  return { jobs, events, engineEvents };
}

const PATIENCE_MS = 60_000;

/** A feed lags while any transaction is open on the same server, in any schema: then it is read again. */
async function wholeFeed(perdure: Perdure, jobs: ReadonlyMap<string, JobInfo>) {
  const events = new Map<string, JobEvent[]>([...jobs.keys()].map((id) => [id, []]));
  const engineEvents: PerdureEvent[] = [];
  let seq = 0;
  for (const start = performance.now(); ; ) {
    for await (const event of perdure.events(seq)) {
      if (event.seq <= seq) throw new Error(`the feed goes back from ${seq} to ${event.seq}`);
      seq = event.seq;
      if (event.jobId === null) engineEvents.push(event);
      else events.get(event.jobId)?.push(event as JobEvent);
    }
    const isWhole = [...jobs.values()].every(({ id, revision }) => (events.get(id)?.length ?? 0) >= revision);
    if (isWhole || performance.now() - start > PATIENCE_MS) return { events, engineEvents };
  }
}

async function allJobs(perdure: Perdure): Promise<Map<string, JobInfo>> {
  const jobs = new Map<string, JobInfo>();
  for (let cursor: string | undefined; ; ) {
    const page = await perdure.jobs({ order: "oldest", limit: 1_000, ...(cursor === undefined ? {} : { cursor }) });
    for (const job of page.jobs) jobs.set(job.id, job);
    if (page.next === null) return jobs;
    cursor = page.next;
  }
}

const ENDINGS = [
  ...["attempt.succeeded", "attempt.failed", "attempt.timed_out", "attempt.lost", "attempt.waiting"],
  "attempt.interrupted",
];

/** The row, the events and the attempts of one job agree, and are a legal history. */
function auditJob(job: JobInfo, events: readonly JobEvent[], attempts: readonly AttemptRow[]): void {
  const folded = foldEvents(events);
  const row = Object.fromEntries(Object.keys(folded).map((field) => [field, job[field as keyof JobInfo]]));
  expect(row, "the row equals the fold of its events").toEqual(folded);

  auditChapters(job, events);
  auditAttempts(job, events, attempts);
  auditBudgets(job, events);
}

/** A chapter ends once; nothing but a discard or a redrive follows. */
function auditChapters(job: JobInfo, events: readonly JobEvent[]): void {
  let chapter = 1;
  let ended = false;
  for (const [i, event] of events.entries()) {
    const { state } = foldEvents(events.slice(0, i + 1));
    if (event.name === "job.redriven") {
      expect(ended, "only what has ended is redriven").toBe(true);
      chapter += 1;
      ended = false;
      continue;
    }
    if (ended) expect(event.name, "an end is final").toBe("job.discarded");
    ended ||= state === "succeeded" || state === "failed" || state === "cancelled";
  }
  expect(chapter).toBe(job.chapter);
}

/** Each attempt started once, ended once, has one row, and the rows agree with the events. */
function auditAttempts(job: JobInfo, events: readonly JobEvent[], attempts: readonly AttemptRow[]): void {
  const starts = events.filter((event) => event.name === "attempt.started");
  const ends = events.filter((event) => ENDINGS.includes(event.name));
  const numbers = Array.from({ length: job.attempt }, (_, i) => i + 1);
  expect(
    starts.map(({ data }) => (data as { attempt: number }).attempt),
    "attempts that began",
  ).toEqual(numbers);
  const closed = job.state === "running" ? numbers.slice(0, -1) : numbers;
  expect(
    ends.map(({ data }) => (data as { attempt: number }).attempt),
    "attempts that ended",
  ).toEqual(closed);
  expect(
    attempts.map(({ attempt }) => attempt),
    "rows of attempts",
  ).toEqual(closed);

  for (const [i, row] of attempts.entries()) {
    const begun = starts[i] as JobEvent;
    const ended = ends[i] as JobEvent;
    const { session } = begun.data as { session: string };
    expect({ session: row.session, at: row.startedAt }).toEqual({ session, at: begun.at });
    expect({ name: nameOf(row, ended), at: row.endedAt }).toEqual({ name: ended.name, at: ended.at });
    const before = foldEvents(events.slice(0, begun.n - 1));
    expect(begun.at, "no attempt starts before it is due").toBeGreaterThanOrEqual(before.runAt);
  }

  const won = attempts.filter((row) => row.outcome === "completed");
  expect(
    won.map(({ attempt }) => attempt),
    "one winner",
  ).toEqual(job.state === "succeeded" ? [job.attempt] : []);
  if (job.state === "succeeded") expect(job.result).toEqual(JSON.parse(won[0]?.result ?? "null") ?? undefined);
}

function nameOf(row: AttemptRow, ended: JobEvent): string {
  switch (row.outcome) {
    case "completed":
      return "attempt.succeeded";
    case "timeout":
      return "attempt.timed_out";
    case "released":
    case "interrupted":
      expect((ended.data as { why: string }).why).toBe(row.outcome);
      return "attempt.interrupted";
    default:
      return `attempt.${row.outcome}`;
  }
}

/** The failures counted in this chapter match its events, and do not exceed the policy. */
function auditBudgets(job: JobInfo, events: readonly JobEvent[]): void {
  const { maxAttempts, workerLost } = job.policy;
  const chapter = events.slice(events.findLastIndex((event) => event.name === "job.redriven") + 1);
  const charged = (lost: boolean) =>
    chapter.filter(({ data }) => {
      const { decision } = data as { decision?: { class: string; charge?: object } };
      return decision?.charge && (decision.class === "lost") === lost;
    }).length;
  expect(job.failures, "counted failures").toBe(charged(false));
  expect(job.losses, "counted losses").toBe(charged(true));
  if (workerLost.charge === "shared") {
    expect(job.failures + job.losses).toBeLessThanOrEqual(maxAttempts);
    return;
  }
  expect(job.failures).toBeLessThanOrEqual(maxAttempts);
  // `maxRetries` counts retries: the loss that finds none left is one more.
  expect(job.losses).toBeLessThanOrEqual(workerLost.maxRetries + (job.reason === "lost" ? 1 : 0));
  if (job.reason !== "poison") return;
  const last = chapter.filter((event) => ENDINGS.includes(event.name)).slice(-(workerLost.poison?.losses ?? 0));
  expect(
    last.map(({ name }) => name),
    "poison is a series of losses",
  ).toEqual(last.map(() => "attempt.lost"));
  const sessions = new Set(last.map(({ data }) => (data as { session: string }).session));
  expect(sessions.size, "in different sessions").toBe(workerLost.poison?.losses);
}
