/** What passes between a server and its workers. Payloads, results and progress are JSON text within a JSON string here: so
 *  every byte of them survives, whatever language the worker is written in. */
import { type Static, Type } from "typebox";
import { FAILURE_KINDS } from "../core/decision/failure.ts";
import { JOB_STATES } from "../core/job/job.ts";
import { MAX_WAITS_FOR } from "../core/task/task.ts";
import {
  AttemptNumber,
  Count,
  closed,
  FailureSchema,
  JobId,
  Labels,
  Name,
  open,
  orNull,
  ReportedUsage,
  TaskDefaultsSchema,
  Wait,
  words,
} from "./schemas.ts";
import { LIMIT } from "./wire.ts";

const Figure = Type.Number({ minimum: 0, maximum: 1e15 });

export const HealthSchema = open({
  consecutive_failures: Count,
  total: Count,
  failed: Count,
  average_ms: Figure,
  in_hand: Count,
  slots: Count,
  load: Figure,
});

export const SessionRequestSchema = closed({
  name: Type.String({ minLength: 1, maxLength: 200, description: "Shown to people, such as the host and a number." }),
  kinds: Type.Array(Name, { minItems: 1, maxItems: 1_000, description: "The kinds of jobs that it runs." }),
  slots: Type.Integer({ minimum: 1, maximum: 100_000, description: "How many jobs it runs at a time." }),
  queues: Type.Optional(
    orNull(Type.Array(Name, { minItems: 1, maxItems: 1_000, description: "Default: all of them." })),
  ),
  // Runtimes and resources are labels too.
  labels: Type.Optional({ ...Labels, maxProperties: 150 } as typeof Labels),
  host: Type.Optional(Type.String({ maxLength: 200 })),
  pid: Type.Optional(Type.Integer({ minimum: 0, maximum: 4_194_304_000 })),
  process: Type.Optional(
    orNull(Type.String({ maxLength: 500, description: "Names the process on its machine (Linux)." })),
  ),
  leaseMs: Type.Optional(Type.Integer({ minimum: 300, maximum: 3_600_000 })),
  defaults: Type.Optional(
    orNull(
      Type.Record(Name, TaskDefaultsSchema, {
        maxProperties: 1_000,
        description:
          "The defaults of its tasks, by kind: a submit by name takes from them what it does not give. Up to 256 KiB.",
      }),
    ),
  ),
});
export type SessionRequestWire = Static<typeof SessionRequestSchema>;

export const SessionOpened = closed({
  session: Type.String(),
  key: Type.String({ description: "To be sent as Perdure-Session-Key with every call of this session." }),
  leaseMs: Type.Integer({ description: "Renew well within this time, or the jobs are given to others." }),
  claimsAtOnce: Type.Integer({ description: "Claims that are worth making at a time." }),
});
export type SessionOpened = Static<typeof SessionOpened>;

export const HeldSchema = open({
  jobId: JobId,
  attempt: AttemptNumber,
  usage: Type.Optional(orNull(ReportedUsage)),
  progress: Type.Optional(orNull(Type.String({ maxLength: 8_192, description: "JSON text, up to 4 KiB." }))),
  log: Type.Optional(orNull(Type.String({ maxLength: 131_072, description: "Log text since the last renewal." }))),
});

export type HeldWire = Static<typeof HeldSchema>;

export const RenewRequestSchema = open({
  held: Type.Array(HeldSchema, { maxItems: LIMIT.held, description: "All attempts in its hands." }),
  health: Type.Optional(HealthSchema),
});
export type RenewRequestWire = Static<typeof RenewRequestSchema>;

const AttemptRef = closed({ jobId: JobId, attempt: AttemptNumber });

export const RenewAnswerSchema = closed({
  alive: Type.Boolean({ description: "False: the session is over; open a new one." }),
  leaseMs: Type.Integer({ description: "The time left." }),
  lost: Type.Array(AttemptRef, { description: "No longer its own: end these." }),
  cancel: Type.Array(AttemptRef, { description: "A cancel is wanted for these." }),
  drain: Type.Boolean({ description: "It is to finish what it has and leave." }),
  overspent: Type.Array(AttemptRef, {
    description: "Their jobs have spent their budget of tokens or money: end these.",
  }),
  key: Type.Optional(
    Type.String({
      description:
        "The secret of the servers was replaced: send this as Perdure-Session-Key from now on. The one before is accepted for a while.",
    }),
  ),
});
export type RenewAnswerWire = Static<typeof RenewAnswerSchema>;

const RESOURCES = {
  cpu: Type.Integer({ minimum: 0, maximum: 1e9, description: "Thousandths of a cpu." }),
  memory: Type.Integer({ minimum: 0, maximum: 2 ** 52, description: "Bytes." }),
};

export const ClaimRequestSchema = open({
  limit: Type.Integer({
    minimum: 1,
    maximum: 100_000,
    description: `At most so many; no more than ${LIMIT.claim} come at a time.`,
  }),
  waitMs: Type.Optional(Wait),
  claimId: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 100,
      description: "Repeated with the same id, a claim returns the same jobs.",
    }),
  ),
  last: Type.Optional(
    Type.Boolean({
      description: "Nothing new is claimed under `claimId` from now on; the answer is what it got before. Never waits.",
    }),
  ),
  room: Type.Optional(
    open(RESOURCES, "It takes no more than this. What the worker and its host have left is counted by the server."),
  ),
});
export type ClaimRequestWire = Static<typeof ClaimRequestSchema>;

export const ClaimedJobSchema = closed({
  id: JobId,
  namespace: Name,
  queue: Name,
  kind: Name,
  attempt: AttemptNumber,
  chapter: Type.Integer(),
  token: Type.String({ description: "The lease token: proof that the session holds this attempt." }),
  payload: Type.String({ description: "JSON text; empty if the job was submitted without an input." }),
  timeoutMs: orNull(Type.Integer()),
  failures: Type.Integer(),
  maxAttempts: Type.Integer(),
  tags: Type.Array(Type.String()),
  previous: orNull(Type.String({ description: "How the attempt before this one failed, as JSON text." })),
  needs: Type.Optional(closed(RESOURCES, "What it takes of its host while it runs.")),
  jobToken: Type.Optional(
    Type.String({ description: "For commands: to submit children, read them and tell usage while this attempt runs." }),
  ),
});

export const ClaimAnswerSchema = closed({
  alive: Type.Boolean(),
  drain: Type.Boolean(),
  jobs: Type.Array(ClaimedJobSchema),
});
export type ClaimAnswerWire = Static<typeof ClaimAnswerSchema>;

const FailureReport = open(
  {
    kind: words(FAILURE_KINDS),
    message: Type.String({ maxLength: 100_000 }),
    class: Type.Optional(words(["transient", "logical", "invalid", "budget"], "Default: transient.")),
    name: Type.Optional(orNull(Type.String({ maxLength: 1_000 }))),
    code: Type.Optional(orNull(Type.String({ maxLength: 1_000 }))),
    exitCode: Type.Optional(orNull(Type.Integer({ minimum: -2_147_483_648, maximum: 2_147_483_647 }))),
    signal: Type.Optional(orNull(Type.String({ maxLength: 1_000 }))),
    status: Type.Optional(orNull(Type.Integer({ minimum: 0, maximum: 9_999 }))),
    retryAfterMs: Type.Optional(orNull(Type.Number({ minimum: 0, maximum: 1e15 }))),
    stack: Type.Optional(orNull(Type.String({ maxLength: 100_000 }))),
  },
  "How an attempt failed.",
);

const OutcomeSchema = Type.Union([
  open({
    kind: words(["completed"]),
    result: Type.Optional(orNull(Type.String({ description: "JSON text, up to 1 MiB." }))),
  }),
  open({ kind: words(["failed", "timeout"]), failure: FailureReport }),
  open({
    kind: words(["waiting"], "Ended so that these children can be waited for; it runs again when all have ended."),
    children: Type.Array(JobId, { maxItems: MAX_WAITS_FOR }),
  }),
  open({ kind: words(["interrupted", "released", "lost"], "Ended by its worker's shutdown; never started; lost.") }),
]);

export const ReportSchema = open({
  jobId: JobId,
  attempt: AttemptNumber,
  token: Type.String({ minLength: 1, maxLength: 300, description: "The lease token of the claim." }),
  reportId: Type.String({
    minLength: 1,
    maxLength: 100,
    description: "Made once for this attempt; repeated, it gets the same answer.",
  }),
  outcome: OutcomeSchema,
  usage: Type.Optional(orNull(ReportedUsage)),
  progress: Type.Optional(orNull(Type.String({ maxLength: 8_192 }))),
  log: Type.Optional(orNull(Type.String({ maxLength: 131_072 }))),
});
export type ReportWire = Static<typeof ReportSchema>;

export const ReportAnswerSchema = Type.Object(
  { status: words(["accepted", "stale", "unknown_job", "refused"]) },
  {
    description:
      "accepted: with repeated, state, reason, runAt; stale: the attempt was closed before, or is not this session's: nothing was changed; refused: with code and message.",
  },
);

export const NoticeSchema = closed({
  alive: Type.Boolean(),
  drain: Type.Boolean(),
  cancel: Type.Array(AttemptRef),
});
export type NoticeWire = Static<typeof NoticeSchema>;

export const LookRequestSchema = open({
  ids: Type.Optional(Type.Array(JobId, { maxItems: MAX_WAITS_FOR, description: "Default: all children of this job." })),
  cursor: Type.Optional(
    Type.String({ minLength: 1, maxLength: 1_000, description: "`next` of the page before, where no ids are given." }),
  ),
});

export const ChildStateSchema = Type.Object(
  {
    id: JobId,
    kind: Name,
    key: orNull(Type.String()),
    state: words(JOB_STATES),
    reason: orNull(Type.String()),
    failure: orNull(FailureSchema),
    payload: Type.Optional(Type.Unknown()),
    result: Type.Optional(Type.Unknown()),
  },
  { description: "A child, as its parent sees it." },
);
