/** The schemas of the worker protocol. Payloads, results and progress are JSON text within a JSON string here, so that
 *  every byte of them is kept, whatever language the worker is written in. */
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
  name: Type.String({
    minLength: 1,
    maxLength: 200,
    description: "Shown to people, for example the host and a number.",
  }),
  kinds: Type.Array(Name, { minItems: 1, maxItems: 1_000, description: "The kinds of jobs that it runs." }),
  slots: Type.Integer({ minimum: 1, maximum: 100_000, description: "How many jobs it runs concurrently." }),
  queues: Type.Optional(
    orNull(Type.Array(Name, { minItems: 1, maxItems: 1_000, description: "Default: all of them." })),
  ),
  // Runtimes, connections and resources are labels too.
  labels: Type.Optional({ ...Labels, maxProperties: 250 } as typeof Labels),
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
        description: "The defaults of its tasks, by kind, for options that a submit by name leaves out. Up to 256 KiB.",
      }),
    ),
  ),
});
export type SessionRequestWire = Static<typeof SessionRequestSchema>;

export const SessionOpened = closed({
  session: Type.String(),
  key: Type.String({ description: "Send it as Perdure-Session-Key with every call of this session." }),
  leaseMs: Type.Integer({ description: "Renew well within this time, or other workers get the jobs." }),
  claimsAtOnce: Type.Integer({ description: "The useful number of concurrent claims." }),
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
  held: Type.Array(HeldSchema, { maxItems: LIMIT.held, description: "All attempts that it holds." }),
  health: Type.Optional(HealthSchema),
});
export type RenewRequestWire = Static<typeof RenewRequestSchema>;

const AttemptRef = closed({ jobId: JobId, attempt: AttemptNumber });

export const RenewAnswerSchema = closed({
  alive: Type.Boolean({ description: "False: the session has ended; open a new one." }),
  leaseMs: Type.Integer({ description: "The time left." }),
  lost: Type.Array(AttemptRef, { description: "Attempts that it no longer holds: end them." }),
  cancel: Type.Array(AttemptRef, { description: "Attempts whose cancel was requested." }),
  drain: Type.Boolean({ description: "The session is draining: finish the held attempts and claim no more." }),
  overspent: Type.Array(AttemptRef, {
    description: "Attempts of jobs that have spent their budget of tokens or money: end them.",
  }),
  key: Type.Optional(
    Type.String({
      description:
        "The secret of the servers was replaced: send this as Perdure-Session-Key from now on. The previous key is accepted for a while.",
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
    description: `At most this many; a reply has no more than ${LIMIT.claim}.`,
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
      description:
        "The last call with this `claimId`: it returns what was claimed under it before, and claims nothing new. Never waits.",
    }),
  ),
  room: Type.Optional(
    open(
      RESOURCES,
      "The most that the claimed jobs may need together. The server also counts what the worker and its host have left.",
    ),
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
  needs: Type.Optional(closed(RESOURCES, "What it needs of its host while it runs.")),
  jobToken: Type.Optional(
    Type.String({
      description: "For commands: to submit and read children and to report usage while this attempt runs.",
    }),
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
    kind: words(["waiting"], "Ended to wait for these children; the job runs again when all have ended."),
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
    description: "Generated once for this attempt; a repeat gets the same answer.",
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
      "accepted: with repeated, state, reason, runAt; stale: the attempt had ended, or is not held by this session; nothing was changed; refused: with code and message.",
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
    Type.String({ minLength: 1, maxLength: 1_000, description: "`next` of the previous page, without `ids`." }),
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
