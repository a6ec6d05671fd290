/** `perdure up`: server, workers and database in one process tree. */
import { isAbsolute, relative } from "node:path";
import { type CliCommand, type CommandContext, JSON_START } from "../command.ts";
import { type Config, loadConfig, optionsFor } from "../config/config.ts";
import { EXIT, usageError } from "../exit.ts";
import { processLog, SERVER_KEYS, WORKER_KEYS } from "../serve/process-settings.ts";
import type { RunAs } from "../serve/run-as.ts";
import type { RunningServer } from "../serve/start-server.ts";
import { checkModules, servedKinds } from "../serve/task-modules.ts";
import { connectionVariables, WorkerProcesses, workerArguments } from "../serve/worker-processes.ts";
import { exitWithin, LAST_MS, untilStopped } from "../stop-signals.ts";

const KEYS = [...SERVER_KEYS, "workers", ...WORKER_KEYS] as const;
/** Requests in progress are answered within this time, or aborted. */
const GRACE_MS = 5_000;

export const up: CliCommand = {
  name: "up",
  summary: "Start a server, workers and a database on this machine",
  usage: "perdure up [OPTIONS]",
  about:
    "The database is a SQLite file in the data directory, unless --db names another. The first start creates a token, which " +
    "commands on this machine find. Ctrl-C stops it: running jobs get the grace time to finish, the others return to their " +
    "queues. A second Ctrl-C ends everything within a second; jobs that were running continue after the next start.",
  options: [...optionsFor(KEYS), JSON_START],
  examples: ["perdure up", "perdure up --port 0 --data /tmp/try --workers 2 --tasks ./tasks.js"],

  async run(context) {
    const { given, io } = context;
    given.atMost(0);
    const config = loadConfig(context, KEYS);
    const log = processLog(config, io, "server");
    // First of all, so that a signal during the start is handled too.
    const { requested, forced } = untilStopped((text) => log("info", text));
    let [exitCode, release]: [number, () => void] = [EXIT.done, () => {}];
    let workers: WorkerProcesses | null = null;
    void forced.then((code) => {
      exitCode = code;
      workers?.force();
      release = exitWithin(code, LAST_MS);
    });
    // Loaded here: other commands do not need it.
    const { startServing } = await import("../serve/start-server.ts");
    checkModules(config.list("worker.tasks"), io.cwd);
    servedKinds(config);
    const { runAsArgument, runAsOf } = await import("../serve/run-as.ts");
    const runAs = runAsOf(config, io.cwd);
    let reportMistake: (why: "mistake") => void = () => {};
    const mistake = new Promise<"mistake">((resolve) => {
      reportMistake = resolve;
    });
    const serving = await startServing(context, config, log, { hasWorkers: true });
    const { localUrl, tokens, engine } = serving;
    workers = new WorkerProcesses({
      count: config.integer("workers"),
      args: workerArguments(config, localUrl, tokens.workerFile as string, runAsArgument(runAs)),
      env: { ...io.env, ...NOT_FOR_WORKERS, ...connectionVariables(config) },
      cwd: io.cwd,
      clock: engine.clock,
      log,
      onMistake: () => reportMistake("mistake"),
    });
    greet(context, config, serving, runAs);
    const signal = await Promise.race([requested, mistake]);
    await workers.stop(config.durationMs("worker.grace"));
    if (exitCode !== EXIT.done) process.exit(exitCode); // as if killed: closing a database can take longer than LAST_MS
    await serving.stop(GRACE_MS);
    release();
    log("info", "stopped", { signal });
    if (signal === "mistake")
      throw usageError("the workers cannot start, for the reason logged above; no job was lost");
    return exitCode;
  },
};

/** A worker has its own token, and no access to the database. */
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
  // Commands find ./.perdure by themselves; any other data directory must be named.
  const data = config.isSet("data") ? ` --data ${config.text("data")}` : "";
  out.facts([
    ["Perdure", url],
    ["data", short(store)],
    ["token", tokens.file === null ? "on the first server of this database" : short(tokens.file)],
    ["workers", workers === 0 ? "none" : `${workers}, each with up to ${concurrency} jobs at a time`],
    ...(workers === 0 || !config.list("worker.kinds").includes("exec") ? [] : [["commands", runAs.note] as const]),
  ]);
  out.line();
  out.line("In another terminal, from this directory:");
  out.line(`  perdure run${data} -- sh -c 'echo hello from a worker'`);
  out.line(`  perdure ps${data}`);
  out.line("Ctrl-C stops it.");
}

/** A path within the working directory becomes relative; an address stays. */
export function shownStore(store: string, cwd: string): string {
  if (!isAbsolute(store)) return store;
  const near = relative(cwd, store);
  return near.startsWith("..") || near === "" ? store : near;
}
