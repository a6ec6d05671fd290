/** A job's history, event by event, in the order it happened. */
import { type Amount, limitText } from "./budget.ts";
import { showMs } from "./duration.ts";
import type { JobEvent } from "./event.ts";
import { type AttemptStory, beginAttempt, endAttempt, tellAttempt, tellRunning } from "./explain-attempt.ts";
import { type Asked, askedBy, type Decided, type DecidedEvent, isDecided, tellDecision } from "./explain-decision.ts";
import { tellSources } from "./explain-policy.ts";
import { type RetryStory, retryIn, type StepRetry } from "./explain-retry.ts";
import { BEFORE, evolve, foldEvents } from "./fold.ts";
import type { JobProgressFields } from "./job.ts";
import type { Policy, PresetName } from "./policy.ts";
import { type ChangedTerms, showTerms } from "./redrive.ts";
import { quoted, showAt, showSpan } from "./show.ts";

export type Submitted = Extract<JobEvent, { name: "job.submitted" }>;

export interface Story {
  readonly submitted: Submitted;
  /** The job as it is now. */
  readonly job: JobProgressFields;
  /** Of a job with very many attempts, the first and the last. */
  readonly lines: readonly string[];
  readonly attempts: readonly AttemptStory[];
  readonly retries: readonly StepRetry[];
  readonly preset: PresetName | null;
  /** The latest events. */
  readonly recent: readonly JobEvent[];
  /** The latest decision, and the latest cancel and discard of this chapter. */
  readonly decided: Decided | null;
  readonly cancel: Asked | null;
  readonly discard: Asked | null;
  /** What this chapter has spent of `maxAttempts`. */
  readonly spent: { readonly used: number; readonly limit: number };
}

/** The story of a job with very many attempts leaves out those between the first and the last of them. */
const FIRST = 100;
const LAST = 300;
/** Events that say why it is where it is now. */
const RECENT = 200;

export function tellStory(events: readonly JobEvent[], policy?: Policy): Story {
  const teller = new StoryTeller(policy);
  foldEvents(events); // refuses a broken history before a word of it is told
  for (const event of events) teller.add(event);
  return teller.story;
}

/** The lines about an event, and the retry that it grants. */
interface Step {
  readonly lines: readonly string[];
  readonly retry: RetryStory | null;
}

type Chapter = Pick<Story, "decided" | "cancel" | "discard" | "spent">;

/** Takes the events of a job one after the other, so that nobody has to hold all of them, and keeps a bounded part of the story. */
export class StoryTeller {
  readonly #policy: Policy | undefined;
  readonly #steps = new Ends<Step>(FIRST, LAST);
  readonly #attempts = new Ends<AttemptStory>(FIRST, LAST);
  readonly #recent = new Ends<JobEvent>(0, RECENT);
  #submitted: Submitted | null = null;
  #job: JobProgressFields = BEFORE;
  #chapter: Chapter = { decided: null, cancel: null, discard: null, spent: { used: 0, limit: 0 } };

  constructor(policy?: Policy) {
    this.#policy = policy;
  }

  add(event: JobEvent): void {
    const before = this.#job;
    if (event.n !== before.revision + 1) throw new Error(`event ${event.n} follows event ${before.revision}`);
    const after = evolve(before, event);
    this.#job = after;
    this.#recent.push(event);
    if (event.name === "job.submitted") this.#begin(event);
    else if (event.name === "attempt.started") this.#attempts.push(beginAttempt(event, before));
    else if (isDecided(event)) {
      const decided = decidedBy(event, before, after, this.#chapter.cancel);
      this.#steps.push({ lines: tellDecided(decided, before, this.#attempts), retry: retryIn(event) });
      const { charge } = event.data.decision;
      this.#chapter = { ...this.#chapter, decided, ...(charge?.to === "maxAttempts" ? { spent: charge } : {}) };
    } else {
      const asked: Asked = { at: event.at, by: event.data.by };
      this.#steps.push({ lines: [tellCommand(event, asked, before, after)], retry: retryIn(event) });
      if (event.name === "job.redriven") {
        const limit = event.data.changed?.policy?.maxAttempts ?? this.#chapter.spent.limit;
        this.#chapter = { decided: null, cancel: null, discard: null, spent: { used: 0, limit } };
      } else if (event.name === "job.discarded") this.#chapter = { ...this.#chapter, discard: asked };
      else if (event.name !== "job.rescheduled" && event.name !== "job.unblocked")
        this.#chapter = { ...this.#chapter, cancel: asked };
    }
  }

  #begin(submitted: Submitted): void {
    this.#submitted = submitted;
    const lines = [tellSubmit(submitted), ...tellSources(submitted.data.sources, this.#policy)];
    this.#steps.push({ lines, retry: null });
    const spent = { used: 0, limit: submitted.data.maxAttempts };
    this.#chapter = { decided: null, cancel: null, discard: null, spent };
  }

  get story(): Story {
    if (this.#submitted === null) throw new Error("a job has at least one event");
    const { first, last, leftOut } = this.#steps;
    const gap = `(${leftOut} steps between are left out here; the events show all of them.)`;
    const steps = leftOut === 0 ? [...first, ...last] : [...first, { lines: [gap], retry: null }, ...last];
    const lines: string[] = [];
    const retries: StepRetry[] = [];
    for (const each of steps) {
      lines.push(...each.lines);
      if (each.retry !== null) retries.push({ ...each.retry, line: lines.length - 1 });
    }
    const attempts = [...this.#attempts.first, ...this.#attempts.last];
    const running = attempts.at(-1);
    if (running?.endedAt === null) lines.push(tellRunning(running));
    const { last: recent } = this.#recent;
    const preset = this.#policy?.preset ?? null;
    return { submitted: this.#submitted, job: this.#job, lines, attempts, retries, preset, recent, ...this.#chapter };
  }
}

/** The first and the last of a list that may be very long. */
class Ends<T> {
  readonly first: T[] = [];
  #last: T[] = [];
  #cut = 0;
  readonly #most: { readonly first: number; readonly last: number };

  constructor(first: number, last: number) {
    this.#most = { first, last };
  }

  get last(): readonly T[] {
    return this.#last.slice(-this.#most.last);
  }
  get leftOut(): number {
    return this.#cut + Math.max(0, this.#last.length - this.#most.last);
  }

  push(one: T): void {
    if (this.first.length < this.#most.first) this.first.push(one);
    else this.#last.push(one);
    if (this.#last.length < 2 * this.#most.last) return;
    this.#cut += this.#last.length - this.#most.last;
    this.#last = this.#last.slice(-this.#most.last);
  }

  /** Takes the newest away. */
  pop(): T | undefined {
    return this.#last.length > 0 ? this.#last.pop() : this.first.pop();
  }
}

function tellSubmit({ at, jobId, data }: Submitted): string {
  const what = `kind ${quoted(data.kind)}, queue ${quoted(data.queue)}, namespace ${quoted(data.namespace)}`;
  const delay = data.runAt > at ? `, to run no sooner than ${showAt(data.runAt)}` : "";
  const blocked = data.state === "blocked" ? ", blocked at first" : "";
  const extra = [
    ...(data.parentId === undefined ? [] : [`child of ${data.parentId}`]),
    ...(data.priority === undefined ? [] : [`priority ${data.priority}`]),
    ...(data.timeoutMs === undefined ? [] : [`timeout ${showMs(data.timeoutMs)}`]),
    ...(data.deadlineAt === undefined ? [] : [`to start by ${showAt(data.deadlineAt)}`]),
  ];
  const more = extra.length === 0 ? "" : `, ${extra.join(", ")}`;
  return `Job ${jobId} was submitted at ${showAt(at)}: ${what}, maxAttempts ${data.maxAttempts}${more}${delay}${blocked}.`;
}

function decidedBy(event: DecidedEvent, before: JobProgressFields, after: JobProgressFields, cancel: Asked | null) {
  const deferred = event.data.decision.kind === "retry" && after.defers > before.defers;
  return { event, after, deferred, cancel } satisfies Decided;
}

/** Closes the attempt that is open; a queue timeout has none. */
function tellDecided(decided: Decided, before: JobProgressFields, attempts: Ends<AttemptStory>): string[] {
  const { event } = decided;
  if (event.name === "job.queue_timeout") {
    return [tellExpiry(event.at, event.data.why, before), ...tellDecision(decided)];
  }
  if (event.name === "job.over_budget") {
    return [`At ${showAt(event.at)} it was due, and was not started.`, ...tellDecision(decided)];
  }
  const story = endAttempt(attempts.pop() as AttemptStory, event, decided);
  attempts.push(story);
  return tellAttempt(story, event, decided);
}

function tellExpiry(at: number, why: "queue_timeout" | "deadline", { runAt }: JobProgressFields): string {
  if (why === "deadline") return `At ${showAt(at)} its deadline for starting had passed, and no worker had started it.`;
  return `At ${showAt(at)}, ${showSpan(runAt, at)} after it was due, no worker had started it: its time in the queue (expireIn) was over.`;
}

function tellChanged(changed: ChangedTerms | undefined): string {
  return changed === undefined ? "" : `; changed: ${showTerms(changed)}`;
}

function grantedWords(budget: Partial<Amount> | undefined): string {
  if (budget === undefined) return "";
  return `; ${limitText({ tokens: budget.tokens ?? null, costUsd: budget.costUsd ?? null })} more was granted`;
}

type CommandEvent = Exclude<JobEvent, DecidedEvent | Submitted | { name: "attempt.started" }>;

function tellCommand(event: CommandEvent, asked: Asked, before: JobProgressFields, after: JobProgressFields): string {
  const by = askedBy(asked);
  switch (event.name) {
    case "job.cancel_requested":
      return `A cancel was requested ${by}, while attempt ${before.attempt} was running.`;
    case "job.cancelled":
      return `It was cancelled ${by}, while no attempt was running.`;
    case "job.discarded":
      return `It was discarded ${by}: taken out of the dead letters.`;
    case "job.unblocked":
      return `All that it waited for had ended at ${showAt(event.at)}: it was queued again.`;
    case "job.rescheduled":
      return `It was rescheduled ${by}: due at ${showAt(event.data.runAt)} instead of ${showAt(before.runAt)}.`;
    case "job.redriven":
      return `It was redriven ${by}: chapter ${after.chapter} began with all counters at zero, due at ${showAt(event.data.runAt)}${tellChanged(event.data.changed)}${grantedWords(event.data.budget)}.`;
  }
}
