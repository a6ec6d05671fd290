/** The history of a job in sentences, from its events, oldest first: submit and policy, attempts, decisions and commands. */
import { type Amount, limitText } from "../decision/budget.ts";
import { showMs } from "../duration.ts";
import { quoted, showAt, showSpan } from "../format.ts";
import type { JobEvent } from "../job/event.ts";
import { currentEvent } from "../job/event-formats.ts";
import { BEFORE, evolve, foldEvents } from "../job/fold.ts";
import type { JobProgressFields } from "../job/job.ts";
import { type ChangedTerms, showTerms } from "../job/redrive.ts";
import type { Policy, PresetName } from "../policy/policy.ts";
import type { PolicySources } from "../policy/policy-sources.ts";
import { presets } from "../policy/presets.ts";
import { POLICY_SOURCES, type PolicySource } from "../task/submit-options.ts";
import { type AttemptHistory, attemptLines, endedAttempt, runningLine, startedAttempt } from "./attempt-text.ts";
import {
  type CommandOrigin,
  type DecidedEvent,
  type DecisionInHistory,
  decisionLines,
  endsAtMostOnce,
  isDecided,
  originText,
  type RetryRecord,
  type RetryWithLine,
  retryIn,
} from "./decision-text.ts";

const SOURCE_NAMES: Readonly<Record<PolicySource, string>> = {
  submit: "the submit",
  task: "the task",
  action: "the action",
  pack: "its pack",
  settings: "the settings",
};

/** Where the values of the policy came from. Empty for a job that an older version stored, unless its policy equals a preset. */
function policyLines(sources: PolicySources | undefined, policy: Policy | undefined): string[] {
  const preset = policy === undefined ? "the preset" : `preset ${quoted(policy.preset)}`;
  if (sources === undefined) {
    const isPreset = policy !== undefined && JSON.stringify(policy) === JSON.stringify(presets[policy.preset]);
    return isPreset ? [`  Policy: ${preset} without changes.`] : [];
  }
  const parts = POLICY_SOURCES.flatMap((source) => {
    const names = Object.keys(sources.from).filter((name) => sources.from[name] === source);
    return names.length === 0 ? [] : [`${names.join(", ")} from ${SOURCE_NAMES[source]}${publisher(source, sources)}`];
  });
  return [`  Policy: ${[...parts, `everything else from ${preset}`].join("; ")}.`];
}

function publisher(source: PolicySource, { session, worker }: PolicySources): string {
  if (source !== "task" || session === undefined) return "";
  return ` (published by worker ${quoted(worker ?? "")}, session ${session})`;
}

type SubmittedEvent = Extract<JobEvent, { name: "job.submitted" }>;

export interface JobHistory {
  readonly submitted: SubmittedEvent;
  /** The job as it is now. */
  readonly job: JobProgressFields;
  /** Only the first and the last steps where there are very many. */
  readonly lines: readonly string[];
  readonly attempts: readonly AttemptHistory[];
  readonly retries: readonly RetryWithLine[];
  readonly preset: PresetName | null;
  /** The latest events. */
  readonly recent: readonly JobEvent[];
  /** The latest decision, cancel and discard since the last redrive. */
  readonly decided: DecisionInHistory | null;
  readonly cancel: CommandOrigin | null;
  readonly discard: CommandOrigin | null;
  /** The attempts that count against `maxAttempts` since the last redrive. */
  readonly counted: { readonly used: number; readonly limit: number };
}

/** Steps that are kept of a long history. */
const FIRST = 100;
const LAST = 300;
/** Events that are kept to explain the current state. */
const RECENT = 200;

export function readHistory(events: readonly JobEvent[], policy?: Policy): JobHistory {
  const reader = new JobHistoryReader(policy);
  foldEvents(events); // throws for an incomplete history
  for (const event of events) reader.add(currentEvent(event) as JobEvent);
  return reader.history;
}

/** The lines about an event, and the retry that it leads to. */
interface HistoryStep {
  readonly lines: readonly string[];
  readonly retry: RetryRecord | null;
}

type SinceRedrive = Pick<JobHistory, "decided" | "cancel" | "discard" | "counted">;

/** Reads the events of a job one by one and keeps a bounded part of its history, so that no caller has to hold all events. */
export class JobHistoryReader {
  readonly #policy: Policy | undefined;
  readonly #steps = new FirstAndLast<HistoryStep>(FIRST, LAST);
  readonly #attempts = new FirstAndLast<AttemptHistory>(FIRST, LAST);
  readonly #recent = new FirstAndLast<JobEvent>(0, RECENT);
  #submitted: SubmittedEvent | null = null;
  #job: JobProgressFields = BEFORE;
  #deadlineAt: number | null = null;
  #sinceRedrive: SinceRedrive = { decided: null, cancel: null, discard: null, counted: { used: 0, limit: 0 } };

  constructor(policy?: Policy) {
    this.#policy = policy;
  }

  add(event: JobEvent): void {
    const before = this.#job;
    if (event.n !== before.revision + 1) throw new Error(`event ${event.n} follows event ${before.revision}`);
    const after = evolve(before, event);
    this.#job = after;
    this.#recent.push(event);
    if (event.name === "job.submitted") this.#addSubmit(event);
    else if (event.name === "attempt.started") this.#attempts.push(startedAttempt(event, before));
    else if (isDecided(event)) {
      const decided = decidedBy(event, before, after, this.#sinceRedrive);
      this.#steps.push({ lines: endLines(decided, before, this.#attempts, this.#deadlineAt), retry: retryIn(event) });
      this.#sinceRedrive = { ...this.#sinceRedrive, decided };
      const { charge } = event.data.decision;
      if (charge?.to === "maxAttempts") this.#sinceRedrive = { ...this.#sinceRedrive, counted: charge };
    } else if (event.name === "run.advanced" || event.name === "run.ended") {
      this.#steps.push({ lines: [runLine(event)], retry: null });
    } else this.#addCommand(event, before, after);
  }

  #addSubmit(submitted: SubmittedEvent): void {
    this.#submitted = submitted;
    this.#deadlineAt = submitted.data.deadlineAt ?? null;
    const lines = [submitLine(submitted), ...policyLines(submitted.data.sources, this.#policy)];
    this.#steps.push({ lines, retry: null });
    const counted = { used: 0, limit: submitted.data.maxAttempts };
    this.#sinceRedrive = { decided: null, cancel: null, discard: null, counted };
  }

  #addCommand(event: CommandEvent, before: JobProgressFields, after: JobProgressFields): void {
    const origin: CommandOrigin = { at: event.at, by: event.data.by };
    this.#steps.push({ lines: [commandLine(event, origin, before, after)], retry: retryIn(event) });
    switch (event.name) {
      case "job.redriven": {
        this.#deadlineAt = event.data.changed?.deadlineAt ?? this.#deadlineAt;
        const limit = event.data.changed?.policy?.maxAttempts ?? this.#sinceRedrive.counted.limit;
        this.#sinceRedrive = { decided: null, cancel: null, discard: null, counted: { used: 0, limit } };
        return;
      }
      case "job.discarded":
        this.#sinceRedrive = { ...this.#sinceRedrive, discard: origin };
        return;
      case "job.cancel_requested":
      case "job.cancelled":
        this.#sinceRedrive = { ...this.#sinceRedrive, cancel: origin };
    }
  }

  get history(): JobHistory {
    if (this.#submitted === null) throw new Error("a job has at least one event");
    const { first, last, omitted } = this.#steps;
    const gap = `(${omitted} steps are omitted here; the event list has all of them.)`;
    const steps = omitted === 0 ? [...first, ...last] : [...first, { lines: [gap], retry: null }, ...last];
    const lines: string[] = [];
    const retries: RetryWithLine[] = [];
    for (const step of steps) {
      lines.push(...step.lines);
      if (step.retry !== null) retries.push({ ...step.retry, line: lines.length - 1 });
    }
    const attempts = [...this.#attempts.first, ...this.#attempts.last];
    const running = attempts.at(-1);
    if (running?.endedAt === null) lines.push(runningLine(running));
    const { last: recent } = this.#recent;
    const preset = this.#policy?.preset ?? null;
    return {
      submitted: this.#submitted,
      job: this.#job,
      lines,
      attempts,
      retries,
      preset,
      recent,
      ...this.#sinceRedrive,
    };
  }
}

/** The first and the last items of a list that may be very long. */
class FirstAndLast<T> {
  readonly first: T[] = [];
  #last: T[] = [];
  #dropped = 0;
  readonly #limits: { readonly first: number; readonly last: number };

  constructor(first: number, last: number) {
    this.#limits = { first, last };
  }

  get last(): readonly T[] {
    return this.#last.slice(-this.#limits.last);
  }
  get omitted(): number {
    return this.#dropped + Math.max(0, this.#last.length - this.#limits.last);
  }

  push(item: T): void {
    if (this.first.length < this.#limits.first) this.first.push(item);
    else this.#last.push(item);
    if (this.#last.length < 2 * this.#limits.last) return;
    this.#dropped += this.#last.length - this.#limits.last;
    this.#last = this.#last.slice(-this.#limits.last);
  }

  /** Removes and returns the newest item. */
  pop(): T | undefined {
    return this.#last.length > 0 ? this.#last.pop() : this.first.pop();
  }
}

function submitLine({ at, jobId, data }: SubmittedEvent): string {
  const what = `kind ${quoted(data.kind)}, queue ${quoted(data.queue)}, namespace ${quoted(data.namespace)}`;
  const delay = data.runAt > at ? `, not before ${showAt(data.runAt)}` : "";
  const blocked = data.state === "blocked" ? ", initially blocked" : "";
  const extra = [
    ...(data.parentId === undefined ? [] : [`child of ${data.parentId}`]),
    ...(data.priority === undefined ? [] : [`priority ${data.priority}`]),
    ...(data.timeoutMs === undefined ? [] : [`timeout ${showMs(data.timeoutMs)}`]),
    ...(data.deadlineAt === undefined ? [] : [`deadline ${showAt(data.deadlineAt)}`]),
  ];
  const more = extra.length === 0 ? "" : `, ${extra.join(", ")}`;
  return `Job ${jobId} was submitted at ${showAt(at)}: ${what}, maxAttempts ${data.maxAttempts}${more}${delay}${blocked}.`;
}

function decidedBy(
  event: DecidedEvent,
  before: JobProgressFields,
  after: JobProgressFields,
  { cancel, counted }: SinceRedrive,
): DecisionInHistory {
  const deferred = event.data.decision.kind === "retry" && after.defers > before.defers;
  return { event, after, deferred, cancel, isAtMostOnce: endsAtMostOnce(event, counted.limit) };
}

/** The lines about an end; also ends the open attempt, which a queue timeout does not have. */
function endLines(
  decided: DecisionInHistory,
  before: JobProgressFields,
  attempts: FirstAndLast<AttemptHistory>,
  deadlineAt: number | null,
): string[] {
  const { event } = decided;
  if (event.name === "job.queue_timeout") {
    return [expiryLine(event.at, event.data.why, before, deadlineAt), ...decisionLines(decided)];
  }
  if (event.name === "job.over_budget") {
    return [`It was due at ${showAt(event.at)} and was not started.`, ...decisionLines(decided)];
  }
  const attempt = endedAttempt(attempts.pop() as AttemptHistory, event, decided);
  attempts.push(attempt);
  return attemptLines(attempt, event, decided);
}

function expiryLine(
  at: number,
  why: "queue_timeout" | "deadline",
  { runAt }: JobProgressFields,
  deadlineAt: number | null,
): string {
  if (why === "deadline") {
    const deadline = deadlineAt === null ? "" : `, ${showAt(deadlineAt)},`;
    return `Its deadline${deadline} passed before a worker started it.`;
  }
  return `It expired in the queue at ${showAt(at)}: no worker started it within ${showSpan(runAt, at)} of its due time (expireIn).`;
}

function changesText(changed: ChangedTerms | undefined): string {
  return changed === undefined ? "" : `; changed: ${showTerms(changed)}`;
}

function grantText(budget: Partial<Amount> | undefined): string {
  if (budget === undefined) return "";
  return `; budget raised by ${limitText({ tokens: budget.tokens ?? null, costUsd: budget.costUsd ?? null })}`;
}

type RunEvent = Extract<JobEvent, { name: "run.advanced" | "run.ended" }>;
type CommandEvent = Exclude<JobEvent, DecidedEvent | SubmittedEvent | RunEvent | { name: "attempt.started" }>;

/** In short: `explainRun` has the steps. */
function runLine(event: RunEvent): string {
  if (event.name === "run.ended") {
    const { state, step, message } = event.data;
    const where = step === null ? "" : ` at step ${quoted(step)}`;
    const why = message === null ? "" : `: ${message}`;
    return state === "cancelled"
      ? `The run was cancelled at ${showAt(event.at)}.`
      : `It ended as ${state} at ${showAt(event.at)}${where}${why}.`;
  }
  const { changes } = event.data;
  const ended = changes.filter((change) => change.do === "end").length;
  const started = changes.filter((change) => change.do === "start").length;
  return `The run advanced at ${showAt(event.at)}: ${count(ended, "step")} ended, ${count(started, "step")} started.`;
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

function commandLine(
  event: CommandEvent,
  origin: CommandOrigin,
  before: JobProgressFields,
  after: JobProgressFields,
): string {
  const requested = originText(origin);
  switch (event.name) {
    case "job.cancel_requested":
      return `A cancel was requested ${requested}, while attempt ${before.attempt} was running.`;
    case "job.cancelled":
      return `It was cancelled ${requested}, while no attempt was running.`;
    case "job.discarded":
      return `It was discarded ${requested}: removed from the dead letters.`;
    case "job.unblocked":
      return `All jobs it waited for had ended at ${showAt(event.at)}; it was queued again.`;
    case "job.rescheduled":
      return `It was rescheduled ${requested}: due at ${showAt(event.data.runAt)} instead of ${showAt(before.runAt)}.`;
    case "job.redriven":
      return `It was redriven ${requested} (redrive ${after.chapter - 1}): counters reset, due at ${showAt(event.data.runAt)}${changesText(event.data.changed)}${grantText(event.data.budget)}.`;
  }
}
