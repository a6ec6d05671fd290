/** Which settings the server and worker commands take, and the log that they write to stderr. */

import { DIALECT_SETTINGS } from "../../dialects/cli/settings.ts";
import type { LogLevel, ServerLog } from "../../server/log.ts";
import { createLog } from "../../server/log.ts";
import type { Config } from "../config/config.ts";
import type { SettingKey } from "../config/settings.ts";
import type { Io } from "../io.ts";

export const SERVER_KEYS = [
  ...(["data", "db", "schema", "server.host", "server.port", "server.tls.cert", "server.tls.key"] as const),
  ...(["server.insecure", "server.allowHosts", "server.bodyLimit", "server.maxConnections"] as const),
  ...(["server.maxConnectionsPerAddress", "server.laneQuota", "server.sessionQuota"] as const),
  ...(["server.outputs", "server.outputLimit", "server.secret", "server.secretFile", "server.lease"] as const),
  ...(["server.retention.succeeded", "server.retention.failed", "server.retention.cancelled"] as const),
  ...(["server.logLevel", "server.logFormat", "playbooks.tools"] as const),
  ...DIALECT_SETTINGS.map(({ key }) => key),
] as const satisfies readonly SettingKey[];

/** Settings of a worker, however it is started. */
export const WORKER_KEYS = [
  ...(["worker.concurrency", "worker.tasks", "worker.kinds", "worker.queues", "worker.labels"] as const),
  ...(["worker.runtimes", "worker.name", "worker.grace", "worker.allowEnv", "worker.allowAddresses"] as const),
  ...([
    "worker.isolate",
    "worker.runAs",
    "worker.dir",
    "worker.heartbeat",
    "worker.lease",
    "worker.cpu",
    "worker.memory",
  ] as const),
  ...(["worker.scratchAge", "worker.scratchLimit", "worker.connections"] as const),
] as const satisfies readonly SettingKey[];

/** Settings of the connection to the server, and of the log. */
export const LINK_KEYS = [
  ...(["data", "url", "token", "tokenFile", "namespace", "server.logLevel", "server.logFormat"] as const),
] as const satisfies readonly SettingKey[];

// Server and worker processes log to stderr, so that stdout has only results.

/** `role`: which process of `perdure up` logs. */
export function processLog(config: Config, io: Io, role: "server" | "worker"): ServerLog {
  const log = createLog({
    write: (line) => void io.stderr.write(line),
    now: Date.now,
    level: config.text("server.logLevel") as LogLevel,
    form: config.text("server.logFormat") === "text" ? "text" : "json",
  });
  return (level, message, fields) => log(level, message, { role, pid: process.pid, ...fields });
}
