/** `perdure events`: what happened, in order, to one job or to all, with what the engine did itself. */
import { showMs } from "../../core/duration.ts";
import { type JobEvent, type PerdureEvent, shownNames } from "../../core/event.ts";
import type { Perdure } from "../../embedded/perdure.ts";
import { type Piece, painted } from "../colour.ts";
import { type Command, type Context, READING } from "../command.ts";
import { withData } from "../data.ts";
import { EXIT } from "../exit.ts";
import { showLocal } from "../print.ts";

/** Of all events; a single job has as many as it has. */
const DEFAULT_LIMIT = 100;
const MAX_LIMIT = 1_000_000;

export const events: Command = {
  name: "events",
  summary: "Show what happened, in order, to one job or to all",
  usage: "perdure events [ID] [OPTIONS]",
  options: [
    { name: "after", type: "string", value: "SEQ", help: "Only those after the event of this number." },
    {
      ...{ name: "limit", short: "n", type: "string", value: "N" },
      help: `At most so many. Default: ${DEFAULT_LIMIT}; with an ID, all.`,
    },
    ...READING,
  ],
  examples: ["perdure events job_01m7gekg9zevv9a6xvvwmt1v8g", "perdure events --after 1200 --limit 50 --json"],

  async run(context) {
    const { given, out } = context;
    const id = given.optionalJobId();
    const after = given.integer("after", { min: 0, max: Number.MAX_SAFE_INTEGER }) ?? 0;
    const limit = given.integer("limit", { min: 1, max: MAX_LIMIT });
    await withData(context, async (perdure) => {
      const feed = await feedOf(context, perdure, id, after);
      const part = new Part(feed, limit ?? (id === undefined ? DEFAULT_LIMIT : Number.POSITIVE_INFINITY));
      if (given.flag("json")) await out.jsonList(part.events());
      else {
        const rows: Piece[][] = [];
        for await (const event of part.events()) rows.push(row(event, id === undefined));
        if (rows.length === 0) out.note(after === 0 ? "there are no events" : `there are no events after ${after}`);
        else out.table(COLUMNS, rows);
      }
      if (part.more) out.note(`there are more: repeat it with --after ${part.lastSeq}`);
    });
    return EXIT.done;
  },
};

/** A job that is not there is an error, not a job without events. */
async function feedOf({ out }: Context, perdure: Perdure, id: string | undefined, after: number) {
  const options = { after, signal: out.gone };
  return id === undefined ? perdure.events(options) : (await perdure.job(id)).events(options);
}

/** The first events of a feed; one more is looked at, to know whether there are others. */
class Part {
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

const COLUMNS = [
  { head: "SEQ", side: "right" },
  { head: "AT" },
  { head: "JOB" },
  { head: "EVENT" },
  { head: "DETAIL", flexible: true },
] as const;

/** All events of one job: its id need not stand in each line. */
function row(event: PerdureEvent, withId: boolean): Piece[] {
  const names = event.jobId === null ? [event.name] : shownNames(event);
  const detail = event.jobId === null ? engineDetail(event.data) : jobDetail(event);
  const id = withId ? (event.jobId ?? "") : "";
  return [String(event.seq), painted("dim", showLocal(event.at)), id, names.join(", "), detail];
}

/** The few words that tell this event from others of its name; `--json` has all of it. */
function jobDetail(event: JobEvent): string {
  switch (event.name) {
    case "job.submitted":
      return `kind ${event.data.kind}, queue ${event.data.queue}`;
    case "attempt.started":
      return `run ${event.data.attempt} on worker ${event.data.worker}`;
    case "job.cancel_requested":
    case "job.cancelled":
    case "job.discarded":
      return by(event.data.by);
    case "job.rescheduled":
    case "job.redriven":
      return [`due at ${showLocal(event.data.runAt)}`, by(event.data.by)].filter((part) => part !== "").join(", ");
    default: {
      const { attempt, decision, failure } = event.data;
      const parts = [`run ${attempt}`];
      if (decision.delay !== undefined) parts.push(`next after ${showMs(decision.delay.delayMs)}`);
      if (decision.reason !== undefined) parts.push(decision.reason);
      return parts.join(", ") + (failure === undefined ? "" : `: ${failure.message}`);
    }
  }
}

function by(who: string | null): string {
  return who === null ? "" : `by ${who}`;
}

function engineDetail({ v: _, ...data }: Readonly<Record<string, unknown>>): string {
  return Object.entries(data)
    .map(([name, value]) => `${name} ${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(", ");
}
