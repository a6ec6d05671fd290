/** The options of an engine in this process and their checks: a misspelled one is an error with the nearest known name, never
 *  ignored. Also the default name in events: the user of this machine. */

import { userInfo } from "node:os";
import { asInteger, asObject, asText, checkKeys, checkOptions } from "../core/check.ts";
import { type Duration, toMs } from "../core/duration.ts";
import { ConfigError } from "../core/errors.ts";
import { checkedName, MAX_NAME } from "../core/names.ts";
import type { SubmitEntry, SubmitOptions, TransactionClient } from "../core/task/task.ts";
import { type DialectSettingsInput, withDialectDefaults } from "../dialects/settings.ts";
import type { Retention } from "../engine/limits.ts";
import { storable } from "../lib/text.ts";

/** How an engine, or a server, is opened.
 *  @example
 *  const options: OpenOptions = { url: "data/jobs.db", namespace: "shop", retention: { succeeded: "7d" } };
 *  const perdure = await Perdure.open(options); */
export interface OpenOptions {
  /** A file, `sqlite:FILE`, `:memory:`, `postgres://user:password@host:port/database`, or the address of a server,
   *  `https://host` or `http://host:port`. Default: the file `.perdure/perdure.db` in the working directory. */
  url?: string;
  /** A token of the server; default: PERDURE_TOKEN in the environment. A database needs none. */
  token?: string;
  /** PostgreSQL: the schema of the tables; created if it does not exist. Default: `perdure`. */
  schema?: string;
  /** PostgreSQL: connections of the pool; two more serve renewals and notifications. Default: 8. */
  connections?: number;
  namespace?: string;
  /** Where commands leave their logs and files. Default: `artifacts` beside the database file; with PostgreSQL,
   *  `.perdure/artifacts` in the working directory. */
  artifacts?: string;
  /** How long a worker may be silent before its attempts are lost and other workers get the jobs. */
  lease?: Duration;
  /** How long ended jobs are kept; false keeps them forever. */
  retention?: { succeeded?: Duration | false; failed?: Duration | false; cancelled?: Duration | false };
  /** How long a submit key stays in use after its job has ended. */
  keyWindow?: Duration;
  /** Defaults for files of other systems, where a file does not give a value. */
  dialects?: DialectSettingsInput;
  /** Named in the events of commands that are given through it: cancel, redrive, pause, prune and so on. Default: `user:NAME`,
   *  the user of this machine. A server names the token. */
  by?: string;
  /** Warnings and errors of the engine; the default writes errors to stderr. */
  logger?: (level: "error" | "warn" | "info", message: string) => void;
}

const OPEN_KEYS = [
  "url",
  "token",
  "schema",
  "connections",
  "namespace",
  "artifacts",
  "lease",
  "retention",
  "keyWindow",
  "dialects",
  "by",
  "logger",
] as const;
const RETENTION_KEYS = ["succeeded", "failed", "cancelled"] as const;
const MIN_LEASE_MS = 300;

export function checkOpen(options: OpenOptions) {
  checkOptions(options, OPEN_KEYS, "open");
  const leaseMs = options.lease === undefined ? undefined : toMs(options.lease, "open.lease");
  if (leaseMs !== undefined && leaseMs < MIN_LEASE_MS) {
    throw new ConfigError({ path: "open.lease", given: options.lease, allowed: `at least ${MIN_LEASE_MS} ms` });
  }
  if (options.logger !== undefined && typeof options.logger !== "function") {
    throw new ConfigError({ path: "open.logger", given: options.logger, allowed: "a function of level and message" });
  }
  const { connections } = options;
  return {
    leaseMs,
    schema: options.schema === undefined ? undefined : asText(options.schema, "open.schema", 63),
    connections:
      connections === undefined ? undefined : asInteger(connections, "open.connections", { min: 1, max: 1_000 }),
    namespace: options.namespace === undefined ? "default" : asText(options.namespace, "open.namespace", 200),
    retention: options.retention === undefined ? undefined : options.retention,
    dialects: withDialectDefaults(options.dialects ?? {}, "open.dialects"),
    by: options.by === undefined ? undefined : checkedName(options.by, "open.by"),
    keyWindowMs: options.keyWindow === undefined ? undefined : toMs(options.keyWindow, "open.keyWindow"),
  };
}

export function checkRetention(given: OpenOptions["retention"], defaults: Retention): Retention {
  if (given === undefined) return defaults;
  checkKeys(asObject(given, "open.retention"), RETENTION_KEYS, "open.retention");
  const kept = (state: (typeof RETENTION_KEYS)[number]) => {
    const value = given[state];
    if (value === undefined) return defaults[state];
    return value === false ? null : toMs(value, `open.retention.${state}`);
  };
  return { succeeded: kept("succeeded"), failed: kept("failed"), cancelled: kept("cancelled") };
}

const CLIENT = "a client of the pg package, with a transaction begun";

export function checkClient(client: unknown, path: string): TransactionClient | undefined {
  if (client === undefined) return undefined;
  const { query, totalCount } = (client ?? {}) as { query?: unknown; totalCount?: unknown };
  if (typeof totalCount === "number") {
    const allowed = "one client of the pool (await pool.connect()), with a transaction begun";
    throw new ConfigError({ path, given: "a pool", problem: "a pool has no transaction", allowed });
  }
  if (typeof query === "function") return client as TransactionClient;
  throw new ConfigError({ path, given: client, allowed: CLIENT });
}

/** One transaction for the whole list. */
export function checkSubmitMany(options: { readonly client?: TransactionClient }): TransactionClient | undefined {
  checkOptions(options, ["client"], "submitMany");
  return checkClient(options.client, "submitMany.client");
}

/** For an entry of a list. */
export function refuseClient(entry: SubmitEntry): void {
  const { client } = (entry?.options ?? {}) as SubmitOptions;
  if (client === undefined) return;
  const problem = "an entry cannot have a client of its own";
  const fix = "use submitMany(entries, { client }): one transaction for the whole list";
  throw new ConfigError({ path: "submitMany.options.client", given: "a client", problem, fix });
}

// The user of this machine, for events.

export function thisUser(): string {
  return storable(`user:${nameOrId()}`, MAX_NAME);
}

function nameOrId(): string {
  try {
    return userInfo().username;
  } catch {
    return String(process.getuid?.() ?? "unknown"); // a user without an entry, as in a container
  }
}
