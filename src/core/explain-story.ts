/** A job's history, event by event, in the order it happened. */
import { type Amount, limitText } from "./budget.ts";
import { showMs } from "./duration.ts";
import type { JobEvent } from "./event.ts";
import { type AttemptStory, beginAttempt, endAttempt, tellAttempt, tellRunning } from "./explain-attempt.ts";
import { type Asked, askedBy, type Decided, type DecidedEvent, isDecided, tellDecision } from "./explain-decision.ts";
import { tellSources } from "./explain-policy.ts";
import { evolve, foldEvents } from "./fold.ts";
import type { JobProgressFields } from "./job.ts";
import type { Policy } from "./policy.ts";
import { type ChangedTerms, showTerms } from "./redrive.ts";
import { quoted, showAt, showSpan } from "./show.ts";

export type Submitted = Extract<JobEvent, { name: "job.submitted" }>;

export interface Story {
  readonly submitted: Submitted;
  /** The job as it is now. */
  readonly job: JobProgressFields;
  readonly lines: readonly string[];
  readonly attempts: readonly AttemptStory[];
  /** The latest decision, and the latest cancel and discard of this chapter. */
  readonly decided: Decided | null;
  readonly cancel: Asked | null;
  readonly discard: Asked | null;
  /** What this chapter has spent of `maxAttempts`. */
  readonly spent: { readonly used: number; readonly limit: number };
}

export function tellStory(events: readonly JobEvent[], policy?: Policy): Story {
  const job = foldEvents(events); // refuses a broken history before a word of it is told
  const submitted = events[0] as Submitted;
  const lines = [tellSubmit(submitted), ...tellSources(submitted.data.sources, policy)];
  const attempts: AttemptStory[] = [];
  const fresh = { decided: null, cancel: null, discard: null, spent: { used: 0, limit: submitted.data.maxAttempts } };
  let chapter: Pick<Story, "decided" | "cancel" | "discard" | "spent"> = fresh;
  let before = foldEvents([submitted]);

  for (const event of events.slice(1)) {
    const after = evolve(before, event);
    if (event.name === "attempt.started") {
      attempts.push(beginAttempt(event, before));
    } else if (isDecided(event)) {
      const decided = decidedBy(event, before, after, chapter.cancel);
      lines.push(...tellDecided(decided, before, attempts));
      const { charge } = event.data.decision;
      chapter = { ...chapter, decided, ...(charge?.to === "maxAttempts" ? { spent: charge } : {}) };
    } else if (event.name !== "job.submitted") {
      const asked: Asked = { at: event.at, by: event.data.by };
      lines.push(tellCommand(event, asked, before, after));
      if (event.name === "job.redriven") {
        const limit = event.data.changed?.policy?.maxAttempts ?? chapter.spent.limit;
        chapter = { ...fresh, spent: { used: 0, limit } };
      } else if (event.name === "job.discarded") chapter = { ...chapter, discard: asked };
      else if (event.name !== "job.rescheduled" && event.name !== "job.unblocked")
        chapter = { ...chapter, cancel: asked };
    }
    before = after;
  }
  const last = attempts.at(-1);
  if (last?.endedAt === null) lines.push(tellRunning(last));
  return { submitted, job, lines, attempts, ...chapter };
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
function tellDecided(decided: Decided, before: JobProgressFields, attempts: AttemptStory[]): string[] {
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
