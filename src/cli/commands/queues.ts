/** `perdure queues`: what waits where, and queues that are to stand still for a while. */
import { nearest } from "../../core/check.ts";
import type { Perdure } from "../../core/face.ts";
import { isName } from "../../core/name.ts";
import type { QueueCounts } from "../../core/views.ts";
import { type Piece, painted } from "../colour.ts";
import { type Command, type Context, READING } from "../command.ts";
import { EXIT, usageError } from "../exit.ts";
import { showSince } from "../print.ts";
import { nowOf } from "../server-time.ts";
import { TARGET, withPerdure } from "../target.ts";

export const queues: Command = {
  name: "queues",
  summary: "Show queues with their counts; pause or resume one",
  usage: "perdure queues [pause NAME… | resume NAME…] [OPTIONS]",
  about: "Jobs of a paused queue are not started; those that run go on.",
  options: [...TARGET, ...READING],
  examples: ["perdure queues", "perdure queues pause mail", "perdure queues resume mail"],

  async run(context) {
    const [word, ...names] = context.given.positionals;
    switch (word) {
      case undefined:
        return list(context);
      case "pause":
      case "resume":
        return change(context, word, names);
      default:
        context.given.atMost(0);
        return EXIT.usage;
    }
  },
};

async function change(context: Context, word: "pause" | "resume", names: readonly string[]): Promise<number> {
  const { given, out } = context;
  if (names.length === 0) throw usageError(`which queue? Usage: perdure queues ${word} NAME…`);
  if (names.some((name) => !isName(name))) {
    throw usageError("names of queues have 1 to 200 characters, none of them control characters");
  }
  const done: Changed[] = [];
  await withPerdure(context, async (perdure) => {
    const known = await queuesOf(perdure);
    for (const name of new Set(names)) {
      await (word === "pause" ? perdure.pause(name) : perdure.resume(name));
      const warning = warningOf(word, name, known);
      done.push({ queue: name, paused: word === "pause", ...(warning === null ? {} : { warning }) });
      if (!given.flag("json")) out.line(`${name}: ${word === "pause" ? "paused" : "resumed"}`);
      if (warning !== null) out.note(`${name}: ${warning}`);
    }
  });
  if (given.flag("json")) out.json(done);
  return EXIT.done;
}

interface Changed {
  readonly queue: string;
  readonly paused: boolean;
  readonly warning?: string;
}

/** By name, whether each is paused. A queue exists if it has or had jobs, is paused, or a worker that lives names it. */
async function queuesOf(perdure: Perdure): Promise<ReadonlyMap<string, boolean>> {
  const served = (await perdure.workers()).flatMap(({ endedAt, queues: named }) =>
    endedAt === null ? (named ?? []) : [],
  );
  const counted = (await perdure.queues()).map(({ queue, paused }) => [queue, paused] as const);
  return new Map([...served.map((queue) => [queue, false] as const), ...counted]);
}

/** What may not be as it was meant: a misspelt name pauses a queue that no job is in. `known`: before the change. */
function warningOf(word: "pause" | "resume", name: string, known: ReadonlyMap<string, boolean>): string | null {
  const wasPaused = known.get(name);
  if (wasPaused !== undefined) return word === "resume" && !wasPaused ? "it was not paused" : null;
  const near = nearest(name, [...known.keys()]);
  const meant = near === null ? "" : `; did you mean ${near}?`;
  return word === "pause"
    ? `no such queue exists; jobs submitted to it later will wait${meant}`
    : `no such queue exists${meant}`;
}

async function list(context: Context): Promise<number> {
  const { given, out } = context;
  return withPerdure(context, async (perdure) => {
    const found = await perdure.queues();
    const now = await nowOf(perdure);
    if (given.flag("json")) out.json(found);
    else if (found.length === 0) out.note("there is no queue yet");
    else
      out.table(
        COLUMNS,
        found.map((queue) => row(queue, now)),
      );
    return EXIT.done;
  });
}

const COLUMNS = [
  { head: "QUEUE", flexible: true },
  ...["QUEUED", "DUE", "RUNNING", "BLOCKED", "SUCCEEDED", "FAILED", "CANCELLED"].map(
    (head) => ({ head, side: "right" }) as const,
  ),
  { head: "PAUSED" },
];

function row({ queue, counts, due, pausedAt, paused }: QueueCounts, now: number): Piece[] {
  const { queued, running, blocked, succeeded, failed, cancelled } = counts;
  const numbers = [queued, due, running, blocked, succeeded, failed, cancelled].map(String);
  const since = pausedAt === null ? "yes" : `for ${showSince(pausedAt, now)}`;
  return [queue, ...numbers, paused ? painted("yellow", since) : ""];
}
