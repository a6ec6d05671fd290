/** The port between the engine and a database. All verbs are asynchronous and take lists; the pure functions of
 *  `core` go in, no transaction comes out. Each verb is durable when its promise resolves, and items of one list are
 *  answered one by one: a bad item never fails its neighbours. Time is always an argument.
 *  Only `insert`, `claim`, `settle` and `amend` change a job: under its row's lock, checked on
 *  (job, attempt, state), with one event in the same transaction. */
import type { AccessToken } from "../core/access.ts";
import type { BudgetNow } from "../core/decision/budget.ts";
import type { Crash } from "../core/decision/evidence.ts";
import type { Failure } from "../core/decision/failure.ts";
import type { Command, CommandDecision } from "../core/job/command.ts";
import type { EngineRecord, PerdureEvent } from "../core/job/event.ts";
import type { Job, JobState, Usage } from "../core/job/job.ts";
import type { Settlement, Submission } from "../core/job/lifecycle.ts";
import type { AttemptRow, LateReport, QueueCounts, SessionRow } from "../core/job/views.ts";
import type { Policy } from "../core/policy/policy.ts";
import type { TransactionClient } from "../core/task/task.ts";
import type { NewSession, RefusedItem, RenewAnswer, Report, SettleAnswer } from "../core/worker-protocol.ts";
import type { Blobs } from "./blobs.ts";
import type { BeatTime, ClockMark } from "./clock-mark.ts";
import type { JobFilter, Reachable, ReachableQuery, Unblockable, UnblockableQuery } from "./job-queries.ts";
import type { LaneUse, LaneUseQuery } from "./lane.ts";
import type { AttemptLog, AttemptsPage, EventPage, EventQuery, SessionsQuery } from "./pages.ts";
import type { ClaimAnswer, ClaimRequest, PublishedDefaults, RenewRequest, WithdrawRequest } from "./worker-requests.ts";

export type { AttemptRow, LateReport, QueueCounts, SessionRow } from "../core/job/views.ts";
export type { TransactionClient } from "../core/task/task.ts";
export type { BeatTime, ClockMark, WallMark } from "./clock-mark.ts";
export type {
  JobFilter,
  Reachable,
  ReachableJob,
  ReachableQuery,
  Unblockable,
  UnblockableJob,
  UnblockableQuery,
} from "./job-queries.ts";
export type { LaneUse, LaneUseQuery, NewLane } from "./lane.ts";
export {
  ATTEMPT_LOG,
  ATTEMPTS_CHARS,
  ATTEMPTS_PAGE,
  type AttemptLog,
  type AttemptsPage,
  type EventOrder,
  type EventPage,
  type EventQuery,
  LOG_PAGE,
  SESSIONS_PAGE,
  type SessionsQuery,
} from "./pages.ts";
export type { ClaimAnswer, ClaimRequest, OverBudgetJob, RenewRequest, WithdrawRequest } from "./worker-requests.ts";

export interface Store {
  /** Claims of one worker that are worth making at a time: more than one where the database works while we do. */
  readonly claimsAtOnce: number;
  /** Jobs of a list that it takes at a time, and whether it stores one list while the next is made. */
  readonly lists: { readonly together: number; readonly beside: boolean };
  /** Stores new jobs, or finds those that their submit keys already name. */
  insert(items: readonly NewJob[], now: number): Promise<InsertAnswer[]>;
  /** The same within a transaction of the caller's, for jobs without parents: it is there when that is committed, and never if
   *  it is not. Not every store can do it. */
  insertWithin?(client: TransactionClient, items: readonly NewJob[], now: number): Promise<InsertAnswer[]>;
  /** The store's own clock, where it has one: then it is everybody's. */
  serverTime?(): Promise<number>;
  /** Where the store has none: points that its time line had come to; it is continued from the latest of them. */
  clockMarks?(): Promise<ClockMark[]>;
  /** Starts due jobs for a session, lowest priority number first, then the longest due. */
  claim(requests: readonly ClaimRequest[], now: number): Promise<ClaimAnswer[]>;
  /** A reply to a claim could not be delivered: nothing is ever given out under its id again. The answer is what the session
   *  still holds of it, to be settled as released; nothing where another reply with the same jobs was given since. */
  withdrawClaim(request: WithdrawRequest): Promise<{ readonly jobId: string; readonly attempt: number }[]>;
  /** Extends session leases; tells which attempts are no longer held and which are to be cancelled. */
  renew(requests: readonly RenewRequest[], now: number): Promise<RenewAnswer[]>;
  /** Closes attempts. What `decide` says is written only where the row, under its lock, is the job that it was shown; if
   *  a store had another in mind it asks again. */
  settle(reports: readonly Report[], now: number, decide: DecideReport): Promise<SettleAnswer[]>;
  /** Jobs whose attempts or waiting time have run out, and running ones whose session does not exist or was given up before. Read only; `settle` checks each again under its lock. */
  expired(query: ExpiredQuery): Promise<ExpiredJob[]>;
  /** Applies operators' commands. Those in the name of a parent are for its children: it is locked before them, and what it
   *  is then stays true until they are written; if it has ended, so are those above it up to the one whose cancel counts.
   *  The answers are without payloads and results: a list of commands may be long, and most who give it show them to
   *  nobody. */
  amend(
    commands: readonly { readonly jobId: string; readonly command: Command }[],
    now: number,
    decide: DecideCommand,
    parentId?: string,
  ): Promise<AmendAnswer[]>;

  /** Blocked jobs of which all that they wait for have ended, or are not there: of these parents, or of all. Of all means:
   *  a call looks at some of them, and the next goes on from there. */
  unblockable(query: UnblockableQuery): Promise<Unblockable>;
  /** How many children each of these jobs has. */
  childCounts(parents: readonly string[]): Promise<number[]>;
  /** Children that a cancel of their parent concerns, oldest first: those that live and have not been asked yet, and those that
   *  ended and have children themselves, of whom one may live. Not those that ended with a cascade of their own. */
  reachable(query: ReachableQuery): Promise<Reachable>;
  /** Jobs with children whose cancel was asked for, and not yet passed on to all of them. */
  cascades(limit: number): Promise<string[]>;
  /** The children of this job have all been asked. Where one was not, it stays among the cascades. */
  cascaded(jobId: string): Promise<void>;
  /** What a running attempt says it has used so far, in all. It never shrinks: of two numbers the larger counts. False if the
   *  attempt is not running. */
  setUsage(jobId: string, attempt: number, usage: Usage): Promise<boolean>;

  jobs(ids: readonly string[]): Promise<(JobRow | null)[]>;
  /** The same without payloads and results, which may be megabytes each: for whoever decides by them, and shows nothing. */
  facts(ids: readonly string[]): Promise<(Job | null)[]>;
  /** Those of these jobs that have ended. Cheap: for many who wait. */
  ended(ids: readonly string[]): Promise<string[]>;
  /** A call checks a bounded number of jobs (`find-scan.ts`): a page may be short, or empty, and there are more while `next`
   *  is not null. By a key, and among few jobs, pages are full. */
  find(filter: JobFilter): Promise<{ readonly jobs: JobRow[]; readonly next: string | null }>;
  /** Everything recorded about one job, for `explain`. Without its events, where they are read a page at a time: there may be
   *  hundreds of thousands. */
  history(jobId: string, options?: { readonly events: boolean }): Promise<History | null>;
  /** Closed attempts, oldest first, with their results, a page at a time: as many as fit, and at least one. There may be more
   *  after the last of them while there are any. */
  attempts(jobId: string, page?: AttemptsPage): Promise<AttemptRow[]>;
  /** How the last closed attempt of each of these jobs failed; null where it did not, or there is none. */
  lastFailures(ids: readonly string[]): Promise<(Failure | null)[]>;
  /** What an attempt has logged so far, also while it runs, a page at a time, from `after` on (0: the beginning). Where no
   *  attempt is named, that of the latest that logged anything. Null where nothing is left to read. */
  log(jobId: string, attempt: number | null, after?: number): Promise<AttemptLog | null>;
  events(query: EventQuery): Promise<PerdureEvent[]>;
  /** The same, and how far it looked: whoever goes on from there never looks at what does not concern it again. */
  eventPage(query: EventQuery): Promise<EventPage>;
  /** The sequence number of the newest event. */
  lastSeq(): Promise<number>;

  /** False where its owner has as many live ones as it may: then nothing is stored. */
  openSession(session: NewSession, now: number): Promise<boolean>;
  /** What the newest session that serves this kind publishes for it, a live one before one that has ended; null where none
   *  publishes anything. Cheap: by an index, and at most the newest thousand are read. */
  taskDefaults(namespace: string, kind: string): Promise<PublishedDefaults | null>;
  /** Ends a session: it stopped in good order, or its process is known to be gone. What it still holds is lost, and is
   *  found by `expired` at once, also while reaping is held. */
  closeSession(id: string, now: number, why?: "stopped" | "gone"): Promise<void>;
  /** Gives a session no more jobs; it is told so when it claims or renews. What it holds stays its own. */
  drainSession(id: string, now: number, by?: string | null): Promise<DrainAnswer>;
  /** Those that are alive or ended lately, oldest first, a page at a time: after the last of a full page there may be more. */
  sessions(query?: SessionsQuery): Promise<SessionRow[]>;
  /** One of them; its number of running jobs is not counted. */
  session(id: string): Promise<SessionRow | null>;
  /** How these sessions call their workers. */
  workerNames(ids: readonly string[]): Promise<ReadonlyMap<string, string>>;
  /** What is asked of those that have not ended, each second: nothing of what they serve, which may be long. */
  openSessions(): Promise<OpenSession[]>;
  /** Attempts of these sessions for which a cancel is wanted. */
  cancelsFor(sessions: readonly string[]): Promise<{ readonly jobId: string; readonly attempt: number }[]>;

  /** Exact where there are few jobs. Of many they are kept for a while: they may be two seconds old for each million of jobs,
   *  and not of one moment. */
  counts(namespace: string | null, now: number): Promise<QueueCounts[]>;
  /** How many lanes a namespace has. */
  laneCount(namespace: string): Promise<number>;
  /** How many different policies are stored. */
  policyCount(): Promise<number>;
  /** How many lanes there are, how many of them this owner made, and which of these there are: what quotas go by. */
  laneUse(query: LaneUseQuery): Promise<LaneUse>;
  setPaused(namespace: string, queue: string, paused: boolean, now: number, by?: string | null): Promise<void>;

  /** Says that an engine is awake. After a gap, or a jump of the clock, nothing may be reaped for `holdMs`. Held for ever
   *  means: another engine is at it this moment, and what it found is not known yet. */
  beat(beat: Beat): Promise<BeatAnswer>;
  prune(query: PruneQuery): Promise<PruneAnswer>;

  /** Stores a new token, with an event that says who asked for it, as far as it is known; so do `revokeToken` and the others with `by`. One whose id or hash is taken is refused (`store_refused`). */
  addToken(token: AccessToken, by?: string | null): Promise<void>;
  /** All of them, the revoked too, oldest first. */
  tokens(): Promise<AccessToken[]>;
  /** False if there is none, or it was revoked before: then the first instant stays. */
  revokeToken(id: string, now: number, by?: string | null): Promise<boolean>;

  /** A text that all who use this store share, or null. */
  setting(name: string): Promise<string | null>;
  /** Sets it unless it is set. The answer is what is stored now, whoever came first. */
  setSettingIfAbsent(name: string, value: string): Promise<string>;
  /** Changes a setting that has the value `from`; with `to: null` it is deleted. False if it has another value, or none. */
  replaceSetting(name: string, from: string, to: string | null, record?: EngineRecord): Promise<boolean>;
  /** The secret with which servers of earlier versions signed: they kept it in the database. Null once it has been erased. */
  formerSecret(): Promise<string | null>;
  /** Deletes it, and what is left of it in the files of the database, as far as the store can. */
  eraseFormerSecret(): Promise<void>;
  /** Keeps what attempts leave in the database itself, where it can. Several servers share it without sharing a disk. */
  blobs?(): Blobs;

  /** Why it takes no writes; null if nothing is wrong. A store that can be opened again by itself has it. `cause` may have paths. */
  fault?(): { readonly kind: "disk" | "damaged"; readonly cause: string } | null;

  /** Calls back when another process may have written. A hint: missing one costs a poll interval, no job. */
  watch(listener: () => void): () => void;
  close(): Promise<void>;
}

// Submit.

export interface NewJob {
  readonly id: string;
  readonly namespace: string;
  readonly queue: string;
  readonly kind: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly priority: number;
  readonly runAt: number;
  readonly timeoutMs: number | null;
  readonly expireInMs: number | null;
  readonly deadlineAt: number | null;
  readonly key: string | null;
  /** Hash of kind, queue and payload; two with a space between, where the queue was left open; null without a key. A key
   *  belongs to the same job where one is equal: see `isSameBody`. */
  readonly bodyHash: string | null;
  readonly tags: readonly string[];
  readonly payload: string;
  readonly policy: Policy;
  /** Content hash of the policy: it is stored once. */
  readonly policyHash: string;
  /** Whose quota its lane counts for, where that is new. */
  readonly owner?: string | null;
  /** The parent, under whose lock it is stored: refused with `parent_ended` unless that one is there, in the same namespace,
   *  has not ended and no cancel was asked for; and where an attempt is named, is running that one. */
  readonly parent: { readonly id: string; readonly attempt: number | null } | null;
  readonly depth: number;
  /** JSON text, or null for none. */
  readonly annotations: string | null;
  /** What people see and search for; null for a job that is called by its kind. */
  readonly name: string | null;
  /** The action it came from. */
  readonly action: string | null;
  /** The submission's event and the state that follows. */
  readonly transition: Submission;
}

export type InsertAnswer =
  | { readonly status: "inserted"; readonly id: string }
  /** The key names this job already. `pruned` when only its stub is left. */
  | {
      readonly status: "exists";
      readonly id: string;
      readonly state: JobState;
      readonly chapter: number;
      readonly pruned: boolean;
    }
  | { readonly status: "conflict"; readonly id: string }
  | RefusedItem;

export type OpenSession = Pick<
  SessionRow,
  "id" | "namespace" | "host" | "pid" | "process" | "startedAt" | "drainingAt"
>;

export type DrainAnswer = "draining" | "ended" | "unknown";

// Settle.

/** What `settle` knows beside the job: the session that held it. */
export interface AttemptLease {
  readonly session: string | null;
  readonly renewedAt: number | null;
  /** The session had ended, in good order or not, or its row is missing. */
  readonly ended: boolean;
  /** Usage reported while it ran, for a run that ended without a report. */
  readonly usage: Usage | null;
  /** The budgets that cover it, the nearest first, without what this attempt held of them. */
  readonly budgets: readonly BudgetNow[];
  /** Of an attempt that is said to be lost: what is known of that. */
  readonly crash?: Crash | undefined;
}

export type DecideReport = (job: Job, report: Report, held: AttemptLease) => Settlement;

/** A parent as it is now, under its lock. */
export interface ParentNow {
  readonly state: JobState;
  readonly attempt: number;
  readonly cancelRequestedAt: number | null;
}

/** The parent in whose name a command is given. */
export interface NamedParent extends ParentNow {
  /** A cancel stands: its own, or, where it had ended without one, that of the nearest above it who has not. */
  readonly isCancelled: boolean;
}

/** `parent`: of commands in its name; null where it is not there, or none was named. `budgets`: those that cover the job, the
 *  nearest first. */
export type DecideCommand = (
  job: Job,
  command: Command,
  parent: NamedParent | null,
  budgets: readonly BudgetNow[],
) => CommandDecision;

export interface ExpiredQuery {
  readonly now: number;
  readonly limit: number;
}
export interface ExpiredJob {
  readonly jobId: string;
  readonly attempt: number;
  readonly why: "lost" | "queue_timeout" | "deadline";
}

export type AmendAnswer =
  | { readonly status: "applied" | "noop"; readonly message: string | null; readonly job: Job }
  | { readonly status: "refused_command"; readonly message: string; readonly isBudget: boolean }
  | { readonly status: "unknown_job" }
  | RefusedItem;

// Reading.

/** A job as people see it. */
export interface JobRow extends Job {
  readonly payload: string;
  readonly progress: string | null;
  /** Of the winning attempt. */
  readonly result: string | null;
  readonly annotations: Readonly<Record<string, string>>;
  /** For people; never empty. */
  readonly name: string;
  /** How its last attempt failed, of a job that failed or goes on after it; without the stack, null where that attempt had no
   *  failure. */
  readonly failure: Failure | null;
  /** What the running attempt has used so far, as it has reported. */
  readonly liveUsage: Usage | null;
  /** The budgets that cover it, the nearest first. */
  readonly budgets: readonly BudgetNow[];
}

export interface History {
  readonly job: JobRow;
  readonly events: readonly (PerdureEvent & { readonly jobId: string })[];
  readonly lateReports: readonly LateReport[];
  /** Live sessions that could run it, and whether its queue is paused: for why it waits. */
  readonly capableSessions: number;
  readonly liveSessions: number;
  readonly queuePausedAt: number | null;
  /** It is running, and the row of its session is missing. */
  readonly isOrphan: boolean;
}

// Upkeep.

export interface Beat {
  /** Read when the beat is stored, under its lock: it may wait for that, while others beat. */
  readonly time: () => BeatTime;
  /** A silence longer than this means that engines slept. */
  readonly maxGapMs: number;
  readonly holdMs: number;
  /** How far this engine's clock moved against its monotonic one since its last beat. */
  readonly clockJumpMs: number;
  readonly engine: string;
  /** The process of this engine. */
  readonly self?: EngineProcess;
  /** Whether the process of another engine has ended; null where that cannot be told. */
  readonly isOver?: (engine: EngineProcess) => boolean | null;
}

export interface BeatAnswer {
  readonly heldUntil: number;
  readonly gapMs: number | null;
  /** Given a mark: where the time line was then. More than `now`: another process knows that it is ahead of ours. */
  readonly line?: { readonly at: number; readonly monotonic: number };
  /** Given a mark: how far the time line is ahead of the wall clock, where that has just changed by a step. */
  readonly steppedTo?: number;
}

/** The process that an engine is in. */
export interface EngineProcess {
  readonly host: string;
  readonly pid: number;
  /** As sessions have it (`NewSession.process`). */
  readonly process: string | null;
}

export interface PruneAnswer {
  readonly jobs: number;
  /** Of the jobs that are gone: what they left outside the database is to go too. */
  readonly ids: readonly string[];
  readonly more: boolean;
}

export interface PruneQuery {
  readonly now: number;
  /** Ended before this instant, by state; a state that is missing is kept. */
  readonly endedBefore: Partial<Record<"succeeded" | "failed" | "cancelled", number>>;
  readonly keyWindowMs: number;
  readonly sessionsEndedBefore: number;
  /** Lanes and policies that no job names, not used since this instant, are deleted. All jobs are scanned, some in each call. */
  readonly namesUnusedBefore?: number;
  readonly limit: number;
  readonly by?: string; // who asked for it: an event of the same transaction then has the number of jobs
}

/** Of the tables: what is there, 0 for nothing, and what this version of Perdure brings it to. */
export interface SchemaVersion {
  readonly found: number;
  readonly known: number;
}
