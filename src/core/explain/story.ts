/** The history of a job in lines, from its events: submit and policy, attempts, decisions and commands. */

import { type Amount, limitText } from "../decision/budget.ts";
import { showMs } from "../duration.ts";
import { quoted, showAt, showSpan } from "../format.ts";
import type { JobEvent } from "../job/event.ts";
import { BEFORE, evolve, foldEvents } from "../job/fold.ts";
import type { JobProgressFields } from "../job/job.ts";
import { type ChangedTerms, showTerms } from "../job/redrive.ts";
import type { Policy, PresetName } from "../policy/policy.ts";
import type { PolicySources } from "../policy/policy-sources.ts";
import { presets } from "../policy/presets.ts";
import { POLICY_SOURCES, type PolicySource } from "../task/submit-options.ts";
import { type AttemptHistory, beginAttempt, endAttempt, tellAttempt, tellRunning } from "./attempt-text.ts";
import {
  askedBy,
  type CommandOrigin,
  type DecidedEvent,
  type DecisionInHistory,
  isDecided,
  type RetryRecord,
  type RetryWithLine,
  retryIn,
  tellDecision,
} from "./decision-text.ts";

// Where the values of a job's policy came from, in a sentence.

const CALLED: Readonly<Record<PolicySource, string>> = {
  submit: "the submit",
  task: "the task",
  action: "the action",
  pack: "its pack",
  settings: "the settings",
};

/** Nothing of a job that an older version stored, unless its policy is a preset's as it is. */
function tellSources(sources: PolicySources | undefined, policy: Policy | undefined): string[] {
  const preset = policy === undefined ? "the preset" : `preset ${quoted(policy.preset)}`;
  if (sources === undefined) {
    const isPreset = policy !== undefined && JSON.stringify(policy) === JSON.stringify(presets[policy.preset]);
    return isPreset ? [`  Its policy is ${preset}: no other values were given.`] : [];
  }
  const parts = POLICY_SOURCES.flatMap((source) => {
    const names = Object.keys(sources.from).filter((name) => sources.from[name] === source);
    return names.length === 0 ? [] : [`${names.join(", ")} from ${CALLED[source]}${by(source, sources)}`];
  });
  return [`  Its policy: ${[...parts, `all else from ${preset}`].join("; ")}.`];
}

function by(source: PolicySource, { session, worker }: PolicySources): string {
  if (source !== "task" || session === undefined) return "";
  return ` (published by worker ${quoted(worker ?? "")}, session ${session})`;
}

// A job's history, event by event, in the order it happened.

type SubmittedEvent = Extract<JobEvent, { name: "job.submitted" }>;

export interface JobHistory {
  readonly submitted: SubmittedEvent;
  /** The job as it is now. */
  readonly job: JobProgressFields;
  /** Of a job with very many attempts, the first and the last. */
  readonly lines: readonly string[];
  readonly attempts: readonly AttemptHistory[];
  readonly retries: readonly RetryWithLine[];
  readonly preset: PresetName | null;
  /** The latest events. */
  readonly recent: readonly JobEvent[];
  /** The latest decision, and the latest cancel and discard of this chapter. */
  readonly decided: DecisionInHistory | null;
  readonly cancel: CommandOrigin | null;
  readonly discard: CommandOrigin | null;
  /** What this chapter has spent of `maxAttempts`. */
  readonly spent: { readonly used: number; readonly limit: number };
}

/** The story of a job with very many attempts leaves out those between the first and the last of them. */
const FIRST = 100;
const LAST = 300;
/** Events that say why it is where it is now. */
const RECENT = 200;

export function tellStory(events: readonly JobEvent[], policy?: Policy): JobHistory {
  const teller = new JobHistoryReader(policy);
  foldEvents(events); // refuses a broken history before a word of it is told
  for (const event of events) teller.add(event);
  return teller.story;
}

/** The lines about an event, and the retry that it grants. */
interface HistoryStep {
  readonly lines: readonly string[];
  readonly retry: RetryRecord | null;
}

type Chapter = Pick<JobHistory, "decided" | "cancel" | "discard" | "spent">;

/** Takes the events of a job one after the other, so that nobody has to hold all of them, and keeps a bounded part of the story. */
export class JobHistoryReader {
  readonly #policy: Policy | undefined;
  readonly #steps = new FirstAndLast<HistoryStep>(FIRST, LAST);
  readonly #attempts = new FirstAndLast<AttemptHistory>(FIRST, LAST);
  readonly #recent = new FirstAndLast<JobEvent>(0, RECENT);
  #submitted: SubmittedEvent | null = null;
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
      const asked: CommandOrigin = { at: event.at, by: event.data.by };
      this.#steps.push({ lines: [tellCommand(event, asked, before, after)], retry: retryIn(event) });
      if (event.name === "job.redriven") {
        const limit = event.data.changed?.policy?.maxAttempts ?? this.#chapter.spent.limit;
        this.#chapter = { decided: null, cancel: null, discard: null, spent: { used: 0, limit } };
      } else if (event.name === "job.discarded") this.#chapter = { ...this.#chapter, discard: asked };
      else if (event.name !== "job.rescheduled" && event.name !== "job.unblocked")
        this.#chapter = { ...this.#chapter, cancel: asked };
    }
  }

  #begin(submitted: SubmittedEvent): void {
    this.#submitted = submitted;
    const lines = [tellSubmit(submitted), ...tellSources(submitted.data.sources, this.#policy)];
    this.#steps.push({ lines, retry: null });
    const spent = { used: 0, limit: submitted.data.maxAttempts };
    this.#chapter = { decided: null, cancel: null, discard: null, spent };
  }

  get story(): JobHistory {
    if (this.#submitted === null) throw new Error("a job has at least one event");
    const { first, last, leftOut } = this.#steps;
    const gap = `(${leftOut} steps between are left out here; the events show all of them.)`;
    const steps = leftOut === 0 ? [...first, ...last] : [...first, { lines: [gap], retry: null }, ...last];
    const lines: string[] = [];
    const retries: RetryWithLine[] = [];
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
class FirstAndLast<T> {
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

function tellSubmit({ at, jobId, data }: SubmittedEvent): string {
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

function decidedBy(
  event: DecidedEvent,
  before: JobProgressFields,
  after: JobProgressFields,
  cancel: CommandOrigin | null,
) {
  const deferred = event.data.decision.kind === "retry" && after.defers > before.defers;
  return { event, after, deferred, cancel } satisfies DecisionInHistory;
}

/** Closes the attempt that is open; a queue timeout has none. */
function tellDecided(
  decided: DecisionInHistory,
  before: JobProgressFields,
  attempts: FirstAndLast<AttemptHistory>,
): string[] {
  const { event } = decided;
  if (event.name === "job.queue_timeout") {
    return [tellExpiry(event.at, event.data.why, before), ...tellDecision(decided)];
  }
  if (event.name === "job.over_budget") {
    return [`At ${showAt(event.at)} it was due, and was not started.`, ...tellDecision(decided)];
  }
  const story = endAttempt(attempts.pop() as AttemptHistory, event, decided);
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

type CommandEvent = Exclude<JobEvent, DecidedEvent | SubmittedEvent | { name: "attempt.started" }>;

function tellCommand(
  event: CommandEvent,
  asked: CommandOrigin,
  before: JobProgressFields,
  after: JobProgressFields,
): string {
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
