import { describe, expect, it } from "vitest";
import { testIo } from "../../../test/cli/kit.ts";
import { readArguments } from "../command.ts";
import { up } from "../commands/up.ts";
import { worker } from "../commands/worker.ts";
import { loadConfig } from "../config/config.ts";
import { LINK_KEYS, SERVER_KEYS, WORKER_KEYS } from "./process-settings.ts";
import { workerArguments } from "./worker-processes.ts";

/** The settings of a worker that `perdure up` starts with these arguments. */
function asWorker(...args: string[]) {
  return inside({}, ...args);
}

function inside(env: Record<string, string>, ...args: string[]) {
  const io = testIo({ env });
  const config = loadConfig({ given: given(up, args), io }, [...SERVER_KEYS, "workers", ...WORKER_KEYS]);
  const [, ...line] = workerArguments(config, "http://127.0.0.1:1", "token");
  return loadConfig({ given: given(worker, line), io }, [...LINK_KEYS, ...WORKER_KEYS]);
}

function given(command: Parameters<typeof readArguments>[0], args: readonly string[]) {
  const read = readArguments(command, args);
  if (read === null) throw new Error("help was requested");
  return read;
}

describe("the workers of up", () => {
  it("may each use the whole machine if cpu and memory are not set", () => {
    const one = asWorker("--workers", "5");
    expect([one.number("worker.cpu"), one.bytes("worker.memory")]).toEqual([undefined, undefined]);
  });

  it("each get the settings of one worker", () => {
    const one = asWorker("--workers", "3", "--cpu", "1.5", "--memory", "2g", "--concurrency", "7");
    expect([one.number("worker.cpu"), one.bytes("worker.memory")]).toEqual([1.5, 2 * 2 ** 30]);
    expect(one.integer("worker.concurrency")).toBe(7);
  });

  it("keep the times of OPAL's variables, unless other settings replace them", () => {
    const env = { OPAL_LEASE_TTL_SECS: "9.5", OPAL_HEARTBEAT_INTERVAL_SECS: "0.5" };
    const times = (config: ReturnType<typeof inside>) => [
      config.durationMs("worker.lease"),
      config.durationMs("worker.heartbeat"),
    ];
    expect(times(inside(env))).toEqual([9_500, 500]);
    expect(times(inside(env, "--worker-lease", "4s", "--heartbeat", "1s"))).toEqual([4_000, 1_000]);
    expect(times(asWorker())).toEqual([undefined, 2_000]);
  });
});
