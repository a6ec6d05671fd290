/** `perdure up`: server, workers and database in one process tree. */
import { isAbsolute, relative } from "node:path";
import type { CliCommand, CommandContext } from "../command.ts";
import { type Config, loadConfig, optionsFor } from "../config/config.ts";
import { EXIT, usageError } from "../exit.ts";
import { processLog, SERVER_KEYS, WORKER_KEYS } from "../serve/process-settings.ts";
import type { RunAs } from "../serve/run-as.ts";
import type { RunningServer } from "../serve/start-server.ts";
import { checkModules } from "../serve/task-modules.ts";
import { WorkerProcesses, workerArguments } from "../serve/worker-processes.ts";
import { exitWithin, LAST_MS, untilStopped } from "../stop-signals.ts";

const KEYS = [...SERVER_KEYS, "workers", ...WORKER_KEYS] as const;
/** Requests under way are answered within this time, or cut. */
const GRACE_MS = 5_000;

export const up: CliCommand = {
  name: "up",
  summary: "Start server, workers and database here, in one command",
  usage: "perdure up [OPTIONS]",
  about:
    "The database is a SQLite file in the data directory, unless --db names another. A token is made at the first start; " +
    "commands on this machine find it. Ctrl-C stops it: running jobs may finish within the grace time, the others are handed " +
    "back, and nothing is lost. Ctrl-C once more ends everything within a second; what ran comes back with the next start.",
  options: [
    ...optionsFor(KEYS),
    { name: "json", type: "boolean", help: "Print what it says at the start as one JSON object." },
  ],
  examples: ["perdure up", "perdure up --port 0 --data /tmp/try --workers 2 --tasks ./tasks.js"],

  async run(context) {
    const { given, io } = context;
    given.atMost(0);
    const config = loadConfig(context, KEYS);
    const log = processLog(config, io, "server");
    // From the beginning: who asks us to stop while we start is heard too.
    const { asked, forced } = untilStopped((text) => log("info", text));
    let [exitCode, release]: [number, () => void] = [EXIT.done, () => {}];
    let workers: WorkerProcesses | null = null;
    void forced.then((code) => {
      exitCode = code;
      workers?.force();
      release = exitWithin(code, LAST_MS);
    });
    // Loaded here: other commands need none of it.
    const { startServing } = await import("../serve/start-server.ts");
    checkModules(config.list("worker.tasks"), io.cwd);
    const { runAsArgument, runAsOf } = await import("../serve/run-as.ts");
    const runAs = runAsOf(config, io.cwd);
    let tellMistake: (why: "mistake") => void = () => {};
    const mistake = new Promise<"mistake">((resolve) => {
      tellMistake = resolve;
    });
    const serving = await startServing(context, config, log, { hasWorkers: true });
    const { localUrl, tokens, engine } = serving;
    workers = new WorkerProcesses({
      count: config.integer("workers"),
      args: workerArguments(config, localUrl, tokens.workerFile as string, runAsArgument(runAs)),
      env: { ...io.env, ...NOT_FOR_WORKERS },
      cwd: io.cwd,
      clock: engine.clock,
      log,
      onMistake: () => tellMistake("mistake"),
    });
    greet(context, config, serving, runAs);
    const signal = await Promise.race([asked, mistake]);
    await workers.stop(config.durationMs("worker.grace"));
    if (exitCode !== EXIT.done) process.exit(exitCode); // as if killed: to close a database can take longer than there is time
    await serving.stop(GRACE_MS);
    release();
    log("info", "stopped", { signal });
    if (signal === "mistake") throw usageError("its workers cannot start, for the reason they gave; nothing was lost");
    return exitCode;
  },
};

/** A worker has a token of its own, and no business with the database. */
const NOT_FOR_WORKERS = Object.fromEntries(
  ["PERDURE_DB", "PERDURE_TOKEN", "PERDURE_TOKEN_FILE", "PERDURE_SECRET", "PERDURE_SECRET_FILE", "PGPASSWORD"].map(
    (name) => [name, undefined],
  ),
);

function greet(
  { out, given, io }: CommandContext,
  config: Config,
  { url, store, tokens }: RunningServer,
  runAs: RunAs,
): void {
  const workers = config.integer("workers");
  const concurrency = config.integer("worker.concurrency");
  if (given.flag("json")) {
    const commandsRunAs = runAs.user?.name ?? null;
    out.json({ url, store, tokenFile: tokens.file, workers, pid: process.pid, commandsRunAs });
    return;
  }
  const short = (path: string) => shownStore(path, io.cwd);
  // Commands look here by themselves; from a data directory elsewhere they must be told.
  const data = config.isSet("data") ? ` --data ${config.text("data")}` : "";
  out.facts([
    ["Perdure", url],
    ["data", short(store)],
    ["token", tokens.file === null ? "with the first server of this database" : short(tokens.file)],
    ["workers", workers === 0 ? "none" : `${workers}, ${concurrency} jobs at a time each`],
    ...(workers === 0 || !config.list("worker.kinds").includes("exec") ? [] : [["commands", runAs.note] as const]),
  ]);
  out.line();
  out.line("In another terminal, from this directory:");
  out.line(`  perdure run${data} -- sh -c 'echo hello from a worker'`);
  out.line(`  perdure ps${data}`);
  out.line("Ctrl-C stops it.");
}

/** A path within the working directory from there; an address as it is. */
export function shownStore(store: string, cwd: string): string {
  if (!isAbsolute(store)) return store;
  const near = relative(cwd, store);
  return near.startsWith("..") || near === "" ? store : near;
}
