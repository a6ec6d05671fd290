/** `perdure queues`: lists queues, pauses and resumes them. */

import type { Perdure } from "../../core/api.ts";
import { nearest } from "../../core/check.ts";
import type { QueueCounts } from "../../core/job/views.ts";
import { isName } from "../../core/names.ts";
import { type CliCommand, type CommandContext, READING } from "../command.ts";
import { EXIT, missingArgument, valueError } from "../exit.ts";
import { NAME_RULE } from "../input/shared-options.ts";
import { showSince } from "../output/print.ts";
import { painted, type TextPiece } from "../output/terminal-text.ts";
import { eachQueue, eachWorker } from "../target/pages.ts";
import { serverNow } from "../target/server-time.ts";
import { TARGET, withPerdure } from "../target/target.ts";

export const queues: CliCommand = {
  name: "queues",
  summary: "List queues and their counts; pause or resume queues",
  usage: "perdure queues [pause NAME… | resume NAME…] [OPTIONS]",
  about: "Jobs of a paused queue are not started; running ones continue.",
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

async function change(context: CommandContext, word: "pause" | "resume", names: readonly string[]): Promise<number> {
  const { given, out } = context;
  if (names.length === 0) throw missingArgument("NAME", `perdure queues ${word} NAME…`);
  const wrong = names.find((name) => !isName(name));
  if (wrong !== undefined) throw valueError("NAME", wrong, NAME_RULE);
  const done: ChangedQueue[] = [];
  await withPerdure(context, async (perdure) => {
    for (const [name, known] of await knownOf(perdure, names)) {
      await (word === "pause" ? perdure.pause(name) : perdure.resume(name));
      const warning = warningOf(word, known);
      done.push({ queue: name, paused: word === "pause", ...(warning === null ? {} : { warning }) });
      if (!given.flag("json")) out.line(`${name}: ${word === "pause" ? "paused" : "resumed"}`);
      if (warning !== null) out.note(`${name}: ${warning}`);
    }
  });
  if (given.flag("json")) out.json(done);
  return EXIT.done;
}

interface ChangedQueue {
  readonly queue: string;
  readonly paused: boolean;
  readonly warning?: string;
}

/** What is known about a queue name before the change. */
interface KnownQueueName {
  /** Undefined: the queue does not exist. */
  wasPaused: boolean | undefined;
  /** The queue with the most similar name. */
  near: string | null;
}

/** A queue exists if it has or had jobs, is paused, or a live worker names it. Queues and workers are read a page at a time,
 *  until all names are found. */
async function knownOf(perdure: Perdure, names: readonly string[]): Promise<ReadonlyMap<string, KnownQueueName>> {
  const known = new Map(names.map((name): [string, KnownQueueName] => [name, { wasPaused: undefined, near: null }]));
  const missing = new Set(names);
  const note = (queue: string, paused: boolean) => {
    if (missing.delete(queue)) known.set(queue, { wasPaused: paused, near: null });
    for (const name of missing) {
      const entry = known.get(name) as KnownQueueName;
      entry.near = nearest(name, entry.near === null ? [queue] : [entry.near, queue]);
    }
  };
  for await (const { queue, paused } of eachQueue(perdure)) {
    note(queue, paused);
    if (missing.size === 0) return known;
  }
  for await (const { endedAt, queues: named } of eachWorker(perdure)) {
    if (endedAt === null) for (const queue of named ?? []) note(queue, false);
    if (missing.size === 0) return known;
  }
  return known;
}

/** A possible mistake: a misspelt name pauses a queue that has no jobs. */
function warningOf(word: "pause" | "resume", { wasPaused, near }: KnownQueueName): string | null {
  if (wasPaused !== undefined) return word === "resume" && !wasPaused ? "it was not paused" : null;
  const meant = near === null ? "" : `; did you mean ${near}?`;
  return word === "pause"
    ? `queue does not exist yet; jobs submitted to it will wait${meant}`
    : `queue does not exist${meant}`;
}

async function list(context: CommandContext): Promise<number> {
  const { given, out } = context;
  return withPerdure(context, async (perdure) => {
    const now = await serverNow(perdure);
    async function* rows() {
      for await (const queue of eachQueue(perdure)) yield row(queue, now);
    }
    if (given.flag("json")) await out.jsonList(eachQueue(perdure));
    else if ((await out.tables(COLUMNS, rows())) === 0) out.note("no queues");
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

function row({ queue, counts, due, pausedAt, paused }: QueueCounts, now: number): TextPiece[] {
  const { queued, running, blocked, succeeded, failed, cancelled } = counts;
  const numbers = [queued, due, running, blocked, succeeded, failed, cancelled].map(String);
  const since = pausedAt === null ? "yes" : `${showSince(pausedAt, now)} ago`;
  return [queue, ...numbers, paused ? painted("yellow", since) : ""];
}
