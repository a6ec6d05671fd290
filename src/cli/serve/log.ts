/** The log of a server or worker process: to stderr, so that stdout holds what was asked for. */
import { createLog } from "../../server/log.ts";
import type { LogLevel, ServerLog } from "../../server/parts.ts";
import type { Config } from "../config/config.ts";
import type { Io } from "../io.ts";

/** `role`: of the processes of `perdure up`, which one speaks. */
export function processLog(config: Config, io: Io, role: "server" | "worker"): ServerLog {
  const log = createLog({
    write: (line) => void io.stderr.write(line),
    now: Date.now,
    level: config.text("server.logLevel") as LogLevel,
    form: config.text("server.logFormat") === "text" ? "text" : "json",
  });
  return (level, message, fields) => log(level, message, { role, pid: process.pid, ...fields });
}
