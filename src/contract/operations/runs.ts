/** Runs of playbooks, and the catalog of playbooks. Result, cancel, events and explanation of a run are those of its job. */
import { Type } from "typebox";
import { RUN_STATUSES } from "../../core/api/runs.ts";
import { FAIL_REASONS } from "../../core/job/job.ts";
import { FILTER_RULES } from "../../core/job/jobs-filter.ts";
import { STEP_STATES } from "../../core/run/run.ts";
import {
  AnyJson,
  Count,
  closed,
  FailureSchema,
  filterFields,
  JobId,
  Labels,
  Name,
  OfJob,
  type Operation,
  orNull,
  Span,
  State,
  upTo,
  words,
} from "../schemas.ts";
import { LIMIT } from "../wire.ts";

const Path = Type.String({ minLength: 1, maxLength: 200, description: "A path of the catalog: `shop/orders`." });
const Version = Type.Integer({ minimum: 1, maximum: 999_999_999 });
const Source = {
  source: Type.String({
    minLength: 1,
    maxLength: LIMIT.playbookChars,
    description: "YAML or JSON text of a playbook.",
  }),
  file: Type.Optional(Type.String({ maxLength: 1_000, description: "The name of its file, for messages." })),
  files: Type.Optional(
    Type.Record(Type.String(), Type.String({ maxLength: LIMIT.playbookChars }), {
      description: "Texts of the files that its steps refer to as `./NAME`, by that path.",
    }),
  ),
};
const Text = closed(Source);
const Given = Type.Union([closed({ path: Path, version: Type.Optional(Version) }), Text], {
  description: "A path of the catalog, without a version the latest; or the text of a playbook.",
});

const RunSchema = Type.Object(
  {
    id: JobId,
    namespace: Name,
    name: Type.String(),
    playbook: Type.Object({
      name: Type.String(),
      path: orNull(Type.String()),
      version: orNull(Type.Integer()),
      hash: Type.String(),
    }),
    state: words(RUN_STATUSES),
    phase: Type.String(),
    reason: orNull(words(FAIL_REASONS)),
    failure: orNull(FailureSchema),
    failedStep: orNull(Type.String()),
    openSteps: Count,
    madeSteps: Count,
    chapter: Type.Integer(),
    key: orNull(Type.String()),
    tags: Type.Array(Type.String()),
    parentId: orNull(JobId),
    input: Type.Object({}),
    workload: orNull(Type.Object({})),
    result: Type.Optional(AnyJson),
    submittedAt: Type.Number(),
    finishedAt: orNull(Type.Number()),
    deadlineAt: orNull(Type.Number()),
  },
  { description: "A run of a playbook. Its id is that of a job, whose routes work for it too." },
);

const StepSchema = Type.Object({
  n: Type.Integer({ description: "Counts the steps of the run from 1." }),
  step: Type.String(),
  type: orNull(Type.String()),
  visit: Type.Integer(),
  item: orNull(Type.Integer()),
  try: Type.Integer(),
  state: words(STEP_STATES),
  job: orNull(JobId),
  jobState: orNull(State),
  attempt: Type.Integer(),
  reason: orNull(words(FAIL_REASONS)),
  failure: orNull(FailureSchema),
  startedAt: Type.Number(),
  endedAt: orNull(Type.Number()),
  output: Type.Optional(AnyJson),
});

const VersionSchema = Type.Object({
  path: Type.String(),
  version: Type.Integer(),
  hash: Type.String(),
  at: Type.Number(),
  by: orNull(Type.String()),
});

const ProblemSchema = Type.Object({
  code: Type.String(),
  severity: words(["error", "warning"]),
  message: Type.String(),
  line: orNull(Type.Integer()),
  column: orNull(Type.Integer()),
});

const RUN_FIELDS = [
  "name",
  "tag",
  "key",
  "reason",
  "parent",
  "submittedAfter",
  "submittedBefore",
  "order",
  "limit",
  "cursor",
];
const filters = filterFields(FILTER_RULES.filter(([name]) => RUN_FIELDS.includes(name)));
const status = words(RUN_STATUSES);
const RunFilter = closed({
  ...filters.properties,
  state: Type.Optional(Type.Union([status, Type.Array(status, { maxItems: RUN_STATUSES.length })])),
  playbook: Type.Optional(
    Type.String({ minLength: 1, maxLength: 200, description: "A path, or a pattern with `*` and `?`." }),
  ),
});

const Format = Type.Optional(words(["json", "ascii", "mermaid"]));
const Graph = Type.Object({ graph: Type.String({ description: "The graph in this format; `json` is JSON text." }) });

export const RUN_OPERATIONS = {
  startRun: {
    ...{ tag: "runs", summary: "Start a run of a playbook", reply: Type.Object({ id: JobId }), status: 201 },
    description:
      "The run is durable when the reply is sent. 200 instead of 201 when the key already named it. An invalid playbook gets 400 " +
      "`invalid_playbook` with all its problems.",
    body: closed({
      playbook: Given,
      input: Type.Optional(Type.Object({}, { description: "Checked against the playbook's `inputs`." })),
      key: Type.Optional(Name),
      name: Type.Optional(Name),
      tags: Type.Optional(Type.Array(Name, { maxItems: 100 })),
      priority: Type.Optional(Type.Integer({ minimum: 0, maximum: 9 })),
      queue: Type.Optional(Name),
      labels: Type.Optional(Labels),
      timeout: Type.Optional(Span),
      annotations: Type.Optional(Type.Record(Type.String(), Type.String())),
    }),
  },
  listRuns: {
    ...{ tag: "runs", summary: "List runs, newest first, a page at a time", query: RunFilter },
    description: "Runs that are steps of other runs are found by `parent`.",
    reply: closed({ runs: Type.Array(RunSchema), next: orNull(Type.String()) }),
    isSearch: true,
  },
  getRun: { tag: "runs", summary: "Get a run", params: OfJob, reply: RunSchema },
  listSteps: {
    ...{ tag: "runs", summary: "Steps of a run in the order in which they were made, a page at a time", params: OfJob },
    description: "`next` is the `after` of the next page, null at the end.",
    query: closed({
      after: Type.Optional(Count),
      limit: upTo(LIMIT.steps),
      states: Type.Optional(
        Type.Union([words(STEP_STATES), Type.Array(words(STEP_STATES), { maxItems: STEP_STATES.length })]),
      ),
      step: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
      items: Type.Optional(Type.Boolean()),
      outputs: Type.Optional(Type.Boolean()),
    }),
    reply: closed({ steps: Type.Array(StepSchema), next: orNull(Count) }),
    isSearch: true,
  },
  getRunGraph: {
    ...{ tag: "runs", summary: "The graph of a run with the states of its steps", params: OfJob },
    ...{ query: closed({ format: Format }), reply: Graph, isSearch: true },
  },
  redriveRun: {
    ...{ tag: "runs", summary: "Redrive a failed or cancelled run: repeat what failed, was cancelled or never ended" },
    params: OfJob,
    body: closed({
      from: Type.Optional(Type.Array(Name, { maxItems: 1_000 })),
      skip: Type.Optional(
        Type.Record(Type.String(), AnyJson, { description: "Outputs of steps that are taken as done." }),
      ),
      set: Type.Optional(Type.Array(closed({ step: Name, path: Name, value: AnyJson }), { maxItems: 1_000 })),
      workload: Type.Optional(Type.Object({})),
      latest: Type.Optional(Type.Boolean()),
      playbook: Type.Optional(Given),
    }),
    reply: RunSchema,
  },

  validatePlaybook: {
    ...{ tag: "playbooks", summary: "Check a playbook; nothing is stored" },
    body: closed({ playbook: Given }),
    isSearch: true, // the check of a large playbook takes most of a second
    reply: Type.Object({
      ok: Type.Boolean(),
      problems: Type.Array(ProblemSchema),
      notes: Type.Array(Type.String()),
      playbook: orNull(Type.Object({ name: Type.String() })),
    }),
  },
  pushPlaybook: {
    ...{ tag: "playbooks", summary: "Add a version of a playbook to the catalog", reply: VersionSchema },
    description: "The same text as the latest version adds none.",
    body: closed({ ...Source, path: Type.Optional(Path) }),
  },
  listPlaybooks: {
    ...{ tag: "playbooks", summary: "The latest version of each path of the catalog, by path, a page at a time" },
    description: "`next` is the `after` of the next page, null at the end.",
    query: closed({ after: Type.Optional(Path), limit: upTo(LIMIT.playbooks) }),
    reply: closed({ playbooks: Type.Array(VersionSchema), next: orNull(Type.String()) }),
    isSearch: true,
  },
  getPlaybook: {
    ...{
      tag: "playbooks",
      summary: "A playbook of the catalog with its text",
      query: closed({ path: Path, version: Type.Optional(Version) }),
    },
    reply: Type.Object({ path: Type.String(), version: Type.Integer(), source: Type.String() }),
  },
  deletePlaybook: {
    ...{ tag: "playbooks", summary: "Delete a version of a playbook, or all of a path, from the catalog" },
    description: "Runs keep the definition that they were started with.",
    query: closed({ path: Path, version: Type.Optional(Version) }),
    reply: closed({ deleted: Count }),
  },
  graphPlaybook: {
    ...{
      tag: "playbooks",
      summary: "The graph of a playbook",
      body: closed({ playbook: Given, format: Format }),
      reply: Graph,
      isSearch: true,
    },
  },
  playbookSchema: {
    ...{ tag: "playbooks", summary: "The JSON Schema of playbooks, for editors" },
    reply: Type.Object({}),
  },
} as const satisfies Readonly<Record<string, Operation>>;
