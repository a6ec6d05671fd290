/** Tells a job's story in plain sentences, from its events alone: what it is, what each attempt did, which rule or
 *  step decided and at what cost, and then why it waits, or why it ended and what can be done about it.
 *  Pure: the same history at the same instant gives the same text. The events must be all there are of one job, in
 *  order; otherwise it throws what `foldEvents` throws. */

import { chargedText } from "./budget.ts";
import type { JobEvent } from "./event.ts";
import { type AttemptStory, failureWords } from "./explain-attempt.ts";
import { type Asked, askedBy, because } from "./explain-decision.ts";
import { adviceOn } from "./explain-end.ts";
import type { StepRetry } from "./explain-retry.ts";
import { type Story, tellStory } from "./explain-story.ts";
import { type Surroundings, tellWait, type WaitReason } from "./explain-wait.ts";
import type { FailReason, JobState } from "./job.ts";
import type { Policy, PresetName } from "./policy.ts";
import type { PolicySources } from "./policy-sources.ts";
import { counted, quoted, showAt, showSpan, showText } from "./show.ts";

/** What `explain` goes by: the events of a job, and what is known of workers and queues.
 *  @example
 *  const input: ExplainInput = { events, now: Date.now() }; */
export interface ExplainInput {
  readonly events: readonly JobEvent[];
  readonly now: number;
  /** Reports that came after their attempt had been closed. */
  readonly lateReports?: readonly LateReportSeen[];
  /** Live sessions that could run the job, and all live ones. Left out, nothing is said about them. */
  readonly capableSessions?: number;
  readonly liveSessions?: number;
  readonly queuePausedAt?: number | null;
  /** It is running in a session that does not exist any more. */
  readonly isOrphan?: boolean;
  /** The job's; left out, a preset is not named. */
  readonly policy?: Policy;
}

export interface LateReportSeen {
  readonly attempt: number;
  readonly at: number;
  readonly session: string | null;
  readonly outcome: string;
}

/** What happens next, and who has to act. */
export type Next =
  /** It runs at `at` or later, as soon as none of the reasons holds any more. */
  | {
      readonly kind: "run";
      readonly at: number;
      readonly waitsFor: readonly WaitReason[];
      readonly expiresAt: number | null;
    }
  /** The running attempt ends, by its report or as lost. */
  | { readonly kind: "report"; readonly attempt: number; readonly cancelling: boolean }
  /** All of these jobs end. */
  | { readonly kind: "unblock"; readonly waitsFor: readonly string[] }
  /** Nothing, unless a person asks for it. */
  | { readonly kind: "person"; readonly may: readonly ("redrive" | "discard")[] }
  | { readonly kind: "nothing" };

/** Why a job is where it is, and what happens next.
 *  @example
 *  const { summary, next }: Explanation = await job.explain();
 *  console.log(summary, next.kind); */
export interface Explanation {
  readonly jobId: string;
  readonly kind: string;
  readonly queue: string;
  readonly namespace: string;
  readonly submittedAt: number;
  readonly state: JobState;
  readonly reason: FailReason | null;
  readonly chapter: number;
  /** When it may run next; null unless it is queued. */
  readonly nextRunAt: number | null;
  readonly next: Next;
  readonly attempts: readonly AttemptStory[];
  /** What was granted and why, oldest first: each retry, and each redrive. */
  readonly retries: readonly StepRetry[];
  /** Of its policy; null where that is not known. */
  readonly preset: PresetName | null;
  /** Where the values of its policy came from; null where none was given, and for jobs of older versions. */
  readonly sources: PolicySources | null;
  /** How things stand, in one line. */
  readonly summary: string;
  /** The whole story, oldest first; indented lines belong to the one above. */
  readonly lines: readonly string[];
  /** The summary and the lines. */
  readonly text: string;
}

/** Says from the events of a job why it is where it is, and what happens next.
 *  @example
 *  console.log(explain({ events, now: Date.now() }).text); */
export function explain(input: ExplainInput): Explanation {
  return explainStory(tellStory(input.events, input.policy), input);
}

/** The same for a story that was told event by event. */
export function explainStory(story: Story, input: Around): Explanation {
  const { submitted, job, attempts, retries, preset } = story;
  const { kind, queue, namespace } = submitted.data;
  const standing = stand(story, input);
  const lines = [...story.lines, ...(input.lateReports ?? []).map(tellLate), ...standing.lines];
  const { state, reason, chapter } = job;
  return {
    ...{ jobId: submitted.jobId, kind, queue, namespace, submittedAt: submitted.at },
    ...{ state, reason, chapter, nextRunAt: state === "queued" ? job.runAt : null, next: standing.next, attempts },
    ...{ retries, preset },
    sources: submitted.data.sources ?? null,
    ...{ summary: standing.summary, lines, text: [standing.summary, ...lines].join("\n") },
  };
}

function tellLate({ attempt, at, session, outcome }: LateReportSeen): string {
  const from = session === null ? "" : ` from session ${quoted(session)}`;
  return `A late report of attempt ${attempt} (${showText(outcome)})${from} arrived at ${showAt(at)} and changed nothing.`;
}

/** How a job stands now: the summary, what is to be said below its history, and what comes next. */
interface Standing {
  readonly summary: string;
  readonly lines: readonly string[];
  readonly next: Next;
}

type Around = Omit<ExplainInput, "events" | "policy">;

function stand(story: Story, input: Around): Standing {
  const { job } = story;
  switch (job.state) {
    case "queued":
      return standQueued(story, input);
    case "running":
      return standRunning(story, input);
    case "blocked":
      return standBlocked(story, input);
    case "succeeded": {
      const took = `${showSpan(story.submitted.at, job.finishedAt as number)} after its submission`;
      const summary = `Succeeded at ${showAt(job.finishedAt as number)}, ${took}; ${spent(story)}.`;
      return { summary, lines: [], next: { kind: "nothing" } };
    }
    case "failed":
      return standFailed(story);
    case "cancelled": {
      const asked = story.cancel === null ? "" : `, as asked ${askedBy(story.cancel)}`;
      const summary = `Cancelled at ${showAt(job.finishedAt as number)}${asked}; ${spent(story)}.`;
      const lines = ["A redrive would run it again, in a new chapter with a fresh budget."];
      return { summary, lines, next: { kind: "person", may: ["redrive"] } };
    }
  }
}

function standQueued(story: Story, input: Around): Standing {
  const { job, submitted } = story;
  const around: Surroundings = {
    ...{ now: input.now, kind: submitted.data.kind, queue: submitted.data.queue },
    labels: submitted.data.labels ?? {},
    ...{ capableSessions: input.capableSessions, liveSessions: input.liveSessions },
    queuePausedAt: input.queuePausedAt ?? null,
  };
  const { summary, lines, reasons } = tellWait(job, story.recent, around);
  const next: Next = { kind: "run", at: job.runAt, waitsFor: reasons, expiresAt: job.expiresAt };
  return { summary: `${summary}; ${spent(story)}.`, lines, next };
}

function standBlocked(story: Story, { now }: Around): Standing {
  const cause = story.recent.findLast((event) => event.name === "attempt.waiting");
  if (cause === undefined) {
    const summary = "Blocked: it waits for something other than time (its children, earlier steps or a person).";
    return { summary, lines: [], next: { kind: "unblock", waitsFor: [] } };
  }
  const { waitsFor } = cause.data;
  const since = `since ${showAt(cause.at)} (for ${showSpan(cause.at, now)})`;
  return {
    summary: `Blocked ${since}: it waits for ${counted(waitsFor.length, "child", "children")} to end; ${spent(story)}.`,
    lines: [`It waits for ${shortList(waitsFor)}. When all of them have ended it runs again, from the top.`],
    next: { kind: "unblock", waitsFor },
  };
}

const NAMED = 5;

function shortList(ids: readonly string[]): string {
  const more = ids.length - NAMED;
  return ids.slice(0, NAMED).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

function standRunning(story: Story, { now, isOrphan = false }: Around): Standing {
  const { job, cancel } = story;
  const { worker, startedAt } = story.attempts.at(-1) as AttemptStory;
  const where = `attempt ${job.attempt} on worker ${quoted(worker)}`;
  const asked = cancel === null ? "" : `, asked to stop ${askedBy(cancel)}`;
  const span = `since ${showAt(startedAt)} (for ${showSpan(startedAt, now)})`;
  return {
    summary: `Running: ${where} ${span}${asked}; ${spent(story)}.`,
    lines: isOrphan ? [orphaned(cancel !== null)] : cancel === null ? [] : [stopping(cancel, now)],
    next: { kind: "report", attempt: job.attempt, cancelling: cancel !== null },
  };
}

function orphaned(isCancelled: boolean): string {
  const gone = "Its session does not exist any more, so that no worker can report it:";
  if (isCancelled)
    return `${gone} a server, or the next engine on this data, cancels it; a repeated cancel does so at once.`;
  return `${gone} a server, or the next engine on this data, requeues it as lost; a cancel ends it at once.`;
}

function stopping({ at }: Asked, now: number): string {
  return `The cancel has been waiting for ${showSpan(at, now)}: it takes effect when the attempt ends or its lease does, unless the task completes first.`;
}

function standFailed(story: Story): Standing {
  const { job, decided, discard, submitted } = story;
  const at = `Failed (${job.reason}) at ${showAt(job.finishedAt as number)}`;
  const cause = decided === null ? "" : `, because ${because(decided)}`;
  const failure = decided?.event.data.failure;
  const last = failure === undefined ? "" : ` The last failure was ${failureWords(failure)}.`;
  const advice = decided === null ? [] : [adviceOn(job.reason as FailReason, decided, submitted.data)];
  if (discard !== null) {
    const summary = `${at} and discarded ${askedBy(discard)}${cause}; ${spent(story)}.${last}`;
    const lines = ["It is no longer among the dead letters; a redrive would still bring it back."];
    return { summary, lines, next: { kind: "person", may: ["redrive"] } };
  }
  const summary = `${at}${cause}; ${spent(story)}.${last}`;
  const lines = [...advice, "It stays among the dead letters until someone redrives or discards it."];
  return { summary, lines, next: { kind: "person", may: ["redrive", "discard"] } };
}

/** "run 7, 4 of 5 charged", and the losses where they have a budget of their own. */
function spent({ job, spent }: Story): string {
  return `${job.attempt === 0 ? "no run yet" : `run ${job.attempt}`}, ${chargedText(spent, job.losses)}`;
}
