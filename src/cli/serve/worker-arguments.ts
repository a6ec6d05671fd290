/** The command line of a worker of our own, with the settings that `perdure up` was given, wherever from. Each of them may
 *  take all of the machine's cpus and memory where nothing is said of them: the store counts what they take together. */
import type { Config } from "../config/config.ts";

export function workerArguments(config: Config, url: string, tokenFile: string, runAs?: string): string[] {
  const args = ["worker", "--with-stdin", "--server", url, "--token-file", tokenFile];
  const give = (flag: string, value: string) => args.push(`--${flag}=${value}`);
  give("data", config.text("data"));
  give("concurrency", String(config.integer("worker.concurrency")));
  const [cpu, memory] = [config.number("worker.cpu"), config.bytes("worker.memory")];
  if (cpu !== undefined) give("cpu", String(cpu));
  if (memory !== undefined) give("memory", `${memory}b`);
  give("scratch-age", `${config.durationMs("worker.scratchAge")}ms`);
  give("scratch-limit", String(config.bytes("worker.scratchLimit")));
  give("grace", `${config.durationMs("worker.grace")}ms`);
  give("heartbeat", `${config.durationMs("worker.heartbeat")}ms`);
  give("log-level", config.text("server.logLevel"));
  give("log-format", config.text("server.logFormat"));
  const lease = config.durationMs("worker.lease");
  if (lease !== undefined) give("worker-lease", `${lease}ms`);
  for (const [key, flag] of [
    ["worker.tasks", "tasks"],
    ["worker.kinds", "kind"],
    ["worker.queues", "queue"],
    ["worker.runtimes", "runtime"],
    ["worker.allowEnv", "allow-env"],
    ["worker.allowAddresses", "allow-address"],
  ] as const) {
    for (const each of config.list(key)) give(flag, each);
  }
  for (const [name, value] of Object.entries(config.labels("worker.labels"))) give("label", `${name}=${value}`);
  for (const [key, flag] of [
    ["worker.name", "name"],
    ["worker.dir", "dir"],
  ] as const) {
    const value = config.text(key);
    if (value !== undefined) give(flag, value);
  }
  if (config.flag("worker.isolate")) args.push("--isolate");
  const user = runAs ?? config.text("worker.runAs");
  if (user !== undefined) give("run-as", user);
  return args;
}
