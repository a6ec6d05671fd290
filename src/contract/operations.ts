/** What each route takes and answers. The server checks requests by it, and the OpenAPI page is made from it. */
import { Type } from "typebox";
import { FILTER_RULES } from "../core/job/jobs-filter.ts";
import { QUEUE_OPERATIONS, TOKEN_OPERATIONS, UPLOAD_OPERATIONS } from "./admin-operations.ts";
import type { RouteName } from "./routes.ts";
import {
  AttemptNumber,
  BlobFileSchema,
  Count,
  closed,
  EventSchema,
  Instant,
  JobId,
  JobRequest,
  JobSchema,
  Name,
  type Operation,
  open,
  orNull,
  RedriveRequest,
  ScopeName,
  SubmitAnswerSchema,
  Submitted,
  UsageSchema,
  Wait,
  words,
} from "./schemas.ts";
import { LIMIT } from "./wire.ts";
import {
  ChildStateSchema,
  ClaimAnswerSchema,
  ClaimRequestSchema,
  LookRequestSchema,
  NoticeSchema,
  RenewAnswerSchema,
  RenewRequestSchema,
  ReportAnswerSchema,
  ReportSchema,
  SessionOpened,
  SessionRequestSchema,
} from "./worker-schemas.ts";

const OfJob = closed({ id: JobId });
const OfSession = closed({ session: Type.String({ minLength: 1, maxLength: 100 }) });
const OfFile = closed({ id: JobId, attempt: AttemptNumber, "*": Type.String({ minLength: 1, maxLength: 1_024 }) });
const OfSessionJob = closed({ session: Type.String({ minLength: 1, maxLength: 100 }), id: JobId });
const OfSessionFile = closed({
  session: Type.String({ minLength: 1, maxLength: 100 }),
  id: JobId,
  attempt: Type.Integer({
    minimum: 0,
    maximum: 1_000_000_000,
    description: "0: what the job brought along (`stdin`).",
  }),
  "*": Type.String({ minLength: 1, maxLength: 1_024 }),
});
const FromOffset = closed({ offset: Type.Optional(Count) });
const Upload = Type.Optional(Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }));

/** Of an attempt or a piece of a log among those of one job, as databases count them. */
const Place = Type.Integer({ minimum: 0, maximum: 2_147_483_647 });

const upTo = (most: number) => Type.Optional(Type.Integer({ minimum: 1, maximum: most }));

/** The fields of a search. In a query, lists are repeated names, as in `state=queued&state=running`. */
const filterFields = (rules: typeof FILTER_RULES) =>
  Object.fromEntries(rules.map(([name, { wire }]) => [name, Type.Optional(Type.Unsafe(wire))]));
const ListFilter = closed(filterFields(FILTER_RULES));
const RedriveFilter = closed(filterFields(FILTER_RULES.filter(([, { listOnly }]) => listOnly !== true)));

const FEED = {
  after: Type.Optional(Count),
  before: Type.Optional(Count),
  order: Type.Optional(words(["oldest", "newest"])),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMIT.events })),
};
const Feed = closed(FEED);
/** Which there are is known to the dialects alone. */
const View = Type.Optional(Type.String({ minLength: 1, maxLength: 100 }));
const FEED_TEXT =
  "A page of events as JSON; `next` is the `after` of the next page, or with `order=newest` its `before`; null at the end. With `Accept: text/event-stream`, " +
  "those after `Last-Event-ID` (or `after`) and then those to come, as server-sent events whose ids are their numbers; " +
  "with neither of the two, from now on.";
const EventPage = closed({ events: Type.Array(EventSchema), next: orNull(Type.Integer()) });

const OutputsSchema = closed({
  attempts: Type.Array(closed({ attempt: AttemptNumber, files: Type.Array(BlobFileSchema), more: Count })),
  next: orNull(AttemptNumber),
});

const command = (summary: string, description?: string): Operation => ({
  ...{ tag: "jobs", summary, params: OfJob, reply: JobSchema },
  ...(description === undefined ? {} : { description }),
});

export const OPERATIONS: Readonly<Record<RouteName, Operation>> = {
  submitJob: {
    ...{ tag: "jobs", summary: "Submit a job", body: JobRequest, reply: Submitted, status: 201 },
    description: "Durable when it is answered. 200 instead of 201 when the key already named this job.",
  },
  submitJobs: {
    ...{ tag: "jobs", summary: "Submit many jobs, each answered for itself, in the order given" },
    description: "Of each job its answer, or its error: one with a mistake costs the others nothing.",
    // Not checked here: a mistake in one would refuse them all.
    body: closed({
      jobs: Type.Array(Type.Unknown({ description: "A job as of a single submit." }), { maxItems: LIMIT.submitMany }),
    }),
    reply: closed({ answers: Type.Array(SubmitAnswerSchema) }),
  },
  listJobs: {
    ...{ tag: "jobs", summary: "List jobs, newest first, a page at a time" },
    description:
      "A call checks 100,000 jobs at most, and with a pattern or a reason 5,000, so that a page may be short, or empty: there " +
      "are more while `next` is not null.",
    query: ListFilter,
    reply: closed({ jobs: Type.Array(JobSchema), next: orNull(Type.String()) }),
  },
  waitJobs: {
    ...{ tag: "jobs", summary: "Wait until one of these jobs has ended" },
    body: closed({
      jobs: Type.Array(closed({ id: JobId, chapter: Type.Integer({ minimum: 1, maximum: 1_000_000_000 }) }), {
        minItems: 1,
        maxItems: LIMIT.waitJobs,
      }),
      waitMs: Type.Optional(Wait),
    }),
    reply: closed({
      ended: Type.Array(JobId, { description: "Ended in this chapter, or gone on to a later one." }),
      missing: Type.Array(JobId, { description: "There is no such job, or it was pruned." }),
    }),
  },
  ...UPLOAD_OPERATIONS,
  redriveJobs: {
    ...{ tag: "jobs", summary: "Redrive the dead letters that fit, oldest first" },
    body: closed({
      filter: Type.Optional(RedriveFilter),
      dryRun: Type.Optional(Type.Boolean({ description: "Only name them." })),
      limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMIT.jobs })),
      changes: Type.Optional(RedriveRequest),
    }),
    reply: closed({
      jobs: Type.Array(JobId),
      skipped: Type.Array(closed({ id: JobId, code: Type.String(), message: Type.String() }), {
        description: "Those that fit and stay as they are: with `budget_spent`, a budget has nothing left.",
      }),
      more: Type.Boolean(),
    }),
  },
  getJob: {
    ...command("Get a job"),
    query: closed({ view: View }),
    description: "With `view`, in the format of another system.",
  },
  cancelJob: command("Cancel a job", "At once if it waits, by its signal if it runs. Repeated, it changes nothing."),
  retryJob: command("Run a waiting job now, or redrive a failed or cancelled one"),
  rescheduleJob: { ...command("Move a waiting job to another time"), body: closed({ runAt: Instant }) },
  redriveJob: {
    ...command("Open the next chapter of a failed or cancelled job, with fresh budgets"),
    description:
      "Under the terms it has, but for those that the body names; the event `job.redriven` records the change.",
    body: RedriveRequest,
  },
  discardJob: command("Take a failed job out of the dead letters"),
  explainJob: {
    ...{ tag: "jobs", summary: "Tell a job's story: what each attempt did, which rule decided, why it waits or ended" },
    ...{ params: OfJob, reply: Type.Object({ jobId: JobId, text: Type.String() }) },
  },
  listJobEvents: {
    ...{
      tag: "jobs",
      summary: "Events of a job",
      description: `${FEED_TEXT} With \`view\`, all of them in the format of another system.`,
      params: OfJob,
      query: closed({ ...FEED, view: View }),
      reply: EventPage,
    },
  },
  listAttempts: {
    ...{ tag: "jobs", summary: "Closed attempts of a job, oldest first, a page at a time", params: OfJob },
    description:
      "`next` is the `after` of the next page, null at the end. `log` is cut at 64 KiB: its logs have all of it.",
    query: closed({ after: Type.Optional(Place), limit: upTo(LIMIT.attempts) }),
    reply: closed({
      attempts: Type.Array(Type.Object({ attempt: AttemptNumber, outcome: Type.String() })),
      next: orNull(AttemptNumber),
    }),
  },
  getLogs: {
    ...{
      tag: "jobs",
      summary: "What a run wrote",
      params: OfJob,
      replyType: "application/octet-stream",
      reply: Type.Unknown(),
    },
    description:
      "`stream` is stdout, stderr, or log (what a task logged); default: stdout of a command, else log. Without `attempt`, " +
      "of the latest run that wrote something. The header Perdure-Attempt names the run. Empty if it wrote nothing. " +
      "To follow a log, pass `after` (0 at first): the reply is one page, and the header Perdure-Log-Next is the `after` of " +
      "the page that follows it.",
    query: closed({
      attempt: Type.Optional(AttemptNumber),
      stream: Type.Optional(words(["stdout", "stderr", "log"])),
      offset: Type.Optional(Count),
      after: Type.Optional(Place),
    }),
  },
  setUsage: {
    ...{ tag: "jobs", summary: "Tell what the running attempt has used so far, in all", params: OfJob, status: 204 },
    description:
      "Numbers never shrink: of two reports the larger counts. A job that has spent its budget is stopped. With the token " +
      "of the job itself, or by the worker that holds the attempt, which sends the key of its session in Perdure-Session-Key " +
      "and the lease token of the claim in Perdure-Lease. Any other token gets 403.",
    ...{ body: closed({ attempt: AttemptNumber, usage: UsageSchema }), reply: null, holder: true },
  },
  listOutputs: {
    ...{ tag: "jobs", summary: "Files that the attempts of a job left, a page at a time", params: OfJob },
    description:
      "The latest attempts, in order. `next` is the `before` of the page with those before them, null at the end.",
    query: closed({ before: Type.Optional(Count), limit: upTo(LIMIT.outputs) }),
    reply: OutputsSchema,
  },
  getOutput: {
    ...{ tag: "jobs", summary: "One file: stdout.log, stderr.log, result.json or artifacts/NAME", params: OfFile },
    ...{ query: FromOffset, replyType: "application/octet-stream", reply: Type.Unknown() },
  },

  listEvents: { tag: "events", summary: "Events of all jobs", description: FEED_TEXT, query: Feed, reply: EventPage },

  ...QUEUE_OPERATIONS,

  openSession: {
    ...{ tag: "worker protocol", summary: "Register a worker", body: SessionRequestSchema },
    ...{ reply: SessionOpened, status: 201 },
  },
  closeSession: {
    ...{ tag: "worker protocol", summary: "End a session in good order", params: OfSession, session: true },
    ...{ reply: null, status: 204 },
  },
  renewSession: {
    ...{ tag: "worker protocol", summary: "Renew the lease of all attempts in hand", params: OfSession, session: true },
    ...{ body: RenewRequestSchema, reply: RenewAnswerSchema },
  },
  claimJobs: {
    ...{ tag: "worker protocol", summary: "Take due jobs, or wait for one", params: OfSession, session: true },
    ...{ body: ClaimRequestSchema, reply: ClaimAnswerSchema },
  },
  reportAttempts: {
    ...{ tag: "worker protocol", summary: "Report how attempts ended", params: OfSession, session: true },
    body: open({ reports: Type.Array(ReportSchema, { minItems: 1, maxItems: LIMIT.reports }) }),
    reply: closed({ answers: Type.Array(ReportAnswerSchema) }),
  },
  waitForNotice: {
    ...{ tag: "worker protocol", summary: "Wait for a cancel or a drain", params: OfSession, session: true },
    body: open({ waitMs: Type.Optional(Wait) }),
    reply: NoticeSchema,
  },
  writeOutput: {
    ...{
      tag: "worker protocol",
      summary: "Write a file of an attempt at an offset",
      params: OfSessionFile,
      query: closed({ offset: Type.Optional(Count), upload: Upload, last: Type.Optional(Type.Boolean()) }),
    },
    ...{ session: true, lease: true, body: Type.Unknown(), bodyType: "application/octet-stream" },
    description:
      "What lies from the offset on is replaced. A piece that lies wholly within what is there is a repeat, and changes " +
      "nothing; one without a byte ends the file there. If the offset is beyond the present size, nothing is written and " +
      "that size is answered. With `upload`, a number of the caller's choice, the bytes are staged under it, and offset and " +
      "size are about those: the piece with `last=true` puts all of them into the place of the file at once.",
    reply: closed({ size: Count }),
  },
  removeOutput: {
    ...{ tag: "worker protocol", summary: "Remove a file of an attempt", params: OfSessionFile, status: 204 },
    ...{ session: true, lease: true, query: closed({ upload: Upload }), reply: null },
    description: "With `upload`, only what that upload has staged. That there is no such file is no error.",
  },
  submitChild: {
    ...{ tag: "worker protocol", summary: "Submit a child of an attempt", params: OfSessionJob, body: JobRequest },
    ...{ reply: Submitted, status: 201, session: true, lease: true },
    description: "Its key names it among the children of its parent: repeated, it finds the same child.",
  },
  lookChildren: {
    ...{ tag: "worker protocol", summary: "See the children of an attempt", params: OfSessionJob },
    ...{ body: LookRequestSchema, session: true, lease: true },
    description:
      "A reply holds about eight megabytes. Of the children that are named it has as many as fit, from the first on and at " +
      "least one: ask again for the rest. Of all children it is a page, oldest first: `next` is where to go on, null after " +
      "the last.",
    reply: closed({ children: Type.Array(ChildStateSchema), next: orNull(Type.String()) }),
  },
  listEarlierOutputs: {
    ...{ tag: "worker protocol", summary: "Files of the earlier attempts of a job in hand", params: OfSessionJob },
    description: "The latest of them, as many as one page has.",
    ...{ session: true, lease: true, reply: OutputsSchema },
  },
  readEarlierOutput: {
    ...{ tag: "worker protocol", summary: "One file of an earlier attempt of a job in hand", params: OfSessionFile },
    ...{ session: true, lease: true, query: FromOffset, replyType: "application/octet-stream", reply: Type.Unknown() },
  },

  ...TOKEN_OPERATIONS,
  getDialects: {
    ...{ tag: "server", summary: "What holds for files of other systems where they say nothing" },
    reply: Type.Record(Type.String(), Type.Unknown(), { description: "The settings of each dialect, by its group." }),
  },

  prune: {
    ...{ tag: "server", summary: "Delete now what is past its retention" },
    reply: closed({ jobs: Count }),
  },
  getSettings: {
    ...{ tag: "server", summary: "The settings of the server, and where they came from; without secrets" },
    reply: closed({
      ...{ host: Type.String(), pid: Type.Integer(), startedAt: Type.Number() },
      settings: Type.Array(closed({ key: Type.String(), value: Type.Unknown(), source: Type.String() })),
    }),
  },
  getStatus: {
    ...{ tag: "server", summary: "How the server is doing" },
    description:
      "`storeFault`: why the store takes no writes; an admin token of all namespaces gets the cause with its path. " +
      "`secretFault`: why the signing secrets cannot be read again; those known go on, and the next start fails. " +
      "`storeTrouble`: calls that it refused or lost, and how many requests and background rounds that hit.",
    // Open: a server may say more.
    reply: Type.Object({
      now: Type.Number(),
      store: words(["sqlite", "postgres"]),
      storeFault: Type.Optional(orNull(Type.String())),
      secretFault: Type.Optional(orNull(Type.String())),
      storeTrouble: Type.Optional(
        orNull(
          Type.Object({
            ...{ kind: words(["full", "unavailable", "io"]), cause: Type.Optional(Type.String()) },
            ...{ forMs: Type.Number(), requests: Type.Integer(), rounds: Type.Integer() },
          }),
        ),
      ),
    }),
  },
  getVersion: {
    ...{ tag: "server", summary: "Which program this is" },
    reply: closed({ name: words(["perdure"]), version: Type.String(), api: Type.Integer() }),
  },
  getIdentity: {
    ...{ tag: "server", summary: "What the token of this call may do" },
    reply: closed({ id: Type.String(), name: Type.String(), scopes: Type.Array(ScopeName), namespace: orNull(Name) }),
  },
};
