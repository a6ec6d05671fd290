/** Starts a worker in this process for a remote server. The only file of this folder that uses the system clock. */

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
  /** A token with the scope `work`. A function is called before each request, so that the token can be replaced. */
  token: string | (() => string);
  /** The namespace, if the token is valid for all; default `default`. */
  namespace?: string;
  /** The directory for commands; default: one per user in the system's temporary directory. Workers of a host may share it. */
  dir?: string;
  /** The user that commands run as: a name, a uid, or uid:gid; default: the worker's own. Requires root. Attempt directories are
   *  owned by that user, who must be able to enter their parent directories. */
  runAs?: string;
  /** How long, and up to how many bytes in total, the files of attempts are kept in `dir` for the next attempt of their job;
   *  default 1 day and 2 GB. */
  scratchAge?: Duration;
  scratchLimit?: number;
  /** A PEM file of certificates to trust in addition to the default ones. */
  ca?: string;
  /** The interval of lease renewals; default 2 s, at most a third of the lease. */
  heartbeat?: Duration;
  /** The lease to request: without a renewal for this long, the server gives the jobs to other workers; default: the server's. */
  lease?: Duration;
  /** Aborts the wait for a server that cannot be reached. Once the promise has resolved, use `stop`. */
  signal?: AbortSignal;
  /** Default: warnings and errors to stderr. */
  logger?: (level: "error" | "warn" | "info", message: string) => void;
}

const SCRATCH_AGE = "1d";
const SCRATCH_LIMIT = 2_000_000_000;

/** Resolves when the worker is registered. Retries while the server cannot be reached; throws at once for a wrong token or a
 *  wrong address.
 *  @example
 *  const worker = await connectWorker("https://jobs.example.com", [resize], { token: "pdr_…" });
 *  process.once("SIGTERM", () => void worker.stop()); */
export async function connectWorker(
  url: string,
  tasks: readonly AnyTask[],
  { logger = toStderr, ...options }: ConnectOptions,
): Promise<WorkerHandle> {
  return connectWithLog(url, tasks, options, (level, message, fields) => logger(level, withFields(message, fields)));
}

/** For a program of ours, whose log has fields. */
export async function connectWithLog(
  url: string,
  tasks: readonly AnyTask[],
  options: Omit<ConnectOptions, "logger">,
  log: FieldLog,
): Promise<WorkerHandle> {
  const { token, namespace, dir, ca, heartbeat, lease, signal, scratchAge, scratchLimit, runAs, ...work } = options;
  const user = runAs === undefined ? null : findUser(asText(runAs, "runAs", 200));
  const link = httpLink({
    ...{ url, token: checkedToken(token), clock: systemClock, log, ca },
    namespace: namespace === undefined ? null : asText(namespace, "namespace", 200),
    random: () => randomInt(2 ** 32) / 2 ** 32,
    heartbeatMs: heartbeat === undefined ? undefined : toMs(heartbeat, "heartbeat"),
    leaseMs: lease === undefined ? undefined : toMs(lease, "lease"),
  });
  let directories: RemoteDirectories | null = null;
  try {
    kindsOf(tasks);
    const keepMs = toMs(scratchAge ?? SCRATCH_AGE, "scratchAge");
    const keepBytes = asInteger(scratchLimit ?? SCRATCH_LIMIT, "scratchLimit", { min: 0 });
    if (tasks.includes(exec as AnyTask)) {
      const { parts, sessionOf } = link;
      const root = dir ?? defaultDir();
      const closed = user === null ? null : closedTo(user, dirname(resolve(root)));
      if (closed !== null) {
        const allowed = `a directory that user ${user?.name} can enter; ${closed} does not permit it`;
        throw new ConfigError({ path: "dir", given: root, allowed });
      }
      directories = await remoteDirectories({ parts, sessionOf, dir: root, user, keepMs, keepBytes, log });
    }
    return await start(link, directories, { tasks, work, signal, log, user, namespace: namespace ?? "default" });
  } catch (error) {
    link.close();
    await directories?.close();
    throw error;
  }
}

interface WorkerStart {
  readonly tasks: readonly AnyTask[];
  readonly work: WorkOptions;
  readonly signal: AbortSignal | undefined;
  readonly log: FieldLog;
  readonly namespace: string;
  readonly user: RunUser | null;
}

async function start(link: HttpLink, directories: RemoteDirectories | null, parts: WorkerStart): Promise<WorkerHandle> {
  const { tasks, work, signal, log, namespace, user } = parts;
  const worker = buildWorker({ link, clock: systemClock, directories, namespace, log, tasks, options: work, user });
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
    await directories?.close();
  });
}

function checkedToken(token: ConnectOptions["token"]): () => string {
  if (typeof token === "function") return token;
  if (typeof token === "string") return () => token;
  throw new ConfigError({ path: "token", given: typeof token, allowed: "a token, or a function that returns one" });
}

/** One per user, since other users must not be able to write to it. */
export function defaultDir(): string {
  return join(tmpdir(), `perdure-worker-${process.getuid?.() ?? userInfo().username}`);
}

function toStderr(level: "error" | "warn" | "info", message: string): void {
  if (level !== "info") process.stderr.write(`perdure worker: ${level}: ${message}\n`);
}
