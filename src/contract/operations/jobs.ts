/** Jobs: submitting, finding and explaining them. */
import { Type } from "typebox";
import { FILTER_RULES } from "../../core/job/jobs-filter.ts";
import {
  AttemptNumber,
  closed,
  filterFields,
  JobId,
  JobRequest,
  JobSchema,
  OfJob,
  type Operation,
  orNull,
  Place,
  SubmitAnswerSchema,
  Submitted,
  upTo,
  View,
  Wait,
} from "../schemas.ts";
import { LIMIT } from "../wire.ts";

const ListFilter = filterFields(FILTER_RULES);

export const JOB_OPERATIONS = {
  submitJob: {
    ...{ tag: "jobs", summary: "Submit a job", body: JobRequest, reply: Submitted, status: 201 },
    description: "The job is durable when the reply is sent. 200 instead of 201 when the key already named this job.",
    jobToken: true,
  },
  submitJobs: {
    ...{ tag: "jobs", summary: "Submit many jobs, each with its own answer, in the given order" },
    description: "The answer or the error of each job: an invalid one does not affect the others.",
    // Not checked here: an invalid job would refuse all of them.
    body: closed({
      jobs: Type.Array(Type.Unknown({ description: "A job, as in a single submit." }), { maxItems: LIMIT.submitMany }),
    }),
    reply: closed({ answers: Type.Array(SubmitAnswerSchema) }),
    jobToken: true,
  },
  listJobs: {
    ...{ tag: "jobs", summary: "List jobs, newest first, a page at a time" },
    description:
      "A call checks 100,000 jobs at most, and with a pattern or a reason 5,000, and a reply holds about 8 MB, so that a page " +
      "may be short, or empty: there are more while `next` is not null.",
    query: ListFilter,
    reply: closed({ jobs: Type.Array(JobSchema), next: orNull(Type.String()) }),
    isSearch: true,
    jobToken: true,
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
      ended: Type.Array(JobId, { description: "Ended in this `chapter`, or already in a later one." }),
      missing: Type.Array(JobId, { description: "Does not exist, or was pruned." }),
    }),
    jobToken: true,
    isHeld: true,
  },
  getJob: {
    ...{ tag: "jobs", summary: "Get a job", params: OfJob, reply: JobSchema },
    query: closed({ view: View }),
    description: "With `view`, in the format of another system.",
    jobToken: true,
  },
  explainJob: {
    ...{ tag: "jobs", summary: "Explain a job: what each attempt did, which rule decided, why it waits or ended" },
    ...{ params: OfJob, reply: Type.Object({ jobId: JobId, text: Type.String() }) },
    isSearch: true,
    jobToken: true,
  },
  listAttempts: {
    ...{ tag: "jobs", summary: "Ended attempts of a job, oldest first, a page at a time", params: OfJob },
    description:
      "`next` is the `after` of the next page, null at the end. `log` is cut at 64 KiB; `GET /v1/jobs/{id}/logs` has all of it.",
    query: closed({ after: Type.Optional(Place), limit: upTo(LIMIT.attempts) }),
    reply: closed({
      attempts: Type.Array(Type.Object({ attempt: AttemptNumber, outcome: Type.String() })),
      next: orNull(AttemptNumber),
    }),
    isSearch: true,
    jobToken: true,
  },
} as const satisfies Readonly<Record<string, Operation>>;
