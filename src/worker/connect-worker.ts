/** Starts a worker of this process for a server elsewhere. The one place in this folder that knows the machine's clock. */

import { randomInt } from "node:crypto";
import { tmpdir, userInfo } from "node:os";
import { dirname, join, resolve } from "node:path";
import { asInteger, asText } from "../core/check.ts";
import { type Duration, toMs } from "../core/duration.ts";
import { ConfigError } from "../core/errors.ts";
import { exec } from "../core/input/builtin.ts";
import type { AnyTask } from "../core/task/task.ts";
import type { WorkerHandle, WorkOptions } from "../core/task/work-options.ts";
import { type FieldLog, withFields } from "../lib/log.ts";
import { systemClock } from "../lib/system-clock.ts";
import { buildWorker } from "./build-worker.ts";
import { closedTo, findUser, type RunUser } from "./exec/run-user.ts";
import { type HttpLink, httpLink } from "./http-link/http-link.ts";
import { type RemoteDirectories, remoteDirectories } from "./remote-outputs/remote-directories.ts";
import { kindsOf } from "./work-options.ts";

/** How a worker is connected to a server.
 *  @example
 *  const options: ConnectOptions = { token: "pdr_…", concurrency: 4, lease: "30s" }; */
export interface ConnectOptions extends WorkOptions {
  /** A token with the scope `work`; a function is asked before each call, so that it can be renewed. */
  token: string | (() => string);
  /** For a token of all namespaces: which one; default `default`. */
  namespace?: string;
  /** Where commands write; default: a directory of this user among the temporary ones. All workers of a host may share it. */
  dir?: string;
  /** The user that commands run as: a name, a uid, or uid:gid. Only a worker of root can change it; default: its own user. The
   *  directories of attempts are given to that user, and each above them must let it pass. */
  runAs?: string;
  /** How long, and up to how many bytes in all, the files of attempts stay in `dir` for the next attempt of their job, while
   *  it is not known to have ended; default 1 day and 2 GB. */
  scratchAge?: Duration;
  scratchLimit?: number;
  /** A file of certificates that are trusted besides the usual ones. */
  ca?: string;
  /** The time between two signs of life; default 2 s, and never more than a third of the lease. */
  heartbeat?: Duration;
  /** The lease to ask for: how long the server waits for a sign of life; default: what the server says. */
  lease?: Duration;
  /** Ends the wait for a server that cannot be reached. Once it resolved, use `stop`. */
  signal?: AbortSignal;
  /** Default: warnings and errors to stderr. */
  logger?: (level: "error" | "warn" | "info", message: string) => void;
}

const SCRATCH_AGE = "1d";
const SCRATCH_LIMIT = 2_000_000_000;

/** Resolves when the worker is registered. Waits for a server that cannot be reached; a wrong token or a wrong address is an
 *  error at once.
 *  @example
 *  const worker = await connectWorker("https://jobs.example.com", [resize], { token: "pdr_…" });
 *  process.once("SIGTERM", () => void worker.stop()); */
export async function connectWorker(
  url: string,
  tasks: readonly AnyTask[],
  options: ConnectOptions,
): Promise<WorkerHandle> {
  const {
    token,
    namespace,
    dir,
    ca,
    heartbeat,
    lease,
    signal,
    logger = toStderr,
    scratchAge,
    scratchLimit,
    runAs,
    ...work
  } = options;
  const user = runAs === undefined ? null : findUser(asText(runAs, "runAs", 200));
  const link = httpLink({
    ...{ url, token: checkedToken(token), clock: systemClock, log: logger, ca },
    namespace: namespace === undefined ? null : asText(namespace, "namespace", 200),
    random: () => randomInt(2 ** 32) / 2 ** 32,
    heartbeatMs: heartbeat === undefined ? undefined : toMs(heartbeat, "heartbeat"),
    leaseMs: lease === undefined ? undefined : toMs(lease, "lease"),
  });
  let places: RemoteDirectories | null = null;
  try {
    kindsOf(tasks);
    const keepMs = toMs(scratchAge ?? SCRATCH_AGE, "scratchAge");
    const keepBytes = asInteger(scratchLimit ?? SCRATCH_LIMIT, "scratchLimit", { min: 0 });
    if (tasks.includes(exec as AnyTask)) {
      const { parts, sessionOf } = link;
      const root = dir ?? defaultDir();
      const closed = user === null ? null : closedTo(user, dirname(resolve(root)));
      if (closed !== null) {
        const allowed = `a directory that user ${user?.name} can reach: ${closed} is closed to that user`;
        throw new ConfigError({ path: "dir", given: root, allowed });
      }
      places = await remoteDirectories({ parts, sessionOf, dir: root, user, keepMs, keepBytes, log: logger });
    }
    return await start(link, places, { tasks, work, signal, logger, user, namespace: namespace ?? "default" });
  } catch (error) {
    link.close();
    await places?.close();
    throw error;
  }
}

interface WorkerStart {
  readonly tasks: readonly AnyTask[];
  readonly work: WorkOptions;
  readonly signal: AbortSignal | undefined;
  readonly logger: NonNullable<ConnectOptions["logger"]>;
  readonly namespace: string;
  readonly user: RunUser | null;
}

async function start(link: HttpLink, places: RemoteDirectories | null, parts: WorkerStart): Promise<WorkerHandle> {
  const { tasks, work, signal, logger, namespace, user } = parts;
  const log: FieldLog = (level, message, fields) => logger(level, withFields(message, fields));
  const worker = buildWorker({ link, clock: systemClock, places, namespace, log, tasks, options: work, user });
  const giveUp = () => void worker.stop(0).catch(() => {});
  if (signal?.aborted) giveUp();
  signal?.addEventListener("abort", giveUp);
  try {
    await worker.start();
  } finally {
    signal?.removeEventListener("abort", giveUp);
  }
  return worker.handle(async () => {
    link.close();
    await places?.close();
  });
}

function checkedToken(token: ConnectOptions["token"]): () => string {
  if (typeof token === "function") return token;
  if (typeof token === "string") return () => token;
  throw new ConfigError({ path: "token", given: typeof token, allowed: "a token, or a function that returns one" });
}

/** One for each user: nobody may write into another's. */
export function defaultDir(): string {
  return join(tmpdir(), `perdure-worker-${process.getuid?.() ?? userInfo().username}`);
}

function toStderr(level: "error" | "warn" | "info", message: string): void {
  if (level !== "info") process.stderr.write(`perdure worker: ${level}: ${message}\n`);
}
