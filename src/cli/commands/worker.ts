/** `perdure worker`: runs jobs for a server. It needs the server's address and a token, and no access to the database. */
import type { ResourcesInput } from "../../core/input/resources.ts";
import { type CliCommand, type CommandContext, JSON_START } from "../command.ts";
import { type Config, loadConfig, optionsFor } from "../config/config.ts";
import { EXIT, usageError } from "../exit.ts";
import { LINK_KEYS, processLog, WORKER_KEYS } from "../serve/process-settings.ts";
import { runAsOf } from "../serve/run-as.ts";
import { loadTasks, servedKinds } from "../serve/task-modules.ts";
import { CHILD_LAST_MS, exitWithin, LAST_MS, untilStopped } from "../stop-signals.ts";
import { dataAt } from "../target/data-directory.ts";
import { accessTo, chosenBy, liveAddress } from "../target/target.ts";

const KEYS = [...LINK_KEYS, ...WORKER_KEYS] as const;

const TOKEN_EVERY_MS = 5_000;

export const worker: CliCommand = {
  name: "worker",
  summary: "Start a worker: runs commands, requests and your own tasks",
  usage: "perdure worker --server URL [OPTIONS]",
  about:
    "Runs jobs of a server. While the server cannot be reached, it retries. On SIGTERM or Ctrl-C it takes no more jobs, " +
    "gives running ones the grace time to finish, and returns the others to their queues, which does not count as an attempt. " +
    "A second signal ends the worker and its commands within a second. `perdure drain` stops a worker from anywhere.",
  options: [
    ...optionsFor(KEYS),
    { name: "with-stdin", type: "boolean", help: "Stop when standard input ends, as when the parent process exits." },
    JSON_START,
  ],
  examples: [
    "perdure worker --server https://jobs.example --token-file worker-token",
    "perdure worker --tasks ./tasks.js --concurrency 50",
    "perdure worker --runtime python --label gpu=a100 --queue training",
  ],

  async run(context) {
    const { given, io, out } = context;
    given.atMost(0);
    const config = loadConfig(context, KEYS);
    const { url, token } = serverOf(context, config);
    const log = processLog(config, io, "worker");
    const { user, note } = runAsOf(config, io.cwd);
    if (config.list("worker.kinds").includes("exec") && !given.flag("with-stdin")) log("info", `commands ${note}`);
    const tasks = await loadTasks(config.list("worker.tasks"), servedKinds(config), io.cwd);
    const stopped = new AbortController();
    const signals = untilStopped((text) => log("info", text));
    const parentGone = given.flag("with-stdin") ? stdinEnds() : new Promise<string>(() => {});
    const requested = Promise.race([signals.requested, parentGone]).finally(() => stopped.abort());
    // Also during a graceful shutdown. Without its parent process, the server cannot be reached either.
    let exitCode: number = EXIT.done;
    let [force, release] = [() => {}, () => {}];
    void Promise.race([signals.forced, parentGone.then(() => EXIT.done)]).then((code) => {
      exitCode = code;
      force();
      release = exitWithin(code, given.flag("with-stdin") ? CHILD_LAST_MS : LAST_MS);
    });
    const { connectWithLog } = await import("../../worker/connect-worker.ts");
    const queues = config.list("worker.queues");
    const name = config.text("worker.name");
    const dir = config.text("worker.dir");
    const lease = config.durationMs("worker.lease");
    const worker = {
      ...{ token, namespace: config.text("namespace"), signal: stopped.signal },
      ...{ concurrency: config.integer("worker.concurrency"), labels: config.labels("worker.labels") },
      ...{ runtimes: config.list("worker.runtimes"), allowEnv: config.list("worker.allowEnv") },
      ...{ allowAddresses: config.list("worker.allowAddresses"), isolate: config.flag("worker.isolate") },
      heartbeat: config.durationMs("worker.heartbeat"),
      resources: resourcesOf(config),
      connections: config.connections("worker.connections"),
      ...{ scratchAge: config.durationMs("worker.scratchAge"), scratchLimit: config.bytes("worker.scratchLimit") },
      ...(queues.length === 0 ? {} : { queues }),
      ...(name === undefined ? {} : { name }),
      ...(dir === undefined ? {} : { dir }),
      ...(user === null ? {} : { runAs: `${user.uid}:${user.gid}` }),
      ...(lease === undefined ? {} : { lease }),
    };
    const handle = await connectWithLog(url, tasks, worker, log).catch((error: unknown) => {
      if (stopped.signal.aborted) return null;
      throw error;
    });
    if (handle === null) {
      release();
      return exitCode;
    }
    force = () => void handle.stop({ grace: 0, force: true }).catch(() => {});
    const { session } = handle;
    const kinds = tasks.map((task) => task.kind);
    log("info", "working", { url, session, kinds });
    if (given.flag("json")) out.json({ url, session, kinds, pid: process.pid });
    else out.line(`worker ${session} of ${url} runs ${kinds.join(", ")}`);
    const signal = await Promise.race([requested, handle.drained.then(() => "drained")]);
    await handle.stop(signal === "stdin" ? { grace: 0, force: true } : { grace: config.durationMs("worker.grace") });
    release();
    log("info", "stopped", { signal });
    return exitCode;
  },
};

/** Only what is set; the worker detects the others. */
function resourcesOf(config: Config): ResourcesInput {
  const [cpu, memory] = [config.number("worker.cpu"), config.bytes("worker.memory")];
  return { ...(cpu === undefined ? {} : { cpu }), ...(memory === undefined ? {} : { memory }) };
}

function serverOf(context: CommandContext, config: Config): { readonly url: string; readonly token: () => string } {
  const dir = dataAt(config.text("data"), config.sourceOf("data"), context.io.cwd);
  const url = config.text("url");
  const address = url === undefined ? liveAddress(dir) : { url, from: chosenBy(context, config) };
  if (address === null) throw usageError("no server: pass --server URL or set PERDURE_URL");
  return { url: accessTo(address, config, dir).url, token: fresh(() => accessTo(address, config, dir).token) };
}

/** Read again every few seconds: a token that was replaced in its file is used without a restart. */
function fresh(read: () => string): () => string {
  let [token, readAt] = [read(), performance.now()];
  return () => {
    if (performance.now() - readAt < TOKEN_EVERY_MS) return token;
    readAt = performance.now();
    try {
      token = read();
    } catch {
      // It is being replaced, or was deleted: the last one may still be valid.
    }
    return token;
  };
}

/** Resolves when the parent process has exited. */
function stdinEnds(): Promise<string> {
  return new Promise((resolve) => {
    process.stdin.once("end", () => resolve("stdin"));
    process.stdin.once("error", () => resolve("stdin"));
    process.stdin.resume();
    // It must not keep a stopped process alive.
    (process.stdin as { unref?: () => void }).unref?.();
  });
}
