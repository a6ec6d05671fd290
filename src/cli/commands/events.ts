/** `perdure events`: what happened, in order, to one job or to all, with what the engine did itself. */

import type { JobHandle, Perdure } from "../../core/api.ts";
import type { PerdureEvent } from "../../core/job/event.ts";
import { isTerminal } from "../../core/job/job.ts";
import type { EventTable } from "../../dialects/dialect.ts";
import { VIEWED_EVENTS } from "../../dialects/read-view.ts";
import { EVENT_VIEW_NAMES, eventTable, eventView } from "../../dialects/registry.ts";
import { viewParts } from "../apply/job-views.ts";
import { type CliCommand, type CommandContext, READING } from "../command.ts";
import { EXIT, usageError } from "../exit.ts";
import { followEvents } from "../follow/follow-events.ts";
import { followView } from "../follow/follow-view.ts";
import { fullId } from "../jobs/job-reference.ts";
import { EVENT_COLUMNS, eventCells } from "../output/event-row.ts";
import type { Printer } from "../output/print.ts";
import type { Column } from "../output/table.ts";
import type { TextPiece } from "../output/terminal-text.ts";
import { TARGET, withPerdure } from "../target/target.ts";

/** Of all events; a single job has as many as it has. */
const DEFAULT_LIMIT = 100;
/** Of those that were there before, when others are to come. */
const FOLLOW_LIMIT = 20;
const MAX_LIMIT = 1_000_000;

export const events: CliCommand = {
  name: "events",
  summary: "Show what happened, in order, to one job or to all",
  usage: "perdure events [ID] [OPTIONS]",
  options: [
    {
      ...{ name: "follow", short: "f", type: "boolean" },
      help: "Show the last of them, and then those to come. With an ID, until the job has ended.",
    },
    { name: "after", type: "string", value: "SEQ", help: "Only those after the event of this number." },
    {
      ...{ name: "limit", short: "n", type: "string", value: "N" },
      help: `At most this many. Default: ${DEFAULT_LIMIT}; before following, ${FOLLOW_LIMIT}; with an ID, all.`,
    },
    {
      ...{ name: "view", type: "string", value: "VIEW" },
      help: `Those of one job, as another system shows them, with --json as its data: ${EVENT_VIEW_NAMES.join(", ")}. Up to ${VIEWED_EVENTS} events.`,
    },
    {
      ...{ name: "all-namespaces", type: "boolean" },
      help: "Of a server: of all namespaces, with what concerns them all. Requires a token for all namespaces.",
    },
    ...TARGET,
    { name: "json", type: "boolean", help: "Print one JSON document; with --follow, one object a line." },
    ...READING.filter(({ name }) => name !== "json"),
  ],
  examples: [
    "perdure events job_01m7gekg9zevv9a6xvvwmt1v8g",
    "perdure events --after 1200 --limit 50 --json",
    "perdure events -f",
    "perdure events --view noetl job_01m7gekg9zevv9a6xvvwmt1v8g",
  ],

  async run(context) {
    const { given } = context;
    const id = given.optionalJobId();
    const after = given.integer("after", { min: 0, max: Number.MAX_SAFE_INTEGER });
    const limit = given.integer("limit", { min: 1, max: MAX_LIMIT });
    if (given.flag("view")) return showView(context, id);
    const allNamespaces = given.flag("all-namespaces");
    if (allNamespaces && id !== undefined) throw usageError("--all-namespaces cannot be used with an ID");
    if (allNamespaces && given.flag("namespace")) {
      throw usageError("--namespace and --all-namespaces cannot be used together");
    }
    const open = { allNamespaces };
    if (!given.flag("follow")) {
      return withPerdure(context, (perdure) => list(context, perdure, { id, after, limit }), open);
    }
    if (after !== undefined && limit !== undefined) {
      throw usageError("with --follow, --after and --limit cannot be used together");
    }
    const last = limit ?? FOLLOW_LIMIT;
    return withPerdure(
      context,
      async (perdure) => {
        if (id === undefined) return followEvents(context, perdure, { after, last, withId: true });
        const job = await perdure.job(await fullId(perdure, id));
        // All of one job, from its first on, as they are read.
        const from = after ?? (limit === undefined ? 0 : undefined);
        return followEvents(context, job, { after: from, last, withId: false, isOver: isOver(job) });
      },
      open,
    );
  },
};

/** Whether an event is the last of a job that has ended. */
function isOver(job: JobHandle<unknown>): (event: PerdureEvent) => Promise<boolean> {
  return async ({ n }) => {
    const { state, revision } = await job.get();
    return isTerminal(state) && n >= revision;
  };
}

/** From the first event on: the other systems know no part of it. */
async function showView(context: CommandContext, id: string | undefined): Promise<number> {
  const { given, out } = context;
  const name = given.text("view");
  const view = { json: eventView(name, "--view"), table: eventTable(name, "--view") };
  if (id === undefined) throw usageError(`--view requires the ID of a job. Usage: ${events.usage}`);
  const other = ["after", "limit", "all-namespaces"].find((name) => given.flag(name));
  if (other !== undefined)
    throw usageError(`--view and --${other} cannot be used together: a view has all events of a job`);
  return withPerdure(context, async (perdure) => {
    const whole = await fullId(perdure, id);
    if (given.flag("follow")) return followView(context, perdure, whole, view);
    const parts = await viewParts(perdure, whole);
    if (given.flag("json")) out.json(view.json(parts));
    else printTable(out, view.table(parts));
    return EXIT.done;
  });
}

function printTable(out: Printer, { heads, rows }: EventTable): void {
  const columns = heads.map((head, c): Column => {
    return { head, side: head === "#" ? "right" : "left", flexible: c === heads.length - 1 };
  });
  if (rows.length === 0) out.note("there are no events");
  else out.table(columns, rows);
}

interface EventListRequest {
  readonly id: string | undefined;
  readonly after: number | undefined;
  readonly limit: number | undefined;
}

async function list(
  context: CommandContext,
  perdure: Perdure,
  { id, after = 0, limit }: EventListRequest,
): Promise<number> {
  const { given, out } = context;
  const feed = await feedOf(context, perdure, id, after);
  const part = new EventListPart(feed, limit ?? (id === undefined ? DEFAULT_LIMIT : Number.POSITIVE_INFINITY));
  if (given.flag("json")) await out.jsonList(part.events());
  else {
    const count = await out.tables(EVENT_COLUMNS, rowsOf(part, id === undefined));
    if (count === 0) out.note(after === 0 ? "there are no events" : `there are no events after ${after}`);
  }
  if (part.more) out.note(`there are more: repeat it with --after ${part.lastSeq}`);
  return EXIT.done;
}

async function* rowsOf(part: EventListPart, withId: boolean): AsyncGenerator<TextPiece[], void, void> {
  for await (const event of part.events()) yield eventCells(event, withId);
}

/** A job that is not there is an error, not a job without events. */
async function feedOf({ out }: CommandContext, perdure: Perdure, id: string | undefined, after: number) {
  const options = { after, signal: out.gone };
  return id === undefined ? perdure.events(options) : (await perdure.job(await fullId(perdure, id))).events(options);
}

/** The first events of a feed; one more is looked at, to know whether there are others. */
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
