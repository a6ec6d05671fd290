/** `perdure queues`: what waits where, and queues that are to stand still for a while. */
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
  if (names.some((name) => !/^[^\p{Cc}\p{Cs}]{1,200}$/u.test(name))) {
    throw usageError("names of queues have 1 to 200 characters, none of them control characters");
  }
  await withPerdure(context, async (perdure) => {
    for (const name of new Set(names)) {
      await (word === "pause" ? perdure.pause(name) : perdure.resume(name));
      if (!given.flag("json")) out.line(`${name}: ${word === "pause" ? "paused" : "resumed"}`);
    }
  });
  if (given.flag("json")) out.json([...new Set(names)].map((queue) => ({ queue, paused: word === "pause" })));
  return EXIT.done;
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
