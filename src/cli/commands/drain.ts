/** `perdure drain`: makes workers take no more jobs, and exit when their current ones are done. */

import type { Perdure } from "../../core/api.ts";
import { show } from "../../core/errors.ts";
import type { SessionRow } from "../../core/job/views.ts";
import { sleep } from "../../lib/clock.ts";
import { systemClock } from "../../lib/system-clock.ts";
import { type CliCommand, type CommandContext, READING } from "../command.ts";
import { CliError, EXIT, missingArgument } from "../exit.ts";
import { untilInterrupted } from "../stop-signals.ts";
import { eachWorker } from "../target/pages.ts";
import { TARGET, withPerdure } from "../target/target.ts";

/** There is no notification of a worker's end, so it is polled. */
const POLL_EVERY_MS = 500;

export const drain: CliCommand = {
  name: "drain",
  summary: "Stop workers when their current jobs are done",
  usage: "perdure drain SESSION|NAME… [OPTIONS]",
  about:
    "A draining worker takes no more jobs, finishes those it runs, and exits; a service manager may start it again. A name " +
    "means all live workers of that name: see `perdure workers`.",
  options: [{ name: "wait", short: "w", type: "boolean", help: "Wait until they have ended." }, ...TARGET, ...READING],
  examples: ["perdure drain worker-3 --wait"],

  async run(context) {
    const { given, out } = context;
    const named = [...new Set(given.positionals)];
    if (named.length === 0) throw missingArgument("WORKER", drain.usage);
    const isJson = given.flag("json");
    return withPerdure(context, async (perdure) => {
      const { workers, ended } = await findWorkers(named, perdure);
      for (const word of ended) out.note(`${word} has already ended`);
      for (const { id, name } of workers) {
        await perdure.drain(id);
        if (!isJson) out.line(`${id}  ${name}: draining`);
      }
      const code = given.flag("wait") ? await waitForEnds(context, perdure, workers) : EXIT.done;
      if (isJson)
        out.json(workers.map(({ id, name }) => ({ id, name, ended: given.flag("wait") && code === EXIT.done })));
      return code;
    });
  },
};

type DrainedWorker = Pick<SessionRow, "id" | "name">;

interface WorkersToDrain {
  readonly workers: readonly DrainedWorker[];
  /** Names and sessions that have ended already. */
  readonly ended: readonly string[];
}

/** All are found before the first is drained. A session has precedence over a worker whose name is the same text. */
async function findWorkers(named: readonly string[], perdure: Perdure): Promise<WorkersToDrain> {
  const found = { id: new Map<string, DrainedWorker[]>(), name: new Map<string, DrainedWorker[]>() };
  for await (const { id, name, endedAt } of eachWorker(perdure)) {
    for (const [by, word] of [["id", id] as const, ["name", name] as const]) {
      if (!named.includes(word)) continue;
      const live = found[by].get(word) ?? [];
      found[by].set(word, endedAt === null ? [...live, { id, name }] : live);
    }
  }
  const workers = new Map<string, DrainedWorker>();
  const ended: string[] = [];
  for (const word of named) {
    const live = found.id.get(word) ?? found.name.get(word);
    if (live === undefined) {
      throw new CliError(EXIT.failed, `worker ${show(word)} does not exist; see \`perdure workers --all\``);
    }
    if (live.length === 0) ended.push(word);
    for (const worker of live) workers.set(worker.id, worker);
  }
  return { workers: [...workers.values()], ended };
}

/** A worker that exits without a report counts as ended when its lease expires: a server, or the next engine, records that. */
function waitForEnds(context: CommandContext, perdure: Perdure, drained: readonly DrainedWorker[]): Promise<number> {
  return untilInterrupted(context, async (signal) => {
    let left = drained.map(({ id }) => id);
    while (!signal.aborted) {
      const live = await liveOf(perdure, left);
      for (const id of left) if (!live.has(id) && !context.given.flag("json")) context.out.line(`${id}  ended`);
      left = left.filter((id) => live.has(id));
      if (left.length === 0) return EXIT.done;
      await sleep(systemClock, POLL_EVERY_MS, { signal });
    }
    return EXIT.failed;
  });
}

/** Those of them that have not ended. Reading stops when all are found. */
async function liveOf(perdure: Perdure, ids: readonly string[]): Promise<ReadonlySet<string>> {
  const [wanted, live] = [new Set(ids), new Set<string>()];
  for await (const { id, endedAt } of eachWorker(perdure)) {
    if (wanted.delete(id) && endedAt === null) live.add(id);
    if (wanted.size === 0) break;
  }
  return live;
}
