/** The building blocks of requests and replies. Schemas check requests and describe replies; types of the wire are
 *  derived from them. Policies and inputs of commands are checked by the handlers, with the same code as in the library, so that
 *  the messages are the same. */
import { type Static, type TOptional, type TSchema, type TUnsafe, Type } from "typebox";
import { SCOPES } from "../core/access.ts";
import { ERROR_CODES } from "../core/errors.ts";
import { FAIL_REASONS, JOB_STATES, MAX_USAGE } from "../core/job/job.ts";
import type { FILTER_RULES } from "../core/job/jobs-filter.ts";
import {
  type OptionName,
  type OptionRule,
  SUBMIT_OPTIONS,
  type SubmitOptions,
  TASK_OPTION_NAMES,
  WIRE_OPTION_NAMES,
} from "../core/task/submit-options.ts";
import { INSTANT, SPAN } from "../core/wire-schema.ts";

const CLOSED = { additionalProperties: false } as const;

/** One of these words. */
export function words<const T extends readonly string[]>(values: T, description?: string) {
  return Type.Unsafe<T[number]>({
    type: "string",
    enum: [...values],
    ...(description === undefined ? {} : { description }),
  });
}

export function orNull<T extends Parameters<typeof Type.Union>[0][number]>(schema: T) {
  return Type.Union([schema, Type.Null()]);
}

/** An object that takes no other fields. */
export function closed<T extends Parameters<typeof Type.Object>[0]>(fields: T, description?: string) {
  return Type.Object(fields, description === undefined ? CLOSED : { ...CLOSED, description });
}

/** An object whose unknown fields are ignored, for the frequent calls of workers: a field of a newer worker must not cost it the
 *  lease. Handlers copy the fields they know. */
export function open<T extends Parameters<typeof Type.Object>[0]>(fields: T, description?: string) {
  return Type.Object(fields, description === undefined ? {} : { description });
}

export const Name = Type.String({ minLength: 1, maxLength: 200 });
export const Labels = Type.Unsafe<Record<string, string>>(SUBMIT_OPTIONS.labels.wire);
export const JobId = Type.String({
  minLength: 1,
  maxLength: 100,
  description: "As in `job_01m7gekg9zevv9a6xvvwmt1v8g`.",
});
export const Instant = Type.Unsafe<number>(INSTANT);
export const Span = Type.Unsafe<number | string>(SPAN);
export const Wait = Type.Integer({
  minimum: 0,
  maximum: 30_000,
  description: "How long the reply may be held, in milliseconds.",
});
export const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
export const AttemptNumber = Type.Integer({ minimum: 1, maximum: 1_000_000_000 });
export const State = words(JOB_STATES);
export const ScopeName = words(SCOPES);
export const AnyJson = Type.Unknown({ description: "Any JSON value." });

export const ErrorSchema = closed({
  code: words(Object.keys(ERROR_CODES)),
  message: Type.String(),
  path: orNull(Type.String({ description: "The invalid field." })),
});

const USAGE = {
  tokensIn: Type.Number({ minimum: 0, maximum: MAX_USAGE }),
  tokensOut: Type.Number({ minimum: 0, maximum: MAX_USAGE }),
  costUsd: Type.Number({ minimum: 0, maximum: MAX_USAGE }),
};
export const UsageSchema = closed(USAGE);
/** As a worker reports it. */
export const ReportedUsage = open(USAGE);

export const JobRequest = closed({
  kind: Type.String({
    minLength: 1,
    maxLength: 200,
    description: "What runs it: `exec`, `http`, or the name of a task.",
  }),
  input: Type.Optional(Type.Unknown({ description: "Any JSON value, kept byte for byte; up to 1 MiB." })),
  ...optional(WIRE_OPTION_NAMES),
});
export type JobRequest = Static<typeof JobRequest>;

/** The defaults of a task. */
export const TaskDefaultsSchema = closed(optional(TASK_OPTION_NAMES));

/** Options of a submit, each of which may be left out. */
function optional<const K extends OptionName>(names: readonly K[]): { [P in K]: TOptional<TUnsafe<SubmitOptions[P]>> } {
  const fields = names.map((name) => [
    name,
    Type.Optional(Type.Unsafe((SUBMIT_OPTIONS[name] as OptionRule).wire ?? {})),
  ]);
  return Object.fromEntries(fields);
}

const Amount = Type.Object({ tokens: Type.Number(), costUsd: Type.Number() });

/** The present state of a budget: of the job that has it, with all jobs below. */
export const Budget = Type.Object({
  jobId: JobId,
  limit: Type.Object({ tokens: orNull(Type.Number()), costUsd: orNull(Type.Number()) }),
  spent: Amount,
  live: Amount,
  reserved: Amount,
});

/** What a redrive may change of a job. */
export const RedriveRequest = closed({
  retry: Type.Optional(
    Type.Unknown({
      description: "Fields of the retry policy that replace the job's; the others stay. With `preset`, all of it.",
    }),
  ),
  timeout: Type.Optional(Span),
  priority: Type.Optional(Type.Integer({ minimum: 0, maximum: 9 })),
  expireIn: Type.Optional(Span),
  deadline: Type.Optional(Instant),
  budget: Type.Optional(
    closed(
      { tokens: Type.Optional(Type.Number()), costUsd: Type.Optional(Type.Number()) },
      "Added to the job's own budget and to all that cover it.",
    ),
  ),
});

export const Submitted = closed({
  id: JobId,
  created: Type.Boolean({ description: "False when the key already named this job." }),
  chapter: Type.Integer(),
  state: State,
});
export type Submitted = Static<typeof Submitted>;

export const SubmitAnswerSchema = Type.Union([Submitted, closed({ error: ErrorSchema })]);

/** A job. Open: fields may be added. */
export const JobSchema = Type.Object(
  {
    id: JobId,
    namespace: Name,
    queue: Name,
    kind: Name,
    name: Type.String({ description: "For people: its own name, else its action or manifest, else what it runs." }),
    state: State,
    reason: orNull(words(FAIL_REASONS)),
    chapter: Type.Integer(),
    attempt: Type.Integer({ description: "Attempts started so far." }),
    failures: Type.Integer(),
    losses: Type.Integer(),
    priority: Type.Integer(),
    key: orNull(Type.String()),
    tags: Type.Array(Type.String()),
    labels: Type.Record(Type.String(), Type.String()),
    runAt: Type.Number(),
    submittedAt: Type.Number(),
    parentId: orNull(JobId),
    depth: Type.Integer({ description: "Parents above it." }),
    annotations: Type.Record(Type.String(), Type.String()),
    failure: orNull(
      Type.Object(
        { kind: Type.String(), message: Type.String() },
        { description: "How its last attempt failed, of a job that failed or is being retried." },
      ),
    ),
    liveUsage: orNull(closed(USAGE, "What the running attempt has used so far, as it has reported.")),
    budgets: Type.Array(Budget, {
      description: "The budgets of tokens and money that cover the job, the nearest first.",
    }),
    startedAt: orNull(Type.Number()),
    finishedAt: orNull(Type.Number()),
    policy: Type.Object({}, { description: "The policy as it was resolved when the job was submitted." }),
    payload: Type.Optional(AnyJson),
    result: Type.Optional(AnyJson),
    progress: Type.Optional(AnyJson),
  },
  { description: "A job. Instants are milliseconds since 1970 (UTC), spans end in Ms." },
);

export const EventSchema = Type.Object({
  seq: Type.Integer(),
  jobId: orNull(JobId),
  n: Type.Integer({ description: "Counts the job's events from 1, without gaps." }),
  at: Type.Number(),
  name: Type.String(),
  data: Type.Object({}),
});

export const BlobFileSchema = Type.Object({
  name: Type.String(),
  size: Type.Integer(),
  mime: Type.String(),
  sha256: Type.String(),
});

export const FailureSchema = Type.Object(
  {
    kind: Type.String(),
    message: Type.String(),
    line: Type.Optional(
      Type.String({ description: "The line of stderr that a rule or list matched, where it is not the message." }),
    ),
  },
  {
    description:
      "How an attempt failed: kind, class, name, message, code, exitCode, signal, status, retryAfterMs, stack, line.",
  },
);

/** The path of one job. */
export const OfJob = closed({ id: JobId });
/** The size of a page. */
export const upTo = (most: number) => Type.Optional(Type.Integer({ minimum: 1, maximum: most }));
/** The number of an attempt of a job, or of a piece of its log, after which a page begins. */
export const Place = Type.Integer({ minimum: 0, maximum: 2_147_483_647 });
/** Another system's form of a job; only the dialects know which exist. */
export const View = Type.Optional(Type.String({ minLength: 1, maxLength: 100 }));
export const FromOffset = closed({ offset: Type.Optional(Count) });

/** The fields of a search. In a query, lists are repeated names, as in `state=queued&state=running`. */
export function filterFields(rules: typeof FILTER_RULES) {
  return closed(Object.fromEntries(rules.map(([name, { wire }]) => [name, Type.Optional(Type.Unsafe(wire))])));
}

/** The files of some attempts. */
export const OutputsSchema = closed({
  attempts: Type.Array(closed({ attempt: AttemptNumber, files: Type.Array(BlobFileSchema), more: Count })),
  next: orNull(AttemptNumber),
});

/** One operation: what its route takes and what it returns. Its method and path are in `ROUTES`. */
export interface Operation {
  readonly tag: "jobs" | "runs" | "playbooks" | "events" | "queues" | "workers" | "server" | "worker protocol";
  readonly summary: string;
  readonly description?: string;
  readonly params?: TSchema;
  readonly query?: TSchema;
  readonly body?: TSchema;
  /** The type of the body, where it is not JSON. */
  readonly bodyType?: "application/octet-stream";
  /** The body of a successful reply; null: none. */
  readonly reply: TSchema | null;
  readonly replyType?: "application/octet-stream" | "text/event-stream";
  readonly status?: 200 | 201 | 204;
  /** Needs Perdure-Session-Key, and where `lease` is set, Perdure-Lease. */
  readonly session?: boolean;
  readonly lease?: boolean;
  /** Accepts both from a worker in place of the job's own token. */
  readonly holder?: boolean;
  /** A job may call it with its own token; all others are forbidden to it. */
  readonly jobToken?: boolean;
  /** A search, a count or a list: its work grows with what is stored, and few run at a time. */
  readonly isSearch?: boolean;
  /** Held for as long as the caller asks. */
  readonly isHeld?: boolean;
  /** Held where the caller asks for a stream of events. */
  readonly isFeed?: boolean;
}
