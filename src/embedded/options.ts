/** The options of an engine in this process, checked: a misspelt one is an error with the nearest known name, never
 *  ignored. Also the default name of who acts: the user of this machine. */

import { userInfo } from "node:os";
import { asInteger, asObject, asText, checkKeys, checkOptions } from "../core/check.ts";
import { type Duration, toMs } from "../core/duration.ts";
import { ConfigError } from "../core/errors.ts";
import { checkedName, MAX_NAME } from "../core/names.ts";
import type { SubmitEntry, SubmitOptions, TransactionClient } from "../core/task/task.ts";
import { type DialectSettingsInput, withDialectDefaults } from "../dialects/settings.ts";
import type { Retention } from "../engine/limits.ts";
import { storable } from "../lib/text.ts";

// The options of an engine in this process, checked: a misspelt one is an error with the nearest known name, never
// ignored. Those that a server has too are checked in `core/api.ts`.

/** How an engine, or a server, is opened.
 *  @example
 *  const options: OpenOptions = { url: "data/jobs.db", namespace: "shop", retention: { succeeded: "7d" } };
 *  const perdure = await Perdure.open(options); */
export interface OpenOptions {
  /** A file, `sqlite:FILE`, `:memory:`, `postgres://user:password@host:port/database`, or the address of a server,
   *  `https://host` or `http://host:port`. Default: the file `.perdure/perdure.db` in the working directory. */
  url?: string;
  /** Of a server; default: PERDURE_TOKEN of the environment. A database needs none. */
  token?: string;
  /** PostgreSQL: the schema that holds the tables; it is made if it is not there. Default: `perdure`. */
  schema?: string;
  /** PostgreSQL: connections of the pool; two more are used for renewals and for listening. Default: 8. */
  connections?: number;
  namespace?: string;
  /** Where commands leave their logs and files. Default: `artifacts` beside the database file; with PostgreSQL,
   *  `.perdure/artifacts` in the working directory. */
  artifacts?: string;
  /** How long a worker may be silent before its jobs are given to others. */
  lease?: Duration;
  /** How long ended jobs are kept; false keeps them for ever. */
  retention?: { succeeded?: Duration | false; failed?: Duration | false; cancelled?: Duration | false };
  /** How long a submit key keeps its meaning after its job has ended. */
  keyWindow?: Duration;
  /** For files of other systems: what holds where they say nothing. */
  dialects?: DialectSettingsInput;
  /** Who acts through it, for the events of what is done: cancelled, redriven, paused, pruned and so on. Default: `user:NAME`,
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

/** One transaction serves the whole list. */
export function checkSubmitMany(options: { readonly client?: TransactionClient }): TransactionClient | undefined {
  checkOptions(options, ["client"], "submitMany");
  return checkClient(options.client, "submitMany.client");
}

/** Of an entry of a list. */
export function refuseClient(entry: SubmitEntry): void {
  const { client } = (entry?.options ?? {}) as SubmitOptions;
  if (client === undefined) return;
  const problem = "an entry cannot have a client of its own";
  const fix = "use submitMany(entries, { client }): one transaction for the whole list";
  throw new ConfigError({ path: "submitMany.options.client", given: "a client", problem, fix });
}

// Who runs this program, for the events of what is done through it: the user of this machine.

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
