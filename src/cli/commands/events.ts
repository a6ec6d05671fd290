/** `perdure events`: the events of one job or of all, in order, with those of the engine itself. */

import type { FeedOptions } from "../../core/api/events.ts";
import type { Perdure } from "../../core/api.ts";
import type { PerdureEvent } from "../../core/job/event.ts";
import { RUN_KIND } from "../../core/playbook/playbook.ts";
import { withDialectHelp } from "../../dialects/cli/registry.ts";
import type { EventTable, ViewParts } from "../../dialects/dialect.ts";
import { type RunReader, readRunView, VIEWED_EVENTS } from "../../dialects/read-view.ts";
import { EVENT_VIEW_NAMES, eventTable, eventView } from "../../dialects/registry.ts";
import { viewParts } from "../apply/job-views.ts";
import { type CliCommand, type CommandContext, READING } from "../command.ts";
import { conflictError, EXIT, requirementError, usageError } from "../exit.ts";
import { followEvents } from "../follow/follow-events.ts";
import { followView } from "../follow/follow-view.ts";
import { fullId } from "../jobs/job-reference.ts";
import { EVENT_COLUMNS, eventCells } from "../output/event-row.ts";
import type { Printer } from "../output/print.ts";
import type { Column } from "../output/table.ts";
import type { TextPiece } from "../output/terminal-text.ts";
import { TARGET, withPerdure } from "../target/target.ts";

/** Of all events; of a single job all are shown. */
const DEFAULT_LIMIT = 100;
/** Of the last events that --follow begins with. */
const FOLLOW_LIMIT = 20;
const MAX_LIMIT = 1_000_000;

export const events: CliCommand = {
  name: "events",
  summary: "List events of one job or of all jobs",
  usage: "perdure events [ID] [OPTIONS]",
  options: [
    {
      ...{ name: "follow", short: "f", type: "boolean" },
      help: "Show the last events, then new ones as they come; with an ID, until the job has ended.",
    },
    { name: "newest", type: "boolean", help: "Newest first." },
    { name: "after", type: "string", value: "SEQ", help: "Only events after this number." },
    { name: "before", type: "string", value: "SEQ", help: "Only events before this number." },
    {
      ...{ name: "limit", short: "n", type: "string", value: "N" },
      help: `At most this many. Default: ${DEFAULT_LIMIT}; with --follow, the last ${FOLLOW_LIMIT}; with an ID, all.`,
    },
    {
      ...{ name: "view", type: "string", value: "VIEW" },
      help: `Show the events of one job as another system does, with --json as its data: ${EVENT_VIEW_NAMES.join(", ")}. Up to ${VIEWED_EVENTS} events.`,
    },
    { name: "step", type: "string", value: "NAME", help: "With --view, of a run: only the events of this step." },
    {
      ...{ name: "all-namespaces", type: "boolean" },
      help: "On a server: events of all namespaces. Requires a token for all namespaces.",
    },
    ...TARGET,
    { name: "json", type: "boolean", help: "Print one JSON document; with --follow, one object per line." },
    ...READING.filter(({ name }) => name !== "json"),
  ],
  ...withDialectHelp("events", {
    examples: [
      "perdure events job_01m7gekg9zevv9a6xvvwmt1v8g",
      "perdure events --newest --limit 50",
      "perdure events --after 1200 --limit 50 --json",
      "perdure events -f",
    ],
  }),

  async run(context) {
    const { given } = context;
    const id = given.optionalJobId();
    const after = given.integer("after", { min: 0, max: Number.MAX_SAFE_INTEGER });
    const before = given.integer("before", { min: 0, max: Number.MAX_SAFE_INTEGER });
    const limit = given.integer("limit", { min: 1, max: MAX_LIMIT });
    if (given.flag("view")) return showView(context, id);
    if (given.flag("step")) throw requirementError("--step", "--view and the id of a run");
    const allNamespaces = given.flag("all-namespaces");
    if (allNamespaces && id !== undefined) throw conflictError("--all-namespaces", "an ID");
    if (allNamespaces && given.flag("namespace")) {
      throw conflictError("--namespace", "--all-namespaces");
    }
    const open = { allNamespaces };
    if (!given.flag("follow")) {
      return withPerdure(context, (perdure) => list(context, perdure, { id, after, before, limit }), open);
    }
    const other = ["newest", "before"].find((name) => given.flag(name));
    if (other !== undefined) throw conflictError("--follow", `--${other}`);
    if (after !== undefined && limit !== undefined) {
      throw conflictError("--after", "--limit", "with --follow, the first event is one or the other");
    }
    const last = limit ?? FOLLOW_LIMIT;
    return withPerdure(
      context,
      async (perdure) => {
        if (id === undefined) return followEvents(context, perdure, { after, last });
        const job = await perdure.job(await fullId(perdure, id));
        // Without --limit all events of the job, from its first on.
        return followEvents(context, job, { after: after ?? (limit === undefined ? 0 : undefined), last });
      },
      open,
    );
  },
};

/** From the first event on: the other systems have no partial views. */
async function showView(context: CommandContext, id: string | undefined): Promise<number> {
  const { given, out } = context;
  const name = given.text("view");
  const view = { json: eventView(name, "--view"), table: eventTable(name, "--view") };
  if (id === undefined) throw requirementError("--view", "the ID of a job");
  const other = ["after", "before", "limit", "newest", "all-namespaces"].find((name) => given.flag(name));
  if (other !== undefined) throw conflictError("--view", `--${other}`, "a view has all events of a job");
  return withPerdure(context, async (perdure) => {
    const whole = await fullId(perdure, id);
    if (given.flag("follow") && given.flag("step")) throw conflictError("--follow", "--step");
    if (given.flag("follow")) return followView(context, perdure, whole, view);
    const parts = await viewedParts(perdure, whole, given.text("step"));
    if (given.flag("json")) out.json(view.json(parts));
    else printTable(out, view.table(parts));
    return EXIT.done;
  });
}

/** Of a run: with its steps. */
async function viewedParts(perdure: Perdure, id: string, step: string | undefined): Promise<ViewParts> {
  const parts = await viewParts(perdure, id);
  if (parts.job.kind !== RUN_KIND) {
    if (step === undefined) return parts;
    throw usageError(`--step: ${id} is not a run`);
  }
  const handle = await perdure.runHandle(id);
  const reader: RunReader = {
    run: () => handle.get(),
    events: async () => parts.events,
    steps: (page) => handle.steps(page),
    job: (job) => viewParts(perdure, job),
  };
  return { ...parts, run: await readRunView(reader, step) };
}

function printTable(out: Printer, { heads, rows }: EventTable): void {
  const columns = heads.map((head, c): Column => {
    return { head, side: head === "#" ? "right" : "left", flexible: c === heads.length - 1 };
  });
  if (rows.length === 0) out.note("no events");
  else out.table(columns, rows);
}

interface EventListRequest {
  readonly id: string | undefined;
  readonly after: number | undefined;
  readonly before: number | undefined;
  readonly limit: number | undefined;
}

async function list(
  context: CommandContext,
  perdure: Perdure,
  { id, after = 0, before, limit = id === undefined ? DEFAULT_LIMIT : Number.POSITIVE_INFINITY }: EventListRequest,
): Promise<number> {
  const { given, out } = context;
  const isNewest = given.flag("newest");
  const options: FeedOptions = {
    ...{ after, signal: out.gone },
    ...(before === undefined ? {} : { before }),
    ...(isNewest ? { order: "newest" } : {}),
    // One more, to know whether there are more.
    ...(limit === Number.POSITIVE_INFINITY ? {} : { limit: limit + 1 }),
  };
  // A job that does not exist is an error, not a job without events.
  const feed =
    id === undefined ? perdure.events(options) : (await perdure.job(await fullId(perdure, id))).events(options);
  const part = new EventListPart(feed, limit);
  if (given.flag("json")) await out.jsonList(part.events());
  else {
    const count = await out.tables(EVENT_COLUMNS, rowsOf(part, id === undefined));
    if (count === 0) out.note(after === 0 ? "no events" : `no events after ${after}`);
  }
  if (part.more)
    out.note(`there are more events; to continue, pass --${isNewest ? "before" : "after"} ${part.lastSeq}`);
  return EXIT.done;
}

async function* rowsOf(part: EventListPart, withId: boolean): AsyncGenerator<TextPiece[], void, void> {
  for await (const event of part.events()) yield eventCells(event, withId);
}

/** The first events of a feed, and whether there are more. */
class EventListPart {
  more = false;
  lastSeq = 0;
  readonly #feed: AsyncIterable<PerdureEvent>;
  readonly #limit: number;

  constructor(feed: AsyncIterable<PerdureEvent>, limit: number) {
    this.#feed = feed;
    this.#limit = limit;
  }

  async *events(): AsyncGenerator<PerdureEvent, void, void> {
    let count = 0;
    for await (const event of this.#feed) {
      this.more = count === this.#limit;
      if (this.more) return;
      count += 1;
      this.lastSeq = event.seq;
      yield event;
    }
  }
}
