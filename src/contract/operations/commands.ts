/** Commands on jobs, and the usage of a running attempt. */
import { Type } from "typebox";
import { FILTER_RULES } from "../../core/job/jobs-filter.ts";
import {
  AttemptNumber,
  closed,
  filterFields,
  Instant,
  JobId,
  JobSchema,
  OfJob,
  type Operation,
  RedriveRequest,
  UsageSchema,
} from "../schemas.ts";
import { LIMIT } from "../wire.ts";

const RedriveFilter = filterFields(FILTER_RULES.filter(([, { listOnly }]) => listOnly !== true));
const command = (summary: string, description?: string): Operation => ({
  ...{ tag: "jobs", summary, params: OfJob, reply: JobSchema },
  ...(description === undefined ? {} : { description }),
});

export const COMMAND_OPERATIONS = {
  cancelJob: command("Cancel a job", "At once if it waits, by its signal if it runs. Repeated, it changes nothing."),
  retryJob: command("Run a waiting job now, or redrive a failed or cancelled one"),
  rescheduleJob: { ...command("Move a waiting job to another time"), body: closed({ runAt: Instant }) },
  redriveJob: {
    ...command("Redrive a failed or cancelled job, with fresh budgets"),
    description: "Its terms stay, except those in the body; the event `job.redriven` records the change.",
    body: RedriveRequest,
  },
  redriveJobs: {
    ...{ tag: "jobs", summary: "Redrive the matching dead letters, oldest first" },
    body: closed({
      filter: Type.Optional(RedriveFilter),
      dryRun: Type.Optional(Type.Boolean({ description: "Only name the jobs." })),
      limit: Type.Optional(Type.Integer({ minimum: 1, maximum: LIMIT.jobs })),
      changes: Type.Optional(RedriveRequest),
    }),
    reply: closed({
      jobs: Type.Array(JobId),
      skipped: Type.Array(closed({ id: JobId, code: Type.String(), message: Type.String() }), {
        description: "Matching jobs that were not redriven: with `budget_spent`, a budget has nothing left.",
      }),
      more: Type.Boolean(),
    }),
  },
  discardJob: command("Take a failed job out of the dead letters"),
  setUsage: {
    ...{
      tag: "jobs",
      summary: "Record what the running attempt has used so far, in total",
      params: OfJob,
      status: 204,
    },
    description:
      "Numbers never shrink: of two reports the larger numbers count. A job that has spent its budget is stopped. With the token " +
      "of the job itself, or by the worker that holds the attempt, which sends the key of its session in Perdure-Session-Key " +
      "and the lease token of the claim in Perdure-Lease. Any other token gets 403.",
    ...{ body: closed({ attempt: AttemptNumber, usage: UsageSchema }), reply: null, holder: true },
    jobToken: true,
  },
} as const satisfies Readonly<Record<string, Operation>>;
